//! What one replica of the API server sees.
//!
//! A replica writes to the common store, as real ones write to etcd, but answers watches and lists that need not be
//! consistent from its own cache, which can be made to lag: the usual reason why clients see time run backwards when
//! they change replicas.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::history::Objects;
use crate::store::Store;

/// A replica's cache: as new as the store, or frozen.
#[derive(Debug, Default)]
pub(crate) struct View {
    frozen: Mutex<Option<Frozen>>,
}

#[derive(Debug)]
struct Frozen {
    revision: u64,
    /// By place.
    objects: Vec<Objects>,
}

impl View {
    fn frozen(&self) -> MutexGuard<'_, Option<Frozen>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops following the store.
    pub(crate) fn freeze(&self, store: &Store) {
        let objects = store.shelves().iter().map(|shelf| shelf.objects.clone()).collect();
        *self.frozen() = Some(Frozen {
            revision: store.revision(),
            objects,
        });
    }

    /// Follows the store again; watches are woken to catch up.
    pub(crate) fn thaw(&self, store: &Store) {
        *self.frozen() = None;
        for shelf in store.shelves() {
            shelf.changed.notify_waiters();
        }
    }

    /// The newest revision that this replica shows.
    pub(crate) fn revision(&self, store: &Store) -> u64 {
        self.frozen()
            .as_ref()
            .map_or(store.revision(), |frozen| frozen.revision)
    }

    /// The objects of a kind as this replica shows them.
    pub(crate) fn objects(&self, store: &Store, place: usize) -> Objects {
        match &*self.frozen() {
            None => store.shelf(place).objects.clone(),
            // A kind that came after the freeze is not there yet.
            Some(frozen) => frozen.objects.get(place).cloned().unwrap_or_default(),
        }
    }
}
