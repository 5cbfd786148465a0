//! One published state of a store.

use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

use informant_object::{KeyRef, LabelSelector, Object, ResourceVersion};

use super::Cursor;
use super::root::{IndexRef, Root};
use crate::index::{IndexContents, IndexError, IndexFailures, Postings};
use crate::shards::ShardFilter;

/// The objects of a source as of one publish. Immutable; a clone is cheap. It can be kept for any time: it keeps
/// outdated objects in memory, but blocks no one.
#[derive(Clone, Default)]
pub struct Snapshot(Arc<Root>);

impl Snapshot {
    pub(super) fn new(root: Root) -> Snapshot {
        Snapshot(Arc::new(root))
    }

    /// Which objects of the source it has, if this process reads only some shards.
    #[must_use]
    pub fn shards(&self) -> Option<&ShardFilter> {
        self.0.shards.as_ref()
    }

    /// Whether it has the object under `key`, if that exists.
    #[must_use]
    pub fn is_about(&self, key: KeyRef<'_>) -> bool {
        self.shards().is_none_or(|shards| shards.includes(key))
    }

    /// The object under `key`.
    #[must_use]
    pub fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        self.0.get(key)
    }

    /// All objects, sorted by namespace and name.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Object> + ExactSizeIterator {
        self.0.objects.values().map(|stored| &stored.object)
    }

    /// The objects after `key`, sorted; all of them without a key. For paging and cursors.
    pub fn after(&self, key: Option<KeyRef<'_>>) -> impl Iterator<Item = &Object> {
        let start = match key {
            Some(key) => Bound::Excluded(key),
            // The empty key sorts before every object.
            None => Bound::Included(KeyRef::new("", "")),
        };
        self.0
            .objects
            .range((start, Bound::Unbounded))
            .map(|(_, stored)| &stored.object)
    }

    /// Objects of `namespace`, or of all, whose labels match, sorted by namespace and name.
    ///
    /// Source: client-go `ListAll`, `ListAllByNamespace`.
    pub fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        selector: &'a LabelSelector,
    ) -> impl Iterator<Item = &'a Object> {
        let everything = selector.is_everything();
        self.0
            .objects
            .range(KeyRef::new(namespace.unwrap_or(""), "")..)
            .take_while(move |(key, _)| namespace.is_none_or(|namespace| key.namespace() == namespace))
            .map(|(_, stored)| &stored.object)
            .filter(move |object| everything || selector.matches(object))
    }

    /// Objects found under `value` in the index called `index`, sorted; none for a value that is not in use.
    ///
    /// # Errors
    /// [`IndexError`] for an index that does not exist or is not ready.
    pub fn by_index<'a>(
        &'a self,
        index: &str,
        value: &'a str,
    ) -> Result<impl Iterator<Item = &'a Object> + use<'a>, IndexError> {
        self.by_index_after(index, value, None)
    }

    /// What [`by_index`](Self::by_index) finds after the key `after`: the next page.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn by_index_after<'a>(
        &'a self,
        index: &str,
        value: &'a str,
        after: Option<KeyRef<'a>>,
    ) -> Result<impl Iterator<Item = &'a Object> + use<'a>, IndexError> {
        // The empty key sorts before every object, and none has it.
        let after = after.unwrap_or(KeyRef::new("", ""));
        Ok(match self.0.index(index)? {
            IndexRef::Namespace => {
                // A continuation is inside the namespace; the range starts behind its last object.
                let from = after.max(KeyRef::new(value, ""));
                let beyond = self.0.objects.range((Bound::Excluded(from), Bound::Unbounded));
                let inside = beyond.take_while(move |(key, _)| key.namespace() == value);
                Matches::InNamespace(inside.map(|(_, stored)| &stored.object))
            }
            IndexRef::Posted(postings, _) => {
                Matches::Posted(postings.keys_after(value, after).filter_map(|key| self.get(key)))
            }
        })
    }

    /// Keys of what [`by_index`](Self::by_index) finds, sorted.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn index_keys<'a>(
        &'a self,
        index: &str,
        value: &'a str,
    ) -> Result<impl Iterator<Item = KeyRef<'a>> + use<'a>, IndexError> {
        Ok(self.by_index(index, value)?.map(Object::key))
    }

    /// All values in use in the index called `index`, sorted.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn index_values(&self, index: &str) -> Result<Vec<Arc<str>>, IndexError> {
        Ok(self.index_values_after(index, None)?.map(Arc::from).collect())
    }

    /// What [`index_values`](Self::index_values) finds after the value `after`, sorted: the next page. Takes
    /// logarithmic time for each value.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn index_values_after<'a>(
        &'a self,
        index: &str,
        after: Option<&'a str>,
    ) -> Result<impl Iterator<Item = &'a str> + Send + use<'a>, IndexError> {
        let index = self.0.index(index)?;
        let next = move |after: Option<&str>| match index {
            IndexRef::Namespace => self.0.next_namespace(after),
            IndexRef::Posted(postings, _) => postings.next_value(after),
        };
        Ok(std::iter::successors(next(after), move |last| next(Some(last))))
    }

    /// The values of the object at `key` in the index called `index`, sorted; none if it is not there, or if the index
    /// failed on it.
    ///
    /// # Errors
    /// As [`by_index`](Self::by_index).
    pub fn values_of(&self, index: &str, key: KeyRef<'_>) -> Result<Vec<String>, IndexError> {
        self.0.values_of(index, key)
    }

    /// The objects with this name: in `namespace`, without a namespace, or if none is given in any. Visits all objects
    /// without one.
    pub fn named<'a>(&'a self, name: &'a str, namespace: Option<&'a str>) -> impl Iterator<Item = &'a Object> {
        let found = namespace.map(|namespace| [namespace, ""].map(|namespace| self.get(KeyRef::new(namespace, name))));
        let all = namespace
            .is_none()
            .then(|| self.iter().filter(move |object| object.name() == name));
        found.into_iter().flatten().flatten().chain(all.into_iter().flatten())
    }

    /// The names of all indexes, ready or not, sorted.
    #[must_use]
    pub fn index_names(&self) -> Vec<String> {
        self.0.index_names()
    }

    /// Whether the index called `name` exists and has its values.
    #[must_use]
    pub fn has_index(&self, name: &str) -> bool {
        self.0.index(name).is_ok()
    }

    /// Whether an index of a plugin has its values that had none in `older`, a state of the same store.
    pub(crate) fn has_more_indexes_than(&self, older: &Snapshot) -> bool {
        let was_ready = |name: &str| {
            older
                .0
                .external
                .iter()
                .any(|(other, had)| **other == *name && had.is_some())
        };
        let mut ready = self.0.external.iter().filter(|(_, has)| has.is_some());
        ready.any(|(name, _)| !was_ready(name))
    }

    /// The objects of this state that are absent from the index called `index` because its function failed on them.
    /// None if it failed on none, does not exist or is not ready.
    #[must_use]
    pub fn index_failures(&self, index: &str) -> Option<&IndexFailures> {
        match self.0.index(index).ok()? {
            IndexRef::Namespace => None,
            IndexRef::Posted(_, failures) => failures.filter(|failures| failures.absent() > 0),
        }
    }

    /// Iterates over the objects in order, holding this snapshot.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.clone())
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.objects.is_empty()
    }

    /// The memory that the objects take, the sum of their [`stored_bytes`](super::stored_bytes). Without indexes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// How many of the objects are only heads.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.0.heads
    }

    /// Namespaces that were shed completely since `older`, a state of the same store. None if there are none; an empty
    /// list if there are too many to know them.
    pub(crate) fn shed_since(&self, older: &Snapshot) -> Option<&[Box<str>]> {
        self.0.sheds.since(&older.0.sheds)
    }

    /// The namespaces of which only heads are stored, as of the newest snapshot, with the bytes that the bodies of
    /// their objects would add, the smallest first.
    #[must_use]
    pub fn shed_namespaces(&self) -> Vec<(Box<str>, usize)> {
        self.0.usage.shed_namespaces()
    }

    /// The memory that an object of `namespace` would take on average if all of them were whole, as of the newest
    /// snapshot. None if there are none.
    #[must_use]
    pub fn mean_whole_bytes(&self, namespace: &str) -> Option<usize> {
        self.0.usage.mean_whole_bytes(namespace)
    }

    /// The memory that the entries of the indexes take, without the texts of values.
    #[must_use]
    pub fn index_bytes(&self) -> usize {
        let native = self.0.postings.iter().map(Postings::bytes);
        let external = self.0.external.iter().filter_map(|(_, contents)| contents.as_ref());
        native.chain(external.map(IndexContents::bytes)).sum()
    }

    /// The memory of objects that are no longer in this, the newest snapshot, and that readers of older ones keep: an
    /// upper bound.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.0.usage.held_bytes(&self.0)
    }

    /// [`held_bytes`](Self::held_bytes) without objects that were only replaced by another form of the same state: by
    /// their heads, or by whole ones again.
    #[must_use]
    pub fn held_states_bytes(&self) -> usize {
        self.0.usage.held_states_bytes(&self.0)
    }

    /// The namespaces whose objects take the most memory, at most `count`, the largest first, with their bytes, as of
    /// the newest snapshot. Cluster-scoped objects are in the namespace "".
    #[must_use]
    pub fn largest_namespaces(&self, count: usize) -> Vec<(Box<str>, usize)> {
        self.0.usage.largest_namespaces(count)
    }

    /// The version of this state: it contains all changes up to that version, and may contain newer ones. None before
    /// the first list.
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.0.version.as_ref()
    }

    /// The version up to which all changes are in this state, by lists and events alone: after a bookmark, events with
    /// older versions may follow. None before it is set, and while versions are no numbers.
    #[must_use]
    pub fn complete_through(&self) -> Option<u64> {
        self.0.complete_through
    }

    /// The epoch of the source's history: versions compare only within one epoch.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// The number of the publish within its store; 0 is the empty store before the first publish.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.generation
    }

    pub(super) fn root(&self) -> &Arc<Root> {
        &self.0
    }

    /// Whether both are the same publish of the same store.
    #[must_use]
    pub fn ptr_eq(&self, other: &Snapshot) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns this handle as garbage, to be freed on another thread.
    pub fn into_garbage(self) -> Garbage {
        Garbage::of(self)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("objects", &self.len())
            .field("bytes", &self.bytes())
            .field("version", &self.version().map(ResourceVersion::as_str))
            .field("epoch", &self.epoch())
            .field("generation", &self.generation())
            .finish_non_exhaustive()
    }
}

