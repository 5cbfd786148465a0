//! Moves of shards: two processes divide one source, and each calls the handler for the shards that it holds.
//!
//! The model knows the history of the API server and what the handler accepted in either process. A process follows
//! with a list what it holds, some time later, and keeps the deletes of shards that it does not read.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::history::{Event, name_of, number, subject};
use super::ops::NAMES;
use crate::listener::tests::*;
use crate::{Division, KeptDelete, KeptDeletes, ShardBy, ShardFilter, ShardHash, ShardSet};

const DIVISION: Division = Division {
    shards: 2,
    hash: ShardHash::Mixed,
};

#[derive(Clone, Debug)]
enum Op {
    /// Writes of the API server: of a name, and whether it is deleted.
    Write(Vec<(usize, bool)>),
    /// A process receives so many events of its watch.
    Watch(usize, usize),
    /// A process begins to list what it holds.
    Ask(usize),
    /// A process has listed what it held then, or what it holds.
    List(usize),
    Take(usize, usize),
    /// Whether the call of a process succeeds.
    Answer(usize, usize, bool),
    Pass(u64),
    Publish(usize),
    /// A shard moves to the other process: in order, or because its Lease is lost.
    Move(u8, bool),
}

fn any_op() -> impl Strategy<Value = Op> {
    let write = (0..NAMES.len(), prop::bool::weighted(0.4));
    let process = 0..2_usize;
    prop_oneof![
        10 => vec(write, 1..4).prop_map(Op::Write),
        12 => (process.clone(), 1..4_usize).prop_map(|(process, count)| Op::Watch(process, count)),
        2 => process.clone().prop_map(Op::Ask),
        4 => process.clone().prop_map(Op::List),
        10 => (process.clone(), 1..4_usize).prop_map(|(process, count)| Op::Take(process, count)),
        10 => (process.clone(), 0..8_usize, prop::bool::weighted(0.7)).prop_map(|(process, at, ok)| Op::Answer(process, at, ok)),
        3 => (0..1_000_u64).prop_map(Op::Pass),
        4 => process.prop_map(Op::Publish),
        2 => (0..2_u8, prop::bool::weighted(0.7)).prop_map(|(shard, in_order)| Op::Move(shard, in_order)),
    ]
}

struct Process {
    listener: ListenerHandle,
    store: StoreWriter,
    kept: KeptDeletes,
    /// How much of the history it has received.
    received: usize,
    /// The shards that it is about to list.
    asked: Option<ShardSet>,
    in_flight: Vec<Delivery>,
}

struct World {
    history: Vec<Event>,
    processes: [Process; 2],
    /// The process that holds each shard.
    holders: [usize; 2],
    /// What the Lease of each shard says.
    watermarks: [Option<u64>; 2],
    all_objects: bool,
    now: Moment,
    /// The incarnations whose objects the handler was called with, and whose deletes it has not accepted.
    known: BTreeMap<String, &'static str>,
    /// By name: version and uid of the last state that the handler accepted, and whether it exists.
    accepted: BTreeMap<&'static str, (u64, String, bool)>,
}

fn filter(shards: ShardSet) -> ShardFilter {
    ShardFilter {
        division: DIVISION,
        by: ShardBy::NamespaceAndName,
        shards,
    }
}

fn shard_of(name: &str) -> u8 {
    filter(ShardSet::default()).shard_of(key(name))
}

impl World {
    /// The first process holds both shards.
    fn new(options: &ListenerOptions, all_objects: bool) -> World {
        let process = |shards: &[u8]| {
            let kept = KeptDeletes::default();
            kept.keep(Some(seconds(1_000_000)), Moment::ZERO);
            let shards: ShardSet = shards.iter().copied().collect();
            let mut store = StoreWriter::default();
            store.set_shards(Some(filter(shards)));
            store.set_complete_through(Some(1));
            let snapshot = store.publish();
            let listener = ListenerHandle::new(options.clone());
            let division = DIVISION;
            listener.control().set_shards(Some(HeldShards { division, shards }));
            listener.feed().attach(PODS, &snapshot, Moment::ZERO);
            Process {
                listener,
                store,
                kept,
                received: 0,
                asked: None,
                in_flight: Vec::new(),
            }
        };
        World {
            history: Vec::new(),
            processes: [process(&[0, 1]), process(&[])],
            holders: [0, 0],
            watermarks: [None, None],
            all_objects,
            now: Moment::ZERO,
            known: BTreeMap::new(),
            accepted: BTreeMap::new(),
        }
    }

