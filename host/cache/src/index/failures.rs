//! The objects that an index failed on, and why.

use std::sync::Arc;

use imbl::{OrdMap, OrdSet};
use informant_object::{AsKey, Key, KeyRef};

/// Failing objects listed per index with their message. Further ones are counted, and listed when they fail again after
/// others recovered or were deleted.
pub const INDEX_FAILURES_LISTED_MAX: usize = 64;

/// Bytes of a message kept; the rest is cut off.
pub const INDEX_FAILURE_MESSAGE_BYTES_MAX: usize = 512;

/// The objects that are absent from one index because its function failed on them.
///
/// A clone shares everything. Holds at most as many keys as the store holds objects.
#[derive(Clone, Debug, Default)]
pub struct IndexFailures {
    listed: OrdMap<Key, Arc<str>>,
    /// Absent, too, but above the limit of listed ones.
    others: OrdSet<Key>,
    total: u64,
    last: Option<(Key, Arc<str>)>,
    /// Changed since the last [`take_changed`](Self::take_changed).
    changed: bool,
}

impl IndexFailures {
    /// Objects that are absent from the index now.
    #[must_use]
    pub fn absent(&self) -> usize {
        self.listed.len() + self.others.len()
    }

    /// Objects that are absent now, with their error, sorted; at most [`INDEX_FAILURES_LISTED_MAX`].
    pub fn listed(&self) -> impl ExactSizeIterator<Item = (&Key, &str)> {
        self.listed.iter().map(|(key, message)| (key, &**message))
    }

    /// Failures so far, including those of objects that recovered or were deleted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The object that failed last, even if it recovered, and its error.
    #[must_use]
    pub fn last(&self) -> Option<(&Key, &str)> {
        self.last.as_ref().map(|(key, message)| (key, &**message))
    }

    /// Records the result of indexing the object at `key`.
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

    /// The object at `key` was deleted or recovered.
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

    /// Whether it changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}
