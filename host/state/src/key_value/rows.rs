//! The keys of one plugin: what its calls see, and what the database is to hold.
//!
//! They differ while a change is *held*: its call has succeeded, and its event has not ended yet. Calls see the newest
//! change of a key; the database gets the newest one that is not held. A change replaces earlier ones of its key, held
//! or not, as soon as it is to be persisted itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::KeyChange;

/// The number of a call whose changes are held; later calls have greater ones.
pub(super) type HoldNumber = u64;

/// What a row takes when it is written, besides its key and its value.
const ROW_COST_BYTES: usize = 9;

#[derive(Default)]
pub(super) struct Rows {
    /// What calls see.
    values: BTreeMap<String, Arc<[u8]>>,
    /// Bytes of these keys and values.
    bytes: usize,
    /// Keys that may differ from the database.
    dirty: BTreeSet<String>,
    held: BTreeMap<String, HeldKey>,
}

/// A key with changes that are held.
struct HeldKey {
    /// What the database is to hold.
    persistent: Option<Arc<[u8]>>,
    /// The calls that have changed it since, at least one.
    by: BTreeSet<HoldNumber>,
}

impl Rows {
    pub(super) fn values(&self) -> &BTreeMap<String, Arc<[u8]>> {
        &self.values
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Sets what calls see.
    pub(super) fn set(&mut self, key: &str, value: Option<Arc<[u8]>>) {
        let bytes = |value: &Arc<[u8]>| key.len() + value.len();
        let added = value.as_ref().map_or(0, bytes);
        let before = match value {
            Some(value) => self.values.insert(key.to_owned(), value),
            None => self.values.remove(key),
        };
        self.bytes = self.bytes + added - before.as_ref().map_or(0, bytes);
    }

    /// A change that is to be persisted.
    pub(super) fn change(&mut self, key: String, value: Option<Arc<[u8]>>) {
        self.held.remove(&key);
        self.set(&key, value);
        self.dirty.insert(key);
    }

    /// A change that is held until the event of the call ends.
    pub(super) fn hold(&mut self, number: HoldNumber, key: &str, value: Option<Arc<[u8]>>) {
        let held = self.held.entry(key.to_owned()).or_insert_with(|| HeldKey {
            persistent: self.values.get(key).cloned(),
            by: BTreeSet::new(),
        });
        held.by.insert(number);
        self.set(key, value);
    }

    /// The event ends: the change is to be persisted, unless a later one already is.
    pub(super) fn release(&mut self, number: HoldNumber, key: String, value: Option<Arc<[u8]>>) {
        let Some(held) = self.held.get_mut(&key).filter(|held| held.by.contains(&number)) else {
            return;
        };
        held.by = held.by.split_off(&(number + 1));
        if held.by.is_empty() {
            return self.change(key, value);
        }
        held.persistent = value;
        self.dirty.insert(key);
    }

    /// The event will not end: the change never was.
    pub(super) fn take_back(&mut self, number: HoldNumber, key: &str) {
        let Some(held) = self.held.get_mut(key) else { return };
        held.by.remove(&number);
        if held.by.is_empty() {
            let before = held.persistent.take();
            self.held.remove(key);
            self.set(key, before);
        }
    }

    pub(super) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Bytes of what is to be written.
    pub(super) fn dirty_bytes(&self) -> usize {
        self.dirty.iter().map(|key| self.cost_bytes(key)).sum()
    }

    /// Takes what is to be written, as much as fits into `bytes_max`, but something.
    pub(super) fn take_dirty(&mut self, bytes_max: usize) -> Vec<KeyChange> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        while let Some(key) = self.dirty.pop_first() {
            bytes += self.cost_bytes(&key);
            if bytes > bytes_max && !taken.is_empty() {
                self.dirty.insert(key);
                break;
            }
            let value = self.persistent(&key);
            taken.push((key, value));
        }
        taken
    }

