//! The single writer of a store.

mod external;
mod indexers;
mod shed;

pub use self::indexers::{IndexFilling, OBJECTS_BETWEEN_YIELDS_MAX};

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use informant_object::{Key, KeyRef, Object, Projection, ResourceVersion, SourceId};

use self::shed::Shedding;

use super::root::{Root, StoredObject};
use super::usage::{NamespaceTally, StoreUsage, stored_bytes};
use super::{Garbage, Snapshot};
use crate::catalog::{Catalog, UnknownSource};
use crate::index::{ComputedValues, IndexFailures, StoredValues};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::shards::ShardFilter;
use crate::source::Source;

/// Owns a source's objects and indexes: client-go's `Store` and `Indexer` as `&mut` methods, and
/// [`publish`](Self::publish).
///
/// Reads here see unpublished writes; other readers see the last publish. Not shared: it belongs to the informer loop.
///
/// Source: client-go `thread_safe_store.go`, `store.go`, `index.go`. Departures: an index function runs once per object
/// version and never on the old one; its error isolates the object instead of panicking; lists are sorted; the version
/// is set explicitly ([`set_version`](Self::set_version)) instead of taken from the last object written, which would be
/// wrong with a queue of deltas per key.
pub struct StoreWriter {
    root: Root,
    /// Namespaces of which only heads are stored.
    shed: BTreeSet<Box<str>>,
    /// Those in which whole objects may be left.
    shedding: Vec<Shedding>,
    /// What heads keep. None: objects cannot be cut.
    head_fields: Option<Arc<Projection>>,
    /// The first native index whose fields stored heads may lack.
    late_functions: usize,
    /// The first native index whose fields heads may lack that are added.
    late_for_added: usize,
    /// Per native index.
    failures: Vec<IndexFailures>,
    /// Per external index.
    external_states: Vec<external::ExternalState>,
    computed: ComputedValues,
    tally: NamespaceTally,
    /// No stored key is above it, so a key above it is not stored. Lists come sorted, so this answers most look-ups of
    /// a first list.
    top: Option<Key>,
    published: Snapshot,
    source: Option<Arc<Source>>,
    dirty: bool,
    garbage: Garbage,
    garbage_freed_here: u64,
}

/// Construction and publishing.
impl StoreWriter {
    /// An empty store that publishes to no catalog.
    #[must_use]
    pub fn new() -> StoreWriter {
        StoreWriter {
            root: Root::default(),
            shed: BTreeSet::new(),
            shedding: Vec::new(),
            head_fields: Some(Arc::new(Projection::of_head(&[]))),
            late_functions: 0,
            late_for_added: usize::MAX,
            failures: Vec::new(),
            external_states: Vec::new(),
            computed: ComputedValues::default(),
            tally: NamespaceTally::default(),
            top: None,
            published: Snapshot::default(),
            source: None,
            dirty: false,
            garbage: Garbage::default(),
            garbage_freed_here: 0,
        }
    }

    /// An empty store that publishes its snapshots in `catalog` under `source`.
    ///
    /// # Errors
    /// [`UnknownSource`] if the catalog has no such source, or no longer.
    pub fn publishing_to(catalog: &Catalog, source: SourceId) -> Result<StoreWriter, UnknownSource> {
        Ok(StoreWriter {
            source: Some(catalog.source(source).ok_or(UnknownSource(source))?),
            ..StoreWriter::new()
        })
    }

    /// Publishes all writes since the last publish to readers, atomically; does nothing if there are none.
    ///
    /// Before that, removes objects that were written since from attached external indexes that received no values for
    /// them: an index never returns outdated values. (Counted in [`values_missing`](Self::values_missing).)
    pub fn publish(&mut self) -> Snapshot {
        self.drop_missing_values();
        if !self.dirty {
            return self.published.clone();
        }
        self.dirty = false;
        self.publish_failures();
        self.root.generation += 1;
        self.tally.flush(&self.root.usage);
        self.root.usage.replaced(self.published.root());
        let snapshot = Snapshot::new(self.root.clone());
        let own = std::mem::replace(&mut self.published, snapshot.clone());
        let of_source = self.source.as_ref().map(|source| source.publish(snapshot.clone()));
        // Usually both are the same root; if not, both are to be freed elsewhere.
        for root in [Some(own), of_source].into_iter().flatten() {
            self.garbage_freed_here += u64::from(self.garbage.push(root));
        }
        snapshot
    }

    /// The last published snapshot.
    #[must_use]
    pub fn published(&self) -> &Snapshot {
        &self.published
    }

    /// The roots replaced since the last call, to be dropped on a thread that may block.
    pub fn take_garbage(&mut self) -> Garbage {
        std::mem::take(&mut self.garbage)
    }

    /// Ends the store; returns all its content, to be dropped on a thread that may block. The catalog keeps the
    /// published snapshot until the source is removed.
    pub fn into_garbage(mut self) -> Garbage {
        let root = Snapshot::new(std::mem::take(&mut self.root));
        self.take_garbage().with([root, std::mem::take(&mut self.published)])
    }

    /// Roots that this writer freed itself because the limit was reached.
    #[must_use]
    pub fn garbage_freed_here(&self) -> u64 {
        self.garbage_freed_here
    }

    /// Sets the version: the store contains all changes up to `version` in `epoch`. Within an epoch, ignores older
    /// versions, if they are decimal.
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

    /// Sets what [`Snapshot::complete_through`] is from the next publish on. Alone, it is nothing to publish.
    pub fn set_complete_through(&mut self, version: Option<u64>) {
        self.root.complete_through = version;
    }

