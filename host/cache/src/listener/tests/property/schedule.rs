//! Running the operations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::lanes::Lanes;
use super::ops::{Answer, NAMES, Op, PAUSES, SOURCES, Write};
use super::requeues::Requeues;
use super::retries::{Retried, failed_state};
use super::witness::Witness;
use crate::listener::tests::*;

/// A listener, its stores and its consumer.
pub(super) struct Run {
    listener: ListenerHandle,
    options: ListenerOptions,
    stores: Vec<StoreWriter>,
    /// The id under which each store is attached.
    attached: Vec<Option<SourceId>>,
    next_source: u32,
    next_version: u64,
    now: Moment,
    in_flight: Vec<Delivery>,
    /// Until when the consumer waits, and for which lanes.
    received: Option<(LaneSet, Moment)>,
    lanes: Lanes,
    woken: Arc<AtomicBool>,
    witness: Witness,
    detached: bool,
    /// Why the consumer is paused.
    pauses: BTreeSet<u8>,
    /// When retries were delivered.
    retries: Vec<Moment>,
    /// Keys whose last delivery failed and that will be retried.
    retried: BTreeMap<(SourceId, String), Retried>,
    requeues: Requeues,
    /// When keys were called, and not filtered or given back.
    called: BTreeMap<(SourceId, String), Moment>,
    /// When calls started that were not filtered or given back.
    starts: Vec<Moment>,
}

impl Run {
    pub(super) fn new(options: ListenerOptions) -> Run {
        let listener = ListenerHandle::new(options.clone());
        let woken = Arc::new(AtomicBool::new(false));
        let flag = woken.clone();
        listener
            .consumer()
            .set_waker(Arc::new(move || flag.store(true, Ordering::Relaxed)));
        let mut run = Run {
            listener,
            options,
            stores: (0..SOURCES).map(|_| StoreWriter::new()).collect(),
            attached: vec![None; SOURCES],
            next_source: 1,
            next_version: 1,
            now: Moment::ZERO,
            in_flight: Vec::new(),
            received: None,
            lanes: Lanes::default(),
            woken,
            witness: Witness::default(),
            detached: false,
            pauses: BTreeSet::new(),
            retries: Vec::new(),
            retried: BTreeMap::new(),
            requeues: Requeues::default(),
            called: BTreeMap::new(),
            starts: Vec::new(),
        };
        run.toggle(0);
        run
    }

    pub(super) fn apply(&mut self, op: Op) {
        match op {
            Op::Write(source, writes) => self.write(source, writes),
            Op::Take(count) => (0..count).for_each(|_| {
                let asked = self.lanes.next_asked();
                self.take(asked);
            }),
            Op::Answer(at, answer) if !self.in_flight.is_empty() => {
                let delivery = self.in_flight.remove(at % self.in_flight.len());
                self.answer(delivery, answer);
            }
            Op::GiveBack(at) if !self.in_flight.is_empty() => {
                let delivery = self.in_flight.remove(at % self.in_flight.len());
                self.witness.given_back(&delivery);
                self.was_not_called(&delivery);
                if self.retried.contains_key(&retry_key(&delivery)) {
                    self.retries.pop();
                }
                self.listener.consumer().give_back([delivery.token]);
            }
            Op::Answer(..) | Op::GiveBack(_) => {}
            Op::Pass(millis) => self.now += Duration::from_millis(millis),
            Op::Replay => {
                self.begin_replay();
                self.listener.control().replay(self.now);
            }
            Op::Lanes(count) => self.set_lanes(count),
            Op::Requeue(source, name) => {
                if let Some(source) = self.attached[source] {
                    self.listener.control().requeue(source, key(NAMES[name]), self.now);
                }
            }
            Op::Pause(pause) => {
                self.listener.control().pause(pause);
                self.pauses.insert(pause as u8);
            }
            Op::Resume(pause) => {
                self.listener.control().resume(pause);
                self.pauses.remove(&(pause as u8));
            }
            Op::Toggle(source) => self.toggle(source),
            Op::Shed(source) => self.shed(source),
        }
        self.check();
    }

    pub(super) fn set_lanes(&mut self, count: Lane) {
        self.begin_replay();
        let stores = Arc::clone(&self.lanes.stores);
        let identity = move |source| ResourceIdentity::new("", "", &stores.lock().unwrap()[&source].to_string());
        self.listener.consumer().set_lanes(count, Arc::new(identity), self.now);
        self.lanes.count = count;
        self.lanes.of_key.clear();
        self.received = None;
    }

    fn begin_replay(&mut self) {
        for (source, store) in self.attached.iter().zip(&self.stores) {
            if let Some(source) = source {
                self.witness.replay_started(*source, store.published());
            }
        }
        self.called.clear();
        self.requeues.replayed();
        self.lanes.synced.clear();
    }

