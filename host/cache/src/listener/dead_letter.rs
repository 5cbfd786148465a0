//! Dead letters: events that failed for good, and the keys that did not accept their last event.
//!
//! Holds a bounded list of dead letters, at most one per key, and remembers which keys did not accept their last event,
//! so that they are not taken for up to date. Costs nothing while nothing fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use informant_object::{AsKey, Key, KeyRef, Object, SourceId};

use crate::listener::options::{ERROR_BYTES_MAX, UNACCEPTED_KEYS_MAX};
use crate::listener::state::{End, Known, State, metadata_only};
use crate::{Moment, Reason};

/// An event that failed for good. Removed when a later event of its key succeeds.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// The source of the object.
    pub source: SourceId,
    /// The key of the object.
    pub key: Key,
    /// `add`, `update` or `delete`.
    pub event: &'static str,
    /// The resource version of the state that failed; none for a delete.
    pub resource_version: Option<String>,
    /// The reason of the event.
    pub reason: Reason,
    /// The error of the last attempt, from the handler or the host; at most [`ERROR_BYTES_MAX`] bytes.
    pub error: String,
    /// The name of the result: `retryable`, `permanent`, `trap` or `timeout`.
    pub result: &'static str,
    /// The number of attempts.
    pub attempts: u32,
    /// When the event's frame was read.
    pub received: Moment,
    /// When it became a dead letter.
    pub given_up: Moment,
    /// How old it already was when this process restored it ([`ResumeState`](super::ResumeState)); zero if it became a
    /// dead letter in this process.
    pub age_before: Duration,
    /// For a delete: its last known state, to redeliver it on request.
    pub delete: Option<LastDelete>,
}

/// How the dead letters of a source changed.
#[derive(Clone, Debug)]
pub struct DeadLetterChanges {
    /// Pass it in the next call, which returns the changes after this one.
    pub seen: u64,
    /// The keys that have a dead letter now.
    pub keys: BTreeSet<Key>,
    /// Those that are new.
    pub added: Vec<DeadLetter>,
}

/// A delete that may be delivered again.
#[derive(Clone, Debug)]
pub struct LastDelete {
    /// The last known state; only its metadata above the limit on bytes.
    pub last: Option<Object>,
    /// The final state was not observed.
    pub final_state_unknown: bool,
}

/// One failed delivery.
pub(super) struct Failure<'a> {
    pub(super) source: SourceId,
    pub(super) key: Key,
    pub(super) state: &'a State,
    pub(super) known: &'a Known,
    pub(super) result: &'static str,
    pub(super) error: String,
    pub(super) attempts: u32,
    pub(super) now: Moment,
}

#[derive(Debug)]
pub(super) struct DeadLetters {
    letters_max: usize,
    bytes_max: usize,
    letters: BTreeMap<SourceId, BTreeMap<Key, (u64, DeadLetter)>>,
    /// By age.
    ages: BTreeMap<u64, (SourceId, Key)>,
    next_age: u64,
    /// Bytes of the last states of deletes.
    bytes: usize,
    /// Keys that did not accept their last event and have no dead letter.
    unaccepted: BTreeMap<SourceId, BTreeSet<Key>>,
    unaccepted_len: usize,
    /// There were too many such keys to remember; any key may be one.
    any_unaccepted: bool,
}

impl DeadLetters {
    pub(super) fn new(letters_max: usize, bytes_max: usize) -> DeadLetters {
        DeadLetters {
            letters_max,
            bytes_max,
            letters: BTreeMap::new(),
            ages: BTreeMap::new(),
            next_age: 0,
            bytes: 0,
            unaccepted: BTreeMap::new(),
            unaccepted_len: 0,
            any_unaccepted: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ages.len()
    }

    /// All of them, oldest first.
    pub(super) fn list(&self) -> Vec<DeadLetter> {
        self.ages
            .values()
            .filter_map(|(source, key)| self.get(*source, key.as_ref()))
            .cloned()
            .collect()
    }

    /// All of them, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &DeadLetter> {
        let ages = self.ages.values().rev();
        ages.filter_map(|(source, key)| self.get(*source, key.as_ref()))
    }

