//! The only one who writes a store.

mod external;

use std::fmt;
use std::sync::Arc;

use informant_object::{Key, KeyRef, LabelSelector, Object, ResourceVersion};

use super::root::{Root, Stored};
use super::{Garbage, Snapshot};
use crate::catalog::{Catalog, UnknownSource};
use crate::index::{Failures, IndexConflict, IndexError, IndexFunc, KeptValues, NAMESPACE_INDEX, Postings, Sink};
use crate::known_objects::{KnownObjects, LookupFailed};
use crate::source::Source;
use informant_object::SourceId;

/// Owns a source's objects and indexes: client-go's `Store` and `Indexer` as `&mut` methods, and [`publish`](Self::publish).
///
/// Reading here sees what is written; readers elsewhere see the last publish. Not shared: it belongs to the informer loop.
///
/// Source: client-go `thread_safe_store.go`, `store.go`, `index.go`. Departures: an index function runs once per object
/// version and never on the old one; its error isolates the object instead of panicking; lists are sorted; the version is told
/// ([`set_version`](Self::set_version)) and not guessed from the last object written, which a queue with deltas per key would
/// make a lie.
pub struct StoreWriter {
    root: Root,
    /// Per native index.
    failures: Vec<Failures>,
    /// Per external index.
    feeds: Vec<external::Feed>,
    sink: Sink,
    published: Snapshot,
    source: Option<Arc<Source>>,
    dirty: bool,
    garbage: Garbage,
    garbage_freed_here: u64,
}

impl Default for StoreWriter {
    fn default() -> StoreWriter {
        StoreWriter::new()
    }
}

/// Making and publishing.
impl StoreWriter {
    /// An empty store whose snapshots are seen by those to whom they are handed.
    #[must_use]
    pub fn new() -> StoreWriter {
        StoreWriter {
            root: Root::default(),
            failures: Vec::new(),
            feeds: Vec::new(),
            sink: Sink::default(),
            published: Snapshot::default(),
            source: None,
            dirty: false,
            garbage: Garbage::default(),
            garbage_freed_here: 0,
        }
    }

    /// An empty store whose snapshots `catalog` shows under `source`.
    ///
    /// # Errors
    /// [`UnknownSource`] when the catalog has no such source (any more).
    pub fn publishing_to(catalog: &Catalog, source: SourceId) -> Result<StoreWriter, UnknownSource> {
        Ok(StoreWriter {
            source: Some(catalog.source(source).ok_or(UnknownSource(source))?),
            ..StoreWriter::new()
        })
    }

    /// Shows all that was written since the last publish to readers, at once; nothing new if nothing was.
    ///
    /// Objects that were written since, and of which an attached external index was told nothing, leave that index first: it
    /// never says what is no longer true. (Counted, [`values_missing`](Self::values_missing).)
    pub fn publish(&mut self) -> Snapshot {
        self.drop_awaited_values();
        if !self.dirty {
            return self.published.clone();
        }
        self.dirty = false;
        self.root.generation += 1;
        let snapshot = Snapshot::new(self.root.clone());
        let mut old = vec![std::mem::replace(&mut self.published, snapshot.clone())];
        if let Some(source) = &self.source {
            old.push(source.publish(snapshot.clone()));
        }
        // Both are the same root as a rule; where they are not, both are to be freed elsewhere.
        for root in old {
            self.garbage_freed_here += u64::from(self.garbage.push(root));
        }
        snapshot
    }

    /// What readers saw last.
    #[must_use]
    pub fn published(&self) -> &Snapshot {
        &self.published
    }

    /// The roots replaced since the last call, to be dropped where nobody waits.
    pub fn take_garbage(&mut self) -> Garbage {
        std::mem::take(&mut self.garbage)
    }

