//! The clusters by name, each with its phase and client.
//! The supervisor of each cluster writes its entry. Informers read it, each waiting only for its own cluster, and so do
//! the Kubernetes calls of plugins.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use kube::Client;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::kube_api::{ClientSource, ClientUnavailable};

/// All clusters. Clones share the same data.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterRegistry(Arc<RwLock<BTreeMap<String, Arc<ClusterEntry>>>>);

#[derive(Debug)]
pub(crate) struct ClusterEntry {
    /// As in `[cluster.NAME]`; empty for the only one.
    pub(crate) name: String,
    phase: watch::Sender<ClusterPhase>,
}

/// The phase of a cluster. None of these says that the API server answers: informers find out.
#[derive(Clone, Debug)]
pub(crate) enum ClusterPhase {
    Connecting {
        last_error: Option<Arc<str>>,
    },
    /// The client is ready. A different client under the same name is another cluster or other credentials.
    Connected(Arc<Cluster>),
    Removed,
}

impl ClusterRegistry {
    /// Adds a cluster, without a client yet.
    pub(super) fn add(&self, name: &str) -> Arc<ClusterEntry> {
        let entry = Arc::new(ClusterEntry {
            name: name.to_owned(),
            phase: watch::Sender::new(ClusterPhase::Connecting { last_error: None }),
        });
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(name.to_owned(), Arc::clone(&entry));
        entry
    }

    /// Removes a cluster; holders of its entry see that.
    pub(super) fn remove(&self, entry: &ClusterEntry) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&entry.name);
        drop(entries);
        entry.set_phase(ClusterPhase::Removed);
    }

    pub(crate) fn entry(&self, name: &str) -> Option<Arc<ClusterEntry>> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        entries.get(name).cloned()
    }
}

impl ClusterEntry {
    pub(crate) fn phase(&self) -> ClusterPhase {
        self.phase.borrow().clone()
    }

    pub(super) fn watch(&self) -> watch::Receiver<ClusterPhase> {
        self.phase.subscribe()
    }

    pub(super) fn set_phase(&self, phase: ClusterPhase) {
        self.phase.send_replace(phase);
    }
}

impl ClientSource for ClusterRegistry {
    fn names(&self) -> Vec<String> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        entries.keys().cloned().collect()
    }

    fn client(&self, cluster: &str) -> Result<Client, ClientUnavailable> {
        let entry = self.entry(cluster).ok_or(ClientUnavailable::Unknown)?;
        match entry.phase() {
            ClusterPhase::Connected(cluster) => Ok(cluster.client.clone()),
            ClusterPhase::Connecting { last_error } => Err(ClientUnavailable::NotYet(last_error)),
            ClusterPhase::Removed => Err(ClientUnavailable::Unknown),
        }
    }

    fn impersonates(&self, cluster: &str) -> bool {
        let phase = self.entry(cluster).map(|entry| entry.phase());
        matches!(phase, Some(ClusterPhase::Connected(cluster)) if cluster.impersonates)
    }
}
