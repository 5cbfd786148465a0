//! The listener and its oracle receive the same random schedules, and are compared after each step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant_object::{Key, KeyRef, Object, SourceId};

use crate::{Moment, Reason, ResourceIdentity, Snapshot, StoreWriter, testing};

/// Pseudo-random numbers (xorshift64*).
#[derive(Clone)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize].clone()
    }
}

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn state(namespace: &str, name: &str, uid: &str, version: u64, padding: usize) -> Object {
    let padding = "x".repeat(padding);
    testing::object(&format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},"spec":"{padding}"}}"#
    ))
}

#[derive(Clone, Debug)]
enum Kind {
    Add(Object),
    Update(Object, Object),
    Delete(Option<Object>, Key, bool),
}

#[derive(Clone, Debug)]
enum Outcome {
    Ok,
    Filtered,
    Retryable,
    RetryAfter(u64),
    Permanent,
    Trapped,
    TimedOut,
    RequeueAfter(u64),
}

#[derive(Clone, Debug)]
struct Gone {
    key: Key,
    last: Option<Object>,
    unknown: bool,
}

#[derive(Clone, Debug, Default)]
struct Resume {
    deletes: Vec<Gone>,
    accepted: Option<Vec<Object>>,
    letters: Vec<(Key, bool, Option<Object>)>,
    requeues: Vec<(Key, u64, bool, Option<Option<Object>>)>,
}

/// Which objects a selection contains, by a bit of the version.
#[derive(Clone, Copy, Debug)]
struct Selection {
    before: u64,
    ever: u64,
    now: u64,
}