    /// Ends the store; all it holds, to be dropped where nobody waits. What the catalog shows stays until the source is removed.
    pub fn into_garbage(mut self) -> Garbage {
        let root = Snapshot::new(std::mem::take(&mut self.root));
        let mut garbage = self.take_garbage();
        garbage.push(root);
        garbage.push(std::mem::take(&mut self.published));
        garbage
    }

    /// Roots that were freed by this writer because nobody took them in time.
    #[must_use]
    pub fn garbage_freed_here(&self) -> u64 {
        self.garbage_freed_here
    }

    /// Says that the store holds all that the source had shown up to `version`, in its stretch of history `epoch`. Within an
    /// epoch a decimal version never goes back: an older one is ignored.
    ///
    /// Source: client-go `LastStoreSyncResourceVersion`, `Bookmark`, without the check.
    pub fn set_version(&mut self, version: ResourceVersion, epoch: u64) {
        let goes_back = self.root.epoch == epoch && self.root.version.as_ref().is_some_and(|own| version < *own);
        if goes_back || (self.root.epoch, self.root.version.as_ref()) == (epoch, Some(&version)) {
            return;
        }
        self.root.version = Some(version);
        self.root.epoch = epoch;
        self.dirty = true;
    }

    /// See [`Snapshot::version`].
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.root.version.as_ref()
    }
}

/// Writing.
impl StoreWriter {
    /// Stores `object`; returns what was stored under its key.
    pub fn add(&mut self, object: Object) -> Option<Object> {
        self.dirty = true;
        let is_same_version = |old: &Object| {
            old.ptr_eq(&object)
                || (!old.version().is_empty() && old.version() == object.version() && old.uid() == object.uid())
        };
        self.root.bytes += object.size_bytes();
        match self.root.objects.get_key_value_mut(&object.key()) {
            Some((key, stored)) => {
                self.root.bytes -= stored.object.size_bytes();
                if !is_same_version(&stored.object) {
                    compute(&mut self.sink, &self.root.functions, &mut self.failures, &object);
                    stored.values.update(&self.sink, &mut self.root.postings, key);
                    self.feeds.iter_mut().for_each(|feed| feed.await_values(key));
                }
                Some(std::mem::replace(&mut stored.object, object))
            }
            None => {
                compute(&mut self.sink, &self.root.functions, &mut self.failures, &object);
                let key = object.key().to_key();
                let mut values = KeptValues::default();
                values.update(&self.sink, &mut self.root.postings, &key);
                self.feeds.iter_mut().for_each(|feed| feed.await_values(&key));
                self.root.objects.insert(key, Stored { object, values });
                None
            }
        }
    }

    /// The same as [`add`](Self::add), as in client-go.
    pub fn update(&mut self, object: Object) -> Option<Object> {
        self.add(object)
    }

    /// Removes what is stored under `key` and returns it; no error if there is nothing.
    pub fn delete(&mut self, key: KeyRef<'_>) -> Option<Object> {
        let (key, stored) = self.root.objects.remove_with_key(&key)?;
        self.dirty = true;
        self.root.bytes -= stored.object.size_bytes();
        stored.values.remove(&mut self.root.postings, key.as_ref());
        self.failures
            .iter_mut()
            .for_each(|failures| failures.forget(key.as_ref()));
        self.forget_external(&key);
        Some(stored.object)
    }

    /// Makes `objects` all there is, as of `version` in `epoch`. Where a key comes twice the last one counts. Index functions
    /// run for what is not stored at that version already; readers see the change at once, with the next publish.
    pub fn replace(&mut self, objects: Vec<Object>, version: ResourceVersion, epoch: u64) {
        let mut listed: Vec<KeyRef<'_>> = objects.iter().map(Object::key).collect();
        listed.sort_unstable();
        let gone: Vec<Key> = self
            .root
            .objects
            .keys()
            .filter(|key| listed.binary_search(&key.as_ref()).is_err())
            .cloned()
            .collect();
        for key in gone {
            self.delete(key.as_ref());
        }
        for object in objects {
            self.add(object);
        }
        self.set_version(version, epoch);
    }