/// Objects under one value.
enum Matches<A, B> {
    InNamespace(A),
    Posted(B),
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

/// Replaced roots that a writer keeps until they are taken. Above it the writer itself frees the oldest, counted in
/// [`StoreWriter::garbage_freed_here`](crate::StoreWriter::garbage_freed_here).
pub const GARBAGE_ROOTS_MAX: usize = 256;

/// Replaced roots. Dropping it frees what no reader uses any more, which takes tens of milliseconds for a large store:
/// drop it on a thread that may block.
#[derive(Debug, Default)]
#[must_use = "dropping it frees it on this thread"]
pub struct Garbage {
    roots: Vec<Snapshot>,
}

impl Garbage {
    pub(crate) fn of(root: Snapshot) -> Garbage {
        Garbage { roots: vec![root] }
    }

    /// How many roots it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there is nothing to free.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Adds `roots` without a limit.
    pub(super) fn with(mut self, roots: impl IntoIterator<Item = Snapshot>) -> Garbage {
        self.roots.extend(roots);
        self
    }

    /// Adds `root`; returns whether another one was freed for it.
    pub(super) fn push(&mut self, root: Snapshot) -> bool {
        let full = self.roots.len() >= GARBAGE_ROOTS_MAX;
        if full {
            self.roots.remove(0);
        }
        self.roots.push(root);
        full
    }
}