    pub(super) fn get(&self, source: SourceId, key: KeyRef<'_>) -> Option<&DeadLetter> {
        self.letters
            .get(&source)?
            .get(&key as &dyn AsKey)
            .map(|(_, letter)| letter)
    }

    /// Whether there is a dead letter for exactly this state.
    pub(super) fn is_about(&self, source: SourceId, object: &Object) -> bool {
        let letter = self.get(source, object.key());
        letter.is_some_and(|letter| letter.resource_version.as_deref() == Some(object.version().as_str()))
    }

    /// Whether the key accepted its last event, as far as known.
    pub(super) fn accepted_last(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        let nothing_failed = self.ages.is_empty() && self.unaccepted_len == 0;
        let is_unaccepted = || {
            let unaccepted = self.unaccepted.get(&source);
            self.get(source, key).is_some() || unaccepted.is_some_and(|keys| keys.contains(&key as &dyn AsKey))
        };
        !self.any_unaccepted && (nothing_failed || !is_unaccepted())
    }

    /// Adds a dead letter, replacing an older one of the key. Returns how many others were evicted.
    pub(super) fn add(&mut self, failure: Failure<'_>) -> u64 {
        self.record_success(failure.source, failure.key.as_ref());
        let letter = self.letter(failure);
        self.insert(letter)
    }

    /// Adds a dead letter of a key that has none. Returns how many others were evicted.
    pub(super) fn insert(&mut self, letter: DeadLetter) -> u64 {
        let (source, key) = (letter.source, letter.key.clone());
        self.bytes += letter.kept_bytes();
        let age = self.next_age;
        self.next_age += 1;
        self.ages.insert(age, (source, key.clone()));
        self.letters.entry(source).or_default().insert(key, (age, letter));
        let mut evicted = 0;
        while self.len() > self.letters_max
            && let Some((_, (source, key))) = self.ages.first_key_value()
        {
            let (source, key) = (*source, key.clone());
            let was_delete = self
                .remove(source, key.as_ref())
                .is_some_and(|letter| letter.delete.is_some());
            self.record_unaccepted(source, key.as_ref(), was_delete);
            evicted += 1;
        }
        evicted
    }

