//! A further replica of the API server, for clients that are moved from one to another.

use std::sync::Arc;

use crate::server::Inner;
use crate::service::ApiService;
use crate::view::View;

/// A replica: the same data, a cache of its own that can be made to lag. Cheap to clone.
///
/// What lags: watches, lists and gets with a `resourceVersion` that does not ask for the newest state. Consistent reads and writes go to
/// the common store. Rules and faults are shared by all replicas.
#[derive(Clone)]
pub struct Replica {
    inner: Arc<Inner>,
    view: Arc<View>,
}

impl Replica {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            view: Arc::default(),
        }
    }

    /// The replica as a service.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.inner), Arc::clone(&self.view))
    }

    /// Stops following: from now on the cache shows the present state.
    pub fn freeze(&self) {
        self.view.freeze(&self.inner.store());
    }

    /// Catches up.
    pub fn thaw(&self) {
        let store = self.inner.store();
        self.view.thaw();
        for shelf in store.shelves() {
            shelf.changed.notify_waiters();
        }
    }

    /// The newest revision that this replica's cache shows.
    pub fn revision(&self) -> u64 {
        self.view.revision(&self.inner.store())
    }
}
