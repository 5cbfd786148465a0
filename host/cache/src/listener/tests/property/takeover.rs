//! Takeovers: two processes watch one source, and one of them calls the handler at a time.
//!
//! The model knows the history of the API server and what the handler accepted from either. A process that does not
//! call keeps deletes; when it takes over, it begins with these and the last watermark that was published.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::history::{Event, name_of, number, subject};
use super::ops::NAMES;
use crate::listener::tests::*;
use crate::seeded_bug::SeededBug;
use crate::{KeptDelete, KeptDeletes};

#[derive(Clone, Debug)]
enum Op {
    /// Writes of the API server: of a name, and whether it is deleted.
    Write(Vec<(usize, bool)>),
    /// A process receives so many events of its watch.
    Watch(usize, usize),
    /// A process lists: it has missed the events before.
    Relist(usize),
    Take(usize),
    Answer(usize, Answer),
    Pass(u64),
    Publish,
    /// The other process takes over: with all objects, or with what the watermark does not cover.
    Takeover(bool),
    Pause,
    Resume,
}

#[derive(Clone, Copy, Debug)]
enum Answer {
    Ok,
    Retryable,
    RequeueAfter,
}

fn any_op() -> impl Strategy<Value = Op> {
    let write = (0..NAMES.len(), prop::bool::weighted(0.4));
    let answer = prop_oneof![
        6 => Just(Answer::Ok),
        2 => Just(Answer::Retryable),
        1 => Just(Answer::RequeueAfter),
    ];
    prop_oneof![
        10 => vec(write, 1..4).prop_map(Op::Write),
        10 => (0..2_usize, 1..4_usize).prop_map(|(process, count)| Op::Watch(process, count)),
        10 => (1..4_usize).prop_map(Op::Take),
        10 => (0..8_usize, answer).prop_map(|(at, answer)| Op::Answer(at, answer)),
        3 => (0..1_000_u64).prop_map(Op::Pass),
        4 => Just(Op::Publish),
        2 => any::<bool>().prop_map(Op::Takeover),
        1 => Just(Op::Pause),
        2 => Just(Op::Resume),
    ]
}

/// As [`any_op`], with watches that miss events.
fn any_op_with_gaps() -> impl Strategy<Value = Op> {
    prop_oneof![20 => any_op(), 1 => (0..2_usize).prop_map(Op::Relist)]
}

/// A process.
struct Process {
    listener: ListenerHandle,
    store: StoreWriter,
    kept: KeptDeletes,
    /// How much of the history it has received.
    received: usize,
    /// The incarnations that it has seen.
    seen: BTreeSet<String>,
}

struct World {
    history: Vec<Event>,
    processes: [Process; 2],
    /// The process that calls.
    holder: usize,
    watermark: Option<u64>,
    now: Moment,
    in_flight: Vec<Delivery>,
    /// The incarnations whose objects the handler was called with, and whose deletes it has not accepted.
    known: BTreeMap<String, &'static str>,
    /// By name: version and uid of the last state that the handler accepted, and whether it exists.
    accepted: BTreeMap<&'static str, (u64, String, bool)>,
    /// At the last takeover: the watermark, if only what it does not cover comes.
    left_out: Option<u64>,
    to_show: BTreeSet<&'static str>,
    has_gaps: bool,
    /// The incarnations that came and went while the watch of a process was down.
    missed: BTreeSet<String>,
}

impl World {
    fn new(options: &ListenerOptions) -> World {
        let process = || {
            let kept = KeptDeletes::default();
            kept.keep(Some(seconds(1_000_000)), Moment::ZERO);
            let mut store = StoreWriter::default();
            store.set_complete_through(Some(1));
            store.publish();
            Process {
                listener: ListenerHandle::new(options.clone()),
                store,
                kept,
                received: 0,
                seen: BTreeSet::new(),
            }
        };
        let world = World {
            history: Vec::new(),
            processes: [process(), process()],
            holder: 0,
            watermark: None,
            now: Moment::ZERO,
            in_flight: Vec::new(),
            known: BTreeMap::new(),
            accepted: BTreeMap::new(),
            left_out: None,
            to_show: BTreeSet::new(),
            has_gaps: false,
            missed: BTreeSet::new(),
        };
        let snapshot = world.processes[0].store.published().clone();
        world.listener().feed().attach(PODS, &snapshot, Moment::ZERO);
        world
    }

