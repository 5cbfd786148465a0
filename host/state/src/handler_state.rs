//! What one handler has not acknowledged of one source.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use informant_cache::listener::{DeadLetterChanges, OpenKey, OpenKeys, RequeueChanges};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{ListenerHandle, Moment};
use informant_object::{Key, SourceId};

use crate::metrics::{EndLimit, HandlerMetrics};
use crate::schema::{EndedRow, HandlerRow};

/// How many open keys of one handler are checked in its listener at once, under its lock: well below a millisecond. The
/// rest follows with the next batches.
pub const OPEN_KEYS_CHECKED_MAX: usize = 1_024;

/// How many deletes are stored for one handler and source while it does not acknowledge them. Further ones are not
/// stored, and are counted in `state_tombstones_dropped`: after a restart they are missing. A handler that is not
/// attached yet receives them in this process. With replicas it does not: what a takeover delivers is
/// [kept](informant_cache::KeptDeletes) for all sources.
pub const TOMBSTONES_MAX: usize = 100_000;

/// How many incarnations of one key are stored for one handler while it does not acknowledge their deletes. Further
/// ones are not stored, and are counted in `state_incarnations_dropped`: if the handler receives one of them and the
/// process is killed, its delete is missing. A handler that is not attached yet receives them in this process.
///
/// A handler has received at most one of them without its delete; the others are still pending, or acknowledged within
/// the last [`ACKNOWLEDGED_INTERVAL`](crate::ACKNOWLEDGED_INTERVAL).
pub const INCARNATIONS_MAX: usize = 16;

/// How a handler of an earlier process starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStart {
    /// Receives deletes for objects that are gone, and adds for all present objects.
    #[default]
    Replay,
    /// Receives deletes for objects that are gone, and adds for objects whose present state it has not acknowledged.
    Continue,
}

/// A handler's state for one source.
///
/// While another process calls the handler, only that one learns what is acknowledged, so that nothing would become
/// less here: the handler counts as behind in all keys, and its open keys and deletes are in the file alone.
#[derive(Debug, Default)]
pub(crate) struct HandlerState {
    /// Another process calls it, or may.
    pub(crate) is_elsewhere: bool,
    /// The attached listener, also one that is about to be attached.
    pub(crate) listener: Option<ListenerHandle>,
    pub(crate) on_start: OnStart,
    /// It was attached while the database could not be read for what had been delivered to it.
    pub(crate) attached_unread: bool,
    /// Every key is open.
    pub(crate) all_open: bool,
    /// The open keys in the database, each with its incarnations whose deletes are not acknowledged, oldest first.
    pub(crate) open: BTreeMap<Key, Vec<Incarnation>>,
    /// How many incarnations `open` has; those in the file while another process calls it.
    pub(crate) tombstones: usize,
    /// Deletes that are not stored because of a limit, and that come with its attachment.
    pub(crate) unstored: UnpersistedDeletes,
    /// The keys of the dead letters in the database.
    pub(crate) letters: BTreeSet<Key>,
    /// How far the listener's dead letters were read.
    pub(crate) letters_seen: Option<u64>,
    /// The database may have requeues of it.
    pub(crate) has_requeues: bool,
    /// The listener remembers which of its requeues changed since they were read.
    pub(crate) records_requeues: bool,
    /// The key that was checked last.
    pub(crate) asked: Option<Key>,
    pub(crate) stored_row: Option<HandlerRow>,
    pub(crate) metrics: Option<HandlerMetrics>,
    /// A replay was seen, which may start once this is persisted.
    pub(crate) replay_seen: bool,
}

/// An incarnation that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Incarnation {
    /// The number of its row, ascending within its key.
    pub(crate) number: u32,
    /// None if it is unknown.
    pub(crate) uid: Option<Box<str>>,
}

/// What checking a listener found.
#[derive(Debug, Default)]
pub(crate) struct Acknowledgements {
    /// Every key is open from now on, or no longer.
    pub(crate) all_open: Option<bool>,
    /// Keys that are open in addition to the known ones.
    pub(crate) opened: Vec<Key>,
    /// Keys that are no longer open.
    pub(crate) closed: Vec<Key>,
    /// Incarnations of keys that are still open whose deletes were acknowledged, or never have to be delivered.
    pub(crate) finished: Vec<(Key, Vec<u32>)>,
    /// How the dead letters changed.
    pub(crate) letters: Option<DeadLetterChanges>,
    /// How the requeues changed.
    pub(crate) requeues: Option<RequeueChanges>,
}

impl Acknowledgements {
    pub(crate) fn is_empty(&self) -> bool {
        let has_keys = !self.opened.is_empty() || !self.closed.is_empty() || !self.finished.is_empty();
        !has_keys && self.all_open.is_none() && self.letters.is_none() && self.requeues.is_none()
    }
}

impl HandlerState {
    /// A handler that has received nothing yet.
    pub(crate) fn all_open() -> Self {
        Self {
            all_open: true,
            ..Self::default()
        }
    }