    /// What is persisted, or is to be.
    pub(super) fn persistent_rows(&self) -> impl Iterator<Item = (&str, Arc<[u8]>)> {
        let keys: BTreeSet<&String> = self.values.keys().chain(self.held.keys()).collect();
        let row = |key: &'_ String| self.persistent(key);
        keys.into_iter().filter_map(move |key| Some((key.as_str(), row(key)?)))
    }

    /// The key is to be written again.
    pub(super) fn mark_dirty(&mut self, key: String) {
        self.dirty.insert(key);
    }

    /// All keys are to be written again.
    pub(super) fn mark_all_dirty(&mut self) {
        let keys = self.values.keys().chain(self.held.keys());
        self.dirty.extend(keys.cloned());
    }

    /// What the key and its value take when they are written.
    fn cost_bytes(&self, key: &str) -> usize {
        let value = match self.held.get(key) {
            Some(held) => held.persistent.as_ref(),
            None => self.values.get(key),
        };
        ROW_COST_BYTES + key.len() + value.map_or(0, |value| value.len())
    }

    fn persistent(&self, key: &str) -> Option<Arc<[u8]>> {
        match self.held.get(key) {
            Some(held) => held.persistent.clone(),
            None => self.values.get(key).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Arc<[u8]>> {
        Some(text.as_bytes().into())
    }

    fn shown(value: Option<&Arc<[u8]>>) -> String {
        value.map_or("none".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
    }

    /// What calls see of the key `k`, and what the database gets, if anything.
    fn state(rows: &mut Rows) -> (String, Option<String>) {
        let written = rows.take_dirty(usize::MAX).pop();
        let written = written.map(|(_, value)| shown(value.as_ref()));
        (shown(rows.values.get("k")), written)
    }

    fn seen(text: &str) -> (String, Option<String>) {
        (text.to_owned(), None)
    }

    fn written(sees: &str, database: &str) -> (String, Option<String>) {
        (sees.to_owned(), Some(database.to_owned()))
    }

    #[test]
    fn held_change_is_seen_at_once_and_written_last() {
        let mut rows = Rows::default();
        rows.change("k".to_owned(), value("0"));
        rows.hold(1, "k", value("1"));
        assert_eq!(
            state(&mut rows),
            written("1", "0"),
            "the change before it was not written yet"
        );
        rows.mark_all_dirty();
        assert_eq!(state(&mut rows), written("1", "0"), "the file was replaced");
        rows.release(1, "k".to_owned(), value("1"));
        assert_eq!(state(&mut rows), written("1", "1"));
        assert_eq!(rows.bytes(), 2);
    }

    #[test]
    fn database_gets_the_newest_change_that_is_not_held() {
        let mut rows = Rows::default();
        rows.hold(1, "k", value("1"));
        rows.hold(2, "k", None);
        rows.hold(3, "k", value("3"));
        assert_eq!(state(&mut rows), seen("3"));
        rows.release(2, "k".to_owned(), None);
        assert_eq!(state(&mut rows), written("3", "none"));
        rows.release(1, "k".to_owned(), value("1"));
        assert_eq!(state(&mut rows), seen("3"), "a later one is written");
        rows.change("k".to_owned(), value("4"));
        rows.release(3, "k".to_owned(), value("3"));
        assert_eq!(state(&mut rows), written("4", "4"));
    }

    #[test]
    fn change_that_is_taken_back_never_was() {
        let mut rows = Rows::default();
        rows.change("k".to_owned(), value("0"));
        rows.hold(1, "k", value("1"));
        rows.hold(2, "k", value("2"));
        rows.take_back(2, "k");
        assert_eq!(state(&mut rows).1.as_deref(), Some("0"));
        rows.release(1, "k".to_owned(), value("1"));
        assert_eq!(state(&mut rows), written("1", "1"));
        rows.hold(3, "k", None);
        rows.take_back(3, "k");
        assert_eq!(state(&mut rows), seen("1"));
        assert_eq!(rows.bytes(), 2);
    }
}
