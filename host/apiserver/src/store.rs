//! The server's data: one collection of objects per kind, one revision for all of them.
//!
//! Each write takes the next revision, is in the history and wakes the watches of its kind before it returns; a delete
//! is a write. The rules about what may be written are in [`crate::writes`].

use std::sync::Arc;

use tokio::sync::Notify;

use crate::definitions::{self, Definition};
use crate::history::{ChangeType, History, HistoryEvent, Objects};
use crate::kinds::{self, Kind, Registry, Served};
use crate::options::Options;
use crate::random::Random;
use crate::stored::{self, Stored};

/// Objects of one kind, all versions of it.
#[derive(Debug)]
pub(crate) struct Collection {
    /// As the objects are stored.
    pub(crate) kind: Arc<Kind>,
    pub(crate) objects: Objects,
    pub(crate) history: History,
    /// Notified after each write and each compaction.
    pub(crate) changed: Arc<Notify>,
    /// The definition was deleted: no further writes; watches end after the last event. Slots are never reused,
    /// so that stale slot numbers are harmless.
    pub(crate) retired: bool,
}

#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    registry: Registry,
    collections: Vec<Collection>,
    pub(crate) random: Random,
    history_events_max: usize,
    history_bytes_max: usize,
}

impl Store {
    pub(crate) fn new(options: &Options) -> Self {
        let mut store = Self {
            revision: 0,
            registry: Registry::default(),
            collections: Vec::new(),
            random: Random::new(options.seed),
            history_events_max: options.history_events_max,
            history_bytes_max: options.history_bytes_max,
        };
        for kind in kinds::built_in() {
            store.register(kind);
        }
        store
    }

    /// Serves one more kind from now on; a kind already served under the same path is kept as it is.
    pub(crate) fn register(&mut self, kind: Kind) {
        if self.registry.find(&kind.group, &kind.version, &kind.plural).is_none() {
            let kind = Arc::new(kind);
            let slot = self.add_collection(Arc::clone(&kind));
            self.registry.serve(slot, kind);
        }
    }

    /// Serves a definition from now on: a new resource, or a changed one with its existing objects.
    pub(crate) fn define(&mut self, definition: Definition) {
        let storage = Arc::new(definition.storage);
        let slot = match self.defined(&storage.group, &storage.plural) {
            Some(slot) => {
                self.collections[slot].kind = storage;
                slot
            }
            None => self.add_collection(storage),
        };
        self.registry.withdraw(slot);
        for kind in definition.served {
            self.registry.serve(slot, Arc::new(kind));
        }
    }

    /// The slot of a definition's objects.
    pub(crate) fn defined(&self, group: &str, plural: &str) -> Option<usize> {
        self.collections.iter().position(|collection| {
            let kind = &collection.kind;
            !collection.retired && kind.custom_version.is_some() && kind.group == group && kind.plural == plural
        })
    }

    /// Stops serving a definition's resource, whose objects were deleted before.
    pub(crate) fn retire(&mut self, slot: usize) {
        self.registry.withdraw(slot);
        let collection = &mut self.collections[slot];
        collection.retired = true;
        collection.changed.notify_waiters();
        // The history of retired kinds is kept only as long as watches read it.
        for collection in &mut self.collections {
            if collection.retired && Arc::strong_count(&collection.changed) == 1 {
                collection.history.compact(self.revision);
            }
        }
    }

    fn add_collection(&mut self, kind: Arc<Kind>) -> usize {
        let mut history = History::new(self.history_events_max, self.history_bytes_max);
        history.compact(self.revision);
        self.collections.push(Collection {
            kind,
            objects: Objects::new(),
            history,
            changed: Arc::new(Notify::new()),
            retired: false,
        });
        self.collections.len() - 1
    }

    pub(crate) fn served(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.registry.find(group, version, plural)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn namespaces(&self) -> usize {
        let namespaces = self.served("", "v1", "namespaces");
        namespaces.expect("namespaces are a built-in kind").slot
    }

    pub(crate) fn definitions(&self) -> usize {
        let definitions = self.served(definitions::GROUP, "v1", "customresourcedefinitions");
        definitions.expect("definitions are a built-in kind").slot
    }

    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn collection(&self, slot: usize) -> &Collection {
        &self.collections[slot]
    }

    pub(crate) fn collections(&self) -> &[Collection] {
        &self.collections
    }

    pub(crate) fn get(&self, slot: usize, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.collections[slot].objects.get(&stored::key(namespace, name))
    }

    /// Stores `object` as the newest state of its key, under the next revision.
    pub(crate) fn put(&mut self, slot: usize, object: Stored) -> Arc<Stored> {
        self.revision += 1;
        let collection = &mut self.collections[slot];
        let object = if object.revision == self.revision {
            object
        } else {
            object.with_revision(self.revision)
        };
        let object = Arc::new(object);
        let previous = collection.objects.insert(object.key(), Arc::clone(&object));
        let change = if previous.is_some() {
            ChangeType::Modified
        } else {
            ChangeType::Added
        };
        collection.record(HistoryEvent {
            change,
            object: Arc::clone(&object),
            previous,
        });
        object
    }

    /// Restores an object from a snapshot, without history.
    pub(crate) fn restore(&mut self, slot: usize, object: Stored) {
        self.collections[slot].objects.insert(object.key(), Arc::new(object));
    }

    /// Resumes at a snapshot's revision, without earlier history.
    pub(crate) fn resume_at(&mut self, revision: u64) {
        self.revision = revision;
        self.compact(None);
    }

    /// Removes a key. Returns its last state, stamped with the delete's revision.
    pub(crate) fn remove(&mut self, slot: usize, key: &str) -> Option<Arc<Stored>> {
        let collection = &mut self.collections[slot];
        let previous = collection.objects.remove(key)?;
        self.revision += 1;
        let object = Arc::new(previous.with_revision(self.revision));
        collection.record(HistoryEvent {
            change: ChangeType::Deleted,
            object: Arc::clone(&object),
            previous: Some(previous),
        });
        Some(object)
    }

    /// Forgets all history up to `revision` (absent: the newest).
    pub(crate) fn compact(&mut self, revision: Option<u64>) {
        let revision = revision.unwrap_or(self.revision).min(self.revision);
        for collection in &mut self.collections {
            collection.history.compact(revision);
            collection.changed.notify_waiters();
        }
    }
}

impl Collection {
    fn record(&mut self, event: HistoryEvent) {
        self.history.push(event);
        self.changed.notify_waiters();
    }
}