    /// Opens a key. Returns whether it was closed.
    pub(crate) fn open(&mut self, key: &Key) -> bool {
        let is_new = !self.open.contains_key(key);
        if is_new {
            self.open.insert(key.clone(), Vec::new());
        }
        is_new
    }

    /// Another process calls it from now on.
    pub(crate) fn release(&mut self) {
        *self = Self {
            is_elsewhere: true,
            on_start: self.on_start,
            tombstones: self.tombstones,
            has_requeues: self.has_requeues,
            stored_row: self.stored_row.take(),
            metrics: self.metrics.take(),
            ..Self::all_open()
        };
    }

    /// How many keys it has not acknowledged, as far as they are stored one by one.
    pub(crate) fn open_len(&self) -> usize {
        match self.is_elsewhere {
            true => self.tombstones,
            false => self.open.len(),
        }
    }

    /// Closes a key. Returns its incarnations.
    pub(crate) fn close(&mut self, key: &Key) -> Vec<Incarnation> {
        let incarnations = self.open.remove(key).unwrap_or_default();
        self.tombstones -= incarnations.len();
        incarnations
    }

    /// Whether it receives what ends now with its attachment, not as a change.
    pub(crate) fn is_unattached(&self) -> bool {
        self.listener.is_none() || self.attached_unread
    }

    /// Adds an incarnation as it was read from its row.
    pub(crate) fn add(&mut self, key: Key, incarnation: Incarnation) {
        self.open.entry(key).or_default().push(incarnation);
        self.tombstones += 1;
    }

    /// Records that the incarnation `uid` of a key has ended. Returns the number of the row to write: a new one, or the
    /// one of what is known of it.
    pub(crate) fn end(&mut self, key: &Key, uid: Option<&str>) -> Result<u32, EndLimit> {
        let known = self.open.get(key).map_or(&[][..], Vec::as_slice);
        let (number, is_new) = self.row_of(known, uid)?;
        if is_new {
            let uid = uid.map(Box::from);
            self.add(key.clone(), Incarnation { number, uid });
        }
        Ok(number)
    }

    /// The same while another process calls it: `known` is what the file has of the key.
    pub(crate) fn end_elsewhere(&mut self, known: &[Incarnation], uid: Option<&str>) -> Result<u32, EndLimit> {
        let (number, is_new) = self.row_of(known, uid)?;
        self.tombstones += usize::from(is_new);
        Ok(number)
    }

    /// The number of the row for the end of an incarnation of a key, and whether it is a new one.
    fn row_of(&self, known: &[Incarnation], uid: Option<&str>) -> Result<(u32, bool), EndLimit> {
        let same = known.iter().find(|one| uid.is_some() && one.uid.as_deref() == uid);
        if let Some(same) = same {
            return Ok((same.number, false));
        }
        if let Some(last) = known
            .last()
            .filter(|_| seeded_bug(SeededBug::OnlyLastIncarnationStored))
        {
            return Ok((last.number, false));
        }
        if known.len() >= INCARNATIONS_MAX {
            return Err(EndLimit::OfKey);
        }
        if self.tombstones >= TOMBSTONES_MAX {
            return Err(EndLimit::OfHandler);
        }
        Ok((known.last().map_or(0, |last| last.number.wrapping_add(1)), true))
    }

    /// Forgets incarnations of an open key. Returns whether none is left.
    pub(crate) fn finish(&mut self, key: &Key, numbers: &[u32]) -> bool {
        let Some(incarnations) = self.open.get_mut(key) else {
            return false;
        };
        let before = incarnations.len();
        incarnations.retain(|one| !numbers.contains(&one.number));
        self.tombstones -= before - incarnations.len();
        incarnations.is_empty()
    }

    /// Reads from the listener what the handler has acknowledged; of all open keys if `all`, else of the next ones in
    /// turn, and of those in `ended`.
    pub(crate) fn poll_acknowledged(
        &mut self,
        source: SourceId,
        now: Moment,
        all: bool,
        ended: &[Key],
    ) -> Acknowledgements {
        let mut found = Acknowledgements::default();
        let Some(listener) = &self.listener else { return found };
        let max = if self.all_open { OPEN_KEYS_CHECKED_MAX } else { 0 };
        match listener.ledger().open_keys(source, max) {
            // Unknown; nothing is closed on a guess.
            OpenKeys::Detached => return found,
            OpenKeys::All => {
                self.replay_seen = true;
                found.all_open = (!self.all_open).then_some(true);
            }
            OpenKeys::Keys(keys) if self.all_open => {
                found.all_open = Some(false);
                let is_new = |key: &Key| !self.open.contains_key(key);
                found.opened = keys.into_iter().filter(is_new).collect();
            }
            OpenKeys::Many | OpenKeys::Keys(_) => {}
        }
        let turns = if all {
            self.asked = None;
            self.open.len().div_ceil(OPEN_KEYS_CHECKED_MAX)
        } else {
            1
        };
        for _ in 0..turns {
            let keys = self.run_once();
            if !self.poll_keys(source, keys, &mut found) {
                break;
            }
        }
        // Twice is harmless: what is closed has nothing left.
        let ended: BTreeSet<&Key> = ended.iter().filter(|key| self.open.contains_key(*key)).collect();
        let ended = ended.into_iter().cloned().collect();
        self.poll_keys(source, ended, &mut found);
        found.letters = self.poll_letters(source);
        // After the acknowledgements: a key that a call closed has the requeue that the same call asked for.
        found.requeues = self.poll_requeues(source, now);
        found
    }

