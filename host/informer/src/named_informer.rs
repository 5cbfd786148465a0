//! An informer of config.toml: one source, or one per namespace and resource, under one handle that stays the same when
//! they change.

mod reconfigure;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::listener::Beginning;
use informant_cache::{CacheBudget, Catalog, Environment, IndexFeedHandle, ListenerHandle, SourceInfo, SourceState};
use informant_spec::GroupVersionResource;
use tokio_util::sync::CancellationToken;

use crate::cluster_client::ClusterClient;
use crate::discovery::Discovered;
use crate::metrics::InformerMetrics;
use crate::reflector::ReflectorOptions;
use crate::shared_informer::{
    AddIndexersError, DurableSources, InformerOptions, InformerStopped, SharedInformer, StartError, StopReport,
    Visibility,
};
use crate::spec::SourceSpec;
use crate::status::{Reconfiguring, ReflectorStatus};

/// What an informer consists of.
#[derive(Debug, Clone)]
pub struct InformerSpec {
    /// What its sources have in common. `namespace` is ignored; with `resources`, so are `resource`, `kind` and
    /// `namespaced`.
    pub source: SourceSpec,
    /// The resources that match the informer's pattern now, possibly none. `None` for an informer of the single
    /// resource in `source`.
    pub resources: Option<BTreeMap<GroupVersionResource, Discovered>>,
    /// The namespaces, with one source for each. Empty: one source for all namespaces, or of a cluster-scoped resource.
    /// With several resources, cluster-scoped ones are left out if this is not empty.
    pub namespaces: BTreeSet<String>,
    /// How lists and watches are requested and retried.
    pub reflector: ReflectorOptions,
    /// Opens the durable storage of the sources as they start.
    pub durable: Option<Arc<dyn DurableSources>>,
    /// The bytes that the caches of its sources may take together; none: as many as the catalog's budget allows.
    pub cache_bytes_max: Option<usize>,
}

/// An informer with any number of namespaces and resources. Cheap to clone; a clone is the same informer.
///
/// Starts at once and runs until [`stop`](Self::stop), or until the last clone is dropped. Listeners and index feeds
/// belong to the informer: future sources get them too. The objects of all sources are read as a union, by the
/// informer's name ([`Catalog::sources_of`]). [`reconfigure`](Self::reconfigure) changes the informer while it runs.
#[derive(Clone)]
pub struct NamedInformer(Arc<Parts>);

struct Parts {
    name: String,
    client: ClusterClient,
    environment: Arc<dyn Environment>,
    catalog: Catalog,
    metrics: InformerMetrics,
    budget: CacheBudget,
    /// Serializes changes.
    reconfigure_lock: tokio::sync::Mutex<()>,
    /// Notified when a source has drained.
    drained: tokio::sync::Notify,
    members: Mutex<Members>,
}

struct Members {
    /// The last requested specification.
    spec: InformerSpec,
    sources: BTreeMap<SourceScope, Arc<SharedInformer>>,
    /// Sources that replace some of `sources` once they have synced; dropping them cancels that.
    pending: Option<reconfigure::PendingSources>,
    /// Removed sources whose last deletes are being delivered.
    draining: Vec<Arc<SharedInformer>>,
    listeners: Vec<ListenerHandle>,
    feeds: Vec<IndexFeedHandle>,
    /// Ends the background tasks.
    background: CancellationToken,
    stopped: bool,
}

impl InformerSpec {
    /// An informer of one source: all namespaces, or the one in `source`.
    #[must_use]
    pub fn of(source: SourceSpec) -> Self {
        Self {
            namespaces: source.namespace.iter().cloned().collect(),
            source,
            resources: None,
            reflector: ReflectorOptions::default(),
            durable: None,
            cache_bytes_max: None,
        }
    }

    /// Its sources: one per resource and namespace.
    pub fn sources(&self) -> impl Iterator<Item = SourceSpec> {
        self.by_scope().into_values()
    }

    fn by_scope(&self) -> BTreeMap<SourceScope, SourceSpec> {
        let mut sources = BTreeMap::new();
        for source in self.each_resource() {
            for namespace in self.namespaces_of(&source) {
                let source = SourceSpec {
                    namespace,
                    ..source.clone()
                };
                sources.insert(SourceScope::of(&source), source);
            }
        }
        sources
    }

    fn each_resource(&self) -> Vec<SourceSpec> {
        let Some(resources) = &self.resources else {
            return vec![self.source.clone()];
        };
        let of_one = |found: &Discovered| SourceSpec {
            resource: found.gvr.clone(),
            kind: found.kind.clone(),
            of_pattern: true,
            namespaced: found.namespaced,
            ..self.source.clone()
        };
        resources.values().map(of_one).collect()
    }

    /// `None` for all namespaces, or a cluster-scoped resource.
    fn namespaces_of(&self, source: &SourceSpec) -> Vec<Option<String>> {
        if self.namespaces.is_empty() {
            return vec![None];
        }
        if self.resources.is_some() && !source.namespaced {
            return Vec::new();
        }
        self.namespaces.iter().cloned().map(Some).collect()
    }
}

