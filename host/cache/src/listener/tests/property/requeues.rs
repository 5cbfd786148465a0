//! The naive model of requeues: which calls the handler asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::schedule::retry_key;
use crate::Snapshot;
use crate::listener::tests::*;

type Id = (SourceId, String);

#[derive(Default)]
pub(super) struct Requeues {
    waiting: BTreeMap<Id, Requeued>,
    /// Keys with a requeue that was delivered and that is given back, in flight, or retried.
    started: BTreeSet<Id>,
}

struct Requeued {
    due: Moment,
    in_a_row: u32,
    /// The version that the handler received, and whether it received a delete.
    state: (String, bool),
}

fn state_of(delivery: &Delivery) -> (String, bool) {
    match &delivery.notification {
        Notification::Add(object) | Notification::Update { new: object, .. } => (object.version().to_string(), false),
        Notification::Delete { last, .. } => (
            last.as_ref().map_or(String::new(), |last| last.version().to_string()),
            true,
        ),
        Notification::Synced | Notification::Tick(_) => unreachable!("it has no key"),
    }
}

impl Requeues {
    pub(super) fn taken(&mut self, delivery: &Delivery, now: Moment) {
        let id = retry_key(delivery);
        // A requeue that was given back or failed is an event like any other.
        if delivery.reason != Reason::RequeueAfter || !self.started.insert(id.clone()) {
            return;
        }
        let line = shown(delivery);
        let requeue = self.waiting.get(&id);
        let requeue = requeue.unwrap_or_else(|| panic!("{line}: the handler did not ask for it"));
        assert!(requeue.due <= now, "{line}: too early");
        assert_eq!(delivery.received, requeue.due, "{line}");
        assert_eq!(delivery.attempt, 0, "{line}");
        match &delivery.notification {
            Notification::Update { old: None, .. } => assert!(!requeue.state.1, "{line}: it received a delete"),
            Notification::Delete { .. } => assert_eq!(requeue.state, state_of(delivery), "{line}: the same delete"),
            _ => panic!("{line}: neither an update nor a delete"),
        }
    }

    pub(super) fn answered(
        &mut self,
        delivery: &Delivery,
        outcome: &DeliveryOutcome,
        retried: bool,
        published: &Snapshot,
        now: Moment,
    ) {
        if delivery.key().is_none() {
            return;
        }
        let id = retry_key(delivery);
        let is_requeue = delivery.reason == Reason::RequeueAfter;
        if !retried {
            self.started.remove(&id);
        }
        match outcome {
            DeliveryOutcome::RequeueAfter(wait) => {
                let state = state_of(delivery);
                let before = self.waiting.get(&id).filter(|before| before.state == state);
                let in_a_row = before.map_or(0, |before| before.in_a_row) + 1;
                let floor = if in_a_row > 20 { 10_000 } else { 100 };
                let due = now + (*wait).max(Duration::from_millis(floor));
                self.waiting.insert(id, Requeued { due, in_a_row, state });
            }
            DeliveryOutcome::Filtered => {
                let is_gone = published.get(key(&id.1)).is_none();
                let is_delete = matches!(delivery.notification, Notification::Delete { .. });
                let is_lost = |requeue: &Requeued| is_requeue || (is_delete && is_gone && !requeue.state.1);
                if self.waiting.get(&id).is_some_and(is_lost) {
                    self.waiting.remove(&id);
                }
            }
            _ if retried && is_requeue => {}
            _ => drop(self.waiting.remove(&id)),
        }
    }

    pub(super) fn replayed(&mut self) {
        self.waiting.clear();
    }

    pub(super) fn detached(&mut self, source: SourceId) {
        self.waiting.retain(|(of, _), _| *of != source);
        self.started.retain(|(of, _)| *of != source);
    }

    /// The listener has exactly these, except those of objects that are gone, which it drops when they are due.
    pub(super) fn check(&mut self, source: SourceId, timers: &[RequeueTimer], published: &Snapshot, now: Moment) {
        let mut names = BTreeSet::new();
        for timer in timers {
            let name = timer.key.name().to_owned();
            let requeue = self.waiting.get(&(source, name.clone()));
            let requeue = requeue.unwrap_or_else(|| panic!("{name}: the handler did not ask for it"));
            let expected = (requeue.due - now, requeue.state.1);
            assert_eq!((timer.remaining, timer.delete.is_some()), expected, "{name}");
            names.insert(name);
        }
        self.waiting.retain(|(of, name), requeue| {
            if *of != source || names.contains(name) {
                return true;
            }
            let may_go = !requeue.state.1 && requeue.due <= now && published.get(key(name)).is_none();
            assert!(may_go, "{name}: its requeue is lost");
            false
        });
    }

    /// While the consumer has nothing to do, each due requeue waits for its key, or is looked at soon.
    pub(super) fn check_none_is_late(&self, busy: &BTreeSet<Id>, until: Moment, now: Moment) {
        for (id, requeue) in &self.waiting {
            let may_wait = requeue.due > now || busy.contains(id) || until <= now + seconds(1);
            assert!(may_wait, "{id:?}: due since {:?}", now - requeue.due);
        }
    }
}
