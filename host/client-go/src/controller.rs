//! [`Informer`]: a reflector, a delta queue, a store and one handler, which may block them.
//!
//! ```text
//! ListerWatcher ─▶ Reflector (task) ─▶ DeltaFifo ─▶ thread: store, then handler
//! ```
//!
//! Source: client-go `controller.go`.

#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use informant_cache::listener::RETRY_AFTER_MAX;
use informant_cache::{Environment, EventContext, EventHandler, HandlerError, IndexConflict, IndexFunc, Reason};
use informant_object::{Key, Object, ResourceVersion, SourceId};
use tokio::sync::watch;

use crate::delta::{Delta, DeltaType};
use crate::delta_fifo::{DeltaFifo, DeltaFifoOptions, ProcessError};
use crate::indexer::Indexer;
use crate::locks::{lock, wait_for};
use crate::reflector::{ListerWatcher, Reflector};
use crate::transform::Transform;

/// The first wait before a failed call is repeated; doubles with each failure up to [`HANDLER_WAIT_MAX`].
pub const HANDLER_WAIT_MIN: Duration = Duration::from_millis(5);

/// The longest wait before a failed call is repeated.
pub const HANDLER_WAIT_MAX: Duration = Duration::from_secs(30);

/// How an [`Informer`] is built. client-go: `InformerOptions`.
#[derive(Default)]
pub struct InformerConfig {
    /// Calls the handler for every object at this interval. client-go: `ResyncPeriod`.
    pub resync: Option<Duration>,
    /// The indexes of the store. client-go: `Indexers`.
    pub indexers: Vec<Box<dyn IndexFunc>>,
    /// Runs once on each object before it is stored or delivered. client-go: `Transform`.
    pub transform: Option<Box<dyn Transform>>,
}

/// Lists and watches with a [`ListerWatcher`], stores the objects with their indexes, and calls one handler for each
/// change, on a thread of its own.
///
/// The handler may block: then the store lags, changes queue up without a limit, and none is skipped. A call that fails
/// is repeated with back-off before anything else is processed; a permanent failure and a panic are
/// [counted](Self::failed_calls) instead. `on_synced` is not called; ask [`has_synced`](Self::has_synced).
/// [`SharedInformer`](crate::SharedInformer) serves several handlers, none of
/// which delays another or the store.
///
/// A delete and a create under the same name that the watch did not show are a delete and an add; client-go makes an
/// update of them. Objects that a list shows unchanged are not delivered; client-go does.
///
/// Source: client-go `NewInformer`, `NewIndexerInformer`, `NewInformerWithOptions`, which return a store and a
/// controller; here both are one.
#[derive(Debug)]
pub struct Informer {
    store: Indexer,
    queue: DeltaFifo,
    last_version: LastVersion,
    shared: Arc<Shared>,
    ended: watch::Receiver<bool>,
}

struct LastVersion(Box<dyn Fn() -> ResourceVersion + Send + Sync>);

/// What the informer and its thread share.
#[derive(Debug)]
struct Shared {
    stopped: Mutex<bool>,
    /// Notified when it was stopped.
    changed: Condvar,
    failed_calls: AtomicU64,
    /// Ends the reflector's task.
    stop_reflector: watch::Sender<bool>,
}

impl Informer {
    /// Starts the reflector as a task of `environment`, and the thread that calls `handler`.
    ///
    /// # Errors
    /// [`IndexConflict`] if an index occurs twice.
    pub fn start(
        lister_watcher: impl ListerWatcher,
        handler: Box<dyn EventHandler>,
        environment: Arc<dyn Environment>,
        config: InformerConfig,
    ) -> Result<Informer, IndexConflict> {
        let store = Indexer::new(config.indexers)?;
        let options = DeltaFifoOptions {
            transform: config.transform,
            ..DeltaFifoOptions::default()
        };
        let queue = DeltaFifo::new(options, Arc::new(store.clone()));
        let mut reflector = Reflector::new(lister_watcher, queue.clone(), Arc::clone(&environment));
        if let Some(period) = config.resync {
            reflector = reflector.with_resync(period);
        }
        let last_version = LastVersion(Box::new(reflector.last_sync_resource_version()));
        let (stop_reflector, mut stopped) = watch::channel(false);
        let run = reflector.run();
        environment.spawn(
            "client-go-reflector",
            Box::pin(async move {
                tokio::select! {
                    biased;
                    _ = stopped.wait_for(|stopped| *stopped) => {}
                    () = run => {}
                }
            }),
        );
        let shared = Arc::new(Shared {
            stopped: Mutex::new(false),
            changed: Condvar::new(),
            failed_calls: AtomicU64::new(0),
            stop_reflector,
        });
        let (has_ended, ended) = watch::channel(false);
        let controller = Controller {
            queue: queue.clone(),
            store: store.clone(),
            handler,
            environment,
            shared: Arc::clone(&shared),
        };
        std::thread::spawn(move || {
            controller.run();
            has_ended.send_replace(true);
        });
        Ok(Informer {
            store,
            queue,
            last_version,
            shared,
            ended,
        })
    }

    /// The store. Reading it never waits; do not write to it.
    #[must_use]
    pub fn store(&self) -> &Indexer {
        &self.store
    }

