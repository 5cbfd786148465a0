//! What a replica shows where the newest state is not required: the store, or an old state of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::history::Objects;
use crate::store::Store;

/// A replica's cache: as new as the store, or frozen.
#[derive(Debug, Default)]
pub(crate) struct ReplicaCache {
    frozen: Mutex<Option<Frozen>>,
}

#[derive(Debug)]
struct Frozen {
    revision: u64,
    /// Indexed like the store's collections.
    objects: Vec<Objects>,
}

impl ReplicaCache {
    fn frozen(&self) -> MutexGuard<'_, Option<Frozen>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn freeze(&self, store: &Store) {
        let objects = store
            .collections()
            .iter()
            .map(|collection| collection.objects.clone())
            .collect();
        *self.frozen() = Some(Frozen {
            revision: store.revision(),
            objects,
        });
    }

    /// Follows the store again, and wakes watches to catch up.
    pub(crate) fn thaw(&self, store: &Store) {
        *self.frozen() = None;
        for collection in store.collections() {
            collection.changed.notify_waiters();
        }
    }

    pub(crate) fn revision(&self, store: &Store) -> u64 {
        self.frozen()
            .as_ref()
            .map_or(store.revision(), |frozen| frozen.revision)
    }

    pub(crate) fn objects(&self, store: &Store, slot: usize) -> Objects {
        match &*self.frozen() {
            None => store.collection(slot).objects.clone(),
            // A kind that was added after the freeze is not visible yet.
            Some(frozen) => frozen.objects.get(slot).cloned().unwrap_or_default(),
        }
    }
}
