//! One state of the store: objects, indexes and version. Persistent: a clone shares everything.

use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;
use informant_object::{Key, KeyRef, LabelSelector, Object, ResourceVersion};

use crate::index::{
    IndexContents, IndexError, IndexFailures, IndexFunc, IndexValues, NAMESPACE_INDEX, Postings, StoredValues,
};

/// An object with its values in the native indexes.
#[derive(Clone, Debug)]
pub(super) struct StoredObject {
    pub(super) object: Object,
    pub(super) values: StoredValues,
}

/// Keyed by a separate key, not by the object's: inner nodes of the map keep keys of objects that were replaced long
/// ago.
pub(super) type Objects = OrdMap<Key, StoredObject>;

/// The state of the store.
#[derive(Clone, Default)]
pub(super) struct Root {
    pub(super) objects: Objects,
    /// Bytes of all objects.
    pub(super) bytes: usize,
    /// In order of declaration; `postings` has the same order.
    pub(super) functions: Arc<Vec<Arc<dyn IndexFunc>>>,
    pub(super) postings: Vec<Postings>,
    /// In the same order, as of the last publish that changed one. Shorter while nothing failed.
    pub(super) failures: Arc<Vec<IndexFailures>>,
    /// In order of declaration. No contents: not ready.
    pub(super) external: Vec<(Arc<str>, Option<IndexContents>)>,
    pub(super) version: Option<ResourceVersion>,
    pub(super) epoch: u64,
    /// Counts publishes.
    pub(super) generation: u64,
}

/// A resolved index name.
#[derive(Clone, Copy)]
pub(super) enum IndexRef<'a> {
    Namespace,
    Native(usize),
    External(&'a IndexContents),
}

