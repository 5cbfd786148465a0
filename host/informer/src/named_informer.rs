//! An informer as config.toml names it: one source, or one for each of its namespaces and resources, under one handle
//! that stays while they change.

mod reconfigure;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::{Catalog, Environment, IndexFeedHandle, ListenerHandle};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::discovery::Discovered;
use crate::metrics::InformerMetrics;
use crate::reflector::ReflectorOptions;
use crate::resource::GroupVersionResource;
use crate::shared_informer::{
    AddIndexersError, DurableSources, InformerOptions, InformerStopped, SharedInformer, StartError, StopReport,
};
use crate::spec::SourceSpec;
use crate::status::SourceStatus;

/// What an informer is made of.
#[derive(Debug, Clone)]
pub struct InformerSpec {
    /// What its sources have in common; `namespace` is not looked at, nor are `resource`, `kind` and `namespaced` if
    /// there are `resources`.
    pub source: SourceSpec,
    /// Of an informer of whatever a pattern means: what that is now, none included. `None`: the one that `source`
    /// names, for good.
    pub resources: Option<BTreeMap<GroupVersionResource, Discovered>>,
    /// The namespaces to stay within, a source for each. Empty: one source of all of them, or of a resource without
    /// namespaces. Of several resources those without namespaces are left out if there is any.
    pub namespaces: BTreeSet<String>,
    /// How lists and watches are made and retried.
    pub reflector: ReflectorOptions,
    /// Keeps sources from one process to the next, as they start.
    pub durable: Option<Arc<dyn DurableSources>>,
}

/// An informer with any number of namespaces and resources. Cheap to clone; a clone is the same informer.
///
/// Starts at once and runs until [`stop`](Self::stop), or until the last clone is dropped. Listeners and index feeds
/// belong to the informer: sources that come later get them too. What the sources hold is read as a union, by the
/// informer's name ([`Lister`](informant_cache::Lister), [`Catalog::sources_of`]). [`reconfigure`](Self::reconfigure)
/// changes it while it runs.
#[derive(Clone)]
pub struct NamedInformer(Arc<Parts>);

struct Parts {
    name: String,
    client: Client,
    environment: Arc<dyn Environment>,
    catalog: Catalog,
    metrics: InformerMetrics,
    /// Changes come one after the other.
    reconfigure_lock: tokio::sync::Mutex<()>,
    /// Told when a source has left.
    drained: tokio::sync::Notify,
    members: Mutex<Members>,
}

struct Members {
    /// As it was wanted last.
    spec: InformerSpec,
    sources: BTreeMap<SourceScope, Arc<SharedInformer>>,
    /// Sources that take over from `sources` once they have synced, and what calls that off.
    pending: Option<reconfigure::PendingSources>,
    /// Sources whose last deletes are being delivered.
    draining: Vec<Arc<SharedInformer>>,
    listeners: Vec<ListenerHandle>,
    feeds: Vec<IndexFeedHandle>,
    /// Ends what is done in the background.
    background: CancellationToken,
    stopped: bool,
}

impl InformerSpec {
    /// An informer of one source: all namespaces, or the one that `source` names.
    #[must_use]
    pub fn of(source: SourceSpec) -> Self {
        Self {
            namespaces: source.namespace.iter().cloned().collect(),
            source,
            resources: None,
            reflector: ReflectorOptions::default(),
            durable: None,
        }
    }

    /// Its sources: one for each of its resources and namespaces.
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
            namespaced: found.namespaced,
            ..self.source.clone()
        };
        resources.values().map(of_one).collect()
    }

    /// `None` is all of them, or a resource without namespaces.
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

/// What tells the sources of one informer apart.
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

    /// Whether there may be objects that are in both.
    fn overlaps(&self, other: &Self) -> bool {
        let namespaces = self.namespace.as_ref().zip(other.namespace.as_ref());
        self.resource == other.resource && namespaces.is_none_or(|(own, other)| own == other)
    }
}

impl NamedInformer {
    /// Starts an informer with all its sources. See [`SharedInformer::start`] for what `client` must not do.
    ///
    /// # Errors
    /// [`StartError`] if the specification contradicts itself; nothing runs then.
    pub fn start(
        spec: InformerSpec,
        client: Client,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        metrics: &InformerMetrics,
    ) -> Result<Self, StartError> {
        let parts = Parts {
            name: spec.source.informer.clone(),
            client,
            environment,
            catalog,
            metrics: metrics.clone(),
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

    /// What it is to be made of; while a change is under way not yet what it is made of.
    #[must_use]
    pub fn spec(&self) -> InformerSpec {
        self.0.members().spec.clone()
    }

    /// Its sources, by resource and namespace. Those that are built beside them, or that leave, are not among them.
    #[must_use]
    pub fn sources(&self) -> Vec<Arc<SharedInformer>> {
        self.0.members().sources.values().cloned().collect()
    }

    /// How each source is doing.
    #[must_use]
    pub fn statuses(&self) -> Vec<SourceStatus> {
        self.sources().iter().map(|source| source.status()).collect()
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
                // It left; its informer may go on without it.
                self.0.members().running()?;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Has `listener` told of everything, of every source there is and will be. The same listener may be added to
    /// several informers.
    ///
    /// # Errors
    /// [`InformerStopped`] after [`stop`](Self::stop).
    pub fn add_listener(&self, listener: ListenerHandle) -> Result<(), InformerStopped> {
        let mut members = self.0.members();
        members.running()?;
        if members.listeners.iter().any(|known| known.ptr_eq(&listener)) {
            return Ok(());
        }
        for source in members.sources.values() {
            source.add_listener(listener.clone())?;
        }
        members.listeners.push(listener);
        Ok(())
    }

    /// Tells `listener` nothing more of this informer; what waits in it from here is dropped and counted.
    pub fn remove_listener(&self, listener: &ListenerHandle) {
        let mut members = self.0.members();
        members.listeners.retain(|known| !known.ptr_eq(listener));
        for source in members.sources.values().chain(&members.draining) {
            source.remove_listener(listener);
        }
    }

    /// Keeps the indexes of a plugin in every source there is and will be. See [`SharedInformer::add_index_feed`].
    ///
    /// # Errors
    /// A conflict of names, or [`InformerStopped`]. No source keeps it then.
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
                // That source left meanwhile.
                Err(AddIndexersError::Stopped(_)) if !self.is_stopped() => {}
                Err(error) => {
                    self.remove_index_feed(&feed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Forgets the indexes of a plugin, and their names.
    pub fn remove_index_feed(&self, feed: &IndexFeedHandle) {
        let mut members = self.0.members();
        members.feeds.retain(|known| !known.ptr_eq(feed));
        for source in members.current_and_pending() {
            source.remove_index_feed(feed);
        }
    }

    /// Stops all sources in order, together within `deadline`. Nobody is told of deletes; memory is given back.
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

    /// Whether it was stopped or [retired](Self::retire).
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.members().stopped
    }
}

/// Whether a new source is visible to lookups at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visibility {
    Public,
    /// Only after [`Catalog::exchange`].
    Staged,
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
            ..InformerOptions::default()
        };
        let started = match visibility {
            Visibility::Public => SharedInformer::start_with(spec, client, environment, catalog, metrics, options),
            Visibility::Staged => SharedInformer::start_staged(spec, client, environment, catalog, metrics, options),
        };
        started.map(Arc::new)
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