    fn listener(&self) -> &ListenerHandle {
        &self.processes[self.holder].listener
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(writes) => writes
                .iter()
                .for_each(|(name, deletes)| self.write(NAMES[*name], *deletes)),
            Op::Watch(process, count) => (0..*count).for_each(|_| self.watch(*process)),
            Op::Relist(process) => self.relist(*process),
            Op::Take(count) => (0..*count).for_each(|_| drop(self.take())),
            Op::Answer(at, answer) if !self.in_flight.is_empty() => {
                let delivery = self.in_flight.remove(at % self.in_flight.len());
                self.answer(&delivery, *answer);
            }
            Op::Answer(..) => {}
            Op::Pass(millis) => self.now += Duration::from_millis(*millis),
            Op::Publish => self.watermark = self.listener().ledger().watermark(PODS),
            Op::Takeover(all_objects) => self.take_over(*all_objects),
            Op::Pause => self.listener().control().pause(Pause::Operator),
            Op::Resume => self.listener().control().resume(Pause::Operator),
        }
        self.check();
    }

    fn write(&mut self, name: &'static str, deletes: bool) {
        let before = self.history.iter().rfind(|event| event.name == name && event.exists);
        let last = self.history.iter().rfind(|event| event.name == name);
        let exists = last.is_some_and(|last| last.exists);
        if deletes && !exists {
            return;
        }
        let version = self.history.len() as u64 + 2;
        let uid = match before.filter(|_| exists) {
            Some(before) => before.uid.clone(),
            None => format!("uid-{version}"),
        };
        let exists = !deletes;
        self.history.push(Event {
            name,
            version,
            uid,
            exists,
        });
    }

    /// A process receives the next event.
    fn watch(&mut self, process: usize) {
        let Some(event) = self.history.get(self.processes[process].received).cloned() else {
            return;
        };
        self.processes[process].received += 1;
        let (object, store) = (event.object(), &mut self.processes[process].store);
        let change = match event.exists {
            true => match store.add(object.clone()) {
                Some(old) => ChangeKind::Update { old, new: object },
                None => ChangeKind::Add(object),
            },
            false => {
                store.delete(key(event.name));
                deleted(object, false)
            }
        };
        self.push(process, vec![(change, event.version)], Reason::Watch, event.version);
    }

    /// A process receives the present state.
    fn relist(&mut self, process: usize) {
        let version = self.history.last().map_or(1, |event| event.version);
        self.has_gaps |= self.processes[process].received < self.history.len();
        let gap = self.history[self.processes[process].received..].iter();
        let is_missed = |event: &&Event| !event.exists && !self.processes[process].seen.contains(&event.uid);
        self.missed.extend(gap.filter(is_missed).map(|event| event.uid.clone()));
        self.processes[process].received = self.history.len();
        let mut changes = Vec::new();
        for name in NAMES {
            let now = self.history.iter().rfind(|event| event.name == name);
            let now = now.filter(|event| event.exists).map(Event::object);
            let store = &mut self.processes[process].store;
            let before = store.get_by_key(key(name)).cloned();
            let is_same = |one: &Object, other: &Object| one.uid() == other.uid();
            match (before, now) {
                (Some(old), Some(new)) if is_same(&old, &new) => {
                    if old.version() != new.version() {
                        store.add(new.clone());
                        changes.push((ChangeKind::Update { old, new }, version));
                    }
                }
                (before, now) => {
                    if let Some(old) = before {
                        store.delete(key(name));
                        changes.push((deleted(old, true), version));
                    }
                    if let Some(new) = now {
                        store.add(new.clone());
                        changes.push((ChangeKind::Add(new), version));
                    }
                }
            }
        }
        self.push(process, changes, Reason::Relist, version);
    }

    /// As the informer loop does: keeps deletes, publishes, then notifies. `changes` come with a version at which
    /// their objects are known to be gone.
    fn push(&mut self, process: usize, changes: Vec<(ChangeKind, u64)>, reason: Reason, version: u64) {
        let (now, is_holder) = (self.now, process == self.holder);
        let process = &mut self.processes[process];
        for (change, gone_by) in &changes {
            match change {
                ChangeKind::Add(new) | ChangeKind::Update { new, .. } => {
                    process.seen.insert(new.uid().to_owned());
                }
                ChangeKind::Delete {
                    last,
                    key,
                    final_state_unknown,
                } => process.kept.add(PODS, || KeptDelete {
                    key: key.clone(),
                    last: last.clone(),
                    final_state_unknown: *final_state_unknown,
                    gone_by: Some(*gone_by),
                    received: now,
                }),
                ChangeKind::Forget { .. } => {}
            }
        }
        process.store.set_complete_through(Some(version));
        let snapshot = process.store.publish();
        let changes: Vec<_> = changes
            .into_iter()
            .map(|(kind, _)| ObjectChange {
                kind,
                reason,
                received: now,
            })
            .collect();
        if is_holder {
            let is_there = |name: &&str| snapshot.get(key(name)).is_some();
            self.to_show.retain(is_there);
        }
        if is_holder && !changes.is_empty() {
            process.listener.feed().push(PODS, &snapshot, &changes);
        }
    }

    /// Takes one delivery.
    fn take(&mut self) -> NextDelivery {
        let next = self.listener().consumer().next(self.now);
        if let NextDelivery::Deliver(delivery) = &next {
            self.handed_out(delivery);
            self.in_flight.push(delivery.clone());
        }
        next
    }

    fn handed_out(&mut self, delivery: &Delivery) {
        let (Some(name), Some((object, exists))) = (name_of(delivery), subject(delivery)) else {
            return;
        };
        let line = shown(delivery);
        let is_of_history = |event: &Event| event.uid == object.uid() && (event.exists || !exists);
        assert!(self.history.iter().any(is_of_history), "{line}: it never was like that");
        if let (Reason::Takeover, Some(watermark), true) = (delivery.reason, self.left_out, exists) {
            let follows_another = self.accepted.get(name).is_none_or(|(_, uid, _)| uid != object.uid());
            let is_new = number(object) > watermark || follows_another || self.has_gaps;
            assert!(is_new, "{line}: accepted up to {watermark}");
        }
        if exists {
            self.to_show.remove(name);
            self.known.insert(object.uid().to_owned(), name);
        }
    }

    fn answer(&mut self, delivery: &Delivery, answer: Answer) {
        let outcome = match answer {
            Answer::Ok => DeliveryOutcome::Ok,
            Answer::Retryable => retryable(),
            Answer::RequeueAfter => again(seconds(2)),
        };
        let is_accepted = !matches!(answer, Answer::Retryable);
        self.listener().consumer().done(delivery.token, outcome, self.now);
        let (Some(name), Some((object, exists)), true) = (name_of(delivery), subject(delivery), is_accepted) else {
            return;
        };
        if !exists {
            self.known.remove(object.uid());
        }
        let accepted = (number(object), object.uid().to_owned(), exists);
        self.accepted.insert(name, accepted);
    }

    fn take_over(&mut self, all_objects: bool) {
        let holder = self.listener();
        holder.control().resume(Pause::Operator);
        let before = holder.control().stats().counters;
        holder.feed().hand_over(PODS);
        let after = holder.control().stats().counters;
        assert_eq!(
            (before.discarded, before.deletes_discarded),
            (after.discarded, after.deletes_discarded),
            "nothing is lost"
        );
        assert_eq!(holder.ledger().watermark(PODS), None);
        // What was in flight was not accepted: its outcome never came.
        self.in_flight.clear();
        self.holder = 1 - self.holder;
        let takeover = Takeover {
            watermark: self.watermark,
            all_objects,
        };
        let process = &self.processes[self.holder];
        let snapshot = process.store.published().clone();
        let resume = ResumeState::of_takeover(takeover, process.kept.of(PODS));
        self.left_out = self.watermark.filter(|_| !all_objects);
        self.to_show = match self.left_out {
            None => snapshot
                .iter()
                .filter_map(|object| NAMES.into_iter().find(|name| *name == object.name()))
                .collect(),
            Some(_) => BTreeSet::new(),
        };
        process
            .listener
            .feed()
            .attach_resumed(PODS, &snapshot, resume, self.now);
        // Before its first call: the one of the other process does not say what this one is going to deliver.
        self.watermark = self.listener().ledger().watermark(PODS);
    }

    /// Invariants at any time.
    fn check(&self) {
        self.listener().check();
        let Some(watermark) = self.listener().ledger().watermark(PODS) else {
            return;
        };
        // The naive watermark: the handler accepted the newest state of each key, unless that is newer; and the delete
        // of each incarnation that it knows.
        for name in NAMES {
            let newest = self.history.iter().rfind(|event| event.name == name);
            let Some(newest) = newest.filter(|event| event.exists && event.version <= watermark) else {
                continue;
            };
            let accepted = self.accepted.get(name);
            let is_accepted = accepted.is_some_and(|(version, ..)| *version >= newest.version);
            assert!(
                is_accepted,
                "{newest:?} is not accepted up to {watermark}: {accepted:?}"
            );
        }
        for event in self
            .history
            .iter()
            .filter(|event| !event.exists && event.version <= watermark)
        {
            let is_open = self.known.contains_key(&event.uid) && !self.missed.contains(&event.uid);
            assert!(!is_open, "{event:?} is not accepted up to {watermark}");
        }
    }

    /// Nothing fails any more, and the holder has seen everything.
    fn run_until_idle(&mut self) {
        self.apply(&Op::Resume);
        self.apply(&Op::Watch(self.holder, self.history.len()));
        for _ in 0..10_000 {
            while let Some(delivery) = self.in_flight.pop() {
                self.answer(&delivery, Answer::Ok);
                self.check();
            }
            match self.take() {
                NextDelivery::Deliver(_) => {}
                NextDelivery::WaitUntil(until) => self.now = self.now.max(until),
                NextDelivery::Idle => break,
                NextDelivery::Closed => panic!("it was not closed"),
            }
        }
        self.check_when_idle();
    }

    fn check_when_idle(&self) {
        let holder = &self.processes[self.holder];
        for object in holder.store.published().iter() {
            let name = object.name();
            let expected = (number(object), object.uid().to_owned(), true);
            assert_eq!(self.accepted.get(name), Some(&expected), "{name}: its last state");
        }
        for (uid, name) in &self.known {
            let is_there = holder
                .store
                .published()
                .get(key(name))
                .is_some_and(|object| object.uid() == uid);
            assert!(
                is_there || self.missed.contains(uid),
                "{name}: the delete of {uid} is lost"
            );
        }
        assert_eq!(self.to_show, BTreeSet::new(), "each object comes once");
        let through = holder.store.published().complete_through();
        assert_eq!(holder.listener.ledger().watermark(PODS), through, "all is accepted");
        assert_eq!(holder.listener.ledger().oldest_delete(self.now), None);
    }
}

