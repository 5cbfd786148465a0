//! Suspect namespaces: those with an object whose call cost the handler its instance, a short time ago.
//!
//! Calls about their objects get a share of the handler's time, all together, one at a time. So objects that crash the
//! handler delay those of other namespaces by a bounded share of time, however many there are. Among cluster-scoped
//! objects, each name is a namespace of its own. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_object::KeyRef;

use crate::Moment;
use crate::delivery::DeliveryToken;
use crate::delivery::options::{SUSPECT_BURST, SUSPECT_SHARE_PERCENT, SUSPECT_TIME, SUSPECTS_MAX};

/// Between two searches for namespaces that are suspect no longer, which visit all.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// When a call about one of its objects crashed last.
    namespaces: BTreeMap<Box<str>, Moment>,
    /// The same of cluster-scoped objects, by name.
    names: BTreeMap<Box<str>, Moment>,
    /// When the share of time allows the next call.
    next: Moment,
    /// The call that runs, and when it was handed out.
    called: Option<(DeliveryToken, Moment)>,
    next_sweep: Moment,
}

impl Suspects {
    pub(crate) fn is_empty(&self) -> bool {
        self.namespaces.is_empty() && self.names.is_empty()
    }

    pub(crate) fn contains(&self, key: KeyRef<'_>) -> bool {
        match key.namespace {
            "" => self.names.contains_key(key.name),
            namespace => self.namespaces.contains_key(namespace),
        }
    }