    fn held(&self, process: usize) -> ShardSet {
        (0..2)
            .filter(|shard| self.holders[usize::from(*shard)] == process)
            .collect()
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Write(writes) => writes
                .iter()
                .for_each(|(name, deletes)| self.write(NAMES[*name], *deletes)),
            Op::Watch(process, count) => (0..*count).for_each(|_| self.watch(*process)),
            Op::Ask(process) => self.processes[*process].asked = Some(self.held(*process)),
            Op::List(process) => self.list(*process),
            Op::Take(process, count) => (0..*count).for_each(|_| drop(self.take(*process))),
            Op::Answer(process, at, is_ok) => {
                let in_flight = &mut self.processes[*process].in_flight;
                if !in_flight.is_empty() {
                    let delivery = in_flight.remove(at % in_flight.len());
                    self.answer(*process, &delivery, *is_ok);
                }
            }
            Op::Pass(millis) => self.now += Duration::from_millis(*millis),
            Op::Publish(process) => self.publish(*process),
            Op::Move(shard, in_order) => self.move_shard(*shard, *in_order),
        }
        self.check();
    }

    fn write(&mut self, name: &'static str, deletes: bool) {
        let last = self.history.iter().rfind(|event| event.name == name);
        let before = last.filter(|last| last.exists);
        if deletes && before.is_none() {
            return;
        }
        let version = self.history.len() as u64 + 2;
        let uid = before.map_or_else(|| format!("uid-{version}"), |before| before.uid.clone());
        self.history.push(Event {
            name,
            version,
            uid,
            exists: !deletes,
        });
    }

    /// A process receives the next event.
    fn watch(&mut self, process: usize) {
        let now = self.now;
        let process = &mut self.processes[process];
        let Some(event) = self.history.get(process.received).cloned() else {
            return;
        };
        process.received += 1;
        let object = event.object();
        process.store.set_complete_through(Some(event.version));
        let reads = process
            .store
            .shards()
            .is_some_and(|filter| filter.includes(key(event.name)));
        if !event.exists {
            keep(process, &object, now);
        }
        let change = match (reads, event.exists) {
            (false, _) => return,
            (true, true) => match process.store.add(object.clone()) {
                Some(old) => ChangeKind::Update { old, new: object },
                None => ChangeKind::Add(object),
            },
            (true, false) => {
                process.store.delete(key(event.name));
                deleted(object)
            }
        };
        push(process, vec![(change, Reason::Watch)], now);
    }

    /// A process lists the shards that it holds, as the informer loop does with a candidate.
    fn list(&mut self, number: usize) {
        let asked = self.processes[number].asked.take();
        let (now, held) = (self.now, asked.unwrap_or_else(|| self.held(number)));
        // Until then its watch has received everything.
        while self.processes[number].received < self.history.len() {
            self.watch(number);
        }
        let process = &mut self.processes[number];
        let before = process.store.shards().expect("it is divided");
        process.store.set_shards(Some(filter(held)));
        let mut kept = process.kept.of(PODS);
        kept.retain(|delete| !before.includes(delete.key.as_ref()));
        process.listener.feed().push_kept_deletes(PODS, kept, now);
        let mut changes = Vec::new();
        for name in NAMES {
            let newest = self.history.iter().rfind(|event| event.name == name);
            let newest = newest.filter(|event| event.exists).map(Event::object);
            let stored = process.store.get_by_key(key(name)).is_some();
            match (stored, filter(held).includes(key(name)), newest) {
                (true, false, _) => {
                    process.store.delete(key(name));
                    let key = Key::new("default", name);
                    changes.push((ChangeKind::Forget { key }, Reason::Reconfigured));
                }
                (false, true, Some(object)) => {
                    process.store.add(object.clone());
                    changes.push((ChangeKind::Add(object), Reason::Takeover));
                }
                _ => {}
            }
        }
        push(process, changes, now);
        let snapshot = process.store.publish();
        process.listener.feed().shards_listed(PODS, &snapshot, now);
    }

    fn take(&mut self, process: usize) -> NextDelivery {
        let next = self.processes[process].listener.consumer().next(self.now);
        if let NextDelivery::Deliver(delivery) = &next {
            self.handed_out(process, delivery);
            self.processes[process].in_flight.push(delivery.clone());
        }
        next
    }

    fn handed_out(&mut self, process: usize, delivery: &Delivery) {
        let (Some(name), Some((object, exists))) = (name_of(delivery), subject(delivery)) else {
            return;
        };
        let line = shown(delivery);
        assert_eq!(
            self.holders[usize::from(shard_of(name))],
            process,
            "{line}: by another process"
        );
        let is_of_history = |event: &Event| event.uid == object.uid() && (event.exists || !exists);
        assert!(self.history.iter().any(is_of_history), "{line}: it never was like that");
        let is_deleted = |event: &Event| event.uid == object.uid() && !event.exists;
        assert!(exists || self.history.iter().any(is_deleted), "{line}: it exists");
        if exists {
            self.known.insert(object.uid().to_owned(), name);
        }
    }

    fn answer(&mut self, process: usize, delivery: &Delivery, is_ok: bool) {
        let outcome = match is_ok {
            true => DeliveryOutcome::Ok,
            false => retryable(),
        };
        let consumer = self.processes[process].listener.consumer().clone();
        consumer.done(delivery.token, outcome, self.now);
        let (Some(name), Some((object, exists)), true) = (name_of(delivery), subject(delivery), is_ok) else {
            return;
        };
        if !exists {
            self.known.remove(object.uid());
        }
        self.accepted
            .insert(name, (number(object), object.uid().to_owned(), exists));
    }

    /// What the Leases say of the shards of a process.
    fn publish(&mut self, process: usize) {
        for shard in self.held(process).iter() {
            let ledger = self.processes[process].listener.ledger();
            self.watermarks[usize::from(shard)] = ledger.shard_watermark(PODS, shard);
        }
    }

    fn move_shard(&mut self, shard: u8, in_order: bool) {
        let (from, at) = (self.holders[usize::from(shard)], usize::from(shard));
        let listener = self.processes[from].listener.clone();
        listener.control().lose_shards([shard].into_iter().collect());
        let is_of_shard = |delivery: &Delivery| name_of(delivery).is_some_and(|name| shard_of(name) == shard);
        let in_flight = std::mem::take(&mut self.processes[from].in_flight);
        let (ending, others): (Vec<_>, Vec<_>) = in_flight.into_iter().partition(is_of_shard);
        self.processes[from].in_flight = others;
        for delivery in ending {
            match in_order {
                true => self.answer(from, &delivery, delivery.attempt % 2 == 0),
                false => listener.consumer().interrupted(delivery.token, self.now),
            }
        }
        assert_eq!(listener.ledger().in_flight_elsewhere(), 0);
        if in_order {
            self.watermarks[at] = listener.ledger().shard_watermark(PODS, shard);
        }
        self.holders[at] = 1 - from;
        let takeover = Takeover {
            // It does not say what this process is going to deliver.
            watermark: self.watermarks[at].take(),
            all_objects: self.all_objects,
        };
        let gained = GainedShard {
            shard,
            takeovers: vec![(PODS, takeover)],
        };
        let to = &self.processes[1 - from];
        to.listener.control().gain_shard(&gained, &to.kept, self.now);
    }

    /// Invariants at any time.
    fn check(&self) {
        for process in &self.processes {
            process.listener.check();
        }
        for shard in 0..2 {
            let holder = &self.processes[self.holders[usize::from(shard)]];
            if let Some(watermark) = holder.listener.ledger().shard_watermark(PODS, shard) {
                self.check_watermark(shard, watermark);
            }
            if let Some(watermark) = self.watermarks[usize::from(shard)] {
                self.check_watermark(shard, watermark);
            }
        }
    }

    /// The handler accepted the newest state of each key, unless that is newer; and the delete of each incarnation that
    /// it knows.
    fn check_watermark(&self, shard: u8, watermark: u64) {
        for name in NAMES.into_iter().filter(|name| shard_of(name) == shard) {
            let newest = self.history.iter().rfind(|event| event.name == name);
            let newest = newest.filter(|event| event.exists && event.version <= watermark);
            let accepted = self.accepted.get(name);
            let is_accepted =
                newest.is_none_or(|newest| accepted.is_some_and(|(version, ..)| *version >= newest.version));
            assert!(
                is_accepted,
                "{newest:?} is not accepted up to {watermark}: {accepted:?}"
            );
        }
        let covered = self
            .history
            .iter()
            .filter(|event| !event.exists && event.version <= watermark);
        for event in covered.filter(|event| shard_of(event.name) == shard) {
            let is_open = self.known.contains_key(&event.uid);
            assert!(!is_open, "{event:?} is not accepted up to {watermark}");
        }
    }

    /// Nothing fails any more, and each process has listed what it holds.
    fn run_until_idle(&mut self) {
        for process in 0..2 {
            self.processes[process].asked = None;
            self.apply(&Op::List(process));
            for _ in 0..10_000 {
                while let Some(delivery) = self.processes[process].in_flight.pop() {
                    self.answer(process, &delivery, true);
                    self.check();
                }
                match self.take(process) {
                    NextDelivery::Deliver(_) => {}
                    NextDelivery::WaitUntil(until) => self.now = self.now.max(until),
                    NextDelivery::Idle => break,
                    NextDelivery::Closed => panic!("it was not closed"),
                }
            }
        }
        self.check_when_idle();
    }

    fn check_when_idle(&self) {
        for name in NAMES {
            let newest = self.history.iter().rfind(|event| event.name == name);
            let Some(newest) = newest.filter(|event| event.exists) else {
                continue;
            };
            let expected = (newest.version, newest.uid.clone(), true);
            assert_eq!(self.accepted.get(name), Some(&expected), "{name}: its last state");
        }
        let alive: BTreeSet<&str> = NAMES
            .into_iter()
            .filter_map(|name| self.history.iter().rfind(|event| event.name == name))
            .filter(|event| event.exists)
            .map(|event| event.uid.as_str())
            .collect();
        for (uid, name) in &self.known {
            assert!(alive.contains(uid.as_str()), "{name}: the delete of {uid} is lost");
        }
        for process in &self.processes {
            let stats = process.listener.control().stats();
            assert_eq!((stats.pending, stats.in_flight), (0, 0));
        }
    }
}

