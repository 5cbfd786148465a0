//! The witness: observes what the loop writes and what the consumer receives, and checks the rules.

use std::collections::{BTreeMap, BTreeSet};

use crate::Snapshot;
use crate::listener::tests::*;

#[derive(Default)]
pub(super) struct Witness {
    sources: BTreeMap<SourceId, Seen>,
    step: u64,
}

#[derive(Default)]
struct Seen {
    keys: BTreeMap<String, KeySeen>,
    /// Keys that have to be attempted before `Synced`, and when the cursor for them began.
    to_attempt: BTreeSet<String>,
    begun: u64,
    gone: bool,
}

#[derive(Default)]
struct KeySeen {
    /// Versions and uids of the states it ever had.
    states: BTreeSet<(u64, String)>,
    /// What was written, as the handler would receive it without folding.
    written: Vec<String>,
    received: Vec<String>,
    /// When the delivery in flight was delivered.
    in_flight: Option<u64>,
    /// The last state the handler received, in flight included: version, uid, and whether it exists.
    last: Option<(u64, String, bool)>,
    /// The handler was not called for the incarnation in `last`: it needs no delete of it.
    is_unknown: bool,
    /// The same before the last delivery.
    last_before: Option<(u64, String, bool)>,
    /// The last ended delivery will be retried.
    retried: bool,
    /// The last state whose delivery ended, and whether it succeeded.
    ended: Option<(u64, bool)>,
}

/// Version, uid, and whether the object exists.
fn state_of(notification: &Notification) -> Option<(u64, String, bool)> {
    let (object, there) = match notification {
        Notification::Add(object) | Notification::Update { new: object, .. } => (object, true),
        Notification::Delete { last, .. } => (last.as_ref()?, false),
        Notification::Synced | Notification::Tick(_) => return None,
    };
    Some((number(object), object.uid().to_owned(), there))
}

/// Whether it is a delete that the handler accepted before, and asked for again. Meanwhile a new incarnation may have
/// been filtered, of which the handler knows nothing.
fn repeats_a_delete(delivery: &Delivery) -> bool {
    let is_delete = matches!(delivery.notification, Notification::Delete { .. });
    is_delete && delivery.reason == Reason::RequeueAfter
}

fn number(object: &Object) -> u64 {
    object.version().number().expect("versions are numbers here")
}

impl Witness {
    pub(super) fn attached(&mut self, source: SourceId, snapshot: &Snapshot) {
        self.sources.insert(source, Seen::default());
        for object in snapshot.iter() {
            let key = self.key(source, object.name());
            key.states.insert((number(object), object.uid().to_owned()));
            key.written.push(format!("add {}", object.version()));
        }
        self.replay_started(source, snapshot);
    }

    /// An initial list or replay starts.
    pub(super) fn replay_started(&mut self, source: SourceId, snapshot: &Snapshot) {
        self.step += 1;
        let seen = self.sources.get_mut(&source).expect("attached");
        seen.begun = self.step;
        seen.to_attempt = snapshot.iter().map(|object| object.name().to_owned()).collect();
    }

    pub(super) fn detached(&mut self, source: SourceId) {
        self.sources.get_mut(&source).expect("attached").gone = true;
    }

    fn key(&mut self, source: SourceId, name: &str) -> &mut KeySeen {
        self.sources
            .entry(source)
            .or_default()
            .keys
            .entry(name.to_owned())
            .or_default()
    }

    pub(super) fn stored(&mut self, source: SourceId, changes: &[ObjectChange]) {
        for change in changes {
            let name = change.key().name.to_owned();
            let deleted = |key: &mut KeySeen, last: &Object| key.written.push(format!("delete {}", last.version()));
            let key = self.key(source, &name);
            match &change.kind {
                ChangeKind::Add(new) => key.written.push(format!("add {}", new.version())),
                ChangeKind::Update { old, new } if old.uid() == new.uid() => {
                    key.written.push(format!("update {}->{}", old.version(), new.version()));
                }
                ChangeKind::Update { old, new } => {
                    deleted(key, old);
                    key.written.push(format!("add {}", new.version()));
                }
                ChangeKind::Delete { last, .. } => deleted(key, last.as_ref().unwrap()),
                ChangeKind::Forget { .. } => {}
            }
            if let ChangeKind::Add(new) | ChangeKind::Update { new, .. } = &change.kind {
                key.states.insert((number(new), new.uid().to_owned()));
            }
            let stays = match &change.kind {
                ChangeKind::Add(_) => true,
                ChangeKind::Update { old, new } => old.uid() == new.uid(),
                ChangeKind::Delete { .. } | ChangeKind::Forget { .. } => false,
            };
            if !stays {
                self.sources
                    .get_mut(&source)
                    .expect("attached")
                    .to_attempt
                    .remove(&name);
            }
        }
    }