/// Keys under one value, each with its object.
enum Matches<A, B> {
    InNamespace(A),
    Posted(B),
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
        if let Some(slot) = self.functions.iter().position(|function| function.name() == name) {
            return Ok(IndexRef::Native(slot));
        }
        match self.external.iter().find(|(external, _)| **external == *name) {
            Some((_, Some(contents))) => Ok(IndexRef::External(contents)),
            Some((_, None)) => Err(IndexError::NotReady { name: name.to_owned() }),
            None => Err(IndexError::UnknownIndex {
                name: name.to_owned(),
                available: self.index_names(),
            }),
        }
    }

    /// The failures of the index called `name`; none for one that does not exist or is not ready.
    pub(super) fn index_failures(&self, name: &str) -> Option<&IndexFailures> {
        match self.index(name).ok()? {
            IndexRef::Namespace => None,
            IndexRef::Native(slot) => self.failures.get(slot),
            IndexRef::External(contents) => contents.failures(),
        }
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

    /// Keys and objects under `value`, sorted by key.
    pub(super) fn matches<'a>(
        &'a self,
        index: IndexRef<'a>,
        value: &'a str,
    ) -> impl Iterator<Item = (KeyRef<'a>, &'a Object)> {
        let postings = match index {
            IndexRef::Namespace => return Matches::InNamespace(self.in_namespace(value)),
            IndexRef::Native(slot) => &self.postings[slot],
            IndexRef::External(contents) => contents.postings(),
        };
        Matches::Posted(postings.keys(value).filter_map(|key| Some((key, self.get(key)?))))
    }

    /// As [`matches`](Self::matches), only what comes after `after`.
    pub(super) fn matches_after<'a>(
        &'a self,
        index: IndexRef<'a>,
        value: &'a str,
        after: KeyRef<'a>,
    ) -> impl Iterator<Item = &'a Object> {
        let postings = match index {
            IndexRef::Namespace => {
                // A continuation is inside the namespace; the range starts behind its last object.
                let from = after.max(KeyRef::new(value, ""));
                let beyond = self.objects.range((Bound::Excluded(from), Bound::Unbounded));
                let inside = beyond.take_while(move |(key, _)| key.namespace() == value);
                return Matches::InNamespace(inside.map(|(_, stored)| &stored.object));
            }
            IndexRef::Native(slot) => &self.postings[slot],
            IndexRef::External(contents) => contents.postings(),
        };
        Matches::Posted(postings.keys_after(value, after).filter_map(|key| self.get(key)))
    }

    /// Values in use, sorted.
    pub(super) fn values(&self, index: IndexRef<'_>) -> Vec<Arc<str>> {
        match index {
            IndexRef::Namespace => self.namespaces().map(Arc::from).collect(),
            IndexRef::Native(slot) => self.postings[slot].values().cloned().collect(),
            IndexRef::External(contents) => contents.postings().values().cloned().collect(),
        }
    }

    /// Values in use that sort after `after`, sorted.
    pub(super) fn values_after<'a>(
        &'a self,
        index: IndexRef<'a>,
        after: Option<&'a str>,
    ) -> Box<dyn Iterator<Item = &'a str> + Send + 'a> {
        let postings = match index {
            IndexRef::Namespace => {
                let first = match after {
                    None => self.first_namespace(),
                    Some(after) => self.next_namespace(after),
                };
                return Box::new(std::iter::successors(first, |namespace| self.next_namespace(namespace)));
            }
            IndexRef::Native(slot) => &self.postings[slot],
            IndexRef::External(contents) => contents.postings(),
        };
        match after {
            None => Box::new(postings.values().map(|value| &**value)),
            Some(after) => Box::new(postings.values_after(after).map(|value| &**value)),
        }
    }

    /// Objects of `namespace`, or of all, whose labels match, sorted by key.
    pub(super) fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        selector: &'a LabelSelector,
    ) -> impl Iterator<Item = &'a Object> {
        let everything = selector.is_everything();
        self.objects
            .range(KeyRef::new(namespace.unwrap_or(""), "")..)
            .take_while(move |(key, _)| namespace.is_none_or(|namespace| key.namespace() == namespace))
            .map(|(_, stored)| &stored.object)
            .filter(move |object| everything || selector.matches(object))
    }

    /// Objects that share a value with `object`, sorted by key and without duplicates.
    pub(super) fn sharing_values(&self, index: IndexRef<'_>, object: &Object) -> Vec<Object> {
        let values = self.values_of(index, object);
        let mut found: Vec<(KeyRef<'_>, &Object)> =
            values.iter().flat_map(|value| self.matches(index, value)).collect();
        if values.len() > 1 {
            found.sort_unstable_by_key(|(key, _)| *key);
            found.dedup_by_key(|(key, _)| *key);
        }
        found.into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// The values under which `object` is, or would be, found; none if the index function fails. For an external index,
    /// the values of the stored object.
    fn values_of(&self, index: IndexRef<'_>, object: &Object) -> Vec<String> {
        match index {
            IndexRef::Namespace => vec![object.namespace().to_owned()],
            IndexRef::External(contents) => contents.values_of(object.key()).map(ToOwned::to_owned).collect(),
            IndexRef::Native(slot) => {
                let mut values = IndexValues::default();
                // An error leaves no values.
                let _ = values.compute(&*self.functions[slot], object);
                values.iter().map(ToOwned::to_owned).collect()
            }
        }
    }

    /// Objects of `namespace`, sorted by name. (A range: the map is sorted by namespace first.)
    pub(super) fn in_namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (KeyRef<'a>, &'a Object)> {
        self.objects
            .range(KeyRef::new(namespace, "")..)
            .take_while(move |(key, _)| key.namespace() == namespace)
            .map(|(key, stored)| (key.as_ref(), &stored.object))
    }

    /// Namespaces that have objects, sorted.
    fn namespaces(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(self.first_namespace(), |namespace| self.next_namespace(namespace))
    }

    fn first_namespace(&self) -> Option<&str> {
        self.objects.get_min().map(|(key, _)| key.namespace())
    }

    fn next_namespace(&self, namespace: &str) -> Option<&str> {
        // U+10FFFF is above every character of a name, and no name contains it.
        let mut range = self.objects.range(KeyRef::new(namespace, "\u{10ffff}")..);
        range.find_map(|(key, _)| (key.namespace() != namespace).then(|| key.namespace()))
    }
}

impl<T, A: Iterator<Item = T>, B: Iterator<Item = T>> Iterator for Matches<A, B> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        match self {
            Matches::InNamespace(matches) => matches.next(),
            Matches::Posted(matches) => matches.next(),
        }
    }
}
