//! Lists and watches with a [`ListerWatcher`] of one's own, and keeps a store of one's own up to date.
//!
//! ```text
//! ListerWatcher ──list, then watch──▶ Reflector ──replace, add, update, delete, resync──▶ DeltaFifo, Indexer, …
//! ```
//!
//! Source: client-go `reflector.go`: its loop, back-off, versions and relists. Departures: it is a task, which ends
//! when it is dropped, also while a list is running; and it lists and watches only, without WatchList, chunks and
//! consistency checks. [`SharedInformer`](crate::SharedInformer) has a reflector of its own with all of these.

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt};
use informant_cache::{Environment, Moment};
use informant_object::{Object, ResourceVersion};

use crate::delta_fifo::DeltaFifo;
use crate::indexer::Indexer;
use crate::locks::lock;
use crate::transform::TransformError;

/// The first wait after a failure; doubles up to [`REFLECTOR_WAIT_MAX`], plus up to as much again at random.
pub const REFLECTOR_WAIT_MIN: Duration = Duration::from_millis(800);

/// The longest wait before the random part is added.
pub const REFLECTOR_WAIT_MAX: Duration = Duration::from_secs(30);

/// After this time without a wait, the next one is the first again.
const WAIT_RESET: Duration = Duration::from_secs(120);

/// A watch that ends earlier and without an event has failed, even if it ended without an error.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// What a reflector lists and watches. client-go: `ListerWatcher`.
///
/// Both futures may be dropped at any time. Timeouts are the implementation's business: a watch that stays silent keeps
/// its reflector waiting, so ask the server to end it (`timeoutSeconds`), and end a dead connection.
pub trait ListerWatcher: Send + 'static {
    /// All objects, at `version` or later: `"0"` for any version, empty for the most recent one.
    fn list(&mut self, version: &ResourceVersion)
    -> impl Future<Output = Result<ListedObjects, ListWatchError>> + Send;

    /// The changes after `version`, until the watch ends.
    fn watch(&mut self, version: &ResourceVersion) -> impl Future<Output = Result<WatchStream, ListWatchError>> + Send;
}

/// The events of one watch. An error ends it.
pub type WatchStream = BoxStream<'static, Result<WatchEvent, ListWatchError>>;

/// A complete list.
#[derive(Clone, Debug)]
pub struct ListedObjects {
    /// Its items.
    pub objects: Vec<Object>,
    /// The version of the list itself.
    pub version: ResourceVersion,
}

/// One event of a watch. client-go: `watch.Event`.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// The object was created.
    Added(Object),
    /// The object was changed.
    Modified(Object),
    /// The object was deleted; this is its last state.
    Deleted(Object),
    /// Nothing older than this version follows.
    Bookmark(ResourceVersion),
}

/// Why a list or a watch failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListWatchError {
    /// The version is too old, or newer than what the server has: 410, or "Too large resource version". The next list
    /// takes another one.
    #[error("the resource version is not available: {0}")]
    Expired(String),
    /// The server cannot be reached or is overloaded (429): a watch is tried again without a list.
    #[error("the server is not available: {0}")]
    Unavailable(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// What a reflector writes to. client-go: `ReflectorStore`.
pub trait ReflectorStore: Send + 'static {
    /// The object was created.
    ///
    /// # Errors
    /// The object is withheld; the reflector reports it and continues.
    fn add(&self, object: Object) -> Result<(), TransformError>;

    /// The object was changed.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn update(&self, object: Object) -> Result<(), TransformError>;

    /// The object was deleted.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    fn delete(&self, object: Object) -> Result<(), TransformError>;

    /// These are all objects.
    fn replace(&self, objects: Vec<Object>, version: &ResourceVersion);

    /// The resync period is over.
    fn resync(&self);
}

/// Keeps a store up to date with what its lister-watcher shows. client-go: `Reflector`.
pub struct Reflector<L, S> {
    lister_watcher: L,
    store: S,
    environment: Arc<dyn Environment>,
    resync: Option<Duration>,
    next_resync: Moment,
    on_error: Box<dyn FnMut(&ListWatchError) + Send>,
    last: Arc<Mutex<ResourceVersion>>,
    /// The server refused the last version.
    last_is_unavailable: bool,
    back_off: BackOff,
}

impl<L, S> fmt::Debug for Reflector<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector")
            .field("resync", &self.resync)
            .field("last", &*lock(&self.last))
            .finish_non_exhaustive()
    }
}

impl<L: ListerWatcher, S: ReflectorStore> Reflector<L, S> {
    /// A reflector that does nothing until it [runs](Self::run). client-go: `NewReflector`.
    #[must_use]
    pub fn new(lister_watcher: L, store: S, environment: Arc<dyn Environment>) -> Self {
        Self {
            lister_watcher,
            store,
            environment,
            resync: None,
            next_resync: Moment::NEVER,
            on_error: Box::new(|_| {}),
            last: Arc::default(),
            last_is_unavailable: false,
            back_off: BackOff::default(),
        }
    }

    /// Calls [`ReflectorStore::resync`] at this interval while a watch is open. client-go: `resyncPeriod`.
    #[must_use]
    pub fn with_resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Is called for each failure, before the wait. client-go: `SetWatchErrorHandler`.
    #[must_use]
    pub fn with_error_handler(mut self, on_error: impl FnMut(&ListWatchError) + Send + 'static) -> Self {
        self.on_error = Box::new(on_error);
        self
    }