    /// Nothing: there is no queue behind a store. Kept because client-go's `Store` has it.
    pub fn resync(&mut self) {}
}

/// Reading what is written. The same questions are answered by a [`Snapshot`], without the writer.
impl StoreWriter {
    /// What is stored under `object`'s key.
    #[must_use]
    pub fn get(&self, object: &Object) -> Option<&Object> {
        self.root.get(object.key())
    }

    /// What is stored under `key`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<&Object> {
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
}

/// Indexes.
impl StoreWriter {
    /// Adds `indexes`, all or none, and fills them from what is stored.
    ///
    /// # Errors
    /// [`IndexConflict`] when a name is taken, or given twice; nothing is added then.
    pub fn add_indexers(&mut self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), IndexConflict> {
        let mut names: Vec<&str> = indexes.iter().map(|index| index.name()).collect();
        names.sort_unstable();
        let taken = |at: usize| self.is_declared(names[at]) || (at > 0 && names[at] == names[at - 1]);
        let mut conflicts: Vec<String> = (0..names.len())
            .filter(|&at| taken(at))
            .map(|at| names[at].to_owned())
            .collect();
        conflicts.dedup();
        if !conflicts.is_empty() {
            return Err(IndexConflict { names: conflicts });
        }
        let functions = Arc::make_mut(&mut self.root.functions);
        functions.extend(indexes.into_iter().map(Arc::from));
        self.root.postings.resize_with(functions.len(), Postings::default);
        self.failures.resize_with(functions.len(), Failures::default);
        self.dirty = true;
        self.back_fill();
        Ok(())
    }

    /// The names of all indexes, ready or not, sorted.
    #[must_use]
    pub fn get_indexers(&self) -> Vec<String> {
        self.root.index_names()
    }

    /// Objects that share a value with `object`; see [`Snapshot::index`].
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

    /// Objects that the native index called `index` could not take, with what it said, sorted; at most
    /// [`INDEX_FAILURES_LISTED_MAX`](crate::INDEX_FAILURES_LISTED_MAX) of them.
    pub fn index_failures(&self, index: &str) -> impl Iterator<Item = (&Key, &str)> {
        self.slot(index)
            .into_iter()
            .flat_map(|slot| self.failures[slot].listed())
    }

    /// How often the native index called `index` could not take an object, so far.
    #[must_use]
    pub fn index_failures_total(&self, index: &str) -> u64 {
        self.slot(index).map_or(0, |slot| self.failures[slot].total())
    }

    fn slot(&self, index: &str) -> Option<usize> {
        self.root.functions.iter().position(|function| function.name() == index)
    }

    fn is_declared(&self, index: &str) -> bool {
        index == NAMESPACE_INDEX
            || self.slot(index).is_some()
            || self.root.external.iter().any(|(name, _)| **name == *index)
    }

    /// Computes all native values again. Postings are touched only where values differ, so what was there stays as it is.
    fn back_fill(&mut self) {
        for key in self.root.objects.keys().cloned().collect::<Vec<_>>() {
            let Some(stored) = self.root.objects.get_mut(&key) else {
                continue;
            };
            compute(&mut self.sink, &self.root.functions, &mut self.failures, &stored.object);
            stored.values.update(&self.sink, &mut self.root.postings, &key);
        }
    }
}

fn compute(sink: &mut Sink, functions: &[Arc<dyn IndexFunc>], failures: &mut [Failures], object: &Object) {
    sink.compute(functions.iter().map(|function| &**function).zip(failures), object);
}

impl KnownObjects for StoreWriter {
    fn visit(&self, visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>)) {
        self.root.visit(visit);
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed> {
        Ok(self.root.get(key).cloned())
    }
}

impl fmt::Debug for StoreWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreWriter")
            .field("objects", &self.len())
            .field("bytes", &self.bytes())
            .field("published", &self.published)
            .finish_non_exhaustive()
    }
}