/// Keeps a delete for the case that its shard is gained.
fn keep(process: &Process, last: &Object, received: Moment) {
    process.kept.add(PODS, || KeptDelete {
        key: last.key().to_key(),
        last: Some(last.clone()),
        final_state_unknown: false,
        gone_by: Some(number(last)),
        received,
    });
}

fn push(process: &mut Process, changes: Vec<(ChangeKind, Reason)>, received: Moment) {
    let snapshot = process.store.publish();
    let changes = changes
        .into_iter()
        .map(|(kind, reason)| ObjectChange { kind, reason, received });
    let changes: Vec<_> = changes.collect();
    if !changes.is_empty() {
        process.listener.feed().push(PODS, &snapshot, &changes);
    }
}

fn deleted(last: Object) -> ChangeKind {
    ChangeKind::Delete {
        key: last.key().to_key(),
        last: Some(last),
        final_state_unknown: false,
    }
}

fn run(options: &ListenerOptions, all_objects: bool, ops: &[Op]) {
    let mut world = World::new(options, all_objects);
    for op in ops {
        world.apply(op);
    }
    world.run_until_idle();
    for shard in 0..2 {
        world.apply(&Op::Move(shard, true));
    }
    world.run_until_idle();
}

#[test]
fn names_are_in_both_shards() {
    let shards: BTreeSet<u8> = NAMES.into_iter().map(shard_of).collect();
    assert_eq!(shards.len(), 2);
}

proptest! {
    #[test]
    fn moves_lose_no_delete_and_no_last_state(ops in vec(any_op(), 0..120), all_objects: bool) {
        run(&options(), all_objects, &ops);
    }

    #[test]
    fn moves_lose_nothing_with_low_limits(ops in vec(any_op(), 0..120), all_objects: bool) {
        run(&super::few(), all_objects, &ops);
    }

    #[test]
    fn moves_lose_nothing_with_an_interval_and_resync(ops in vec(any_op(), 0..120), all_objects: bool) {
        run(&ListenerOptions { min_interval: Some(seconds(3)), ..options() }, all_objects, &ops);
    }
}
