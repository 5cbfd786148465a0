//! [`SharedInformer`]: a running source, with reflector, loop and handlers under one handle.
//!
//! Source: client-go `shared_informer.go`; departures are noted where they occur.

mod freshness;
mod handoff;
mod reconfigure;
mod start;
mod stop;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use informant_cache::listener::{Beginning, ListenerOptions};
use informant_cache::{
    CacheBudget, Catalog, Environment, EventHandler, IndexConflict, IndexFeedHandle, IndexFunc, ListenerHandle,
    Snapshot, Source, SourceInfo,
};
use informant_object::SourceId;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use freshness::NotFresh;
pub use reconfigure::ReconfigureError;
pub(crate) use reconfigure::validate_identity;
pub(crate) use start::Visibility;
pub use start::{StartError, try_request};
pub use stop::StopReport;

use crate::bodies::ReadSpec;
use crate::cache_share::CacheShare;
use crate::cluster_client::{ClusterClient, ClusterLink};
use crate::durable_source::DurableSource;
use crate::environment::BackgroundDropper;
use crate::handler::{Registration, drive};
use crate::informer_loop::Control;
use crate::metrics::SourceMetrics;
use crate::reflector::{OtherNamespaces, ReflectorOptions};
use crate::source_name::SourceName;
use crate::spec::SourceSpec;
use crate::status::{ReflectorStatus, StatusTracker};
use crate::update_channel::CHANNEL_BYTES_MAX;

/// Options of a [`SharedInformer`].
pub struct InformerOptions {
    /// How lists and watches are requested and retried.
    pub reflector: ReflectorOptions,
    /// Bytes of objects that may be between the reflector and its loop; at the limit the socket is not read. Default 8
    /// MiB.
    pub channel_bytes_max: usize,
    /// Persists the source across restarts; listeners only receive what is persisted.
    pub durable: Option<DurableSource>,
    /// Native indexes other than pointers, in addition to [`SourceSpec::indexes`].
    pub index_funcs: Vec<Box<dyn IndexFunc>>,
    /// A budget that it shares with some sources, besides the catalog's. Default: without a limit.
    pub budget: CacheBudget,
}

/// Decides which sources are durable, and opens their storage.
pub trait DurableSources: Send + Sync + std::fmt::Debug {
    /// The storage of a source; none if the source is not durable. Called when the source starts; may block on the
    /// disk.
    ///
    /// # Errors
    /// Why the storage of a durable source could not be opened. The source is not started then.
    fn open(&self, spec: &SourceSpec) -> Result<Option<DurableSource>, Box<dyn std::error::Error + Send + Sync>>;
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            reflector: ReflectorOptions::default(),
            channel_bytes_max: CHANNEL_BYTES_MAX,
            durable: None,
            index_funcs: Vec::new(),
            budget: CacheBudget::default(),
        }
    }
}

/// One source: lists and watches it, stores its objects, and notifies any number of handlers of changes.
///
/// Starts at once and runs until [`stop`](Self::stop) or until it is dropped. Handlers may be added and removed at any
/// time; a late one first receives the stored objects. Reading through the [`Catalog`] or [`snapshot`](Self::snapshot)
/// never waits.
pub struct SharedInformer {
    name: Arc<SourceName>,
    client: ClusterClient,
    source: Arc<Source>,
    catalog: Catalog,
    environment: Arc<dyn Environment>,
    control: mpsc::UnboundedSender<Control>,
    status: Arc<StatusTracker>,
    metrics: Arc<SourceMetrics>,
    dropper: BackgroundDropper,
    cache: Arc<CacheShare>,
    /// What is read of objects of which the store has only the head.
    read_spec: Arc<ReadSpec>,
    /// Ends the reflector.
    cancel: CancellationToken,
    durable: Option<DurableSource>,
    /// Turns true once the deletes of a draining source, or all events of a stopping one, are queued in the listeners.
    deletes_queued: watch::Sender<bool>,
    /// Turns true once the loop is over.
    loop_ended: watch::Receiver<bool>,
    channel_bytes_max: usize,
    /// What its reflectors know of the namespaces of other shards.
    others: Arc<OtherNamespaces>,
    /// Serializes changes of the specification.
    reconfigure_lock: tokio::sync::Mutex<()>,
    members: Mutex<Members>,
}