/// Identifies a source within its informer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct SourceScope {
    resource: GroupVersionResource,
    namespace: Option<String>,
}

impl SourceScope {
    fn of(source: &SourceSpec) -> Self {
        Self {
            resource: source.resource.clone(),
            namespace: source.namespace.clone(),
        }
    }

    /// Whether an object can be in both.
    fn overlaps(&self, other: &Self) -> bool {
        let namespaces = self.namespace.as_ref().zip(other.namespace.as_ref());
        self.resource == other.resource && namespaces.is_none_or(|(own, other)| own == other)
    }
}

impl NamedInformer {
    /// Starts an informer with all its sources. See [`SharedInformer::start`] for the requirements on `client`.
    ///
    /// # Errors
    /// [`StartError`] if the specification is invalid; nothing runs then.
    pub fn start(
        spec: InformerSpec,
        client: impl Into<ClusterClient>,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        metrics: &InformerMetrics,
    ) -> Result<Self, StartError> {
        let parts = Parts {
            name: spec.source.informer.clone(),
            client: client.into(),
            environment,
            catalog,
            metrics: metrics.clone(),
            budget: CacheBudget::new(spec.cache_bytes_max),
            reconfigure_lock: tokio::sync::Mutex::default(),
            drained: tokio::sync::Notify::new(),
            members: Mutex::new(Members {
                spec: spec.clone(),
                sources: BTreeMap::new(),
                pending: None,
                draining: Vec::new(),
                listeners: Vec::new(),
                feeds: Vec::new(),
                background: CancellationToken::new(),
                stopped: false,
            }),
        };
        for (scope, source) in spec.by_scope() {
            let started = parts.start_source(source, &spec, Visibility::Public)?;
            parts.members().sources.insert(scope, started);
        }
        Ok(Self(Arc::new(parts)))
    }

    /// The informer's name, as in `[informer.pods]`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The requested specification; during a change the informer does not match it yet.
    #[must_use]
    pub fn spec(&self) -> InformerSpec {
        self.0.members().spec.clone()
    }

    /// Its sources, by resource and namespace, without those that are pending or draining.
    #[must_use]
    pub fn sources(&self) -> Vec<Arc<SharedInformer>> {
        self.0.members().sources.values().cloned().collect()
    }

    /// The status of each source.
    #[must_use]
    pub fn statuses(&self) -> Vec<ReflectorStatus> {
        self.sources().iter().map(|source| source.status()).collect()
    }

    /// The last [`reconfigure`](Self::reconfigure), while it is not in effect: while a synced source still uses its
    /// previous request, or new sources are being built to replace others. With the error of one of them, if any. A
    /// kind of a pattern that is not readable or not served does not count.
    #[must_use]
    pub fn reconfiguring(&self) -> Option<Reconfiguring> {
        let building: Vec<_> = {
            let members = self.0.members();
            let pending = members.pending.iter().flat_map(|pending| pending.sources.values());
            pending.cloned().collect()
        };
        let building = building.iter().map(|source| Reconfiguring {
            last_error: source.status().last_error.map(|(text, _)| text),
            ..Reconfiguring::default()
        });
        let changing = self.sources().into_iter().filter_map(|source| {
            let status = source.status();
            let is_unreadable = matches!(status.state, SourceState::Forbidden | SourceState::WaitingForResource);
            // A source without a first list has nothing of its previous request to keep.
            let counts = status.synced && !(source.spec().of_pattern && is_unreadable);
            status.reconfiguring.filter(|_| counts)
        });
        changing
            .chain(building)
            .max_by_key(|change| change.last_error.is_some())
    }

    /// Whether the API server is away, after a request of other kinds that got no answer: asks it, unless that is
    /// known. False without sources.
    pub async fn is_api_server_away(&self) -> bool {
        match self.sources().first() {
            Some(source) => source.is_api_server_away().await,
            None => false,
        }
    }

