//! Replicas of the API server, for clients that move from one to another.
//!
//! A replica writes to the common store, as real ones write to etcd. It answers watches and lists that need not be
//! consistent from its own cache, which can be made to lag: the usual reason why clients that change replicas see older
//! state.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::listen;
use crate::replica_cache::ReplicaCache;
use crate::service::ApiService;
use crate::state::ServerState;
use crate::tls::Identity;

/// A replica: the same data, but its own cache, which can be made to lag. Cheap to clone.
///
/// Watches, lists and gets with a `resourceVersion` that does not require the newest state lag. Consistent reads and
/// writes go to the common store. Rules and faults are shared by all replicas.
#[derive(Clone)]
pub struct Replica {
    state: Arc<ServerState>,
    cache: Arc<ReplicaCache>,
}

impl Replica {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        let cache = state.add_replica_cache();
        Self { state, cache }
    }

    /// The replica as a service.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.state), Arc::clone(&self.cache))
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
        listen::serve(&self.state, &self.service(), listener, identity, shutdown).await
    }

    /// Freezes the cache at the current state.
    pub fn freeze(&self) {
        self.cache.freeze(&self.state.store());
    }

    pub fn thaw(&self) {
        self.cache.thaw(&self.state.store());
    }

    /// The newest revision that this replica's cache shows.
    pub fn revision(&self) -> u64 {
        self.cache.revision(&self.state.store())
    }
}
