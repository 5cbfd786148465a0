//! The listener's rules one by one, on real stores. `a@1->2` is an update of `a` from version 1 to 2.

mod bounds;
mod call_rate;
mod cursors;
mod dead_letters;
mod failures;
mod forgotten;
mod interruptions;
mod lanes;
mod order;
mod property;
mod related;
mod replay_gate;
mod requeue_journal;
mod requeue_limits;
mod requeues;
mod reselect;
mod resume;
mod retries;
mod shards;
mod spacing;
mod suspects;
mod takeover;
mod tick;
mod transfer;
mod waits;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use informant_object::{Key, KeyRef, Object, SourceId};

use super::*;
use crate::{Moment, Reason, ResourceIdentity, StoreWriter, testing};

pub(super) const PODS: SourceId = SourceId(1);
pub(super) const NODES: SourceId = SourceId(2);

/// A listener with its stores, and a consumer controlled by the test.
pub(super) struct Rig {
    pub(super) listener: ListenerHandle,
    stores: BTreeMap<SourceId, StoreWriter>,
    pub(super) now: Moment,
    in_flight: Vec<Delivery>,
}

pub(super) fn options() -> ListenerOptions {
    ListenerOptions::default()
}

/// Retryable failures become dead letters after `attempts`.
pub(super) fn with_attempts(attempts: u32) -> ListenerOptions {
    ListenerOptions {
        retry: RetryOptions {
            attempts,
            ..RetryOptions::default()
        },
        ..options()
    }
}

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn key(name: &str) -> KeyRef<'_> {
    KeyRef::new("default", name)
}

/// State `version` of the incarnation `uid` of `name`, with `padding` bytes that only the whole object has.
pub(super) fn state(name: &str, uid: &str, version: u64, padding: usize) -> Object {
    let padding = "x".repeat(padding);
    testing::object(&format!(
        r#"{{"metadata":{{"namespace":"default","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},"spec":"{padding}"}}"#
    ))
}

impl Rig {
    /// A listener with the empty source [`PODS`], synced.
    pub(super) fn new(options: ListenerOptions) -> Rig {
        let mut rig = Rig::bare(options);
        rig.attach(PODS);
        assert_eq!(rig.drain(), "synced initial\n");
        rig
    }

    /// A listener without sources.
    pub(super) fn bare(options: ListenerOptions) -> Rig {
        let listener = ListenerHandle::new(options);
        Rig {
            listener,
            stores: BTreeMap::new(),
            now: Moment::ZERO + seconds(100),
            in_flight: Vec::new(),
        }
    }

    fn store(&mut self, source: SourceId) -> &mut StoreWriter {
        self.stores.entry(source).or_default()
    }

    pub(super) fn attach(&mut self, source: SourceId) {
        let snapshot = self.store(source).publish();
        self.listener.feed().attach(source, &snapshot, self.now);
    }

    pub(super) fn set(&mut self, name: &str, version: u64) {
        self.write(PODS, state(name, &format!("uid-{name}"), version, 0));
    }

    pub(super) fn sets(&mut self, names: &str, version: u64) {
        names.split(' ').for_each(|name| self.set(name, version));
    }

    /// Stores `object`, publishes and pushes the change.
    pub(super) fn write(&mut self, source: SourceId, object: Object) {
        let kind = match self.store(source).add(object.clone()) {
            Some(old) => ChangeKind::Update { old, new: object },
            None => ChangeKind::Add(object),
        };
        self.push(source, kind);
    }

    pub(super) fn delete(&mut self, name: &str) {
        self.delete_in(PODS, name, false);
    }

    pub(super) fn delete_in(&mut self, source: SourceId, name: &str, final_state_unknown: bool) {
        let last = self.store(source).delete(key(name));
        let key = Key::new("default", name);
        self.push(
            source,
            ChangeKind::Delete {
                last,
                key,
                final_state_unknown,
            },
        );
    }

    fn push(&mut self, source: SourceId, kind: ChangeKind) {
        self.push_as(source, kind, Reason::Watch);
    }

