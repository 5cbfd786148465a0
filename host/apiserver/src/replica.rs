//! A further replica of the API server, for clients that are moved from one to another.

use std::future::Future;
use std::io;
use std::sync::Arc;

use tokio::net::TcpListener;

use crate::listen;
use crate::server::Inner;
use crate::service::ApiService;
use crate::tls::Identity;
use crate::view::View;

/// A replica: the same data, a cache of its own that can be made to lag. Cheap to clone.
///
/// What lags: watches, lists and gets with a `resourceVersion` that does not ask for the newest state. Consistent reads
/// and writes go to the common store. Rules and faults are shared by all replicas.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
    view: Arc<View>,
}

impl Replica {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let view = inner.add_view();
        Self { inner, view }
    }

    /// The replica as a service.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.inner), Arc::clone(&self.view))
    }

    /// Serves the replica on a socket of its own, as [`ApiServer::serve`](crate::ApiServer::serve) does the first one.
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

    /// Stops following: from now on the cache shows the present state.
    pub fn freeze(&self) {
        self.view.freeze(&self.inner.store());
    }

    /// Catches up.
    pub fn thaw(&self) {
        self.view.thaw(&self.inner.store());
    }

    /// The newest revision that this replica's cache shows.
    pub fn revision(&self) -> u64 {
        self.view.revision(&self.inner.store())
    }
}