    /// Whether the first list of every source is in the store and published.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.sources().iter().all(|source| source.has_synced())
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// [`InformerStopped`] if it is stopped before.
    pub async fn synced(&self) -> Result<(), InformerStopped> {
        loop {
            let sources = self.sources();
            let Some(waited_for) = sources.iter().find(|source| !source.has_synced()) else {
                return self.0.members().running();
            };
            if waited_for.synced().await.is_err() {
                // The source was removed; its informer may continue without it.
                self.0.members().running()?;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Delivers all events of all current and future sources to `listener`. The same listener may be added to several
    /// informers.
    ///
    /// # Errors
    /// [`InformerStopped`] after [`stop`](Self::stop).
    pub fn add_listener(&self, listener: ListenerHandle) -> Result<(), InformerStopped> {
        self.begin_listener(listener, |_| Beginning::Start)
    }

    /// As [`add_listener`](Self::add_listener); `beginning` says how the listener begins with each of the current
    /// sources, also with one that has not synced yet. With future sources it starts.
    ///
    /// # Errors
    /// As [`add_listener`](Self::add_listener).
    pub fn begin_listener(
        &self,
        listener: ListenerHandle,
        beginning: impl Fn(&SourceInfo) -> Beginning,
    ) -> Result<(), InformerStopped> {
        let mut members = self.0.members();
        members.running()?;
        if members.listeners.iter().any(|known| known.ptr_eq(&listener)) {
            return Ok(());
        }
        for source in members.sources.values() {
            source.begin_listener(listener.clone(), beginning(source.info()))?;
        }
        members.listeners.push(listener);
        Ok(())
    }

    /// Stops delivering to `listener`; its queued events of this informer are dropped and counted.
    pub fn remove_listener(&self, listener: &ListenerHandle) {
        let mut members = self.0.members();
        members.listeners.retain(|known| !known.ptr_eq(listener));
        for source in members.sources.values().chain(&members.draining) {
            source.remove_listener(listener);
        }
    }

    /// As [`remove_listener`](Self::remove_listener), for a handler that another process calls from now on: its queued
    /// events of this informer count as handed over. It may be added again. Returns once it receives nothing more.
    pub async fn hand_over(&self, listener: &ListenerHandle) {
        let handed_over = {
            let mut members = self.0.members();
            members.listeners.retain(|known| !known.ptr_eq(listener));
            let sources = members.sources.values().chain(&members.draining);
            futures::future::join_all(sources.map(|source| source.hand_over(listener)))
        };
        handed_over.await;
    }

    /// Maintains the indexes of a plugin in all current and future sources. See [`SharedInformer::add_index_feed`].
    ///
    /// # Errors
    /// A conflict of names, or [`InformerStopped`]. The feed is then added to no source.
    pub async fn add_index_feed(&self, feed: IndexFeedHandle) -> Result<(), AddIndexersError> {
        let sources: Vec<_> = {
            let mut members = self.0.members();
            members.running()?;
            if !members.feeds.iter().any(|known| known.ptr_eq(&feed)) {
                members.feeds.push(feed.clone());
            }
            members.current_and_pending().cloned().collect()
        };
        for source in sources {
            match source.add_index_feed(feed.clone()).await {
                Ok(()) => {}
                // That source was removed meanwhile.
                Err(AddIndexersError::Stopped(_)) if !self.is_stopped() => {}
                Err(error) => {
                    self.remove_index_feed(&feed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Removes the indexes of a plugin, and their names.
    pub fn remove_index_feed(&self, feed: &IndexFeedHandle) {
        let mut members = self.0.members();
        members.feeds.retain(|known| !known.ptr_eq(feed));
        for source in members.current_and_pending() {
            source.remove_index_feed(feed);
        }
    }

    /// Stops all sources in order, together within `deadline`. Handlers receive no deletes; memory is freed.
    pub async fn stop(&self, deadline: Duration) -> StopReport {
        let sources: Vec<_> = {
            let mut members = self.0.members();
            members.stopped = true;
            members.background.cancel();
            members.pending = None;
            let draining = std::mem::take(&mut members.draining);
            std::mem::take(&mut members.sources)
                .into_values()
                .chain(draining)
                .collect()
        };
        let reports = futures::future::join_all(sources.iter().map(|source| source.stop(deadline))).await;
        reports.into_iter().fold(StopReport::default(), StopReport::and)
    }

    /// Whether both are the same informer.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it was stopped or [drained](Self::drain).
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.members().stopped
    }
}

impl Parts {
    fn members(&self) -> MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn start_source(
        &self,
        spec: SourceSpec,
        whole: &InformerSpec,
        visibility: Visibility,
    ) -> Result<Arc<SharedInformer>, StartError> {
        let (client, environment) = (self.client.clone(), Arc::clone(&self.environment));
        let (catalog, metrics) = (self.catalog.clone(), &self.metrics);
        let durable = whole.durable.as_ref().map(|storage| storage.open(&spec)).transpose();
        let durable = durable.map_err(|source| StartError::Durable {
            informer: spec.informer.clone(),
            source,
        })?;
        let options = InformerOptions {
            reflector: whole.reflector,
            durable: durable.flatten(),
            budget: self.budget.clone(),
            ..InformerOptions::default()
        };
        SharedInformer::start_in(spec, client, environment, catalog, visibility, metrics, options).map(Arc::new)
    }
}

impl Members {
    fn running(&self) -> Result<(), InformerStopped> {
        if self.stopped { Err(InformerStopped) } else { Ok(()) }
    }

    fn current_and_pending(&self) -> impl Iterator<Item = &Arc<SharedInformer>> {
        let pending = self.pending.iter().flat_map(|pending| pending.sources.values());
        self.sources.values().chain(pending)
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.members().background.cancel();
    }
}

impl fmt::Debug for NamedInformer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NamedInformer")
            .field("name", &self.0.name)
            .field("sources", &self.sources())
            .finish_non_exhaustive()
    }
}
