//! A thread-safe store with indexes.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use informant_cache::{IndexConflict, IndexError, IndexFunc, IndexValues, Snapshot, StoreWriter};
use informant_object::{Key, KeyRef, Object, ResourceVersion};

use crate::known_objects::{KnownObjects, LookupFailed};
use crate::locks::lock;

/// A [`StoreWriter`] behind a lock, and its newest [`Snapshot`] behind another; clones are the same store.
///
/// Writers take turns. Readers and writers do not block each other: a reader takes the newest snapshot, and listing a
/// hundred thousand objects delays no writer. Every read sees all writes that returned before it.
///
/// Source: client-go `Store`, `Indexer`, `ThreadSafeStore`, each method under the name it has there; there each read
/// holds a lock.
///
/// ```
/// use informant_client_go::{Indexer, PointerIndex};
/// use informant_object::{KeyRef, Object, Pointer, Shape};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Indexer::new(vec![Box::new(PointerIndex::new("node", Pointer::parse("/spec/nodeName")?))])?;
/// let json = br#"{"metadata":{"namespace":"default","name":"web"},"spec":{"nodeName":"n1"}}"#;
/// store.add(Object::parse(json, &Shape::of("v1", "Pod"))?);
///
/// let reader = store.clone();
/// let found = std::thread::spawn(move || reader.by_index("node", "n1")).join().unwrap()?;
/// assert_eq!(found[0].name(), "web");
/// store.delete(KeyRef::new("default", "web"));
/// assert!(store.list().is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Indexer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    writer: Mutex<StoreWriter>,
    /// The snapshot for readers. Locked only to swap a pointer.
    shown: Mutex<Snapshot>,
    /// The added indexes, in that order.
    indexers: Mutex<Vec<Arc<dyn IndexFunc>>>,
}

/// An index function that the store and the [`Indexer`] share.
struct SharedFunc(Arc<dyn IndexFunc>);

impl IndexFunc for SharedFunc {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn values(&self, object: &Object, values: &mut IndexValues) -> Result<(), String> {
        self.0.values(object, values)
    }
}

impl fmt::Debug for Indexer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Indexer").field(&self.snapshot()).finish()
    }
}

/// Construction.
impl Indexer {
    /// An empty store with these indexes, and `namespace`. client-go: `NewIndexer`; without indexes `NewStore`, here
    /// also `Indexer::default()`.
    ///
    /// # Errors
    /// [`IndexConflict`] if a name occurs twice or is `namespace`.
    pub fn new(indexes: Vec<Box<dyn IndexFunc>>) -> Result<Indexer, IndexConflict> {
        let store = Indexer::default();
        store.add_indexers(indexes)?;
        Ok(store)
    }
}

/// Writing. Readers see each write when the call returns.
impl Indexer {
    /// Stores `object`; returns what was stored under its key. client-go: `Add`.
    pub fn add(&self, object: Object) -> Option<Object> {
        self.transaction(|writer| writer.add(object))
    }

    /// The same as [`add`](Self::add). client-go: `Update`.
    pub fn update(&self, object: Object) -> Option<Object> {
        self.add(object)
    }

    /// Removes the object under `key` and returns it; does nothing if there is none. client-go: `Delete`, which takes
    /// an object or a tombstone: pass its `key()`.
    pub fn delete(&self, key: KeyRef<'_>) -> Option<Object> {
        self.transaction(|writer| writer.delete(key))
    }

    /// Replaces the content with `objects`, the state at `version`, atomically for readers. client-go: `Replace`.
    ///
    /// An older version than before is accepted; check that in the queue in front of the store.
    pub fn replace(&self, objects: Vec<Object>, version: ResourceVersion) {
        self.transaction(|writer| {
            let goes_back = writer.version().is_some_and(|own| version < *own);
            let epoch = writer.epoch() + u64::from(goes_back);
            writer.replace(objects, version, epoch);
        });
    }

    /// Does nothing: there is no queue behind a store. client-go: `Resync`.
    pub fn resync(&self) {}

    /// Sets the version: the store contains all changes up to `version`; an older one is ignored. client-go:
    /// `Bookmark`. (There `Add` and `Update` raise the version, too. With a queue that groups changes by key that would
    /// be wrong.)
    pub fn bookmark(&self, version: ResourceVersion) {
        self.transaction(|writer| {
            let epoch = writer.epoch();
            writer.set_version(version, epoch);
        });
    }

    /// Makes several changes that readers see atomically. client-go: `Transaction`.
    ///
    /// The only method that holds the writers' lock while a caller's code runs: writing to this same store inside
    /// `change` deadlocks. Reading is fine, and sees the previous state.
    pub fn transaction<R>(&self, change: impl FnOnce(&mut StoreWriter) -> R) -> R {
        let (result, _garbage) = {
            let mut writer = lock(&self.0.writer);
            let result = change(&mut writer);
            let snapshot = writer.publish();
            let old = std::mem::replace(&mut *lock(&self.0.shown), snapshot);
            // Freed by the caller, after both locks.
            (result, (old, writer.take_garbage()))
        };
        result
    }

