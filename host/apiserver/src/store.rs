//! Everything the server knows: one shelf of objects per kind, one revision for all of them.
//!
//! Promises: each write takes the next revision, is in the history and wakes the watches of its kind before it returns;
//! a delete is a write. Knows no rules about what may be written; these are [`crate::writes`].

use std::sync::Arc;

use tokio::sync::Notify;

use crate::definitions::{self, Definition};
use crate::history::{Change, Event, History, Objects};
use crate::kinds::{self, Kind, Registry, Served};
use crate::options::Options;
use crate::random::Random;
use crate::stored::{self, Stored};

/// Objects of one kind, all versions of it.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// As the objects are stored.
    pub(crate) kind: Arc<Kind>,
    pub(crate) objects: Objects,
    pub(crate) history: History,
    /// Told after each write and each compaction.
    pub(crate) changed: Arc<Notify>,
    /// The kind's definition is gone: nothing is written any more, and watches end when they have shown what there was.
    /// A place is never used again, so that whoever still has its number can do no harm.
    pub(crate) retired: bool,
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
            registry: Registry::default(),
            shelves: Vec::new(),
            random: Random::new(options.seed),
            history_events_max: options.history_events_max,
            history_bytes_max: options.history_bytes_max,
        };
        for kind in kinds::built_in() {
            store.register(kind);
        }
        store
    }

    /// Serves one more kind from now on; one that is served already under the same path is kept as it is.
    pub(crate) fn register(&mut self, kind: Kind) {
        if self.registry.find(&kind.group, &kind.version, &kind.plural).is_none() {
            let kind = Arc::new(kind);
            let place = self.add_shelf(Arc::clone(&kind));
            self.registry.serve(place, kind);
        }
    }

    /// Serves what a definition says from now on: a new resource, or a changed one with the objects that it has.
    pub(crate) fn define(&mut self, definition: Definition) {
        let storage = Arc::new(definition.storage);
        let place = match self.defined(&storage.group, &storage.plural) {
            Some(place) => {
                self.shelves[place].kind = storage;
                place
            }
            None => self.add_shelf(storage),
        };
        self.registry.withdraw(place);
        for kind in definition.served {
            self.registry.serve(place, Arc::new(kind));
        }
    }

    /// Where the objects of a definition are.
    pub(crate) fn defined(&self, group: &str, plural: &str) -> Option<usize> {
        self.shelves.iter().position(|shelf| {
            let kind = &shelf.kind;
            !shelf.retired && kind.custom_version.is_some() && kind.group == group && kind.plural == plural
        })
    }

    /// Serves a definition's resource no more. Its objects are gone already.
    pub(crate) fn retire(&mut self, place: usize) {
        self.registry.withdraw(place);
        let shelf = &mut self.shelves[place];
        shelf.retired = true;
        shelf.changed.notify_waiters();
        // What watches of retired kinds have not read yet is kept for them, and only as long as there are any.
        for shelf in &mut self.shelves {
            if shelf.retired && Arc::strong_count(&shelf.changed) == 1 {
                shelf.history.compact(self.revision);
            }
        }
    }

    fn add_shelf(&mut self, kind: Arc<Kind>) -> usize {
        let mut history = History::new(self.history_events_max, self.history_bytes_max);
        history.compact(self.revision);
        self.shelves.push(Shelf {
            kind,
            objects: Objects::new(),
            history,
            changed: Arc::new(Notify::new()),
            retired: false,
        });
        self.shelves.len() - 1
    }

    /// The kind and place that a path leads to.
    pub(crate) fn served(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.registry.find(group, version, plural)
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Where namespaces are kept.
    pub(crate) fn namespaces(&self) -> usize {
        let namespaces = self.served("", "v1", "namespaces");
        namespaces.expect("namespaces are a built-in kind").place
    }

    /// Where CustomResourceDefinitions are kept.
    pub(crate) fn definitions(&self) -> usize {
        let definitions = self.served(definitions::GROUP, "v1", "customresourcedefinitions");
        definitions.expect("definitions are a built-in kind").place
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

    /// Puts an object back as a snapshot has it, without history.
    pub(crate) fn put_back(&mut self, place: usize, object: Stored) {
        self.shelves[place].objects.insert(object.key(), Arc::new(object));
    }

    /// Goes on at a snapshot's revision; what was before it is forgotten.
    pub(crate) fn go_on_at(&mut self, revision: u64) {
        self.revision = revision;
        self.compact(None);
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