impl Selection {
    fn has(bits: u64, object: &Object) -> bool {
        object
            .version()
            .number()
            .is_some_and(|version| bits & (1 << (version % 4)) != 0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Options {
    pending: usize,
    bytes: usize,
    resync: Option<u64>,
    interval: Option<u64>,
    rate: Option<u32>,
    attempts: u32,
    retries_per_second: usize,
    retried_deletes: usize,
    requeued_deletes: usize,
    letters: usize,
    skip: bool,
}

/// What both sides do.
#[derive(Clone, Debug)]
enum Act {
    Attach(SourceId, Snapshot),
    AttachResumed(SourceId, Snapshot, Resume),
    Vanished(SourceId, Vec<Gone>),
    Push(SourceId, Snapshot, Vec<(Kind, Reason)>),
    Detach(SourceId),
    Transfer(Vec<SourceId>, SourceId, bool, Snapshot, Vec<(Kind, Reason)>),
    TransferPending(Vec<SourceId>, SourceId),
    Take(u64, usize),
    Answer(u64, Outcome),
    GiveBack(u64),
    Replay,
    Recover(u8),
    ReplayLane(u8),
    Lanes(u8),
    Reselect(Vec<SourceId>, Selection, Option<u8>),
    Requeue(SourceId, Key),
    Trigger(SourceId, Vec<Key>),
    RetryNow,
    EndSlowDowns,
    EndIntervals,
    Pause(u8),
    Resume(u8),
    Gate(SourceId),
    Begin(SourceId),
    Ungate(SourceId),
    SetOptions(Options),
    Close,
    EndRetries,
    Abandon,
    Record(SourceId),
}

/// The state of one schedule that both sides share.
#[derive(Clone)]
struct Shared {
    now: Moment,
    lanes: u8,
    sources: Vec<SourceId>,
    keys: Vec<Key>,
}

fn object_text(object: &Object) -> String {
    format!("{}@{}#{}", object.uid(), object.version(), object.size_bytes())
}

macro_rules! side {
    ($name:ident, $of:ident) => {
        mod $name {
            use super::*;
            use crate::$of as l;

            pub(super) struct Side {
                listener: l::ListenerHandle,
                in_flight: Vec<l::DeliveryToken>,
                seen: BTreeMap<SourceId, u64>,
                lanes: u8,
            }

            #[derive(Debug)]
            struct Selects(Selection);

            impl l::ChangedSelection for Selects {
                fn selects(&self, object: &Object) -> l::Selected {
                    l::Selected {
                        before: Selection::has(self.0.before, object),
                        ever: Selection::has(self.0.ever, object),
                        now: Selection::has(self.0.now, object),
                    }
                }
            }

            fn options(o: Options) -> l::ListenerOptions {
                l::ListenerOptions {
                    pending_events_max: o.pending,
                    pending_bytes_max: o.bytes,
                    resync: o.resync.map(Duration::from_secs),
                    min_interval: o.interval.map(Duration::from_secs),
                    calls_per_second_max: o.rate,
                    retry: l::RetryOptions {
                        attempts: o.attempts,
                        ..l::RetryOptions::default()
                    },
                    retries_per_second_max: o.retries_per_second,
                    retried_deletes_max: o.retried_deletes,
                    requeued_deletes_max: o.requeued_deletes,
                    dead_letters_max: o.letters,
                    on_failure: if o.skip {
                        l::FailurePolicy::Skip
                    } else {
                        l::FailurePolicy::Retry
                    },
                    seed: 7,
                }
            }

            fn changes(of: &[(Kind, Reason)], now: Moment) -> Vec<l::ObjectChange> {
                of.iter()
                    .map(|(kind, reason)| l::ObjectChange {
                        kind: match kind.clone() {
                            Kind::Add(object) => l::ChangeKind::Add(object),
                            Kind::Update(old, new) => l::ChangeKind::Update { old, new },
                            Kind::Delete(last, key, final_state_unknown) => l::ChangeKind::Delete {
                                last,
                                key,
                                final_state_unknown,
                            },
                        },
                        reason: *reason,
                        received: now,
                    })
                    .collect()
            }

            fn vanished(of: &[Gone]) -> Vec<l::Vanished> {
                of.iter()
                    .map(|gone| l::Vanished {
                        key: gone.key.clone(),
                        last: gone.last.clone(),
                        final_state_unknown: gone.unknown,
                    })
                    .collect()
            }

            fn last_delete(last: &Option<Object>) -> l::LastDelete {
                l::LastDelete {
                    last: last.clone(),
                    final_state_unknown: true,
                }
            }

            fn resume(of: &Resume) -> l::ResumeState {
                l::ResumeState {
                    deletes: vanished(&of.deletes),
                    accepted: of.accepted.as_ref().map(|objects| {
                        let mut states = l::AcceptedStates::default();
                        for object in objects {
                            states.insert(object.key().to_key(), object.uid(), object.version().as_str());
                        }
                        Arc::new(states)
                    }),
                    dead_letters: of
                        .letters
                        .iter()
                        .map(|(key, is_delete, last)| l::DeadLetter {
                            source: SourceId(0),
                            key: key.clone(),
                            event: if *is_delete { "delete" } else { "update" },
                            resource_version: last
                                .as_ref()
                                .filter(|_| !is_delete)
                                .map(|it| it.version().to_string()),
                            reason: Reason::Watch,
                            error: String::new(),
                            result: "permanent",
                            attempts: 1,
                            received: Moment::ZERO,
                            given_up: Moment::ZERO,
                            age_before: Duration::ZERO,
                            delete: is_delete.then(|| last_delete(last)),
                        })
                        .collect(),
                    requeues: of
                        .requeues
                        .iter()
                        .map(|(key, millis, is_trigger, delete)| l::RequeueTimer {
                            key: key.clone(),
                            remaining: Duration::from_millis(*millis),
                            reason: if *is_trigger {
                                Reason::Trigger
                            } else {
                                Reason::RequeueAfter
                            },
                            delete: delete.as_ref().map(last_delete),
                        })
                        .collect(),
                }
            }

            fn pause(of: u8) -> l::Pause {
                [l::Pause::Swap, l::Pause::Quarantine, l::Pause::Operator][usize::from(of)]
            }

            fn shown(delivery: &l::Delivery) -> String {
                let event = match &delivery.notification {
                    l::Notification::Add(object) => format!("add {}", object_text(object)),
                    l::Notification::Update { old, new } => {
                        format!(
                            "update {:?} -> {}",
                            old.as_ref().map(object_text),
                            object_text(new)
                        )
                    }
                    l::Notification::Delete {
                        last,
                        key,
                        final_state_unknown,
                    } => format!(
                        "delete {key} {:?} {final_state_unknown}",
                        last.as_ref().map(object_text)
                    ),
                    l::Notification::Synced => "synced".to_owned(),
                };
                format!(
                    "{event} of {} lane {} {} try {} received {:?}{}{}",
                    delivery.source,
                    delivery.lane,
                    delivery.reason,
                    delivery.attempt,
                    delivery.received,
                    if delivery.exact_old { " exact" } else { "" },
                    if delivery.seen_unknown {
                        " seen-unknown"
                    } else {
                        ""
                    }
                )
            }

            impl Side {
                pub(super) fn new(o: Options) -> Side {
                    Side {
                        listener: l::ListenerHandle::new(options(o)),
                        in_flight: Vec::new(),
                        seen: BTreeMap::new(),
                        lanes: 1,
                    }
                }

                pub(super) fn in_flight(&self) -> usize {
                    self.in_flight.len()
                }

                pub(super) fn apply(&mut self, act: &Act, shared: &Shared) -> String {
                    let now = shared.now;
                    let (feed, consumer) = (self.listener.feed(), self.listener.consumer());
                    let (control, ledger) = (self.listener.control(), self.listener.ledger());
                    match act {
                        Act::Attach(source, snapshot) => feed.attach(*source, snapshot, now),
                        Act::AttachResumed(source, snapshot, state) => {
                            feed.attach_resumed(*source, snapshot, resume(state), now);
                        }
                        Act::Vanished(source, gone) => feed.push_vanished(*source, vanished(gone), now),
                        Act::Push(source, snapshot, of) => feed.push(*source, snapshot, &changes(of, now)),
                        Act::Detach(source) => feed.detach(*source),
                        Act::Transfer(olds, new, whole, snapshot, of) => {
                            let scope = |key: KeyRef<'_>| *whole || key.name < "c";
                            feed.transfer(olds, *new, &scope, snapshot, &changes(of, now), now);
                        }
                        Act::TransferPending(olds, new) => feed.transfer_pending(olds, *new, &|_| true),
                        Act::Take(lanes, max) => {
                            let mut set = l::LaneSet::default();
                            (0..self.lanes)
                                .filter(|lane| lanes & (1 << lane) != 0)
                                .for_each(|lane| set.insert(lane));
                            let mut taken = Vec::new();
                            let next = consumer.next_batch(set, now, *max, &mut taken);
                            let lines: Vec<_> = taken.iter().map(shown).collect();
                            self.in_flight.extend(taken.iter().map(|delivery| delivery.token));
                            return format!("{next:?} {}", lines.join("; "));
                        }
                        Act::Answer(at, outcome) => {
                            let error = "no luck".to_owned();
                            let outcome = match outcome {
                                Outcome::Ok => l::DeliveryOutcome::Ok,
                                Outcome::Filtered => l::DeliveryOutcome::Filtered,
                                Outcome::Retryable => l::DeliveryOutcome::Retryable(error),
                                Outcome::RetryAfter(wait) => {
                                    l::DeliveryOutcome::RetryAfter(error, Duration::from_millis(*wait))
                                }
                                Outcome::Permanent => l::DeliveryOutcome::Permanent(error),
                                Outcome::Trapped => l::DeliveryOutcome::Trapped(error),
                                Outcome::TimedOut => l::DeliveryOutcome::TimedOut(error),
                                Outcome::RequeueAfter(wait) => {
                                    l::DeliveryOutcome::RequeueAfter(Duration::from_millis(*wait))
                                }
                            };
                            if !self.in_flight.is_empty() {
                                let token = self.in_flight.remove(*at as usize % self.in_flight.len());
                                let dead = consumer.done_batch([(token, outcome)], now);
                                return format!("{dead} dead");
                            }
                        }
                        Act::GiveBack(at) => {
                            if !self.in_flight.is_empty() {
                                let token = self.in_flight.remove(*at as usize % self.in_flight.len());
                                consumer.give_back([token]);
                            }
                        }
                        Act::Replay => control.replay(now),
                        Act::Recover(lane) => consumer.recover(lane % self.lanes, now),
                        Act::ReplayLane(lane) => consumer.replay_lane(lane % self.lanes, now),
                        Act::Lanes(count) => {
                            let identity = |_| ResourceIdentity::new("", "", "pods");
                            consumer.set_lanes(*count, Arc::new(identity), now);
                            self.lanes = *count;
                        }
                        Act::Reselect(sources, selection, only) => {
                            let changed = |source: &SourceId| -> (SourceId, Arc<dyn l::ChangedSelection>) {
                                (*source, Arc::new(Selects(*selection)))
                            };
                            let only = only.map(|lane| lane % self.lanes);
                            control.reselect(sources.iter().map(changed).collect(), only, now);
                        }
                        Act::Requeue(source, key) => {
                            return format!("{:?}", control.requeue(*source, key.as_ref(), now));
                        }
                        Act::Trigger(source, keys) => return format!("{:?}", control.trigger(*source, keys, now)),
                        Act::RetryNow => control.retry_now(),
                        Act::EndSlowDowns => return format!("{}", control.end_slow_downs(now)),
                        Act::EndIntervals => control.end_intervals(),
                        Act::Pause(of) => control.pause(pause(*of)),
                        Act::Resume(of) => control.resume(pause(*of)),
                        Act::Gate(source) => ledger.gate_replays(*source, || {}),
                        Act::Begin(source) => ledger.begin_replay(*source),
                        Act::Ungate(source) => ledger.ungate_replays(*source),
                        Act::SetOptions(o) => control.set_options(options(*o), now),
                        Act::Close => control.close(),
                        Act::EndRetries => control.end_retries(),
                        Act::Abandon => {
                            self.in_flight.clear();
                            return format!("{}", control.abandon());
                        }
                        Act::Record(source) => ledger.record_requeues(*source),
                    }
                    String::new()
                }

                /// Everything that can be read, as text.
                pub(super) fn read(&mut self, shared: &Shared) -> String {
                    use std::fmt::Write as _;
                    let ledger = self.listener.ledger();
                    let mut text = format!("{:#?}\n", self.listener.control().stats());
                    let _ = writeln!(text, "{:?} {:?}", ledger.retried_keys(3), ledger.slowed_keys(2));
                    let _ = writeln!(
                        text,
                        "pending {} {}",
                        ledger.pending(),
                        self.listener.consumer().in_flight()
                    );
                    for letter in ledger.dead_letters() {
                        let last = letter
                            .delete
                            .as_ref()
                            .map(|delete| delete.last.as_ref().map(object_text));
                        let letter = l::DeadLetter {
                            delete: None,
                            ..letter
                        };
                        let _ = writeln!(text, "{letter:?} {last:?}");
                    }
                    for source in &shared.sources {
                        let feed = self.listener.feed();
                        let _ = writeln!(
                            text,
                            "{source}: {} {} {} {:?} {}",
                            feed.is_attached(*source),
                            feed.has_synced(*source),
                            feed.busy_keys(*source),
                            feed.retrying_keys(*source, 2),
                            feed.deliverable_keys(*source)
                        );
                        let _ = writeln!(text, "{:?}", ledger.are_open(*source, &shared.keys));
                        let mut keys = ledger.open_keys(*source, 4);
                        if let l::OpenKeys::Keys(keys) = &mut keys {
                            keys.sort();
                        }
                        let _ = writeln!(text, "{keys:?}");
                        if let Some(changes) = ledger.requeue_changes(*source, shared.now) {
                            let _ = writeln!(text, "{} {:?}", changes.is_complete, changes.removed);
                            for timer in changes.timers {
                                let last = timer
                                    .delete
                                    .as_ref()
                                    .map(|delete| delete.last.as_ref().map(object_text));
                                let _ = writeln!(
                                    text,
                                    "{} {:?} {} {last:?}",
                                    timer.key, timer.remaining, timer.reason
                                );
                            }
                        }
                        let seen = self.seen.get(source).copied();
                        if let Some(changes) = ledger.dead_letter_changes(*source, seen) {
                            let _ = writeln!(text, "{:?} {} added", changes.keys, changes.added.len());
                            self.seen.insert(*source, changes.seen);
                        }
                    }
                    text
                }
            }
        }
    };
}

side!(live, listener);
side!(oracle, listener_oracle);

/// One source of a schedule.
struct Source {
    id: SourceId,
    store: StoreWriter,
    /// Which half of the keys it holds: it was replaced for the others.
    whole: bool,
    is_attached: bool,
    is_gated: bool,
    namespace: &'static str,
}

struct Schedule {
    rng: Rng,
    options: Options,
    shared: Shared,
    sources: Vec<Source>,
    version: u64,
    next_source: u32,
    closed: bool,
}

fn any_options(rng: &mut Rng) -> Options {
    let few = rng.one_in(2);
    Options {
        pending: if few { 4 } else { 1_024 },
        bytes: if rng.one_in(3) { 1_500 } else { 1 << 26 },
        resync: rng.one_in(3).then_some(5),
        interval: rng.one_in(3).then_some(3),
        rate: rng.one_in(6).then_some(2),
        attempts: if rng.one_in(2) { 3 } else { 0 },
        retries_per_second: if rng.one_in(3) { 1 } else { 10 },
        retried_deletes: if rng.one_in(4) { 0 } else { 10_000 },
        requeued_deletes: if rng.one_in(4) { 1 } else { 10_000 },
        letters: if few { 2 } else { 1_000 },
        skip: rng.one_in(6),
    }
}

impl Schedule {
    fn new(seed: u64) -> Schedule {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            rng.next();
        }
        let options = any_options(&mut rng);
        let keys = ["default", "other"]
            .iter()
            .flat_map(|namespace| NAMES.iter().map(|name| Key::new(namespace, name)));
        Schedule {
            options,
            shared: Shared {
                now: Moment::ZERO + Duration::from_secs(100),
                lanes: 1,
                sources: Vec::new(),
                keys: keys.collect(),
            },
            rng,
            sources: Vec::new(),
            version: 1,
            next_source: 1,
            closed: false,
        }
    }

    fn new_source(&mut self, namespace: &'static str) -> usize {
        let id = SourceId(self.next_source);
        self.next_source += 1;
        self.shared.sources.push(id);
        self.sources.push(Source {
            id,
            store: StoreWriter::new(),
            whole: true,
            is_attached: false,
            is_gated: false,
            namespace,
        });
        self.sources.len() - 1
    }

    fn new_state(&mut self, namespace: &str, name: &str, uid: Option<String>) -> Object {
        self.version += 1;
        let uid = uid.unwrap_or_else(|| format!("uid-{}", self.version));
        let padding = if self.rng.one_in(4) { 0 } else { 300 };
        state(namespace, name, &uid, self.version, padding)
    }

    fn reason(&mut self) -> Reason {
        self.rng.pick(&[
            Reason::Watch,
            Reason::Watch,
            Reason::Watch,
            Reason::Relist,
            Reason::Reconfigured,
            Reason::Restored,
        ])
    }

    fn attached(&mut self) -> Option<usize> {
        let attached: Vec<usize> = (0..self.sources.len())
            .filter(|at| self.sources[*at].is_attached)
            .collect();
        (!attached.is_empty()).then(|| self.rng.pick(&attached))
    }

    /// Writes to a store, and returns the changes.
    fn write(&mut self, at: usize, count: u64) -> Vec<(Kind, Reason)> {
        let mut changes = Vec::new();
        for _ in 0..count {
            let name = self.rng.pick(&NAMES);
            if !self.sources[at].whole && name < "c" {
                continue;
            }
            let namespace = self.sources[at].namespace;
            let key = KeyRef::new(namespace, name);
            let before = self.sources[at].store.get_by_key(key).cloned();
            let kind = match self.rng.below(10) {
                0..=5 => {
                    let uid = before.as_ref().map(|before| before.uid().to_owned());
                    let new = self.new_state(namespace, name, uid);
                    match self.sources[at].store.add(new.clone()) {
                        Some(old) => Kind::Update(old, new),
                        None => Kind::Add(new),
                    }
                }
                6 => {
                    let new = self.new_state(namespace, name, None);
                    match self.sources[at].store.add(new.clone()) {
                        Some(old) => Kind::Update(old, new),
                        None => Kind::Add(new),
                    }
                }
                _ => {
                    let Some(last) = self.sources[at].store.delete(key) else {
                        continue;
                    };
                    let is_known = !self.rng.one_in(12);
                    let final_state = match self.rng.one_in(3) {
                        true => self.new_state(namespace, name, Some(last.uid().to_owned())),
                        false => last,
                    };
                    Kind::Delete(is_known.then_some(final_state), key.to_key(), self.rng.one_in(2))
                }
            };
            let reason = self.reason();
            changes.push((kind, reason));
        }
        changes
    }

    fn push(&mut self, at: usize, changes: Vec<(Kind, Reason)>) -> Act {
        let snapshot = self.sources[at].store.publish();
        Act::Push(self.sources[at].id, snapshot, changes)
    }

    fn gone(&mut self, at: usize) -> Vec<Gone> {
        let namespace = self.sources[at].namespace;
        let mut names: Vec<&str> = (0..self.rng.below(3)).map(|_| self.rng.pick(&NAMES)).collect();
        // Those of one key follow each other.
        names.sort_unstable();
        let mut gone = Vec::new();
        for name in names {
            let key = Key::new(namespace, name);
            let known = !self.rng.one_in(5);
            let last = known.then(|| self.new_state(namespace, name, None));
            let unknown = self.rng.one_in(2);
            gone.push(Gone { key, last, unknown });
        }
        gone
    }

    fn next(&mut self) -> Vec<Act> {
        let roll = self.rng.below(100);
        let any = self.attached();
        let acts = match (roll, any) {
            (_, None) if roll < 40 => self.attach(),
            (0..=19, Some(at)) => {
                let count = 1 + self.rng.below(3);
                let changes = self.write(at, count);
                vec![self.push(at, changes)]
            }
            (20..=39, _) => vec![Act::Take(self.lanes(), 1 + self.rng.below(3) as usize)],
            (40..=62, _) => vec![self.answer()],
            (63, _) => vec![Act::GiveBack(self.rng.next())],
            (64..=69, _) => {
                self.shared.now += Duration::from_millis(self.rng.below(5_000));
                Vec::new()
            }
            (70, _) => vec![Act::Replay],
            (71, _) => vec![self.lane_act()],
            (72..=74, Some(at)) => self.reselect(at),
            (75 | 76, Some(at)) => {
                let key = Key::new(self.sources[at].namespace, self.rng.pick(&NAMES));
                vec![Act::Requeue(self.sources[at].id, key)]
            }
            (77 | 78, Some(at)) => {
                let namespace = self.sources[at].namespace;
                let keys = (0..3).map(|_| Key::new(namespace, self.rng.pick(&NAMES))).collect();
                vec![Act::Trigger(self.sources[at].id, keys)]
            }
            (79, _) => vec![self.rng.pick(&[Act::RetryNow, Act::EndSlowDowns])],
            (80, _) => vec![Act::Pause(self.rng.below(3) as u8)],
            (81..=83, _) => vec![Act::Resume(self.rng.below(3) as u8)],
            (84 | 85, _) => self.attach(),
            (86, Some(at)) => {
                self.sources[at].is_attached = false;
                vec![Act::Detach(self.sources[at].id)]
            }
            (87..=89, Some(at)) => self.transfer(at),
            (90, Some(at)) => self.transfer_pending(at),
            (91 | 92, Some(at)) => {
                let gone = self.gone(at);
                vec![Act::Vanished(self.sources[at].id, gone)]
            }
            (93..=95, Some(at)) => vec![self.gate(at)],
            (96, Some(at)) => vec![Act::Record(self.sources[at].id)],
            (97, _) if self.rng.one_in(2) => {
                self.options = any_options(&mut self.rng);
                vec![Act::SetOptions(self.options)]
            }
            (98, _) if self.rng.one_in(4) => {
                self.closed = true;
                vec![
                    self.rng.pick(&[Act::Close, Act::Close, Act::EndIntervals]),
                    Act::EndRetries,
                ]
            }
            (99, _) if self.rng.one_in(8) => vec![Act::Abandon],
            _ => vec![Act::Take(u64::MAX, 1)],
        };
        acts
    }

    fn lanes(&mut self) -> u64 {
        if self.rng.one_in(2) { u64::MAX } else { self.rng.next() }
    }

    fn lane_act(&mut self) -> Act {
        let lane = self.rng.below(5) as u8;
        match self.rng.below(3) {
            0 => Act::Recover(lane),
            1 => Act::ReplayLane(lane),
            _ => {
                // While no call is made: the runner gives back what is in flight.
                self.shared.lanes = 1 + self.rng.below(4) as u8;
                Act::Lanes(self.shared.lanes)
            }
        }
    }

    fn answer(&mut self) -> Act {
        let outcome = match self.rng.below(16) {
            0..=6 => Outcome::Ok,
            7 => Outcome::Filtered,
            8 | 9 => Outcome::Retryable,
            10 => Outcome::RetryAfter(self.rng.below(2_000)),
            11 => Outcome::Permanent,
            12 => Outcome::Trapped,
            13 => Outcome::TimedOut,
            _ => Outcome::RequeueAfter(self.rng.below(3_000)),
        };
        Act::Answer(self.rng.next(), outcome)
    }

    fn reselect(&mut self, at: usize) -> Vec<Act> {
        let selection = Selection {
            before: self.rng.below(16),
            ever: 0,
            now: self.rng.below(16),
        };
        let selection = Selection {
            ever: selection.before | self.rng.below(16),
            ..selection
        };
        let only = self.rng.one_in(4).then(|| self.rng.below(5) as u8);
        vec![Act::Reselect(vec![self.sources[at].id], selection, only)]
    }

    fn gate(&mut self, at: usize) -> Act {
        let id = self.sources[at].id;
        let is_gated = self.sources[at].is_gated;
        match self.rng.below(if is_gated { 4 } else { 1 }) {
            0 if !is_gated => {
                self.sources[at].is_gated = true;
                Act::Gate(id)
            }
            1 => {
                self.sources[at].is_gated = false;
                Act::Ungate(id)
            }
            _ => Act::Begin(id),
        }
    }

    fn attach(&mut self) -> Vec<Act> {
        if self.sources.iter().filter(|source| source.is_attached).count() >= 3 {
            return Vec::new();
        }
        let namespace = self.rng.pick(&["default", "other"]);
        let at = self.new_source(namespace);
        let count = self.rng.below(6);
        self.write(at, count);
        self.sources[at].is_attached = !self.closed;
        let snapshot = self.sources[at].store.publish();
        let id = self.sources[at].id;
        if !self.rng.one_in(3) {
            return vec![Act::Attach(id, snapshot)];
        }
        let deletes = self.gone(at);
        let objects: Vec<Object> = snapshot.iter().cloned().collect();
        let accepted = (!self.rng.one_in(3)).then(|| {
            objects
                .iter()
                .filter(|_| self.rng.one_in(2))
                .cloned()
                .collect::<Vec<Object>>()
        });
        let mut resume = Resume {
            deletes,
            accepted,
            ..Resume::default()
        };
        for name in NAMES {
            let key = Key::new(namespace, name);
            let present = snapshot.get(key.as_ref()).cloned();
            if self.rng.one_in(6) {
                resume.letters.push((key.clone(), present.is_none(), present.clone()));
            }
            if self.rng.one_in(6) {
                let delete = present.is_none().then(|| Some(self.new_state(namespace, name, None)));
                resume
                    .requeues
                    .push((key, self.rng.below(3_000), self.rng.one_in(3), delete));
            }
        }
        vec![Act::AttachResumed(id, snapshot, resume)]
    }

    /// Another source for the same objects: all of them, or the first names.
    fn transfer(&mut self, at: usize) -> Vec<Act> {
        if self.closed || !self.sources[at].whole {
            return Vec::new();
        }
        let whole = self.rng.one_in(2);
        let new = self.new_source(self.sources[at].namespace);
        let mut changes = Vec::new();
        let before: Vec<Object> = self.sources[at].store.publish().iter().cloned().collect();
        for object in before {
            if !whole && object.name() >= "c" {
                continue;
            }
            let (namespace, name) = (self.sources[new].namespace, object.name().to_owned());
            let reason = self.reason();
            match self.rng.below(4) {
                0 => {
                    let next = self.new_state(namespace, &name, Some(object.uid().to_owned()));
                    self.sources[new].store.add(next.clone());
                    changes.push((Kind::Update(object, next), reason));
                }
                1 => changes.push((Kind::Delete(Some(object.clone()), object.key().to_key(), true), reason)),
                _ => drop(self.sources[new].store.add(object)),
            }
        }
        let snapshot = self.sources[new].store.publish();
        self.sources[new].is_attached = true;
        self.sources[new].whole = whole;
        let (old, new) = (self.sources[at].id, self.sources[new].id);
        let mut acts = vec![Act::Transfer(vec![old], new, whole, snapshot, changes)];
        // What only the old one holds is deleted.
        let mut deletes = Vec::new();
        let left: Vec<Object> = self.sources[at].store.publish().iter().cloned().collect();
        for object in left {
            self.sources[at].store.delete(object.key());
            if !whole && object.name() >= "c" {
                deletes.push((
                    Kind::Delete(Some(object.clone()), object.key().to_key(), true),
                    Reason::Reconfigured,
                ));
            }
        }
        let drained = self.push(at, deletes);
        acts.push(drained);
        self.sources[at].is_attached = false;
        if self.rng.one_in(2) {
            acts.push(Act::Detach(old));
        }
        acts
    }

    /// A drained source is replaced by another one.
    fn transfer_pending(&mut self, at: usize) -> Vec<Act> {
        if self.closed {
            return Vec::new();
        }
        let mut deletes = Vec::new();
        let left: Vec<Object> = self.sources[at].store.publish().iter().cloned().collect();
        for object in left {
            self.sources[at].store.delete(object.key());
            deletes.push((
                Kind::Delete(Some(object.clone()), object.key().to_key(), true),
                Reason::Reconfigured,
            ));
        }
        let drained = self.push(at, deletes);
        let new = self.new_source(self.sources[at].namespace);
        let count = self.rng.below(5);
        self.write(new, count);
        let snapshot = self.sources[new].store.publish();
        self.sources[at].is_attached = false;
        self.sources[new].is_attached = true;
        let (old, new) = (self.sources[at].id, self.sources[new].id);
        vec![
            drained,
            Act::TransferPending(vec![old], new),
            Act::Attach(new, snapshot),
        ]
    }
}

/// The whole schedule: what is done, and when.
fn schedule(seed: u64, steps: usize) -> (Options, Vec<(Act, Shared)>) {
    let mut schedule = Schedule::new(seed);
    let options = schedule.options;
    let mut acts = Vec::new();
    for _ in 0..steps {
        for act in schedule.next() {
            acts.push((act, schedule.shared.clone()));
        }
    }
    // Everything that is left is accepted.
    for pause in 0..3 {
        acts.push((Act::Resume(pause), schedule.shared.clone()));
    }
    for _ in 0..12 {
        schedule.shared.now += Duration::from_secs(2);
        for _ in 0..6 {
            acts.push((Act::Take(u64::MAX, 3), schedule.shared.clone()));
            acts.push((Act::Answer(0, Outcome::Ok), schedule.shared.clone()));
            acts.push((Act::Answer(0, Outcome::Ok), schedule.shared.clone()));
        }
    }
    (options, acts)
}

pub static BOTH: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

fn caught(act: impl FnOnce() -> String) -> String {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or_else(|_| "panic".to_owned())
}

/// Whether both deliver the same. WANTED DIFFERENCE 8: the oracle marks some adds whose folded states were never
/// delivered.
fn agree(live: &str, oracle: &str) -> bool {
    let (live, oracle): (Vec<_>, Vec<_>) = (live.split("; ").collect(), oracle.split("; ").collect());
    let is_same = |(live, oracle): (&&str, &&str)| {
        live == oracle || live.contains("add ") && oracle.strip_suffix(" seen-unknown") == Some(*live)
    };
    live.len() == oracle.len() && live.iter().zip(&oracle).all(is_same)
}

/// The first difference, with what led to it.
fn difference(options: Options, acts: &[(Act, Shared)], read_every: usize) -> Option<(usize, String)> {
    let (mut live, mut oracle) = (live::Side::new(options), oracle::Side::new(options));
    for (at, (act, shared)) in acts.iter().enumerate() {
        if matches!(act, Act::Lanes(_)) {
            while live.in_flight() > 0 {
                live.apply(&Act::GiveBack(0), shared);
                oracle.apply(&Act::GiveBack(0), shared);
            }
        }
        let (this, that) = (caught(|| live.apply(act, shared)), caught(|| oracle.apply(act, shared)));
        if this == "panic" && that == "panic" {
            BOTH.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            return std::env::var("PANICS").is_ok().then(|| (at, "both panic".to_owned()));
        }
        if !agree(&this, &that) {
            let (a, b) = (live.read(shared), oracle.read(shared));
            let lines: Vec<_> = a
                .lines()
                .zip(b.lines())
                .filter(|(a, b)| a != b)
                .map(|(a, b)| format!("  live {a}\n  orac {b}"))
                .collect();
            return Some((at, format!("live:   {this}\noracle: {that}\n{}\n{a}", lines.join("\n"))));
        }
        if (at + 1) % read_every == 0 || at + 1 == acts.len() {
            let (this, that) = (live.read(shared), oracle.read(shared));
            if this != that {
                let lines = this.lines().zip(that.lines()).filter(|(this, that)| this != that);
                let lines: Vec<_> = lines
                    .map(|(this, that)| format!("live:   {this}\noracle: {that}"))
                    .collect();
                return Some((at, lines.join("\n")));
            }
        }
    }
    None
}

/// Leaves out what the difference does not need.
fn shrunk(options: Options, mut acts: Vec<(Act, Shared)>) -> (Vec<(Act, Shared)>, String) {
    let (last, mut text) = difference(options, &acts, 1).expect("they differ");
    acts.truncate(last + 1);
    let mut size = acts.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < acts.len() {
            // What writes stays, so that changes follow each other.
            let mut fewer = acts.clone();
            let to = (from + size).min(acts.len());
            let writes = |act: &Act| {
                matches!(
                    act,
                    Act::Push(..)
                        | Act::Attach(..)
                        | Act::AttachResumed(..)
                        | Act::Transfer(..)
                        | Act::TransferPending(..)
                        | Act::Detach(_)
                )
            };
            let kept: Vec<_> = fewer.drain(from..to).filter(|(act, _)| writes(act)).collect();
            if kept.len() == to - from {
                from += size;
                continue;
            }
            fewer.splice(from..from, kept);
            match difference(options, &fewer, 1) {
                Some((last, other)) => {
                    fewer.truncate(last + 1);
                    (acts, text) = (fewer, other);
                }
                None => from += size,
            }
        }
        size /= 2;
    }
    (acts, text)
}

fn described(act: &Act) -> String {
    let kind = |(kind, reason): &(Kind, Reason)| match kind {
        Kind::Add(object) => format!("add {} {} {reason}", object.key(), object_text(object)),
        Kind::Update(old, new) => format!(
            "update {} {} -> {} {reason}",
            new.key(),
            object_text(old),
            object_text(new)
        ),
        Kind::Delete(last, key, unknown) => {
            format!("delete {key} {:?} {unknown} {reason}", last.as_ref().map(object_text))
        }
    };
    let all = |snapshot: &Snapshot| {
        let objects = snapshot
            .iter()
            .map(|object| format!("{} {}", object.key(), object_text(object)));
        objects.collect::<Vec<_>>().join(", ")
    };
    let changes = |of: &[(Kind, Reason)]| of.iter().map(kind).collect::<Vec<_>>().join(", ");
    let gone = |of: &[Gone]| {
        let one = |gone: &Gone| format!("{} {:?}", gone.key, gone.last.as_ref().map(object_text));
        of.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    match act {
        Act::Attach(source, snapshot) => format!("attach {source}: {}", all(snapshot)),
        Act::AttachResumed(source, snapshot, resume) => format!(
            "attach resumed {source}: {}; gone {}; accepted {:?}; letters {:?}; requeues {:?}",
            all(snapshot),
            gone(&resume.deletes),
            resume
                .accepted
                .as_ref()
                .map(|of| of.iter().map(object_text).collect::<Vec<_>>()),
            resume
                .letters
                .iter()
                .map(|(key, ..)| key.to_string())
                .collect::<Vec<_>>(),
            resume
                .requeues
                .iter()
                .map(|(key, millis, ..)| format!("{key} {millis}"))
                .collect::<Vec<_>>()
        ),
        Act::Vanished(source, of) => format!("vanished {source}: {}", gone(of)),
        Act::Push(source, _, of) => format!("push {source}: {}", changes(of)),
        Act::Transfer(olds, new, whole, snapshot, of) => {
            format!(
                "transfer {olds:?} to {new} whole {whole}: {}; {}",
                all(snapshot),
                changes(of)
            )
        }
        other => format!("{other:?}"),
    }
}

fn compare(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let steps = 10 + (seed % 7) as usize * 15;
        let (options, acts) = schedule(seed, steps);
        if difference(options, &acts, 5).is_some() {
            let (acts, text) = shrunk(options, acts);
            eprintln!("FINAL");
            let _ = difference(options, &acts, 1);
            let mut live = live::Side::new(options);
            let mut result = |act: &Act, shared: &Shared| caught(|| live.apply(act, shared));
            let lines = acts
                .iter()
                .map(|(act, shared)| format!("{:?} {}\n    {}", shared.now, described(act), result(act, shared)));
            let lines: Vec<_> = lines.collect();
            panic!("seed {seed} {options:?}:\n{}\n{text}", lines.join("\n"));
        }
    }
}

/// `DIFFERENTIAL=FIRST..LAST` runs other schedules.
#[test]
fn same_schedules_give_the_same_deliveries_and_ledger() {
    let range = std::env::var("DIFFERENTIAL").unwrap_or_else(|_| "0..300".to_owned());
    let (first, last) = range.split_once("..").expect("FIRST..LAST");
    compare(first.parse().unwrap()..last.parse().unwrap());
}
