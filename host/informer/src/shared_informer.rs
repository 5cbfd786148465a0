//! A source at work: reflector, loop and handlers under one handle, [`SharedInformer`].
//!
//! Source: client-go `shared_informer.go`; where it departs, the item says so.

mod freshness;
mod handoff;
mod reconfigure;
mod start;
mod stop;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use informant_cache::listener::ListenerOptions;
use informant_cache::{
    Catalog, Environment, EventHandler, IndexConflict, IndexFeedHandle, IndexFunc, Journal, ListenerHandle, Snapshot,
    Source, Transform,
};
use informant_object::SourceId;
use kube::Client;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use freshness::NotFresh;
pub use handoff::HANDOFF_WAIT_SECONDS_MAX;
pub use reconfigure::ReconfigureError;
pub(crate) use reconfigure::validate_identity;
pub use start::StartError;
pub use stop::StopReport;

use crate::background_drop::BackgroundDropper;
use crate::handler::{HandlerParts, Registration, drive};
use crate::informer_loop::{BlockingListener, Control};
use crate::metrics::SourceMetrics;
use crate::reflector::ReflectorOptions;
use crate::source_name::SourceName;
use crate::spec::SourceSpec;
use crate::status::{SourceStatus, StatusTracker};
use crate::update_channel::CHANNEL_BYTES_MAX;

/// How a [`SharedInformer`] departs from the usual.
pub struct InformerOptions {
    /// How lists and watches are made and retried.
    pub reflector: ReflectorOptions,
    /// How many bytes of objects may be between the reflector and its loop; at the limit the socket is not read.
    /// Default 8 MiB.
    pub channel_bytes_max: usize,
    /// Run once on each object that the API server sends, before it is stored or shown.
    pub transform: Option<Box<dyn Transform>>,
    /// Keeps what the source shows where it outlives the process; listeners are told of nothing that is not kept.
    pub durable: Option<DurableSource>,
    /// Native indexes that are no pointers; those of [`SourceSpec::indexes`] come with them.
    pub index_funcs: Vec<Box<dyn IndexFunc>>,
}

/// Says which sources are kept from one process to the next, and where.
pub trait DurableSources: Send + Sync + std::fmt::Debug {
    /// Where the source that `spec` describes is kept; none if it is not. Asked when the source starts; may wait for a
    /// disk.
    ///
    /// # Errors
    /// Why it cannot be kept although it is to be. It is not started then.
    fn open(&self, spec: &SourceSpec) -> Result<Option<DurableSource>, Box<dyn std::error::Error + Send + Sync>>;
}

/// Where a source is kept from one process to the next.
#[derive(Debug, Clone)]
pub struct DurableSource {
    /// What keeps it.
    pub journal: Arc<dyn Journal>,
    /// The highest version that an earlier process had seen: a lagging replica cannot take the source back behind it.
    pub high_water: Option<u64>,
    /// After how many seconds a hand-over that waits for the disk is reported: see [`HANDOFF_WAIT_SECONDS_MAX`], its
    /// default.
    pub handoff_wait_seconds_max: u64,
}

impl DurableSource {
    /// Kept by `journal`, with the default limits.
    pub fn new(journal: Arc<dyn Journal>, high_water: Option<u64>) -> Self {
        Self {
            journal,
            high_water,
            handoff_wait_seconds_max: HANDOFF_WAIT_SECONDS_MAX,
        }
    }
}

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            reflector: ReflectorOptions::default(),
            channel_bytes_max: CHANNEL_BYTES_MAX,
            transform: None,
            durable: None,
            index_funcs: Vec::new(),
        }
    }
}