fn deleted(last: Object, final_state_unknown: bool) -> ChangeKind {
    ChangeKind::Delete {
        key: last.key().to_key(),
        last: Some(last),
        final_state_unknown,
    }
}

fn run(options: &ListenerOptions, ops: &[Op]) {
    let mut world = World::new(options);
    for op in ops {
        world.apply(op);
    }
    world.run_until_idle();
    // The other one has to bring the handler to the same state.
    world.apply(&Op::Publish);
    world.apply(&Op::Takeover(false));
    world.run_until_idle();
}

proptest! {
    #[test]
    fn takeovers_lose_no_delete_and_no_last_state(ops in vec(any_op(), 0..120)) {
        run(&options(), &ops);
    }

    #[test]
    fn takeovers_lose_nothing_with_low_limits(ops in vec(any_op(), 0..120)) {
        run(&super::few(), &ops);
    }

    #[test]
    fn takeovers_lose_nothing_with_an_interval_and_resync(ops in vec(any_op(), 0..120)) {
        run(&ListenerOptions { min_interval: Some(seconds(3)), ..options() }, &ops);
    }

    #[test]
    fn takeovers_lose_nothing_with_gaps_in_watches(ops in vec(any_op_with_gaps(), 0..120)) {
        run(&options(), &ops);
    }
}

#[test]
#[should_panic(expected = "exists: false } is not accepted")]
fn delete_lost_at_takeover_is_noticed() {
    let ops = [
        Op::Write(vec![(0, false)]),
        Op::Watch(0, 1),
        Op::Watch(1, 1),
        Op::Take(2),
        Op::Answer(0, Answer::Ok),
        Op::Answer(0, Answer::Ok),
        Op::Write(vec![(0, true)]),
        Op::Watch(1, 1),
        Op::Takeover(true),
    ];
    SeededBug::DeleteLostAtTakeover.run_with(|| run(&options(), &ops));
}
