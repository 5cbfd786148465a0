//! Everything the server knows: one shelf of objects per kind, one revision for all of them.
//!
//! Promises: each write takes the next revision, is in the history and wakes the watches of its kind before it returns; a delete is
//! a write. Knows no rules about what may be written; these are [`crate::writes`].

use std::sync::Arc;

use tokio::sync::Notify;

use crate::history::{Change, Event, History, Objects};
use crate::kinds::{Kind, Registry};
use crate::options::Options;
use crate::random::Random;
use crate::stored::{self, Stored};

/// Objects of one kind.
#[derive(Debug)]
pub(crate) struct Shelf {
    pub(crate) kind: Arc<Kind>,
    pub(crate) objects: Objects,
    pub(crate) history: History,
    /// Told after each write and each compaction.
    pub(crate) changed: Arc<Notify>,
}

#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    registry: Registry,
    shelves: Vec<Shelf>,
    pub(crate) random: Random,
    history_events_max: usize,
    history_bytes_max: usize,
}

impl Store {
    pub(crate) fn new(options: &Options) -> Self {
        let mut store = Self {
            revision: 0,
            registry: Registry::built_in(),
            shelves: Vec::new(),
            random: Random::new(options.seed),
            history_events_max: options.history_events_max,
            history_bytes_max: options.history_bytes_max,
        };
        for place in 0..store.registry.len() {
            store.add_shelf(place);
        }
        store
    }

    /// Serves one more kind from now on.
    pub(crate) fn register(&mut self, kind: Kind) {
        let place = self.registry.add(kind);
        if place == self.shelves.len() {
            self.add_shelf(place);
        }
    }

    fn add_shelf(&mut self, place: usize) {
        let mut history = History::new(self.history_events_max, self.history_bytes_max);
        history.compact(self.revision);
        self.shelves.push(Shelf {
            kind: Arc::clone(self.registry.kind(place)),
            objects: Objects::new(),
            history,
            changed: Arc::new(Notify::new()),
        });
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where namespaces are kept.
    pub(crate) fn namespaces(&self) -> usize {
        self.registry
            .place("", "v1", "namespaces")
            .expect("namespaces are a built-in kind")
    }

    /// The revision of the newest write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn shelf(&self, place: usize) -> &Shelf {
        &self.shelves[place]
    }

    pub(crate) fn shelves(&self) -> &[Shelf] {
        &self.shelves
    }

    pub(crate) fn get(&self, place: usize, namespace: &str, name: &str) -> Option<&Arc<Stored>> {
        self.shelves[place].objects.get(&stored::key(namespace, name))
    }

    /// Stores `object` as the newest state of its key, under the next revision.
    pub(crate) fn put(&mut self, place: usize, object: Stored) -> Arc<Stored> {
        self.revision += 1;
        let shelf = &mut self.shelves[place];
        let object = if object.revision == self.revision {
            object
        } else {
            object.restamped(self.revision)
        };
        let object = Arc::new(object);
        let previous = shelf.objects.insert(object.key(), Arc::clone(&object));
        let change = if previous.is_some() {
            Change::Modified
        } else {
            Change::Added
        };
        shelf.record(Event {
            change,
            object: Arc::clone(&object),
            previous,
        });
        object
    }

    /// Removes a key. Returns its last state, stamped with the delete's revision.
    pub(crate) fn remove(&mut self, place: usize, key: &str) -> Option<Arc<Stored>> {
        let shelf = &mut self.shelves[place];
        let previous = shelf.objects.remove(key)?;
        self.revision += 1;
        let object = Arc::new(previous.restamped(self.revision));
        shelf.record(Event {
            change: Change::Deleted,
            object: Arc::clone(&object),
            previous: Some(previous),
        });
        Some(object)
    }

    /// Forgets all history up to `revision` (absent: the newest).
    pub(crate) fn compact(&mut self, revision: Option<u64>) {
        let revision = revision.unwrap_or(self.revision).min(self.revision);
        for shelf in &mut self.shelves {
            shelf.history.compact(revision);
            shelf.changed.notify_waiters();
        }
    }
}

impl Shelf {
    fn record(&mut self, event: Event) {
        self.history.push(event);
        self.changed.notify_waiters();
    }
}