    /// Reads the version up to which the store is current; empty before the first list. client-go:
    /// `LastSyncResourceVersion`.
    pub fn last_sync_resource_version(&self) -> impl Fn() -> ResourceVersion + Send + Sync + 'static {
        let last = Arc::clone(&self.last);
        move || lock(&last).clone()
    }

    /// Lists and watches forever; drop the future to end it. client-go: `Run`.
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.list_and_watch().await {
                (self.on_error)(&error);
            }
            self.wait().await;
        }
    }

    /// client-go: `ListAndWatch`.
    async fn list_and_watch(&mut self) -> Result<(), ListWatchError> {
        self.list().await?;
        if let Some(period) = self.resync {
            self.next_resync = self.environment.now() + period;
        }
        loop {
            let began = self.environment.now();
            let version = self.last_version();
            let watch = match self.lister_watcher.watch(&version).await {
                Ok(watch) => watch,
                Err(error @ ListWatchError::Unavailable(_)) => {
                    (self.on_error)(&error);
                    self.wait().await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let events = self.receive(watch).await?;
            if events == 0 && self.environment.now() - began < SHORT_WATCH {
                let error = "very short watch: it ended within a second and without an event";
                return Err(ListWatchError::Failed(error.to_owned()));
            }
        }
    }

    /// Lists once; a version that the server refuses is followed by a list of the most recent state at once.
    async fn list(&mut self) -> Result<(), ListWatchError> {
        let version = self.relist_version();
        let mut listed = self.lister_watcher.list(&version).await;
        if let Err(ListWatchError::Expired(_)) = listed {
            self.last_is_unavailable = true;
            listed = self.lister_watcher.list(&ResourceVersion::default()).await;
        }
        let ListedObjects { objects, version } = listed?;
        self.last_is_unavailable = false;
        self.store.replace(objects, &version);
        *lock(&self.last) = version;
        Ok(())
    }

    /// Source: client-go `relistResourceVersion`.
    fn relist_version(&self) -> ResourceVersion {
        let last = self.last_version();
        match (self.last_is_unavailable, last.as_ref().is_empty()) {
            (true, _) => ResourceVersion::default(),
            (false, true) => ResourceVersion::new("0"),
            (false, false) => last,
        }
    }

    fn last_version(&self) -> ResourceVersion {
        lock(&self.last).clone()
    }

    /// Applies the events of one watch; returns how many there were.
    async fn receive(&mut self, mut watch: WatchStream) -> Result<u64, ListWatchError> {
        let mut events = 0;
        loop {
            let until_resync = match self.resync {
                Some(_) => self.environment.sleep(self.next_resync - self.environment.now()),
                None => Box::pin(std::future::pending()),
            };
            let event = tokio::select! {
                biased;
                event = watch.next() => event,
                () = until_resync => {
                    self.store.resync();
                    self.next_resync = self.environment.now() + self.resync.unwrap_or_default();
                    continue;
                }
            };
            let Some(event) = event.transpose()? else {
                return Ok(events);
            };
            events += 1;
            self.apply(event);
        }
    }

    fn apply(&mut self, event: WatchEvent) {
        let (version, written) = match event {
            WatchEvent::Added(object) => (object.version().to_version(), self.store.add(object)),
            WatchEvent::Modified(object) => (object.version().to_version(), self.store.update(object)),
            WatchEvent::Deleted(object) => (object.version().to_version(), self.store.delete(object)),
            WatchEvent::Bookmark(version) => (version, Ok(())),
        };
        *lock(&self.last) = version;
        if let Err(error) = written {
            (self.on_error)(&ListWatchError::Failed(error.to_string()));
        }
    }

    async fn wait(&mut self) {
        let wait = self.back_off.next(self.environment.now(), self.environment.random());
        self.environment.sleep(wait).await;
    }
}

/// The wait before the next attempt. Source: client-go's `backoffManager` of a reflector. There the reset also happens
/// in the middle of an outage that lasts two minutes; here only after two minutes without a wait.
#[derive(Debug, Default)]
struct BackOff {
    failures: u32,
    /// When the last wait is over.
    last: Moment,
}

impl BackOff {
    fn next(&mut self, now: Moment, random: u64) -> Duration {
        if now - self.last > WAIT_RESET {
            self.failures = 0;
        }
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        let wait = REFLECTOR_WAIT_MIN.saturating_mul(factor).min(REFLECTOR_WAIT_MAX);
        self.failures = (self.failures + 1).min(u32::BITS);
        let more = wait.saturating_mul(u32::try_from(random % 1_000).unwrap_or(0)) / 1_000;
        self.last = now + wait + more;
        wait + more
    }
}

impl ReflectorStore for DeltaFifo {
    fn add(&self, object: Object) -> Result<(), TransformError> {
        DeltaFifo::add(self, object)
    }

    fn update(&self, object: Object) -> Result<(), TransformError> {
        DeltaFifo::update(self, object)
    }

    fn delete(&self, object: Object) -> Result<(), TransformError> {
        DeltaFifo::delete(self, object)
    }

    fn replace(&self, objects: Vec<Object>, _version: &ResourceVersion) {
        DeltaFifo::replace(self, objects);
    }

    fn resync(&self) {
        DeltaFifo::resync(self);
    }
}

/// For a program that only reads: nothing is notified.
impl ReflectorStore for Indexer {
    fn add(&self, object: Object) -> Result<(), TransformError> {
        Indexer::add(self, object);
        Ok(())
    }

    fn update(&self, object: Object) -> Result<(), TransformError> {
        Indexer::update(self, object);
        Ok(())
    }

    fn delete(&self, object: Object) -> Result<(), TransformError> {
        Indexer::delete(self, object.key());
        Ok(())
    }

    fn replace(&self, objects: Vec<Object>, version: &ResourceVersion) {
        Indexer::replace(self, objects, version.clone());
    }

    fn resync(&self) {}
}