    fn toggle(&mut self, index: usize) {
        match self.attached[index].take() {
            Some(source) => {
                let (before, deletes) = (
                    self.stats().counters,
                    self.witness.undelivered_deletes(source, self.stores[index].published()),
                );
                self.listener.feed().detach(source);
                let dropped = self.stats().counters.deletes_discarded - before.deletes_discarded;
                assert!(
                    dropped >= deletes,
                    "{dropped} of at least {deletes} deletes were counted"
                );
                self.witness.detached(source);
                self.retried.retain(|(of, _), _| *of != source);
                self.requeues.detached(source);
                self.detached = true;
            }
            None => {
                let source = SourceId(self.next_source);
                self.next_source += 1;
                self.attached[index] = Some(source);
                self.lanes.stores.lock().unwrap().insert(source, index as u64);
                self.witness.attached(source, self.stores[index].published());
                let snapshot = self.stores[index].publish();
                self.listener.feed().attach(source, &snapshot, self.now);
            }
        }
    }

    fn shed(&mut self, index: usize) {
        let store = &mut self.stores[index];
        if store.is_shed("default") {
            store.unshed_namespace("default");
        } else {
            store.shed_namespace("default");
            while store.shed_some(2) {}
        }
        let snapshot = store.publish();
        if let Some(source) = self.attached[index] {
            self.listener.feed().push(source, &snapshot, &[]);
        }
    }

    fn write(&mut self, index: usize, writes: Vec<Write>) {
        let mut changes = Vec::new();
        for write in writes {
            let store = &mut self.stores[index];
            self.next_version += 1;
            let kind = match write {
                Write::Set(name) | Write::Recreate(name) => {
                    let before = store.get_by_key(key(NAMES[name])).cloned();
                    let recreated = matches!(write, Write::Recreate(_));
                    let uid = match before.filter(|_| !recreated) {
                        Some(before) => before.uid().to_owned(),
                        None => format!("uid-{}", self.next_version),
                    };
                    let new = state(NAMES[name], &uid, self.next_version, 300);
                    match store.add(new.clone()) {
                        Some(old) => ChangeKind::Update { old, new },
                        None => ChangeKind::Add(new),
                    }
                }
                Write::Delete(name, final_state_unknown) => {
                    let Some(last) = store.delete(key(NAMES[name])) else {
                        continue;
                    };
                    ChangeKind::Delete {
                        key: last.key().to_key(),
                        last: Some(last),
                        final_state_unknown,
                    }
                }
            };
            changes.push(ObjectChange {
                kind,
                reason: Reason::Watch,
                received: self.now,
            });
        }
        let snapshot = self.stores[index].publish();
        if let Some(source) = self.attached[index] {
            self.witness.stored(source, &changes);
            self.listener.feed().push(source, &snapshot, &changes);
        }
    }

    /// Takes a delivery of one of the lanes `asked`.
    fn take(&mut self, asked: LaneSet) {
        let woken = self.woken.swap(false, Ordering::Relaxed);
        let received = self.received.take();
        match self.next(asked) {
            NextDelivery::Deliver(delivery) => {
                let waited = received.filter(|(waited_for, _)| asked.iter().all(|lane| waited_for.contains(lane)));
                let must_wait = waited.is_some_and(|(_, until)| self.now < until) && !woken;
                assert!(!must_wait, "the consumer was not woken for {}", shown(&delivery));
                assert!(self.pauses.is_empty(), "{}: paused", shown(&delivery));
                self.lanes.check(&delivery, asked);
                self.check_retry(&delivery);
                self.check_interval(&delivery);
                self.check_rate();
                self.requeues.taken(&delivery, self.now);
                self.witness.handed_out(&delivery);
                self.in_flight.push(delivery);
            }
            NextDelivery::WaitUntil(until) => self.waits(asked, until),
            NextDelivery::Idle => self.waits(asked, Moment::NEVER),
            NextDelivery::Closed => panic!("it was not closed"),
        }
    }

    fn next(&self, asked: LaneSet) -> NextDelivery {
        if self.lanes.count == 1 {
            return self.listener.consumer().next(self.now);
        }
        let mut taken = Vec::new();
        match self.listener.consumer().next_batch(asked, self.now, 1, &mut taken) {
            NextBatch::Delivered(_) => NextDelivery::Deliver(taken.remove(0)),
            NextBatch::WaitUntil(until) => NextDelivery::WaitUntil(until),
            NextBatch::Idle => NextDelivery::Idle,
            NextBatch::Closed => NextDelivery::Closed,
        }
    }