    /// A call about `key` crashed. Returns whether another namespace was forgotten for it: the one whose crash is the
    /// oldest of more than [`SUSPECTS_MAX`].
    pub(crate) fn add(&mut self, key: KeyRef<'_>, now: Moment) -> bool {
        let (table, name) = match key.namespace {
            "" => (&mut self.names, key.name),
            namespace => (&mut self.namespaces, namespace),
        };
        table.insert(name.into(), now);
        let oldest = || table.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone());
        match (table.len() > SUSPECTS_MAX).then(oldest).flatten() {
            Some(oldest) => table.remove(&oldest).is_some(),
            None => false,
        }
    }

    /// Forgets those that have not crashed for [`SUSPECT_TIME`].
    pub(crate) fn expire(&mut self, now: Moment) {
        if !self.is_empty() && self.next_sweep <= now {
            self.next_sweep = now + SWEEP_INTERVAL;
            self.namespaces.retain(|_, at| now - *at < SUSPECT_TIME);
            self.names.retain(|_, at| now - *at < SUSPECT_TIME);
        }
    }

    /// Suspects none any more: another handler may crash on others.
    pub(crate) fn clear(&mut self) {
        self.namespaces.clear();
        self.names.clear();
        self.next = Moment::ZERO;
    }

    /// When the next call about a suspect may start. None while one runs: its end is the next occasion.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.called.is_none().then_some(self.next)
    }

    pub(crate) fn may_start(&self, now: Moment) -> bool {
        self.next().is_some_and(|next| next <= now)
    }

    /// A call about a suspect was handed out.
    pub(crate) fn began(&mut self, token: DeliveryToken, now: Moment) {
        self.called = Some((token, now));
    }

    /// The delivery has ended or is given back. If it was about a suspect and no worker has reported how long its call
    /// took ([`took`](Self::took)), and it `was_called`, that is the time since it was handed out.
    pub(crate) fn ended(&mut self, token: DeliveryToken, was_called: bool, now: Moment) {
        if let Some((called, since)) = self.called.take_if(|(called, _)| *called == token)
            && was_called
        {
            debug_assert_eq!(called, token);
            self.charge(since, now);
        }
    }

    /// The call of the delivery took from `began` until `now`.
    pub(crate) fn took(&mut self, token: DeliveryToken, began: Moment, now: Moment) {
        if self.called.take_if(|(called, _)| *called == token).is_some() {
            self.charge(began, now);
        }
    }

    /// Suspects have cost the handler the time from `began` until `now`: the next call waits until that is at most
    /// [`SUSPECT_SHARE_PERCENT`] of the time. It waits [`SUSPECT_TIME`] at most, after which it would be no suspect:
    /// the time of a call may be that of a machine that slept.
    pub(crate) fn charge(&mut self, began: Moment, now: Moment) {
        let earliest = Moment::from_nanos(began.as_nanos().saturating_sub(nanos(SUSPECT_BURST)));
        let per_call = 100 / SUSPECT_SHARE_PERCENT;
        let next = self.next.max(earliest) + (now - began) * per_call;
        self.next = next.min(now + SUSPECT_TIME);
    }

    /// How many namespaces, or cluster-scoped objects, are suspect, and the first `max` of them by name.
    pub(crate) fn list(&self, max: usize) -> (usize, Vec<String>) {
        let all = self.namespaces.keys().chain(self.names.keys());
        let listed = all.take(max).map(|name| name.to_string()).collect();
        (self.namespaces.len() + self.names.len(), listed)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key<'a>(namespace: &'a str, name: &'a str) -> KeyRef<'a> {
        KeyRef { namespace, name }
    }

    fn token(number: u64) -> DeliveryToken {
        DeliveryToken { slot: 0, number }
    }

    #[test]
    fn suspects_get_a_fifth_of_the_time() {
        let mut suspects = Suspects::default();
        let (mut now, mut spent) = (Moment::ZERO + 1_000 * SECOND, Duration::ZERO);
        let began = now;
        for number in 0.. {
            now = now.max(suspects.next().unwrap());
            if now - began >= 60 * SECOND {
                break;
            }
            suspects.began(token(number), now);
            assert!(!suspects.may_start(now), "one at a time");
            suspects.took(token(number), now, now + SECOND);
            now += SECOND;
            spent += SECOND;
        }
        assert_eq!(spent, 12 * SECOND + SUSPECT_BURST);
    }

    #[test]
    fn quick_calls_do_not_wait_for_each_other() {
        let mut suspects = Suspects::default();
        let now = Moment::ZERO + 1_000 * SECOND;
        let quick = Duration::from_micros(100);
        let mut calls = 0;
        while suspects.may_start(now) {
            suspects.began(token(calls), now);
            suspects.took(token(calls), now, now + quick);
            calls += 1;
        }
        assert!((2_000..2_010).contains(&calls), "{calls}");
    }

    #[test]
    fn no_call_makes_the_next_wait_longer_than_suspicion() {
        let mut suspects = Suspects::default();
        let (began, now) = (Moment::ZERO + SECOND, Moment::ZERO + 4_000 * SECOND);
        suspects.began(token(1), began);
        suspects.took(token(1), began, now);
        assert_eq!(suspects.next(), Some(now + SUSPECT_TIME));
    }

    #[test]
    fn a_delivery_that_was_not_called_costs_nothing() {
        let mut suspects = Suspects::default();
        let now = Moment::ZERO + SECOND;
        suspects.began(token(1), now);
        suspects.ended(token(2), true, now + SECOND);
        assert_eq!(suspects.next(), None, "another one ended");
        suspects.ended(token(1), false, now + SECOND);
        assert!(suspects.may_start(now));
    }

    #[test]
    fn namespaces_are_suspect_for_five_minutes() {
        let mut suspects = Suspects::default();
        suspects.add(key("web", "a"), Moment::ZERO);
        suspects.add(key("", "node-1"), Moment::ZERO);
        assert!(suspects.contains(key("web", "b")) && !suspects.contains(key("shop", "a")));
        assert!(suspects.contains(key("", "node-1")) && !suspects.contains(key("", "node-2")));
        suspects.expire(Moment::ZERO + (SUSPECT_TIME - SECOND));
        assert_eq!(suspects.list(1), (2, vec!["web".to_owned()]));
        suspects.expire(Moment::ZERO + SUSPECT_TIME);
        assert!(suspects.is_empty());
    }

    #[test]
    fn the_oldest_of_too_many_suspects_is_forgotten() {
        let mut suspects = Suspects::default();
        for number in 0..SUSPECTS_MAX as u64 {
            let namespace = format!("web-{number}");
            assert!(!suspects.add(key(&namespace, "a"), Moment::from_nanos(number)));
        }
        assert!(suspects.add(key("late", "a"), Moment::ZERO + SECOND));
        assert_eq!(suspects.list(0).0, SUSPECTS_MAX);
        assert!(!suspects.contains(key("web-0", "a")) && suspects.contains(key("late", "a")));
    }
}
