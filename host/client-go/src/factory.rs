//! Creates and keeps several informers. Source: client-go `informers/factory.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::{Catalog, Environment};
use informant_informer::{
    ClusterClient, InformerMetrics, InformerOptions, SharedInformer, SourceSpec, StartError, StopReport,
};

use crate::locks::lock;
use crate::wait::{NotSynced, wait_for_cache_sync};

/// Creates informers, one per source, and keeps them.
///
/// Source: client-go `SharedInformerFactory`. There, informers are created first and started later, so that handlers
/// are registered from the start; here they start at once, because a late handler misses nothing.
pub struct SharedInformerFactory {
    /// By cluster name; the empty name if there is only one.
    clients: BTreeMap<String, ClusterClient>,
    environment: Arc<dyn Environment>,
    catalog: Catalog,
    metrics: InformerMetrics,
    informers: Mutex<BTreeMap<SourceKey, Arc<SharedInformer>>>,
}

/// Identifies a source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SourceKey {
    informer: String,
    cluster: String,
    resource: String,
    namespace: Option<String>,
}

/// Why a factory could not create an informer.
#[derive(Debug, thiserror::Error)]
pub enum FactoryError {
    /// No client for the cluster.
    #[error("informer {informer}: unknown cluster {cluster:?}; {}", known_clusters(.known))]
    UnknownCluster {
        /// The informer.
        informer: String,
        /// The cluster in its specification.
        cluster: String,
        /// The known clusters.
        known: Vec<String>,
    },
    /// The specification is invalid.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl SharedInformerFactory {
    /// A factory for one cluster, whose name is empty.
    #[must_use]
    pub fn new(
        client: impl Into<ClusterClient>,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        metrics: InformerMetrics,
    ) -> Self {
        let clients = BTreeMap::from([(String::new(), client.into())]);
        Self {
            clients,
            environment,
            catalog,
            metrics,
            informers: Mutex::default(),
        }
    }

    /// Adds a cluster, or replaces its client for future informers.
    #[must_use]
    pub fn with_cluster(mut self, name: impl Into<String>, client: impl Into<ClusterClient>) -> Self {
        self.clients.insert(name.into(), client.into());
        self
    }

    /// The informer for a source: the running one, or a new one.
    ///
    /// # Errors
    /// [`FactoryError`] if the cluster is unknown or the specification invalid.
    pub fn informer_for(&self, spec: SourceSpec) -> Result<Arc<SharedInformer>, FactoryError> {
        self.informer_with(spec, InformerOptions::default())
    }

    /// Like [`informer_for`](Self::informer_for); `options` apply to a new informer.
    ///
    /// # Errors
    /// As [`informer_for`](Self::informer_for).
    pub fn informer_with(
        &self,
        spec: SourceSpec,
        options: InformerOptions,
    ) -> Result<Arc<SharedInformer>, FactoryError> {
        let key = SourceKey::of(&spec);
        let mut informers = lock(&self.informers);
        if let Some(known) = informers.get(&key) {
            return Ok(Arc::clone(known));
        }
        let Some(client) = self.clients.get(&spec.cluster) else {
            let known = self.clients.keys().cloned().collect();
            return Err(FactoryError::UnknownCluster {
                informer: spec.informer,
                cluster: spec.cluster,
                known,
            });
        };
        let (environment, catalog) = (Arc::clone(&self.environment), self.catalog.clone());
        let informer = SharedInformer::start_with(spec, client.clone(), environment, catalog, &self.metrics, options)?;
        let informer = Arc::new(informer);
        informers.insert(key, Arc::clone(&informer));
        Ok(informer)
    }

    /// The informers called `name`: one per cluster and namespace.
    #[must_use]
    pub fn informers(&self, name: &str) -> Vec<Arc<SharedInformer>> {
        lock(&self.informers)
            .iter()
            .filter(|(key, _)| key.informer == name)
            .map(|(_, informer)| Arc::clone(informer))
            .collect()
    }

    /// All informers, sorted by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<SharedInformer>> {
        lock(&self.informers).values().cloned().collect()
    }

    /// Waits until all informers are synced.
    ///
    /// # Errors
    /// [`NotSynced`] after `deadline`, with each source that is not synced, and why if known.
    pub async fn wait_for_cache_sync(&self, deadline: Duration) -> Result<(), NotSynced> {
        let informers = self.all();
        wait_for_cache_sync(
            &*self.environment,
            informers.iter().map(|informer| &**informer),
            deadline,
        )
        .await
    }

    /// Stops the informers called `name`, each within `deadline`, and forgets them. They can be created again, as new
    /// sources.
    pub async fn remove(&self, name: &str, deadline: Duration) -> StopReport {
        let mut removed = Vec::new();
        lock(&self.informers).retain(|key, informer| {
            let stays = key.informer != name;
            if !stays {
                removed.push(Arc::clone(informer));
            }
            stays
        });
        stop_all(removed, deadline).await
    }

    /// Stops all informers, together within `deadline`.
    pub async fn shutdown(&self, deadline: Duration) -> StopReport {
        let removed = std::mem::take(&mut *lock(&self.informers));
        stop_all(removed.into_values().collect(), deadline).await
    }
}

/// The valid values; a cluster without a name cannot be written.
fn known_clusters(known: &[String]) -> String {
    let names: Vec<_> = known
        .iter()
        .filter(|name| !name.is_empty())
        .map(|name| format!("{name:?}"))
        .collect();
    match names.is_empty() {
        true => "there is only one cluster, without a name".to_owned(),
        false => format!("known clusters: {}", names.join(", ")),
    }
}

async fn stop_all(informers: Vec<Arc<SharedInformer>>, deadline: Duration) -> StopReport {
    let reports = futures::future::join_all(informers.iter().map(|informer| informer.stop(deadline))).await;
    reports.into_iter().fold(StopReport::default(), StopReport::and)
}

impl SourceKey {
    fn of(spec: &SourceSpec) -> Self {
        Self {
            informer: spec.informer.clone(),
            cluster: spec.cluster.clone(),
            resource: spec.resource.to_string(),
            namespace: spec.namespace.clone(),
        }
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informers = lock(&self.informers);
        out.debug_struct("SharedInformerFactory")
            .field("clusters", &self.clients.keys().collect::<Vec<_>>())
            .field("informers", &informers.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