/// One source: lists and watches it, keeps its objects, and tells any number of handlers what changes.
///
/// Starts at once and runs until [`stop`](Self::stop) or until it is dropped. Handlers may come and go at any time; one
/// that comes late is shown what is there first. What it keeps is read through the [`Catalog`] or
/// [`snapshot`](Self::snapshot), without ever waiting for it.
pub struct SharedInformer {
    name: Arc<SourceName>,
    client: Client,
    source: Arc<Source>,
    catalog: Catalog,
    environment: EnvironmentRef,
    control: mpsc::UnboundedSender<Control>,
    status: Arc<StatusTracker>,
    metrics: Arc<SourceMetrics>,
    dropper: BackgroundDropper,
    /// Ends the reflector.
    cancel: CancellationToken,
    durable: Option<DurableSource>,
    /// Turns true once the deletes of a source that leaves, or all that was read of one that stops, wait in the
    /// listeners.
    deletes_queued: watch::Sender<bool>,
    /// Turns true once the loop is over.
    loop_ended: watch::Receiver<bool>,
    channel_bytes_max: usize,
    /// Changes of what is asked for come one after the other.
    reconfigure_lock: tokio::sync::Mutex<()>,
    members: Mutex<Members>,
}

/// An environment, opaque to `Debug`.
#[derive(Clone)]
struct EnvironmentRef(Arc<dyn Environment>);

impl std::fmt::Debug for SharedInformer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SharedInformer")
            .field("name", &self.name())
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

/// Who is told, and what is asked for.
#[derive(Debug)]
struct Members {
    /// As it was wanted last.
    spec: Arc<SourceSpec>,
    reflector: ReflectorOptions,
    /// The number of the last reflector.
    generation: u64,
    /// Native handlers, driven by tasks of this capacity.
    handlers: Vec<Registration>,
    /// Listeners that somebody else pulls from.
    listeners: Vec<ListenerHandle>,
    stopped: bool,
}

/// The informer was stopped: it takes no more orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the informer was stopped; start it again to register with it")]
pub struct InformerStopped;

/// Why indexes could not be added.
#[derive(Debug, thiserror::Error)]
pub enum AddIndexersError {
    /// A name is taken.
    #[error(transparent)]
    Conflict(#[from] IndexConflict),
    /// Nobody is there to keep them.
    #[error(transparent)]
    Stopped(#[from] InformerStopped),
}

impl SharedInformer {
    /// The number under which the catalog knows this source.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source.id()
    }

    /// What this source is to be made of; while a change is under way ([`SourceStatus::reconfiguring`]) not yet what it
    /// is made of.
    #[must_use]
    pub fn spec(&self) -> Arc<SourceSpec> {
        Arc::clone(&self.members().spec)
    }

    /// What messages call it, for example "informer pods (v1/pods in default)".
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

    /// How the source is doing.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        self.status.read()
    }

