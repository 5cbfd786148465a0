//! Which objects an index could not take, and why.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use informant_object::{AsKey, Key, KeyRef};

/// Failing objects listed per index with their message. Further ones are counted, and listed when they fail again after
/// others recovered or went.
pub const INDEX_FAILURES_LISTED_MAX: usize = 64;

/// Bytes of a message kept; the rest is cut off.
pub const INDEX_FAILURE_MESSAGE_BYTES_MAX: usize = 512;

/// The objects that are not in one index because its function failed on them.
///
/// A clone shares everything. Holds no more keys than the store holds objects.
#[derive(Clone, Debug, Default)]
pub struct IndexFailures {
    listed: OrdMap<Key, Arc<str>>,
    /// Absent too, and beyond those that are listed.
    others: OrdSet<Key>,
    total: u64,
    last: Option<(Key, Arc<str>)>,
    /// Nobody [took](Self::take_changed) what it is now.
    changed: bool,
}

impl IndexFailures {
    /// Objects that are absent from the index now.
    #[must_use]
    pub fn absent(&self) -> usize {
        self.listed.len() + self.others.len()
    }

    /// Objects that are absent now, with what the index said, sorted; at most [`INDEX_FAILURES_LISTED_MAX`].
    pub fn listed(&self) -> impl ExactSizeIterator<Item = (&Key, &str)> {
        self.listed.iter().map(|(key, message)| (key, &**message))
    }

    /// Failures so far, of objects that are well again or gone too.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The object that failed last, though it may be well again, and what the index said.
    #[must_use]
    pub fn last(&self) -> Option<(&Key, &str)> {
        self.last.as_ref().map(|(key, message)| (key, &**message))
    }

    /// Notes how the index took the object at `key`.
    pub(crate) fn record(&mut self, key: KeyRef<'_>, result: Result<(), String>) {
        let Err(mut message) = result else {
            return self.forget(key);
        };
        message.truncate(message.floor_char_boundary(INDEX_FAILURE_MESSAGE_BYTES_MAX));
        let (key, message) = (key.to_key(), Arc::<str>::from(message));
        self.total += 1;
        self.changed = true;
        self.last = Some((key.clone(), message.clone()));
        if self.listed.len() < INDEX_FAILURES_LISTED_MAX || self.listed.contains_key(&key) {
            self.others.remove(&key);
            self.listed.insert(key, message);
        } else {
            self.others.insert(key);
        }
    }

    /// The object at `key` is gone or well again.
    pub(crate) fn forget(&mut self, key: KeyRef<'_>) {
        if self.has(key) {
            self.changed = true;
            self.listed.remove(&key as &dyn AsKey);
            self.others.remove(&key as &dyn AsKey);
        }
    }

    /// Whether the object at `key` is absent.
    pub(crate) fn has(&self, key: KeyRef<'_>) -> bool {
        let key = &key as &dyn AsKey;
        (!self.listed.is_empty() && self.listed.contains_key(key))
            || (!self.others.is_empty() && self.others.contains(key))
    }

    /// Whether it is another than when this was asked last.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