    /// Whether the first list is in the store. The handler may still be busy with it. client-go: `HasSynced`.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.queue.has_synced()
    }

    /// The version up to which the reflector has read; empty before the first list. client-go:
    /// `LastSyncResourceVersion`.
    #[must_use]
    pub fn last_sync_resource_version(&self) -> ResourceVersion {
        self.last_version.0()
    }

    /// How many changes the handler has not accepted: it failed permanently or panicked, or was stopped during retries.
    #[must_use]
    pub fn failed_calls(&self) -> u64 {
        self.shared.failed_calls.load(Ordering::Relaxed)
    }

    /// Stops reading, and waits until the handler was called for what had been read. A call that is being retried is
    /// given up.
    pub async fn stop(&self) {
        self.begin_stop();
        let mut ended = self.ended.clone();
        // An error means that the thread is gone.
        let _ = ended.wait_for(|ended| *ended).await;
    }

    fn begin_stop(&self) {
        self.shared.stop_reflector.send_replace(true);
        *lock(&self.shared.stopped) = true;
        self.shared.changed.notify_all();
        self.queue.close();
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        self.begin_stop();
    }
}

impl fmt::Debug for LastVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0(), f)
    }
}

/// The thread that writes the store and calls the handler. client-go: `controller`, `processLoop`.
struct Controller {
    queue: DeltaFifo,
    store: Indexer,
    handler: Box<dyn EventHandler>,
    environment: Arc<dyn Environment>,
    shared: Arc<Shared>,
}

/// What the handler is called with.
enum Call {
    Add(Object),
    Update(Object, Object),
    Delete {
        key: Key,
        last: Option<Object>,
        final_state_unknown: bool,
    },
}

impl Controller {
    /// Until the queue is closed and empty.
    fn run(mut self) {
        loop {
            let mut calls = Vec::new();
            let popped = self.queue.pop(|deltas, is_in_initial_list| {
                for delta in deltas {
                    let reason = reason_of(delta, is_in_initial_list);
                    calls.extend(
                        write(&self.store, delta)
                            .into_iter()
                            .flatten()
                            .map(|call| (call, reason)),
                    );
                }
                Ok::<(), ProcessError<Infallible>>(())
            });
            if popped.is_err() {
                return;
            }
            for (call, reason) in calls {
                self.deliver(&call, reason);
            }
        }
    }

    /// Calls the handler until it accepts, fails permanently, or the informer is stopped.
    fn deliver(&mut self, call: &Call, reason: Reason) {
        let mut context = EventContext {
            source: SourceId(0),
            reason,
            attempt: 0,
            received: self.environment.now(),
        };
        loop {
            let handler = &mut *self.handler;
            let result = catch_unwind(AssertUnwindSafe(|| call.make(handler, &context)));
            let wait = match result {
                Ok(Ok(())) => return,
                Ok(Err(HandlerError::Retryable(_))) => wait_before(context.attempt),
                Ok(Err(HandlerError::RetryAfter { after, .. })) => after.min(RETRY_AFTER_MAX),
                Ok(Err(HandlerError::Permanent(_))) | Err(_) => break,
            };
            if self.stopped_within(wait) {
                break;
            }
            context.attempt += 1;
        }
        self.shared.failed_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits; returns whether the informer was stopped meanwhile.
    fn stopped_within(&self, wait: Duration) -> bool {
        let until = std::time::Instant::now() + wait;
        let mut stopped = lock(&self.shared.stopped);
        while !*stopped {
            let left = until.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return false;
            }
            stopped = wait_for(&self.shared.changed, stopped, left);
        }
        true
    }
}

impl Call {
    fn make(&self, handler: &mut dyn EventHandler, context: &EventContext) -> Result<(), HandlerError> {
        match self {
            Call::Add(object) => handler.on_add(object, context),
            Call::Update(old, new) => handler.on_update(Some(old), new, context),
            Call::Delete {
                key,
                last,
                final_state_unknown,
            } => handler.on_delete(key.as_ref(), last.as_ref(), *final_state_unknown, context),
        }
    }
}

/// Writes one delta to the store; returns up to two calls for the handler. The store, not the event, decides between
/// add and update. Source: client-go `processDeltas`.
fn write(store: &Indexer, delta: &Delta) -> [Option<Call>; 2] {
    if delta.kind == DeltaType::Deleted {
        let stored = store.delete(delta.key());
        let call = deleted(
            delta.key().to_key(),
            delta.object.object().cloned().or(stored),
            delta.object.is_tombstone(),
        );
        return [Some(call), None];
    }
    let Some(new) = delta.object.object() else {
        // Only deletes carry tombstones.
        return [None, None];
    };
    match store.add(new.clone()) {
        None => [Some(Call::Add(new.clone())), None],
        Some(old) if old.uid() != new.uid() => {
            let delete = deleted(old.key().to_key(), Some(old), true);
            [Some(delete), Some(Call::Add(new.clone()))]
        }
        Some(old) if delta.kind == DeltaType::Replaced && is_same(&old, new) => [None, None],
        Some(old) => [Some(Call::Update(old, new.clone())), None],
    }
}

fn is_same(old: &Object, new: &Object) -> bool {
    old.version() == new.version() && !new.version().is_empty()
}

fn deleted(key: Key, last: Option<Object>, final_state_unknown: bool) -> Call {
    Call::Delete {
        key,
        last,
        final_state_unknown,
    }
}

fn reason_of(delta: &Delta, is_in_initial_list: bool) -> Reason {
    match delta.kind {
        DeltaType::Replaced if is_in_initial_list => Reason::Initial,
        DeltaType::Replaced => Reason::Relist,
        DeltaType::Deleted if delta.object.is_tombstone() => Reason::Relist,
        DeltaType::Sync => Reason::Resync,
        DeltaType::Added | DeltaType::Updated | DeltaType::Deleted => Reason::Watch,
    }
}

fn wait_before(attempt: u32) -> Duration {
    let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
    HANDLER_WAIT_MIN.saturating_mul(factor).min(HANDLER_WAIT_MAX)
}
