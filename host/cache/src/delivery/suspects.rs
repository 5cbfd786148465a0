//! Suspect namespaces: those with an object whose call cost the handler its instance, or whose body kept it waiting, a
//! short time ago.
//!
//! Calls about their objects get a share of the handler's time, all together, one at a time. So objects that crash the
//! handler delay those of other namespaces by a bounded share of time, however many there are. Namespaces of one name
//! in two clusters are two. Among cluster-scoped objects, each name is a namespace of its own. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use informant_object::{KeyRef, SourceId};

use crate::delivery::DeliveryToken;
use crate::delivery::options::{SUSPECT_BURST, SUSPECT_SHARE_PERCENT, SUSPECT_TIME, SUSPECTS_MAX};
use crate::{Catalog, Moment};

/// Between two searches for namespaces that are suspect no longer, which visit all.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Suspects {
    /// Knows the cluster of each source. None: all are in one cluster.
    catalog: Option<Catalog>,
    namespaces: Crashes,
    /// The same of cluster-scoped objects, by name.
    names: Crashes,
    /// When the share of time allows the next call.
    next: Moment,
    /// The call that runs, and when it was handed out.
    called: Option<(DeliveryToken, Moment)>,
    next_sweep: Moment,
}

/// When calls about namespaces, or about cluster-scoped objects, crashed or were held up last: by cluster and name.
#[derive(Debug, Default)]
struct Crashes(BTreeMap<Box<str>, BTreeMap<Box<str>, Moment>>);

impl Crashes {
    fn len(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn contains(&self, cluster: &str, name: &str) -> bool {
        self.0.get(cluster).is_some_and(|names| names.contains_key(name))
    }

    /// Returns whether another one was forgotten for it: the oldest of more than [`SUSPECTS_MAX`].
    fn add(&mut self, cluster: &str, name: &str, now: Moment) -> bool {
        self.0.entry(cluster.into()).or_default().insert(name.into(), now);
        if self.len() <= SUSPECTS_MAX {
            return false;
        }
        let all = self.0.values().flat_map(BTreeMap::values).copied();
        let Some(oldest) = all.min() else { return false };
        for names in self.0.values_mut() {
            let found = names.iter().find(|(_, at)| **at == oldest);
            if let Some(name) = found.map(|(name, _)| name.clone()) {
                return names.remove(&name).is_some();
            }
        }
        false
    }

    fn expire(&mut self, now: Moment) {
        self.0.retain(|_, names| {
            names.retain(|_, at| now - *at < SUSPECT_TIME);
            !names.is_empty()
        });
    }

    /// `NAME`, or `CLUSTER/NAME` if the cluster has a name.
    fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(|(cluster, names)| {
            let prefix = if cluster.is_empty() {
                String::new()
            } else {
                format!("{cluster}/")
            };
            let named = names.keys().map(|name| format!("{prefix}{name}"));
            named.collect::<Vec<_>>()
        })
    }
}

impl Suspects {
    pub(crate) fn is_empty(&self) -> bool {
        self.namespaces.0.is_empty() && self.names.0.is_empty()
    }

    /// The sources are in the clusters that `catalog` says.
    pub(crate) fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = Some(catalog);
    }

    /// Whether the namespace of the object is suspect. Looks up the source's cluster if any namespace is.
    pub(crate) fn contains(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        if self.is_empty() {
            return false;
        }
        let (crashes, name) = match key.namespace {
            "" => (&self.names, key.name),
            namespace => (&self.namespaces, namespace),
        };
        self.in_cluster_of(source, |cluster| crashes.contains(cluster, name))
    }

    /// A call about `key` crashed or was held up. Returns whether another namespace was forgotten for it: the one whose
    /// crash is the oldest of more than [`SUSPECTS_MAX`].
    pub(crate) fn add(&mut self, source: SourceId, key: KeyRef<'_>, now: Moment) -> bool {
        let cluster: Box<str> = self.in_cluster_of(source, |cluster| cluster.into());
        match key.namespace {
            "" => self.names.add(&cluster, key.name, now),
            namespace => self.namespaces.add(&cluster, namespace, now),
        }
    }

    /// A source that was removed is in no cluster.
    fn in_cluster_of<T>(&self, source: SourceId, then: impl FnOnce(&str) -> T) -> T {
        let source = self.catalog.as_ref().and_then(|catalog| catalog.source(source));
        then(source.as_ref().map_or("", |source| &source.info().cluster))
    }

    /// Forgets those that have not crashed for [`SUSPECT_TIME`].
    pub(crate) fn expire(&mut self, now: Moment) {
        if !self.is_empty() && self.next_sweep <= now {
            self.next_sweep = now + SWEEP_INTERVAL;
            self.namespaces.expire(now);
            self.names.expire(now);
        }
    }

    /// Suspects none any more: another handler may crash on others.
    pub(crate) fn clear(&mut self) {
        self.namespaces.0.clear();
        self.names.0.clear();
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
        let listed = self.namespaces.names().chain(self.names.names()).take(max).collect();
        (self.namespaces.len() + self.names.len(), listed)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceInfo;

    const SECOND: Duration = Duration::from_secs(1);
    const PODS: SourceId = SourceId(1);

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
        suspects.add(PODS, key("web", "a"), Moment::ZERO);
        suspects.add(PODS, key("", "node-1"), Moment::ZERO);
        assert!(suspects.contains(PODS, key("web", "b")) && !suspects.contains(PODS, key("shop", "a")));
        assert!(suspects.contains(PODS, key("", "node-1")) && !suspects.contains(PODS, key("", "node-2")));
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
            assert!(!suspects.add(PODS, key(&namespace, "a"), Moment::from_nanos(number)));
        }
        assert!(suspects.add(PODS, key("late", "a"), Moment::ZERO + SECOND));
        assert_eq!(suspects.list(0).0, SUSPECTS_MAX);
        assert!(!suspects.contains(PODS, key("web-0", "a")) && suspects.contains(PODS, key("late", "a")));
    }

    #[test]
    fn a_namespace_is_suspect_only_in_its_cluster() {
        let catalog = Catalog::new();
        let [dev, also_dev, prod] = ["dev", "dev", "prod"].map(|cluster| {
            catalog.add_source(SourceInfo {
                informer: "pods".to_owned(),
                cluster: cluster.to_owned(),
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
                resource: "v1/pods".to_owned(),
                namespace: None,
                namespaced: true,
                partial: false,
            })
        });
        let mut suspects = Suspects::default();
        suspects.set_catalog(catalog);
        suspects.add(dev, key("web", "a"), Moment::ZERO);
        suspects.add(prod, key("", "node-1"), Moment::ZERO);
        let are_suspect = [dev, also_dev, prod].map(|source| {
            let contains = |namespace, name| suspects.contains(source, key(namespace, name));
            (contains("web", "b"), contains("", "node-1"))
        });
        assert_eq!(are_suspect, [(true, false), (true, false), (false, true)]);
        assert_eq!(
            suspects.list(9),
            (2, vec!["dev/web".to_owned(), "prod/node-1".to_owned()])
        );
    }
}
