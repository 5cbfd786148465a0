//! Reads from the writer, including unpublished writes. A [`Snapshot`](crate::Snapshot) has the same methods for
//! published states.

use std::sync::Arc;

use informant_object::{Key, KeyRef, LabelSelector, Object};

use super::StoreWriter;
use crate::index::IndexError;

/// Reading.
impl StoreWriter {
    /// The stored object with `object`'s key.
    #[must_use]
    pub fn get(&self, object: &Object) -> Option<&Object> {
        self.root.get(object.key())
    }

    /// The stored object with `key`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<&Object> {
        if self.sorts_last(key) {
            return None;
        }
        self.root.get(key)
    }

    /// All objects, sorted by key.
    pub fn list(&self) -> impl ExactSizeIterator<Item = &Object> {
        self.root.objects.values().map(|stored| &stored.object)
    }

    /// All keys, sorted.
    pub fn list_keys(&self) -> impl ExactSizeIterator<Item = KeyRef<'_>> {
        self.root.objects.keys().map(Key::as_ref)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.root.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.objects.is_empty()
    }

    /// Bytes of all objects.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.root.bytes
    }

    /// Objects that share a value with `object`; see [`Snapshot::index`](crate::Snapshot::index).
    ///
    /// # Errors
    /// [`IndexError`] for an index that does not exist or is not ready.
    pub fn index(&self, index: &str, object: &Object) -> Result<Vec<Object>, IndexError> {
        Ok(self.root.sharing_values(self.root.index(index)?, object))
    }

    /// Keys under `value`, sorted.
    ///
    /// # Errors
    /// As [`index`](Self::index).
    pub fn index_keys<'a>(&'a self, index: &str, value: &'a str) -> Result<Vec<KeyRef<'a>>, IndexError> {
        Ok(self
            .root
            .matches(self.root.index(index)?, value)
            .map(|(key, _)| key)
            .collect())
    }

    /// Objects under `value`, sorted by key.
    ///
    /// # Errors
    /// As [`index`](Self::index).
    pub fn by_index<'a>(&'a self, index: &str, value: &'a str) -> Result<Vec<&'a Object>, IndexError> {
        Ok(self
            .root
            .matches(self.root.index(index)?, value)
            .map(|(_, object)| object)
            .collect())
    }

    /// All values in use, sorted; none for an index that does not exist or is not ready.
    #[must_use]
    pub fn list_index_func_values(&self, index: &str) -> Vec<Arc<str>> {
        self.root
            .index(index)
            .map(|index| self.root.values(index))
            .unwrap_or_default()
    }

    /// Objects of `namespace`, or of all, whose labels match.
    pub fn list_matching<'a>(
        &'a self,
        namespace: Option<&'a str>,
        selector: &'a LabelSelector,
    ) -> impl Iterator<Item = &'a Object> {
        self.root.list(namespace, selector)
    }
}