    /// There is nothing to deliver to the lanes `asked` before `until`.
    fn waits(&mut self, asked: LaneSet, until: Moment) {
        self.received = Some((asked, until));
        // Those of objects that are gone were dropped just now.
        self.check_requeues();
        if self.pauses.is_empty() && asked == self.lanes.all() {
            let in_flight = self.in_flight.iter().map(retry_key);
            let interval = self.options.min_interval.unwrap_or_default();
            let spaced = self.called.iter().filter(|(_, called)| **called + interval >= until);
            let spaced = spaced.map(|(key, _)| key.clone());
            let busy: BTreeSet<_> = self.retried.keys().cloned().chain(in_flight).chain(spaced).collect();
            self.requeues.check_none_is_late(&busy, until, self.now);
        }
    }

    fn answer(&mut self, delivery: Delivery, answer: Answer) {
        let error = String::new();
        let outcome = match answer {
            Answer::Ok => DeliveryOutcome::Ok,
            Answer::Filtered => DeliveryOutcome::Filtered,
            Answer::Retryable => DeliveryOutcome::Retryable(error),
            Answer::RetryAfter => DeliveryOutcome::RetryAfter(error, Duration::from_millis(700)),
            Answer::Permanent => DeliveryOutcome::Permanent(error),
            Answer::Trapped => DeliveryOutcome::Trapped(error),
            Answer::Interrupted => DeliveryOutcome::RetryAfter(error, Duration::ZERO),
            Answer::RequeueAfter(millis) => again(Duration::from_millis(millis)),
        };
        if matches!(answer, Answer::Filtered) {
            self.was_not_called(&delivery);
        }
        let before = self.stats().counters;
        match answer {
            Answer::Interrupted => self.listener.consumer().interrupted(delivery.token, self.now),
            _ => self.listener.consumer().done(delivery.token, outcome.clone(), self.now),
        }
        let after = self.stats().counters;
        let retried = after.retried > before.retried;
        self.note_failures(&delivery, &outcome, retried);
        if let Some(index) = self.attached.iter().position(|it| *it == Some(delivery.source)) {
            let published = self.stores[index].published();
            self.requeues
                .answered(&delivery, &outcome, retried, published, self.now);
        }
        if matches!(outcome, DeliveryOutcome::RetryAfter(..)) && self.options.retried_deletes_max > 0 {
            assert_eq!(
                after.dead_lettered, before.dead_lettered,
                "a requested wait is no attempt"
            );
        }
        self.witness.answered(&delivery, &outcome, retried);
    }

    /// The naive model of retries: how many keys are under retry, and how often each failed.
    fn note_failures(&mut self, delivery: &Delivery, outcome: &DeliveryOutcome, retried: bool) {
        // A replay replaces a `Synced` under retry by another one.
        if delivery.key().is_none() {
            return;
        }
        let key = retry_key(delivery);
        if !retried {
            self.retried.remove(&key);
            return;
        }
        let state = failed_state(delivery);
        let key = self.retried.entry(key).or_default();
        if key.state != state {
            (key.attempts, key.traps, key.timeouts, key.state) = (0, 0, 0, state);
        }
        key.calls += 1;
        match outcome {
            DeliveryOutcome::RetryAfter(..) => {}
            DeliveryOutcome::Trapped(_) => (key.attempts, key.traps) = (key.attempts + 1, key.traps + 1),
            DeliveryOutcome::TimedOut(_) => (key.attempts, key.timeouts) = (key.attempts + 1, key.timeouts + 1),
            _ => key.attempts += 1,
        }
    }

    fn check_retry(&mut self, delivery: &Delivery) {
        if delivery.key().is_none() {
            return;
        }
        let Some(key) = self.retried.get(&retry_key(delivery)) else {
            assert_eq!(delivery.attempt, 0, "{}: it never failed", shown(delivery));
            return;
        };
        assert!(
            delivery.attempt <= key.calls,
            "{}: after {}",
            shown(delivery),
            key.calls
        );
        if key.state == failed_state(delivery) {
            let attempts = self.options.retry.attempts;
            assert!(attempts == 0 || key.attempts < attempts, "{}", shown(delivery));
            assert!(
                key.traps < TRAPS_MAX && key.timeouts < TIMEOUTS_MAX,
                "{}",
                shown(delivery)
            );
        }
        // A retry counts when its back-off ends, and may be delivered later.
        self.retries.push(self.now);
        let second = |at: &&Moment| self.now - **at < seconds(1);
        let within_second = self.retries.iter().filter(second).count();
        assert!(
            within_second <= 2 * self.options.retries_per_second_max,
            "{within_second} retries"
        );
    }

    fn was_not_called(&mut self, delivery: &Delivery) {
        self.called.remove(&retry_key(delivery));
        self.starts.pop();
    }