    /// Adds `indexes`, all or none, and fills them from what is stored. client-go: `AddIndexers`.
    ///
    /// # Errors
    /// [`IndexConflict`] if a name exists already; nothing is added then.
    pub fn add_indexers(&self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), IndexConflict> {
        let added: Vec<Arc<dyn IndexFunc>> = indexes.into_iter().map(Arc::from).collect();
        let shared = |index: &Arc<dyn IndexFunc>| -> Box<dyn IndexFunc> { Box::new(SharedFunc(Arc::clone(index))) };
        // Before the store's lock, so that the order is the store's.
        let mut indexers = lock(&self.0.indexers);
        self.transaction(|writer| writer.add_indexers(added.iter().map(shared).collect()))?;
        indexers.extend(added);
        Ok(())
    }
}

/// Reading, always from the newest state.
impl Indexer {
    /// The newest snapshot: use one for reads that belong together. client-go has no equivalent.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.0.shown).clone()
    }

    /// The stored object with `object`'s key. client-go: `Get`.
    #[must_use]
    pub fn get(&self, object: &Object) -> Option<Object> {
        self.get_by_key(object.key())
    }

    /// The stored object with `key`. client-go: `GetByKey`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<Object> {
        self.snapshot().get(key).cloned()
    }

    /// All objects, sorted by namespace and name. client-go: `List`, in no order.
    ///
    /// Copying an object costs one reference count; to only read them, iterate over a [`snapshot`](Self::snapshot).
    #[must_use]
    pub fn list(&self) -> Vec<Object> {
        self.snapshot().iter().cloned().collect()
    }

    /// All keys, sorted. client-go: `ListKeys`.
    #[must_use]
    pub fn list_keys(&self) -> Vec<Key> {
        self.snapshot().iter().map(|object| object.key().to_key()).collect()
    }

    /// Objects that share a value with `object` in the index called `index`. client-go: `Index`.
    ///
    /// # Errors
    /// [`IndexError`] for an index that does not exist.
    pub fn index(&self, index: &str, object: &Object) -> Result<Vec<Object>, IndexError> {
        let snapshot = self.snapshot();
        let mut found = BTreeMap::new();
        for value in self.values_of(index, object) {
            let objects = snapshot.by_index(index, &value)?;
            found.extend(objects.map(|object| (object.key().to_key(), object.clone())));
        }
        // Also without values, an index that does not exist is an error.
        snapshot.by_index(index, "").map(drop)?;
        Ok(found.into_values().collect())
    }

    /// Objects found under `value`; none for a value that is not in use. client-go: `ByIndex`.
    ///
    /// # Errors
    /// As [`index`](Self::index).
    pub fn by_index(&self, index: &str, value: &str) -> Result<Vec<Object>, IndexError> {
        Ok(self.snapshot().by_index(index, value)?.cloned().collect())
    }

    /// Keys of what [`by_index`](Self::by_index) finds, sorted. client-go: `IndexKeys`.
    ///
    /// # Errors
    /// As [`index`](Self::index).
    pub fn index_keys(&self, index: &str, value: &str) -> Result<Vec<Key>, IndexError> {
        Ok(self
            .snapshot()
            .index_keys(index, value)?
            .map(|key| key.to_key())
            .collect())
    }

    /// All values in use, sorted; none for an index that does not exist. client-go: `ListIndexFuncValues`.
    #[must_use]
    pub fn list_index_func_values(&self, index: &str) -> Vec<Arc<str>> {
        self.snapshot().index_values(index).unwrap_or_default()
    }

    /// The added indexes, in that order; the built-in `namespace` needs no function. client-go: `GetIndexers`.
    #[must_use]
    pub fn get_indexers(&self) -> Vec<Arc<dyn IndexFunc>> {
        lock(&self.0.indexers).clone()
    }

    /// The version up to which the store contains all changes; none before the first [`replace`](Self::replace) or
    /// [`bookmark`](Self::bookmark). client-go: `LastStoreSyncResourceVersion`.
    #[must_use]
    pub fn last_store_sync_resource_version(&self) -> Option<ResourceVersion> {
        self.snapshot().version().cloned()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.snapshot().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.snapshot().is_empty()
    }
}

/// Internals.
impl Indexer {
    /// The values under which `object` is found, or would be if it were stored; none if the index function fails.
    fn values_of(&self, index: &str, object: &Object) -> Vec<Arc<str>> {
        let mut alone = StoreWriter::new();
        let function = lock(&self.0.indexers)
            .iter()
            .find(|known| known.name() == index)
            .cloned();
        if let Some(function) = function {
            // The first index of an empty store has no conflict.
            let _ = alone.add_indexers(vec![Box::new(SharedFunc(function))]);
        }
        alone.add(object.clone());
        alone.publish().index_values(index).unwrap_or_default()
    }
}