    /// Starts a new epoch after the source went back in time: the next publish has `epoch`, and no version until one is
    /// set. Readers that wait for a version of an older epoch see that it will not come.
    pub fn begin_epoch(&mut self, epoch: u64) {
        self.root.epoch = epoch;
        self.root.version = None;
        self.dirty = true;
    }

    /// See [`Snapshot::epoch`].
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.root.epoch
    }

    /// See [`Snapshot::version`].
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.root.version.as_ref()
    }
}

/// Reading, including unpublished writes.
impl StoreWriter {
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

    /// See [`Snapshot::bytes`].
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.root.bytes
    }

    /// Whether `key` is above every stored key, without a search.
    fn sorts_last(&self, key: KeyRef<'_>) -> bool {
        self.top.as_ref().is_none_or(|top| key > top.as_ref())
    }
}

/// Writing.
impl StoreWriter {
    /// See [`Snapshot::shards`].
    #[must_use]
    pub fn shards(&self) -> Option<ShardFilter> {
        self.root.shards
    }

    /// From the next publish on, it has only the objects of these shards. The caller removes the others.
    pub fn set_shards(&mut self, shards: Option<ShardFilter>) {
        self.dirty |= self.root.shards != shards;
        self.root.shards = shards;
    }

    /// Stores `object`, or its head in a [shed namespace](Self::shed_namespace); returns what was stored under its key.
    pub fn add(&mut self, object: Object) -> Option<Object> {
        self.dirty = true;
        let is_same_version = |old: &Object| {
            old.ptr_eq(&object)
                || (!old.version().is_empty()
                    && old.version() == object.version()
                    && old.uid() == object.uid()
                    // The cut fields may have changed for the same version.
                    && old.has_same_content(&object))
        };
        let fields = self.head_fields.as_ref().filter(|_| self.is_shed(object.namespace()));
        let head = fields.map(|fields| object.to_head(fields));
        let late = self.late_for_added;
        let sorts_last = self.sorts_last(object.key());
        let stored = match sorts_last {
            true => None,
            false => self.root.objects.get_key_value_mut(&object.key()),
        };
        match stored {
            Some((key, stored)) => {
                let before = stored_bytes(&stored.object);
                self.root.bytes -= before;
                self.root.bytes += stored_bytes(head.as_ref().unwrap_or(&object));
                self.root.replaced_bytes += before as u64;
                if !is_same_version(&stored.object) {
                    self.computed
                        .compute((0, late), &self.root.functions, &mut self.failures, &object);
                    if !seeded_bug(SeededBug::IndexKeepsStaleValues) {
                        stored.values.update(&mut self.computed, &mut self.root.postings, key);
                    }
                    self.external_states
                        .iter_mut()
                        .for_each(|state| state.expect_values(key));
                }
                let object = head.unwrap_or(object);
                count(
                    &mut self.tally,
                    &self.root.usage,
                    &mut self.root.heads,
                    Some(&stored.object),
                    Some(&object),
                );
                Some(std::mem::replace(&mut stored.object, object))
            }
            None => {
                self.computed
                    .compute((0, late), &self.root.functions, &mut self.failures, &object);
                self.insert(head.unwrap_or(object), sorts_last);
                None
            }
        }
    }

    /// Stores an object under a key that is not there, with the values that were computed last.
    fn insert(&mut self, object: Object, sorts_last: bool) {
        self.root.bytes += stored_bytes(&object);
        let key = object.key().to_key();
        let mut values = StoredValues::default();
        values.update(&mut self.computed, &mut self.root.postings, &key);
        self.external_states
            .iter_mut()
            .for_each(|state| state.expect_values(&key));
        if sorts_last {
            self.top = Some(key.clone());
        }
        count(
            &mut self.tally,
            &self.root.usage,
            &mut self.root.heads,
            None,
            Some(&object),
        );
        self.root.objects.insert(key, StoredObject { object, values });
    }

    /// Removes the object under `key` and returns it; does nothing if there is none.
    pub fn delete(&mut self, key: KeyRef<'_>) -> Option<Object> {
        let (key, stored) = self.root.objects.remove_with_key(&key)?;
        self.dirty = true;
        let bytes = stored_bytes(&stored.object);
        self.root.bytes -= bytes;
        self.root.replaced_bytes += bytes as u64;
        count(
            &mut self.tally,
            &self.root.usage,
            &mut self.root.heads,
            Some(&stored.object),
            None,
        );
        if !seeded_bug(SeededBug::IndexKeepsDeleted) {
            stored.values.remove(&mut self.root.postings, key.as_ref());
        }
        self.failures
            .iter_mut()
            .for_each(|failures| failures.forget(key.as_ref()));
        self.forget_external(&key);
        Some(stored.object)
    }

    /// Replaces the content with `objects`, as of `version` in `epoch`. If a key occurs twice, the last one counts.
    /// Index functions run only for objects not stored at that version already; readers see the change atomically with
    /// the next publish.
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
}

/// Counts that `old` was replaced by `new`: in the sums of its namespace, and among the heads.
fn count(
    tally: &mut NamespaceTally,
    usage: &StoreUsage,
    heads: &mut usize,
    old: Option<&Object>,
    new: Option<&Object>,
) {
    let Some(object) = new.or(old) else { return };
    let is_head = |object: Option<&Object>| usize::from(object.is_some_and(Object::is_head));
    *heads = *heads + is_head(new) - is_head(old);
    tally.count(usage, object.namespace(), new, old);
}

impl Default for StoreWriter {
    fn default() -> StoreWriter {
        StoreWriter::new()
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