    /// Within any second, a burst and the rate's calls start at most.
    fn check_rate(&mut self) {
        self.starts.push(self.now);
        let Some(max) = self.options.calls_per_second_max else {
            return;
        };
        let within_second = self.starts.iter().rev().take_while(|at| self.now - **at < seconds(1));
        let count = within_second.count();
        assert!(count <= 2 * max as usize, "{count} calls");
    }

    /// Two calls of a key start at least one interval apart.
    fn check_interval(&mut self, delivery: &Delivery) {
        if delivery.key().is_none() {
            return;
        }
        let before = self.called.insert(retry_key(delivery), self.now);
        if let (Some(before), Some(interval)) = (before, self.options.min_interval) {
            assert!(self.now >= before + interval, "{}: too early", shown(delivery));
        }
    }

    fn stats(&self) -> ListenerStats {
        self.listener.control().stats()
    }

    fn check_requeues(&mut self) {
        for (source, store) in self.attached.iter().zip(&self.stores) {
            if let Some(source) = source {
                self.listener.ledger().record_requeues(*source);
                let all = self.listener.ledger().requeue_changes(*source, self.now);
                let timers = all.expect("everything, at first").timers;
                self.requeues.check(*source, &timers, store.published(), self.now);
            }
        }
    }

    /// Invariants at any time.
    fn check(&mut self) {
        self.listener.check();
        self.check_requeues();
        let stats = self.stats();
        let slots_max = SOURCES * (NAMES.len() + 1);
        assert!(
            stats.pending <= self.options.pending_events_max + 3 * slots_max,
            "{}",
            stats.pending
        );
        // Pending events and requeued deletes each have the whole limit.
        let kept_max = 2 * self.options.pending_bytes_max + slots_max * 3 * state("a", "uid-100", 100, 0).size_bytes();
        // Deliveries in flight were abandoned, and are not dropped by the queue.
        assert!(
            stats.bytes <= kept_max + self.in_flight.len() * 1_000,
            "{}",
            stats.bytes
        );
        assert!(stats.dead_letters <= self.options.dead_letters_max);
        let (retried, listed) = self.listener.ledger().retried_keys(3);
        assert_eq!((retried, retried.min(3)), (stats.failing, listed.len()));
        assert!(
            listed.windows(2).all(|pair| pair[0].since <= pair[1].since),
            "{listed:?}"
        );
        let is_retried = |key: &RetriedKey| {
            let name = |name: &Key| name.name().to_owned();
            let known = |name| self.retried.contains_key(&(key.source, name));
            key.key.as_ref().map(name).is_none_or(known)
        };
        assert!(listed.iter().all(is_retried), "{listed:?}");
        if !self.detached {
            let c = stats.counters;
            assert_eq!(
                c.accepted + c.shown,
                c.ok + c.filtered
                    + c.skipped
                    + c.dead_lettered
                    + c.coalesced
                    + c.left_to_cursor
                    + 2 * c.vanished
                    + (stats.pending + stats.in_flight) as u64,
                "every event is accounted for: {c:?}"
            );
        }
    }

    /// Lets the handler succeed until nothing is pending.
    pub(super) fn run_until_idle(&mut self) {
        for pause in PAUSES {
            self.apply(Op::Resume(pause));
        }
        for _ in 0..10_000 {
            while let Some(delivery) = self.in_flight.pop() {
                self.answer(delivery, Answer::Ok);
                self.check();
            }
            self.take(self.lanes.all());
            let resync_waits = self.options.resync.is_some_and(|_| self.stats().pending == 0);
            match self.received.map(|(_, until)| until) {
                Some(Moment::NEVER) => break,
                Some(_) if resync_waits && self.stats().syncing + self.stats().requeues == 0 => break,
                Some(until) => self.now = until,
                None => {}
            }
        }
        let stats = self.stats();
        assert_eq!(
            (
                stats.pending,
                stats.in_flight,
                stats.bytes,
                stats.syncing,
                stats.requeues
            ),
            (0, 0, 0, 0, 0),
            "at rest"
        );
        for (source, store) in self.attached.iter().zip(&self.stores) {
            if let Some(source) = source {
                assert!(self.listener.feed().has_synced(*source));
                self.lanes.check_synced(*source);
                self.witness.check_when_idle(*source, store.published());
            }
        }
    }

    pub(super) fn check_exactly_once(&self) {
        let c = self.stats().counters;
        assert_eq!((c.retried, c.skipped, c.dead_lettered, c.discarded), (0, 0, 0, 0));
        for source in self.attached.iter().flatten() {
            self.witness.check_exactly_once(*source);
        }
    }
}

/// The key of a delivery; an empty name for `Synced`.
pub(super) fn retry_key(delivery: &Delivery) -> (SourceId, String) {
    let name = delivery.key().map_or(String::new(), |key| key.name.to_owned());
    (delivery.source, name)
}