/// For use as the known objects of a [`DeltaFifo`](crate::DeltaFifo).
impl KnownObjects for Indexer {
    fn visit(&self, visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>)) {
        self.snapshot()
            .iter()
            .for_each(|object| visit(object.key(), Some(object)));
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed> {
        Ok(Indexer::get_by_key(self, key))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use informant_object::Pointer;

    use super::*;
    use crate::PointerIndex;
    use crate::testing::{pod, pod_in, pod_with, version};

    fn node_index() -> Box<dyn IndexFunc> {
        Box::new(PointerIndex::new("node", Pointer::parse("/spec/nodeName").unwrap()))
    }

    fn on(name: &str, number: u64, node: &str) -> Object {
        pod_with(name, number, &format!(r#"{{"nodeName":"{node}"}}"#))
    }

    fn names(objects: &[Object]) -> Vec<&str> {
        objects.iter().map(Object::name).collect()
    }

    /// client-go: TestCache, TestIndex, doTestStore, doTestIndex.
    #[test]
    fn methods_behave_like_those_of_client_go() {
        let store = Indexer::new(vec![node_index()]).unwrap();
        assert!(store.add(on("a", 1, "n1")).is_none());
        assert_eq!(store.update(on("a", 2, "n2")).unwrap().version().to_string(), "1");
        store.add(on("b", 3, "n2"));
        assert_eq!(names(&store.list()), ["a", "b"]);
        assert_eq!(store.list_keys(), [Key::new("default", "a"), Key::new("default", "b")]);
        assert_eq!(names(&store.by_index("node", "n2").unwrap()), ["a", "b"]);
        assert!(store.by_index("node", "n1").unwrap().is_empty());
        assert_eq!(store.index_keys("node", "n2").unwrap().len(), 2);
        assert_eq!(names(&store.index("node", &on("other", 1, "n2")).unwrap()), ["a", "b"]);
        assert_eq!(store.list_index_func_values("node"), [Arc::from("n2")]);
        assert_eq!(names(&store.by_index("namespace", "default").unwrap()), ["a", "b"]);
        assert!(matches!(
            store.by_index("image", "x"),
            Err(IndexError::UnknownIndex { .. })
        ));
        assert!(store.list_index_func_values("image").is_empty());
        assert_eq!(store.get(&pod("a", 9)).unwrap().version().to_string(), "2");
        assert!(store.delete(KeyRef::new("default", "a")).is_some());
        assert!(store.delete(KeyRef::new("default", "a")).is_none());
        store.resync();
        store.replace(vec![pod_in("x", "c", 7, "{}")], version(8));
        assert_eq!(
            (names(&store.list()), store.len(), store.is_empty()),
            (vec!["c"], 1, false)
        );
        assert!(store.list_index_func_values("node").is_empty());
    }

    #[test]
    fn indexes_are_added_atomically_and_backfilled() {
        struct First;
        impl IndexFunc for First {
            fn name(&self) -> &'static str {
                "first"
            }
            fn values(&self, object: &Object, values: &mut IndexValues) -> Result<(), String> {
                values.push(&object.name()[..1]);
                Ok(())
            }
        }
        let store = Indexer::default();
        store.add(on("a", 1, "n1"));
        store.add_indexers(vec![node_index()]).unwrap();
        assert!(store.add_indexers(vec![Box::new(First), node_index()]).is_err());
        assert!(store.by_index("first", "a").is_err(), "nothing was added");
        store.add_indexers(vec![Box::new(First)]).unwrap();
        let (first, indexers) = (store.by_index("first", "a").unwrap(), store.get_indexers());
        assert_eq!(
            (names(&first), store.by_index("node", "n1").unwrap().len()),
            (vec!["a"], 1)
        );
        assert_eq!(
            indexers.iter().map(|index| index.name()).collect::<Vec<_>>(),
            ["node", "first"]
        );
        assert!(Indexer::new(vec![node_index(), node_index()]).is_err());
    }

    /// client-go: TestThreadSafeStoreRV, except that single writes do not change the version.
    #[test]
    fn version_is_that_of_the_last_list_or_bookmark() {
        let store = Indexer::default();
        assert_eq!(store.last_store_sync_resource_version(), None);
        store.replace(vec![pod("a", 3)], version(5));
        store.add(pod("a", 9));
        assert_eq!(store.last_store_sync_resource_version(), Some(version(5)));
        store.bookmark(version(9));
        store.bookmark(version(7));
        assert_eq!(store.last_store_sync_resource_version(), Some(version(9)));
        store.replace(Vec::new(), version(2));
        assert_eq!(store.last_store_sync_resource_version(), Some(version(2)));
    }

    #[test]
    fn readers_see_a_transaction_whole_or_not_at_all() {
        let store = Indexer::new(vec![node_index()]).unwrap();
        let begin = Barrier::new(5);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    begin.wait();
                    while store.len() < 2_000 {
                        let snapshot = store.snapshot();
                        let indexed = snapshot.by_index("node", "n1").unwrap().count();
                        assert_eq!((snapshot.len() % 2, indexed), (0, snapshot.len()));
                    }
                });
            }
            begin.wait();
            for number in 0..1_000 {
                store.transaction(|writer| {
                    writer.add(on(&format!("a{number}"), number, "n1"));
                    // A reader in between sees the previous state.
                    assert_eq!(store.len() as u64, 2 * number);
                    writer.add(on(&format!("b{number}"), number, "n1"));
                });
            }
        });
    }
}