    /// The objects as last published.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.source.snapshot()
    }

    /// Registers a native handler, driven by a task of its own. `options.resync` unset takes the source's period;
    /// `options.seed` 0 takes a random one.
    ///
    /// The handler is called first once the first list is complete and published: for each object of it as an add, then
    /// for what changes. Calls for one key are in command and never overlap.
    ///
    /// # Errors
    /// [`InformerStopped`] after [`stop`](Self::stop); the handler is dropped then.
    pub fn add_handler(
        &self,
        handler: Box<dyn EventHandler>,
        mut options: ListenerOptions,
    ) -> Result<Registration, InformerStopped> {
        self.set_defaults(&mut options);
        let listener = ListenerHandle::new(options);
        self.register(handler, listener.clone(), None, Control::AddListener(listener))
    }

    /// As [`add_handler`](Self::add_handler), for the only handler of an informer: the loop waits for it.
    pub(crate) fn add_blocking_handler(
        &self,
        handler: Box<dyn EventHandler>,
        mut options: ListenerOptions,
    ) -> Result<Registration, InformerStopped> {
        self.set_defaults(&mut options);
        let (listener, capacity) = (ListenerHandle::new_blocking(options), Arc::new(Notify::new()));
        let blocking = BlockingListener {
            listener: listener.clone(),
            capacity: Arc::clone(&capacity),
        };
        self.register(
            handler,
            listener,
            Some(capacity),
            Control::AddBlockingListener(blocking),
        )
    }

    fn set_defaults(&self, options: &mut ListenerOptions) {
        if options.seed == 0 {
            options.seed = self.environment.0.random();
        }
        options.resync = options.resync.or(self.members().spec.resync);
    }

    fn register(
        &self,
        handler: Box<dyn EventHandler>,
        listener: ListenerHandle,
        capacity: Option<Arc<Notify>>,
        command: Control,
    ) -> Result<Registration, InformerStopped> {
        let mut members = self.members();
        if members.stopped {
            return Err(InformerStopped);
        }
        let registration = drive(HandlerParts {
            handler,
            listener,
            source: self.source(),
            informer: self.name(),
            environment: &self.environment.0,
            metrics: &self.metrics,
            capacity,
        });
        members.handlers.retain(|known| !known.has_ended());
        members.handlers.push(registration.clone());
        self.send_command(command)?;
        Ok(registration)
    }

    /// Removes a native handler: it is told nothing new, and what waits for it is dropped. A call that runs goes on;
    /// wait for [`Registration::ended`] where that matters. Nothing happens to a handler of another informer, or one
    /// that was removed already.
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
        removed.listener().abandon();
        // An error says that the loop is gone, and with it all its listeners.
        let _ = self.send_command(Control::RemoveListener(removed.listener().clone()));
    }

    /// Has `listener`, from which somebody else pulls, told of everything. The same listener may be added to several
    /// informers.
    ///
    /// # Errors
    /// [`InformerStopped`] after [`stop`](Self::stop).
    pub fn add_listener(&self, listener: ListenerHandle) -> Result<(), InformerStopped> {
        let mut members = self.members();
        if members.stopped {
            return Err(InformerStopped);
        }
        if !members.listeners.iter().any(|known| known.ptr_eq(&listener)) {
            members.listeners.push(listener.clone());
            self.send_command(Control::AddListener(listener))?;
        }
        Ok(())
    }

    /// Tells `listener` nothing more of this source; what waits in it from this source is dropped and counted. Other
    /// sources of the same listener stay.
    pub fn remove_listener(&self, listener: &ListenerHandle) {
        self.members().listeners.retain(|known| !known.ptr_eq(listener));
        // Without a loop there is nothing to be told of.
        let _ = self.send_command(Control::RemoveListener(listener.clone()));
    }

    /// Adds native indexes, all or none, and fills them from what is stored. Resolves once they answer.
    ///
    /// # Errors
    /// A conflict of names, or [`InformerStopped`].
    pub async fn add_indexers(&self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), AddIndexersError> {
        let (done, added) = oneshot::channel();
        self.send_command(Control::AddIndexers(indexes, done))?;
        Ok(added.await.map_err(|_| InformerStopped)??)
    }

    /// Keeps the indexes of a plugin, which somebody else computes. They answer `NotReady` until they are attached,
    /// whole; the informer waits for no plugin to start, and for none longer than its budget.
    ///
    /// # Errors
    /// A conflict of names, or [`InformerStopped`].
    pub async fn add_index_feed(&self, feed: IndexFeedHandle) -> Result<(), AddIndexersError> {
        let (done, added) = oneshot::channel();
        self.send_command(Control::AddFeed(feed, done))?;
        Ok(added.await.map_err(|_| InformerStopped)??)
    }

    /// Forgets the indexes of a plugin, and their names.
    pub fn remove_index_feed(&self, feed: &IndexFeedHandle) {
        // Without a loop there is nothing to forget.
        let _ = self.send_command(Control::RemoveFeed(feed.clone()));
    }

    fn send_command(&self, control: Control) -> Result<(), InformerStopped> {
        self.control.send(control).map_err(|_| InformerStopped)
    }

    fn members(&self) -> std::sync::MutexGuard<'_, Members> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
