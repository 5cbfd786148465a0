//! The clusters that informers and plugins ask, by name, and how far each has come.
//!
//! Written by the keeper of each cluster; read by informers, which wait for theirs and for no other, and by plugins'
//! calls.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use kube::Client;
use tokio::sync::watch;

use crate::cluster::Cluster;
use crate::kube_api::{Clients, NoClient};

/// All clusters. A clone is the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clusters(Arc<RwLock<BTreeMap<String, Arc<ClusterEntry>>>>);

/// One cluster of the configuration.
#[derive(Debug)]
pub(crate) struct ClusterEntry {
    /// As in `[cluster.NAME]`; empty for the only one.
    pub(crate) name: String,
    phase: watch::Sender<ClusterPhase>,
}

/// How far a cluster has come. That its API server answers is not said by any of these: informers find out.
#[derive(Clone, Debug)]
pub(crate) enum ClusterPhase {
    /// Its kubeconfig is read, its login asked for a token.
    Connecting {
        /// Why it takes more than one try.
        trouble: Option<Arc<str>>,
    },
    /// It can be asked. Another one under the same name is another cluster, or another login.
    Connected(Arc<Cluster>),
    /// The configuration has it no more.
    Gone,
}

impl Clusters {
    /// Enters a cluster; nobody can ask it yet.
    pub(super) fn add(&self, name: &str) -> Arc<ClusterEntry> {
        let entry = Arc::new(ClusterEntry {
            name: name.to_owned(),
            phase: watch::Sender::new(ClusterPhase::Connecting { trouble: None }),
        });
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.insert(name.to_owned(), Arc::clone(&entry));
        entry
    }

    /// Takes a cluster out; who holds it sees it gone.
    pub(super) fn remove(&self, entry: &ClusterEntry) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        entries.remove(&entry.name);
        drop(entries);
        entry.set_phase(ClusterPhase::Gone);
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

impl Clients for Clusters {
    fn names(&self) -> Vec<String> {
        let entries = self.0.read().unwrap_or_else(PoisonError::into_inner);
        entries.keys().cloned().collect()
    }

    fn client(&self, cluster: &str) -> Result<Client, NoClient> {
        let entry = self.entry(cluster).ok_or(NoClient::Unknown)?;
        match entry.phase() {
            ClusterPhase::Connected(cluster) => Ok(cluster.client.clone()),
            ClusterPhase::Connecting { trouble } => Err(NoClient::NotYet(trouble)),
            ClusterPhase::Gone => Err(NoClient::Unknown),
        }
    }
}