    pub(super) fn handed_out(&mut self, delivery: &Delivery) {
        self.step += 1;
        let step = self.step;
        let seen = self.sources.get_mut(&delivery.source).expect("attached");
        let line = shown(delivery);
        assert!(!seen.gone, "{line}: its source was detached");
        let Some(key) = delivery.key() else {
            assert!(
                seen.to_attempt.is_empty(),
                "{line} before {:?} were attempted",
                seen.to_attempt
            );
            return;
        };
        let key = seen.keys.get_mut(key.name).expect("no invention");
        assert!(
            key.in_flight.replace(step).is_none(),
            "two deliveries of one key: {line}"
        );
        let (version, uid, there) = state_of(&delivery.notification).expect("the last state is always known here");
        assert!(
            key.states.contains(&(version, uid.clone())),
            "{line}: it never was like that"
        );
        if repeats_a_delete(delivery) {
            key.received.push(line);
            return;
        }
        if let Some((last_version, last_uid, last_there)) = &key.last {
            assert!(version >= *last_version, "{line}: after version {last_version}");
            assert!(
                *last_uid == uid || !last_there || key.is_unknown,
                "{line}: {last_uid} was not deleted before {uid}"
            );
            // The delete of an object created and deleted during a replay may be delivered, although its add never was.
            let again = key.retried || delivery.reason == Reason::Requeue || *last_uid != uid;
            assert!(there || *last_there || again, "{line}: deleted twice");
        }
        if let Notification::Update { old, new } = &delivery.notification {
            assert!(
                old.as_ref().is_none_or(|old| old.uid() == new.uid()),
                "{line}: two incarnations"
            );
            if let (Some(old), false) = (old, delivery.reason == Reason::Resync) {
                assert_eq!(
                    Some(number(old)),
                    key.ended.map(|(version, _)| version),
                    "{line}: old is the state of the last ended delivery"
                );
            }
        }
        if delivery.exact_old {
            let Notification::Update { old: Some(old), .. } = &delivery.notification else {
                panic!("{line}: exact_old")
            };
            assert_eq!(key.ended, Some((number(old), true)), "{line}: exact_old");
            assert_eq!(delivery.attempt, 0);
        }
        let is_known = key
            .last
            .as_ref()
            .is_some_and(|(_, last_uid, there)| *there && *last_uid == uid);
        key.is_unknown &= is_known;
        key.last_before = key.last.replace((version, uid, there));
        key.received.push(line);
    }

    pub(super) fn given_back(&mut self, delivery: &Delivery) {
        let Some(key) = delivery.key() else { return };
        let key = self.key(delivery.source, key.name);
        key.in_flight = None;
        key.received.pop();
        if !repeats_a_delete(delivery) {
            key.last = key.last_before.take();
        }
    }

    pub(super) fn answered(&mut self, delivery: &Delivery, outcome: &DeliveryOutcome, retried: bool) {
        let Some(name) = delivery.key().map(|key| key.name) else {
            return;
        };
        let seen = self.sources.get_mut(&delivery.source).expect("known");
        let key = seen.keys.get_mut(name).expect("handed out before");
        let handed_out = key.in_flight.take().expect("in flight");
        if handed_out > seen.begun {
            seen.to_attempt.remove(name);
        }
        key.retried = retried;
        let was_known = key.last_before.as_ref().is_some_and(|(.., there)| *there);
        if *outcome == DeliveryOutcome::Filtered && !was_known {
            key.is_unknown = true;
        } else if !repeats_a_delete(delivery) {
            key.is_unknown = false;
        }
        if !retried && !repeats_a_delete(delivery) {
            let version = state_of(&delivery.notification).map(|(version, ..)| version);
            key.ended = version.map(|version| (version, outcome.is_ok()));
        }
    }

    /// The handler's state equals the store's.
    pub(super) fn check_when_idle(&self, source: SourceId, snapshot: &Snapshot) {
        let seen = &self.sources[&source];
        for object in snapshot.iter() {
            let last = seen.keys[object.name()].last.as_ref();
            assert_eq!(
                last,
                Some(&(number(object), object.uid().to_owned(), true)),
                "{}: its last state",
                object.name()
            );
        }
        for (name, key) in &seen.keys {
            let gone = snapshot.get(crate::listener::tests::key(name)).is_none();
            let knows_it = key.last.as_ref().is_some_and(|(.., there)| *there) && !key.is_unknown;
            assert!(!(gone && knows_it), "{name}: its delete");
        }
    }

    /// How many objects the handler knows that no longer exist: each has a delete that has not been delivered.
    pub(super) fn undelivered_deletes(&self, source: SourceId, snapshot: &Snapshot) -> u64 {
        let is_known = |key: &KeySeen| key.last.as_ref().is_some_and(|(.., there)| *there) && !key.is_unknown;
        let is_gone = |name: &str| snapshot.get(crate::listener::tests::key(name)).is_none();
        let keys = self.sources[&source].keys.iter();
        keys.filter(|(name, key)| is_known(key) && is_gone(name)).count() as u64
    }

    /// Each key received exactly what was written.
    pub(super) fn check_exactly_once(&self, source: SourceId) {
        for (name, key) in &self.sources[&source].keys {
            let received: Vec<String> = key.received.iter().map(|line| plain(line, name)).collect();
            assert_eq!(received, key.written, "{name}");
        }
    }
}

/// `update a@1->2 watch` as `update 1->2`.
fn plain(line: &str, name: &str) -> String {
    let mut words = line.split(' ');
    let (event, state) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    format!(
        "{event} {}",
        state
            .trim_start_matches(name)
            .trim_start_matches('@')
            .trim_end_matches('?')
    )
}