    pub(super) fn push_as(&mut self, source: SourceId, kind: ChangeKind, reason: Reason) {
        let change = ObjectChange {
            kind,
            reason,
            received: self.now,
        };
        let snapshot = self.store(source).publish();
        self.listener.feed().push(source, &snapshot, &[change]);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Takes one delivery without reporting its outcome.
    pub(super) fn take(&mut self) -> String {
        match self.listener.consumer().next(self.now) {
            NextDelivery::Deliver(delivery) => {
                let text = shown(&delivery);
                self.in_flight.push(delivery);
                text
            }
            NextDelivery::WaitUntil(until) => format!("wait {:?}", until - self.now),
            NextDelivery::Idle => "idle".to_owned(),
            NextDelivery::Closed => "closed".to_owned(),
        }
    }

    /// Takes all available deliveries without reporting outcomes, and returns their texts.
    pub(super) fn take_all(&mut self) -> String {
        let mut text = String::new();
        loop {
            let next = self.take();
            if next == "idle" || next == "closed" || next.starts_with("wait") {
                return text;
            }
            writeln!(text, "{next}").unwrap();
        }
    }

    pub(super) fn last_taken(&self) -> &Delivery {
        self.in_flight.last().expect("something is in flight")
    }

    /// Reports the outcome of the delivery taken first.
    pub(super) fn answer(&mut self, outcome: DeliveryOutcome) {
        let delivery = self.in_flight.remove(0);
        self.listener.consumer().done(delivery.token, outcome, self.now);
    }

    pub(super) fn answer_all(&mut self, outcome: &DeliveryOutcome) {
        while !self.in_flight.is_empty() {
            self.answer(outcome.clone());
        }
    }

    /// Takes one delivery and fails it.
    pub(super) fn fail(&mut self) -> String {
        let taken = self.take();
        self.answer(retryable());
        taken
    }

    /// Takes and accepts all available deliveries, one at a time, and returns their texts.
    pub(super) fn drain(&mut self) -> String {
        let mut text = String::new();
        self.answer_all(&DeliveryOutcome::Ok);
        loop {
            let next = self.take();
            if self.in_flight.is_empty() {
                return text;
            }
            self.answer(DeliveryOutcome::Ok);
            writeln!(text, "{next}").unwrap();
        }
    }

    pub(super) fn stats(&self) -> ListenerStats {
        self.listener.control().stats()
    }

    pub(super) fn counters(&self) -> ListenerCounters {
        self.stats().counters
    }
}

pub(super) fn retryable() -> DeliveryOutcome {
    DeliveryOutcome::Retryable("no luck".to_owned())
}

/// Success, and a request to be called again.
pub(super) fn again(after: Duration) -> DeliveryOutcome {
    DeliveryOutcome::RequeueAfter(after)
}

pub(super) fn permanent() -> DeliveryOutcome {
    DeliveryOutcome::Permanent("no use".to_owned())
}

/// `add a@1 watch`, `update a@1->2 watch try 1`, `delete a@2? watch`, `synced initial`.
pub(super) fn shown(delivery: &Delivery) -> String {
    let name = delivery.key().map_or("", |key| key.name);
    let notification = match &delivery.notification {
        Notification::Add(object) => format!("add {name}@{}", object.version()),
        Notification::Update { old: Some(old), new } => format!("update {name}@{}->{}", old.version(), new.version()),
        Notification::Update { old: None, new } => format!("update {name}@->{}", new.version()),
        Notification::Delete {
            last,
            final_state_unknown,
            ..
        } => {
            let last = last.as_ref().map_or(String::new(), |last| last.version().to_string());
            format!("delete {name}@{last}{}", if *final_state_unknown { "?" } else { "" })
        }
        Notification::Synced => "synced".to_owned(),
        Notification::Tick(tick) => format!("tick {}@{} missed {}", tick.timer, tick.scheduled_ms, tick.missed),
    };
    let has_no_source = matches!(delivery.notification, Notification::Tick(_));
    let source = if delivery.source == PODS || has_no_source {
        String::new()
    } else {
        format!(" source {}", delivery.source)
    };
    let attempt = if delivery.attempt == 0 {
        String::new()
    } else {
        format!(" try {}", delivery.attempt)
    };
    format!("{notification} {}{source}{attempt}", delivery.reason)
}