impl std::fmt::Debug for SharedInformer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SharedInformer")
            .field("name", &self.name())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// The consumers of a source, and its specification.
#[derive(Debug)]
struct Members {
    /// The last requested specification.
    spec: Arc<SourceSpec>,
    reflector: ReflectorOptions,
    /// The number of the last reflector.
    generation: u64,
    /// Native handlers, driven by tasks of this crate.
    handlers: Vec<Registration>,
    /// Listeners that others pull from.
    listeners: Vec<ListenerHandle>,
    stopped: bool,
}

/// The informer was stopped: it accepts no commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer was stopped; start it again to register with it")]
pub struct InformerStopped;

/// Why indexes could not be added.
#[derive(Debug, thiserror::Error)]
pub enum AddIndexersError {
    /// A name is taken.
    #[error(transparent)]
    Conflict(#[from] IndexConflict),
    /// The informer was stopped.
    #[error(transparent)]
    Stopped(#[from] InformerStopped),
}

impl SharedInformer {
    /// The source's number in the catalog.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source.id()
    }

    /// The requested specification; during a change ([`ReflectorStatus::reconfiguring`]) the source does not match it
    /// yet.
    #[must_use]
    pub fn spec(&self) -> Arc<SourceSpec> {
        Arc::clone(&self.members().spec)
    }

    /// The name in messages, for example "informer pods (v1/pods in default)".
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    pub(crate) fn source_name(&self) -> &SourceName {
        &self.name
    }

    /// Whether the first list is in the store and published.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.status.is_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// [`InformerStopped`] if that comes first.
    pub async fn synced(&self) -> Result<(), InformerStopped> {
        let mut synced = self.status.synced();
        let mut ended = self.loop_ended.clone();
        tokio::select! {
            biased;
            synced = synced.wait_for(|synced| *synced) => synced.map(|_| ()).map_err(|_| InformerStopped),
            _ = ended.wait_for(|ended| *ended) => Err(InformerStopped),
        }
    }

    /// The status of the source.
    #[must_use]
    pub fn status(&self) -> ReflectorStatus {
        self.status.read()
    }

    /// As [`NamedInformer::is_api_server_away`](crate::NamedInformer::is_api_server_away).
    pub(crate) async fn is_api_server_away(&self) -> bool {
        let environment = Arc::clone(&self.environment);
        let link = ClusterLink::new(self.client.clone(), environment, Arc::clone(&self.metrics));
        link.is_away().await
    }

    /// The objects as last published.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.source.snapshot()
    }

    /// Registers a native handler, driven by a task of its own. If `options.resync` is unset, the source's period
    /// applies; if `options.seed` is 0, a random one is used.
    ///
    /// The handler is called once the first list is complete and published: for each of its objects as an add, then for
    /// each change. Calls for one key are in order and never overlap.
    ///
    /// # Errors
    /// [`InformerStopped`] after [`stop`](Self::stop); the handler is dropped then.
    pub fn add_handler(
        &self,
        handler: Box<dyn EventHandler>,
        mut options: ListenerOptions,
    ) -> Result<Registration, InformerStopped> {
        if options.seed == 0 {
            options.seed = self.environment.random();
        }
        options.resync = options.resync.or(self.members().spec.resync);
        let listener = ListenerHandle::new(options);
        let mut members = self.members();
        if members.stopped {
            return Err(InformerStopped);
        }
        let (source, environment) = (self.source(), &self.environment);
        let registration = drive(
            handler,
            listener.clone(),
            source,
            self.name(),
            environment,
            &self.metrics,
        );
        members.handlers.retain(|known| !known.has_ended());
        members.handlers.push(registration.clone());
        self.send_command(Control::AddListener(listener, Beginning::Start))?;
        Ok(registration)
    }