    fn letter(&self, failure: Failure<'_>) -> DeadLetter {
        let Failure { state, mut error, .. } = failure;
        error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX));
        let fits = |last: &Object| self.bytes + last.size_bytes() <= self.bytes_max;
        let kept = |last: &Object| if fits(last) { last.clone() } else { metadata_only(last) };
        let delete = |end: &End| LastDelete {
            last: end.last.as_ref().map(kept),
            final_state_unknown: end.final_state_unknown,
        };
        DeadLetter {
            source: failure.source,
            key: failure.key,
            event: state.event(failure.known),
            resource_version: state.object().map(|object| object.version().as_str().to_owned()),
            reason: state.reason,
            error,
            result: failure.result,
            attempts: failure.attempts,
            received: state.received,
            given_up: failure.now,
            age_before: Duration::ZERO,
            delete: state.end().map(delete),
        }
    }

    /// Records that the key did not accept its last event and has no dead letter. Nothing to remember after a delete:
    /// the next event is an add.
    pub(super) fn record_unaccepted(&mut self, source: SourceId, key: KeyRef<'_>, was_delete: bool) {
        if was_delete {
            return self.record_success(source, key);
        }
        if self.unaccepted_len >= UNACCEPTED_KEYS_MAX {
            self.any_unaccepted = true;
            self.unaccepted.clear();
            self.unaccepted_len = 0;
        }
        let added = self.unaccepted.entry(source).or_default().insert(key.to_key());
        self.unaccepted_len += usize::from(added);
    }

    /// Records that the key accepted an event.
    pub(super) fn record_success(&mut self, source: SourceId, key: KeyRef<'_>) {
        if !self.ages.is_empty() {
            self.remove(source, key);
        }
        if self.unaccepted_len > 0
            && let Some(keys) = self.unaccepted.get_mut(&source)
            && keys.remove(&key as &dyn AsKey)
        {
            self.unaccepted_len -= 1;
        }
    }

    /// Every key is delivered again: earlier failures no longer matter.
    pub(super) fn clear_unaccepted(&mut self) {
        self.unaccepted.clear();
        self.unaccepted_len = 0;
        self.any_unaccepted = false;
    }

    /// Transfers the dead letters and unaccepted keys in `scope` from source `old` to `new`.
    pub(super) fn transfer_keys_to(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        self.next_age += 1;
        let letters = self.letters.remove(&old).unwrap_or_default();
        let (moved, left): (BTreeMap<_, _>, BTreeMap<_, _>) =
            letters.into_iter().partition(|(key, _)| scope(key.as_ref()));
        for (key, (age, mut letter)) in moved {
            letter.source = new;
            self.ages.insert(age, (new, key.clone()));
            self.letters.entry(new).or_default().insert(key, (age, letter));
        }
        if !left.is_empty() {
            self.letters.insert(old, left);
        }
        let unaccepted = self.unaccepted.remove(&old).unwrap_or_default();
        let (moved, left): (BTreeSet<_>, BTreeSet<_>) = unaccepted.into_iter().partition(|key| scope(key.as_ref()));
        self.unaccepted.entry(new).or_default().extend(moved);
        if !left.is_empty() {
            self.unaccepted.insert(old, left);
        }
    }

    /// Forgets the source.
    pub(super) fn detach(&mut self, source: SourceId) {
        for (age, letter) in self.letters.remove(&source).unwrap_or_default().into_values() {
            self.ages.remove(&age);
            self.bytes -= letter.kept_bytes();
        }
        self.unaccepted_len -= self.unaccepted.remove(&source).map_or(0, |keys| keys.len());
    }

    fn remove(&mut self, source: SourceId, key: KeyRef<'_>) -> Option<DeadLetter> {
        let (age, letter) = self.letters.get_mut(&source)?.remove(&key as &dyn AsKey)?;
        self.ages.remove(&age);
        self.next_age += 1;
        self.bytes -= letter.kept_bytes();
        Some(letter)
    }

    /// What has changed in the dead letters of a source since a call that returned `seen`. None if nothing has in any
    /// source.
    pub(super) fn changes(&self, source: SourceId, seen: Option<u64>) -> Option<DeadLetterChanges> {
        if seen == Some(self.next_age) {
            return None;
        }
        let of_source = || self.letters.get(&source).into_iter().flatten();
        let is_new = |age: u64| seen.is_none_or(|seen| age >= seen);
        let added = of_source().filter(|(_, (age, _))| is_new(*age));
        Some(DeadLetterChanges {
            seen: self.next_age,
            keys: of_source().map(|(key, _)| key.clone()).collect(),
            added: added.map(|(_, (_, letter))| letter.clone()).collect(),
        })
    }
}

/// The names of events and of results in a dead letter.
const EVENTS: [&str; 3] = ["add", "update", "delete"];
const RESULTS: [&str; 4] = ["retryable", "permanent", "trap", "timeout"];

impl DeadLetter {
    /// The [`event`](Self::event) of this name.
    #[must_use]
    pub fn event_named(name: &str) -> Option<&'static str> {
        EVENTS.into_iter().find(|known| *known == name)
    }

    /// The [`result`](Self::result) of this name.
    #[must_use]
    pub fn result_named(name: &str) -> Option<&'static str> {
        RESULTS.into_iter().find(|known| *known == name)
    }

    /// How long ago it became a dead letter.
    #[must_use]
    pub fn age(&self, now: Moment) -> Duration {
        now - self.given_up + self.age_before
    }

    fn kept_bytes(&self) -> usize {
        self.delete
            .as_ref()
            .and_then(|delete| delete.last.as_ref())
            .map_or(0, Object::size_bytes)
    }
}
