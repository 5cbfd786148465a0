//! One state of the store: objects, indexes and version. Persistent: a clone shares everything.

use std::sync::Arc;

use imbl::OrdMap;
use informant_object::{Key, KeyRef, Object, ResourceVersion};

use super::usage::StoreUsage;
use crate::index::{IndexContents, IndexError, IndexFailures, IndexFunc, NAMESPACE_INDEX, Postings, StoredValues};
use crate::shards::ShardFilter;

/// An object with its values in the native indexes.
#[derive(Clone, Debug)]
pub(super) struct StoredObject {
    pub(super) object: Object,
    pub(super) values: StoredValues,
}

/// Keyed by a separate key, not by the object's: inner nodes of the map keep keys of objects that were replaced long
/// ago.
pub(super) type Objects = OrdMap<Key, StoredObject>;

#[derive(Clone, Default)]
pub(super) struct Root {
    pub(super) objects: Objects,
    /// See [`Snapshot::bytes`](super::Snapshot::bytes).
    pub(super) bytes: usize,
    /// How many objects are heads.
    pub(super) heads: usize,
    /// The namespaces that were shed completely.
    pub(super) sheds: Sheds,
    /// The sum of the bytes of all objects that were ever replaced by another state, or removed.
    pub(super) replaced_bytes: u64,
    /// The sum of the bytes of all objects that were ever replaced by another form of the same state.
    pub(super) reformed_bytes: u64,
    /// Shared by all roots of a writer.
    pub(super) usage: Arc<StoreUsage>,
    /// In order of declaration; `postings` has the same order.
    pub(super) functions: Arc<Vec<Arc<dyn IndexFunc>>>,
    pub(super) postings: Vec<Postings>,
    /// In the same order, as of the last publish that changed one. Shorter while nothing failed.
    pub(super) failures: Arc<Vec<IndexFailures>>,
    /// In order of declaration. No contents: not ready.
    pub(super) external: Vec<(Arc<str>, Option<IndexContents>)>,
    pub(super) version: Option<ResourceVersion>,
    pub(super) epoch: u64,
    pub(super) complete_through: Option<u64>,
    /// See [`Snapshot::shards`](super::Snapshot::shards).
    pub(super) shards: Option<ShardFilter>,
    /// Counts publishes.
    pub(super) generation: u64,
}

/// How many of the namespaces that were shed last are remembered.
const SHEDS_REMEMBERED_MAX: usize = 64;

/// A count of the namespaces that were shed, and the last of them, the oldest first.
#[derive(Clone, Default)]
pub(super) struct Sheds {
    count: u64,
    last: Arc<Vec<Box<str>>>,
}

impl Sheds {
    pub(super) fn push(&mut self, namespace: Box<str>) {
        self.count += 1;
        let last = Arc::make_mut(&mut self.last);
        if last.len() == SHEDS_REMEMBERED_MAX {
            last.remove(0);
        }
        last.push(namespace);
    }

    /// See [`Snapshot::shed_since`](super::Snapshot::shed_since).
    pub(super) fn since(&self, older: &Sheds) -> Option<&[Box<str>]> {
        let new = usize::try_from(self.count.saturating_sub(older.count)).unwrap_or(usize::MAX);
        let first = self.last.len().checked_sub(new);
        (new > 0).then(|| first.map_or(&[][..], |first| &self.last[first..]))
    }
}

/// A resolved index name.
pub(super) enum IndexRef<'a> {
    Namespace,
    Posted(&'a Postings, Option<&'a IndexFailures>),
}

impl Root {
    pub(super) fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        self.objects.get(&key).map(|stored| &stored.object)
    }

    /// Resolves the index called `name`.
    pub(super) fn index(&self, name: &str) -> Result<IndexRef<'_>, IndexError> {
        if name == NAMESPACE_INDEX {
            return Ok(IndexRef::Namespace);
        }
        if let Some(slot) = self.slot(name) {
            return Ok(IndexRef::Posted(&self.postings[slot], self.failures.get(slot)));
        }
        match &self.external[self.external_slot(name)?].1 {
            Some(contents) => Ok(IndexRef::Posted(contents.postings(), contents.failures())),
            None => Err(IndexError::NotReady { name: name.to_owned() }),
        }
    }

    /// See [`Snapshot::values_of`](super::Snapshot::values_of).
    pub(super) fn values_of(&self, name: &str, key: KeyRef<'_>) -> Result<Vec<String>, IndexError> {
        let stored = self.objects.get(&key);
        if name == NAMESPACE_INDEX {
            return Ok(stored.map(|_| key.namespace.to_owned()).into_iter().collect());
        }
        if let Some(slot) = self.slot(name) {
            let values = stored.into_iter().flat_map(|stored| stored.values.iter());
            let of_slot = values.filter(|(of, _)| usize::from(*of) == slot);
            return Ok(of_slot.map(|(_, value)| value.to_string()).collect());
        }
        match &self.external[self.external_slot(name)?].1 {
            Some(contents) => Ok(contents.values_of(key)),
            None => Err(IndexError::NotReady { name: name.to_owned() }),
        }
    }

    /// The position of the native index called `name`.
    pub(super) fn slot(&self, name: &str) -> Option<usize> {
        self.functions.iter().position(|function| function.name() == name)
    }

    /// The position of the external index called `name`.
    pub(super) fn external_slot(&self, name: &str) -> Result<usize, IndexError> {
        let slot = self.external.iter().position(|(external, _)| **external == *name);
        slot.ok_or_else(|| IndexError::UnknownIndex {
            name: name.to_owned(),
            available: self.index_names(),
        })
    }

    /// All declared names, sorted.
    pub(super) fn index_names(&self) -> Vec<String> {
        let native = self.functions.iter().map(|function| function.name());
        let external = self.external.iter().map(|(name, _)| &**name);
        let mut names: Vec<String> = native
            .chain(external)
            .chain([NAMESPACE_INDEX])
            .map(ToOwned::to_owned)
            .collect();
        names.sort_unstable();
        names
    }

    /// The first namespace that has objects and sorts after `after`.
    pub(super) fn next_namespace(&self, after: Option<&str>) -> Option<&str> {
        // U+10FFFF is above every character of a name, and no name contains it.
        let from = after.map_or(KeyRef::new("", ""), |after| KeyRef::new(after, "\u{10ffff}"));
        let mut keys = self.objects.range(from..).map(|(key, _)| key.namespace());
        keys.find(|namespace| after != Some(*namespace))
    }
}
