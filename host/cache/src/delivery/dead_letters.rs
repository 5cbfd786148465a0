//! Dead letters: events that failed for good, and the keys that did not accept their last event.
//!
//! Holds a bounded list of dead letters, at most one per key, and remembers which keys did not accept their last event,
//! so that they are not taken for up to date. Costs nothing while nothing fails.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use informant_object::{AsKey, Key, KeyRef, Object, Payload, Shape, SourceId};

use crate::Moment;
use crate::delivery::Reason;
use crate::delivery::options::{ERROR_BYTES_MAX, UNACCEPTED_KEYS_MAX};

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
    /// How old it already was when this process [restored](crate::listener::ResumeState) it; zero if it became a dead
    /// letter in this process.
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

#[derive(Debug)]
pub(crate) struct DeadLetters {
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
    pub(crate) fn new(letters_max: usize, bytes_max: usize) -> DeadLetters {
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

    pub(crate) fn len(&self) -> usize {
        self.ages.len()
    }

    /// Bytes of the last states of deletes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of them, oldest first.
    pub(crate) fn list(&self) -> Vec<DeadLetter> {
        self.ages
            .values()
            .filter_map(|(source, key)| self.get(*source, key.as_ref()))
            .cloned()
            .collect()
    }

    /// All of them, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = &DeadLetter> {
        let ages = self.ages.values().rev();
        ages.filter_map(|(source, key)| self.get(*source, key.as_ref()))
    }

    pub(crate) fn get(&self, source: SourceId, key: KeyRef<'_>) -> Option<&DeadLetter> {
        self.letters
            .get(&source)?
            .get(&key as &dyn AsKey)
            .map(|(_, letter)| letter)
    }

    /// Whether there is a dead letter for exactly this state.
    pub(crate) fn is_about(&self, source: SourceId, object: &Object) -> bool {
        let letter = self.get(source, object.key());
        letter.is_some_and(|letter| letter.resource_version.as_deref() == Some(object.version().as_str()))
    }

    /// Whether the key accepted its last event, as far as known.
    pub(crate) fn accepted_last(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        let nothing_failed = self.ages.is_empty() && self.unaccepted_len == 0;
        let is_unaccepted = || {
            let unaccepted = self.unaccepted.get(&source);
            self.get(source, key).is_some() || unaccepted.is_some_and(|keys| keys.contains(&key as &dyn AsKey))
        };
        !self.any_unaccepted && (nothing_failed || !is_unaccepted())
    }

    /// Adds the dead letter of a failure, cut to the limits, and replaces an older one of the key. Returns how many
    /// others were evicted.
    pub(crate) fn add(&mut self, mut letter: DeadLetter) -> u64 {
        self.record_success(letter.source, letter.key.as_ref());
        letter.error.truncate(letter.error.floor_char_boundary(ERROR_BYTES_MAX));
        if self.bytes + letter.kept_bytes() > self.bytes_max
            && let Some(delete) = &mut letter.delete
        {
            delete.last = delete.last.as_ref().map(metadata_only);
        }
        self.insert(letter)
    }

    /// Adds a dead letter of a key that has none. Returns how many others were evicted.
    pub(crate) fn insert(&mut self, letter: DeadLetter) -> u64 {
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

    /// Records that the key did not accept its last event and has no dead letter. Nothing to remember after a delete:
    /// the next event is an add.
    pub(crate) fn record_unaccepted(&mut self, source: SourceId, key: KeyRef<'_>, was_delete: bool) {
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
    pub(crate) fn record_success(&mut self, source: SourceId, key: KeyRef<'_>) {
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
    pub(crate) fn clear_unaccepted(&mut self) {
        self.unaccepted.clear();
        self.unaccepted_len = 0;
        self.any_unaccepted = false;
    }

    /// Transfers the dead letters and unaccepted keys in `scope` from source `old` to `new`.
    pub(crate) fn transfer_keys_to(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
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
    pub(crate) fn detach(&mut self, source: SourceId) {
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
    pub(crate) fn changes(&self, source: SourceId, seen: Option<u64>) -> Option<DeadLetterChanges> {
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

/// The object with apiVersion, kind and metadata only, for deletes above the limit on bytes. Falls back to the whole
/// object if that does not parse, which takes malformed metadata that the scanner let pass: too much is better than
/// nothing.
pub(crate) fn metadata_only(object: &Object) -> Object {
    let mut json = Vec::with_capacity(object.metadata().len() + 128);
    Payload::Metadata.write(object, &mut json);
    Object::parse(&json, &Shape::verbatim()).unwrap_or_else(|_| object.clone())
}
