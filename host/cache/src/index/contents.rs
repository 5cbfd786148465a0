//! The contents of one external index: the values that a plugin returned for each object.

use std::sync::Arc;

use imbl::OrdMap;
use informant_object::{Key, KeyRef};
use triomphe::ThinArc;

use super::{IndexFailures, IndexValues, Postings, TREE_ENTRY_BYTES};

/// Values per object and postings of one external index.
///
/// Built separately, on any thread, and then attached to a store complete
/// ([`StoreWriter::attach_index`](crate::StoreWriter::attach_index)). A clone costs nothing.
#[derive(Clone, Debug, Default)]
pub struct IndexContents {
    values: OrdMap<Key, ThinArc<(), Arc<str>>>,
    postings: Postings,
    /// None: nothing failed. Shared by all indexes of a plugin, since a failed object is absent from all of them.
    failures: Option<Arc<IndexFailures>>,
}

impl IndexContents {
    /// An empty index.
    #[must_use]
    pub fn new() -> IndexContents {
        IndexContents::default()
    }

    /// Sets the values of the object at `key`. Duplicates count once, and only changed postings are updated.
    ///
    /// # Errors
    /// A message when there are too many values ([`INDEX_VALUES_MAX`](crate::INDEX_VALUES_MAX),
    /// [`INDEX_VALUES_BYTES_MAX`](crate::INDEX_VALUES_BYTES_MAX)); the object then has none.
    pub fn set<'a>(&mut self, key: &Key, values: impl IntoIterator<Item = &'a str>) -> Result<(), String> {
        let mut fresh = IndexValues::default();
        let result = fresh.take(values.into_iter());
        let old = self.values.get(key);
        let kept = old.map_or(&[][..], |old| &old.slice);
        if kept.iter().map(|value| &**value).eq(fresh.iter()) {
            return result;
        }
        for value in kept {
            if !fresh.contains(value) {
                self.postings.remove(value, key.as_ref());
            }
        }
        let values: Vec<Arc<str>> = fresh
            .iter()
            .map(|value| match kept.binary_search_by(|kept| (**kept).cmp(value)) {
                Ok(index) => kept[index].clone(),
                Err(_) => {
                    let text = self.postings.text(value);
                    self.postings.insert(text.clone(), key);
                    text
                }
            })
            .collect();
        if values.is_empty() {
            self.values.remove(key);
        } else {
            self.values
                .insert(key.clone(), ThinArc::from_header_and_iter((), values.into_iter()));
        }
        result
    }

    /// Removes the object at `key`.
    pub fn remove(&mut self, key: KeyRef<'_>) {
        if let Some(failures) = self.failures.as_mut().filter(|failures| failures.has(key)) {
            Arc::make_mut(failures).forget(key);
        }
        if let Some(old) = self.values.remove(&key) {
            old.slice.iter().for_each(|value| self.postings.remove(value, key));
        }
    }

    /// The values of the object at `key`, sorted.
    pub(crate) fn values_of(&self, key: KeyRef<'_>) -> Vec<String> {
        let values = self.values.get(&key).map_or(&[][..], |values| &values.slice);
        values.iter().map(|value| value.to_string()).collect()
    }

    /// Objects that have at least one value.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether no object has a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Sets the objects that are absent because the index failed on them.
    pub(crate) fn with_failures(mut self, failures: Option<Arc<IndexFailures>>) -> IndexContents {
        self.failures = failures;
        self
    }

    pub(crate) fn failures(&self) -> Option<&IndexFailures> {
        self.failures.as_deref()
    }

    /// The memory that the entries take.
    pub(crate) fn bytes(&self) -> usize {
        self.postings.bytes() + self.values.len() * TREE_ENTRY_BYTES
    }

    pub(crate) fn postings(&self) -> &Postings {
        &self.postings
    }
}