    /// Removes a native handler: it receives nothing new, and its queued events are dropped. A running call finishes;
    /// wait for [`Registration::ended`] if that matters. Does nothing for a handler of another informer, or one that
    /// was already removed.
    ///
    /// Source: client-go `RemoveEventHandler`.
    pub fn remove_handler(&self, registration: &Registration) {
        let mut members = self.members();
        let Some(at) = members
            .handlers
            .iter()
            .position(|known| known.listener().ptr_eq(registration.listener()))
        else {
            return;
        };
        let removed = members.handlers.swap_remove(at);
        drop(members);
        removed.listener().control().abandon();
        // An error means that the loop is gone, and with it all its listeners.
        let _ = self.send_command(Control::RemoveListener(removed.listener().clone()));
    }

    /// Delivers all events to `listener`, which others pull from. The same listener may be added to several informers.
    ///
    /// # Errors
    /// [`InformerStopped`] after [`stop`](Self::stop).
    pub fn add_listener(&self, listener: ListenerHandle) -> Result<(), InformerStopped> {
        self.begin_listener(listener, Beginning::Start)
    }

    /// As [`add_listener`](Self::add_listener), and says how the listener begins.
    ///
    /// # Errors
    /// As [`add_listener`](Self::add_listener).
    pub fn begin_listener(&self, listener: ListenerHandle, beginning: Beginning) -> Result<(), InformerStopped> {
        let mut members = self.members();
        if members.stopped {
            return Err(InformerStopped);
        }
        if !members.listeners.iter().any(|known| known.ptr_eq(&listener)) {
            members.listeners.push(listener.clone());
            self.send_command(Control::AddListener(listener, beginning))?;
        }
        Ok(())
    }

    /// Stops delivering to `listener`; its queued events of this source are dropped and counted. Other sources of the
    /// same listener stay.
    pub fn remove_listener(&self, listener: &ListenerHandle) {
        self.members().listeners.retain(|known| !known.ptr_eq(listener));
        // Without a loop nothing is delivered.
        let _ = self.send_command(Control::RemoveListener(listener.clone()));
    }

    /// As [`remove_listener`](Self::remove_listener), for a handler that another process calls from now on: its queued
    /// events count as handed over. It may be added again. The future ends once it receives nothing more: a handler
    /// that is called again before that could get events of before.
    pub fn hand_over(&self, listener: &ListenerHandle) -> impl Future<Output = ()> + use<> {
        self.members().listeners.retain(|known| !known.ptr_eq(listener));
        let (done, handed_over) = oneshot::channel();
        // Without a loop nothing is delivered.
        let _ = self.send_command(Control::HandOver(listener.clone(), done));
        async move { drop(handed_over.await) }
    }

    /// The identity of the source.
    #[must_use]
    pub fn info(&self) -> &SourceInfo {
        self.source.info()
    }

    /// Adds native indexes, all or none, and backfills them from the store. Resolves once they are ready.
    ///
    /// # Errors
    /// A conflict of names, or [`InformerStopped`].
    pub async fn add_indexers(&self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), AddIndexersError> {
        let (done, added) = oneshot::channel();
        self.send_command(Control::AddIndexers(indexes, done))?;
        Ok(added.await.map_err(|_| InformerStopped)??)
    }

    /// Maintains the indexes of a plugin, which are computed elsewhere. They answer `NotReady` until they are attached
    /// as a whole. The informer does not wait for a plugin to start, and never longer than its budget.
    ///
    /// # Errors
    /// A conflict of names, or [`InformerStopped`].
    pub async fn add_index_feed(&self, feed: IndexFeedHandle) -> Result<(), AddIndexersError> {
        let (done, added) = oneshot::channel();
        self.send_command(Control::AddFeed(feed, done))?;
        Ok(added.await.map_err(|_| InformerStopped)??)
    }

    /// Removes the indexes of a plugin, and their names.
    pub fn remove_index_feed(&self, feed: &IndexFeedHandle) {
        // Without a loop there is nothing to remove.
        let _ = self.send_command(Control::RemoveFeed(feed.clone()));
    }

    fn send_command(&self, control: Control) -> Result<(), InformerStopped> {
        self.control.send(control).map_err(|_| InformerStopped)
    }

    fn members(&self) -> std::sync::MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
