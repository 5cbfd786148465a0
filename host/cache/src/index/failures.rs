//! Which objects an index could not take, and why.

use std::collections::BTreeMap;

use informant_object::{Key, KeyRef};

/// Failing objects listed per index with their message. Further ones are counted, and listed when others recover or go.
pub const INDEX_FAILURES_LISTED_MAX: usize = 64;

/// Bytes of a message kept; the rest is cut off.
pub const INDEX_FAILURE_MESSAGE_BYTES_MAX: usize = 512;

/// The failures of one index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failures {
    listed: BTreeMap<Key, String>,
    total: u64,
}

impl Failures {
    /// Notes how the index took the object at `key`.
    pub(crate) fn note(&mut self, key: KeyRef<'_>, result: Result<(), String>) {
        let Err(mut message) = result else {
            return self.forget(key);
        };
        self.total += 1;
        if self.listed.len() >= INDEX_FAILURES_LISTED_MAX && !self.lists(key) {
            return;
        }
        message.truncate(message.floor_char_boundary(INDEX_FAILURE_MESSAGE_BYTES_MAX));
        self.listed.insert(key.to_key(), message);
    }

    /// The object at `key` is gone or well again.
    pub(crate) fn forget(&mut self, key: KeyRef<'_>) {
        if !self.listed.is_empty() && self.lists(key) {
            self.listed.remove(&key.to_key());
        }
    }

    /// Objects that fail now, with what the index said; at most [`INDEX_FAILURES_LISTED_MAX`].
    pub(crate) fn listed(&self) -> impl ExactSizeIterator<Item = (&Key, &str)> {
        self.listed.iter().map(|(key, message)| (key, message.as_str()))
    }

    /// Failures so far, of objects listed or not.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    fn lists(&self, key: KeyRef<'_>) -> bool {
        self.listed.contains_key(&key as &dyn informant_object::AsKey)
    }
}
