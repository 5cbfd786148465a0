//! Replicas of the API server, for clients that move from one to another.
//!
//! A replica writes to the common store, as real ones write to etcd. It answers watches and lists that need not be
//! consistent from its own cache, which can be made to lag: the usual reason why clients that change replicas see older
//! state.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::net::TcpListener;

use crate::history::Objects;
use crate::listen;
use crate::server::Inner;
use crate::service::ApiService;
use crate::store::Store;
use crate::tls::Identity;

/// A replica: the same data, but its own cache, which can be made to lag. Cheap to clone.
///
/// Watches, lists and gets with a `resourceVersion` that does not require the newest state lag. Consistent reads and
/// writes go to the common store. Rules and faults are shared by all replicas.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
    cache: Arc<ReplicaCache>,
}

impl Replica {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let cache = inner.add_replica_cache();
        Self { inner, cache }
    }

    /// The replica as a service.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.inner), Arc::clone(&self.cache))
    }

    /// Serves the replica on its own socket, as [`ApiServer::serve`](crate::ApiServer::serve) does for the first one.
    ///
    /// # Errors
    /// None at present.
    pub async fn serve(
        &self,
        listener: TcpListener,
        identity: Option<&Identity>,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        listen::serve(&self.inner, &self.service(), listener, identity, shutdown).await
    }

    /// Freezes the cache at the current state.
    pub fn freeze(&self) {
        self.cache.freeze(&self.inner.store());
    }

    /// Catches up.
    pub fn thaw(&self) {
        self.cache.thaw(&self.inner.store());
    }

    /// The newest revision that this replica's cache shows.
    pub fn revision(&self) -> u64 {
        self.cache.revision(&self.inner.store())
    }
}

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

    /// Freezes the cache at the store's current state.
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

    /// The newest revision that this replica shows.
    pub(crate) fn revision(&self, store: &Store) -> u64 {
        self.frozen()
            .as_ref()
            .map_or(store.revision(), |frozen| frozen.revision)
    }

    /// The objects of a kind as this replica shows them.
    pub(crate) fn objects(&self, store: &Store, slot: usize) -> Objects {
        match &*self.frozen() {
            None => store.collection(slot).objects.clone(),
            // A kind that was added after the freeze is not visible yet.
            Some(frozen) => frozen.objects.get(slot).cloned().unwrap_or_default(),
        }
    }
}