    /// Reads what the handler has acknowledged of these open keys. Returns whether the listener is attached.
    fn poll_keys(&self, source: SourceId, keys: Vec<Key>, found: &mut Acknowledgements) -> bool {
        let listener = self.listener.as_ref();
        let Some(open) = listener.and_then(|listener| listener.ledger().are_open(source, &keys)) else {
            return false;
        };
        for (key, open) in keys.into_iter().zip(open) {
            let open = open.filter(|_| !seeded_bug(SeededBug::HandedOutTakenForAcknowledged));
            let Some(open) = open else {
                found.closed.push(key);
                continue;
            };
            let finished = self.finished(&key, &open);
            if !finished.is_empty() {
                found.finished.push((key, finished));
            }
        }
        true
    }

    /// How the listener's dead letters differ from the stored ones, if they may.
    fn poll_letters(&mut self, source: SourceId) -> Option<DeadLetterChanges> {
        let listener = self.listener.as_ref()?;
        let changes = listener.ledger().dead_letter_changes(source, self.letters_seen)?;
        self.letters_seen = Some(changes.seen);
        let differs = !changes.added.is_empty() || changes.keys != self.letters;
        differs.then_some(changes)
    }

    /// The incarnations of an open key whose deletes the listener no longer has: the handler has accepted them, or they
    /// were merged away with an add that it never received. Everything that is stored was pushed to the listener.
    fn finished(&self, key: &Key, open: &OpenKey) -> Vec<u32> {
        let incarnations = self.open.get(key).map_or(&[][..], Vec::as_slice);
        if open.deletes.contains(&None) {
            // It may be any of them.
            return Vec::new();
        }
        let is_finished = |one: &&Incarnation| one.uid.is_some() && !open.deletes.contains(&one.uid);
        let finished = incarnations.iter().filter(is_finished);
        finished.map(|one| one.number).collect()
    }

    /// Records that every key is open if a replay runs, while the database has to be read before anything is written.
    pub(crate) fn check_replaying(&mut self, source: SourceId) {
        let Some(listener) = &self.listener else { return };
        if listener.ledger().open_keys(source, 0) == OpenKeys::All {
            self.replay_seen = true;
            self.all_open = true;
        }
    }

    fn run_once(&mut self) -> Vec<Key> {
        let from = self.asked.take().map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.open.range((from, Bound::Unbounded)).map(|(key, _)| key.clone());
        let keys: Vec<Key> = keys.take(OPEN_KEYS_CHECKED_MAX).collect();
        if keys.len() == OPEN_KEYS_CHECKED_MAX {
            self.asked = keys.last().cloned();
        }
        keys
    }
}

/// The end of an incarnation.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) key: Key,
    /// None if it is unknown.
    pub(crate) uid: Option<Box<str>>,
    pub(crate) row: EndedRow,
}

/// Deletes that are not persisted, in the order in which they happened.
#[derive(Debug, Default)]
pub(crate) struct UnpersistedDeletes {
    deletes: BTreeMap<Key, Vec<Ended>>,
    len: usize,
}

impl UnpersistedDeletes {
    /// Adds a delete, unless there are too many.
    pub(crate) fn add(&mut self, ended: Ended) -> Result<(), EndLimit> {
        if self.len >= TOMBSTONES_MAX && !self.deletes.contains_key(&ended.key) {
            return Err(EndLimit::OfHandler);
        }
        let of_key = self.deletes.entry(ended.key.clone()).or_default();
        if let Some(same) = of_key.iter_mut().find(|one| one.uid.is_some() && one.uid == ended.uid) {
            *same = ended;
            return Ok(());
        }
        if of_key.len() >= INCARNATIONS_MAX {
            return Err(EndLimit::OfKey);
        }
        if self.len >= TOMBSTONES_MAX {
            return Err(EndLimit::OfHandler);
        }
        of_key.push(ended);
        self.len += 1;
        Ok(())
    }

    /// Whether the delete of this incarnation is one of them.
    pub(crate) fn has(&self, key: &Key, uid: Option<&str>) -> bool {
        let of_key = self.deletes.get(key);
        of_key.is_some_and(|of_key| of_key.iter().any(|one| one.uid.as_deref() == uid))
    }

    /// All of them; those of one key in their order.
    pub(crate) fn all(&self) -> Vec<Ended> {
        self.deletes.values().flatten().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}
