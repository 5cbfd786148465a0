//! Native handlers: the task that drives one, and its registration.
//!
//! Each handler has its own task and listener, so that a slow or panicking one delays no other. Calls of one handler
//! never overlap. [`EventHandler::deliver`](informant_cache::EventHandler) contains a panic and reports it as a trap,
//! which the listener retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informant_cache::listener::{Delivery, DeliveryOutcome, LaneSet, ListenerStats, NextBatch};
use informant_cache::{Environment, EventHandler, ListenerHandle};
use informant_object::SourceId;
use tokio::sync::{Notify, watch};

use crate::metrics::SourceMetrics;

/// How many calls are fetched and acknowledged together, with one clock read.
const CALLS_PER_BATCH_MAX: usize = 64;

/// How long one handler runs before other tasks get a turn. Counted in whole batches: a handler that needs a
/// microsecond per call makes hundreds of calls in a turn and keeps up with its loop; one that needs a millisecond
/// holds its thread for one batch at most.
const TURN_MAX: Duration = Duration::from_millis(1);

/// The most batches per turn, however quick they are, so that a stopped clock does not make a turn endless.
const BATCHES_PER_TURN_MAX: usize = 8;

/// A handle to a registered handler. Dropping it changes nothing: the handler stays until it is removed or the informer
/// stops.
#[derive(Debug, Clone)]
pub struct Registration {
    listener: ListenerHandle,
    source: SourceId,
    informer: Arc<str>,
    synced: watch::Receiver<bool>,
    ended: watch::Receiver<bool>,
    panics: Arc<AtomicU64>,
}

/// The status of a handler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HandlerStatus {
    /// As [`Registration::has_synced`].
    pub synced: bool,
    /// As [`Registration::has_ended`].
    pub ended: bool,
    /// Queued events, including those that will be retried.
    pub pending: usize,
    /// Objects whose last call failed and will be retried.
    pub failing: usize,
    /// Objects whose last event failed permanently.
    pub dead_letters: usize,
    /// How often it panicked. Each time the call was retried, like after any failure, and the informer kept running.
    pub panics: u64,
}

impl Registration {
    /// The status of the handler. Looks at every queued event.
    #[must_use]
    pub fn status(&self) -> HandlerStatus {
        let ListenerStats {
            pending,
            failing,
            dead_letters,
            ..
        } = self.listener.control().stats();
        HandlerStatus {
            synced: self.has_synced(),
            ended: self.has_ended(),
            pending,
            failing,
            dead_letters,
            panics: self.panics.load(Ordering::Relaxed),
        }
    }

    /// The informer it is registered with, as named in messages.
    #[must_use]
    pub fn informer(&self) -> &str {
        &self.informer
    }

    /// Whether the informer is synced and the handler was called for every object of its first list. A failed call
    /// counts; see `Ledger::dead_letters` for permanent failures, others are still being retried.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until [`has_synced`](Self::has_synced), or until the handler ends.
    pub async fn synced(&mut self) {
        let Self { synced, ended, .. } = self;
        tokio::select! {
            biased;
            // An error means that the informer is gone.
            _ = synced.wait_for(|synced| *synced) => {}
            _ = ended.wait_for(|ended| *ended) => {}
        }
    }

    /// The handler's listener: queued events, failures, replays.
    #[must_use]
    pub fn listener(&self) -> &ListenerHandle {
        &self.listener
    }

    /// The source it was registered with.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// Waits until the handler receives no further calls, after its removal or the informer's stop.
    pub async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// Whether the handler receives no further calls.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        // An error means that its task is gone, however it ended.
        *self.ended.borrow() || self.ended.has_changed().is_err()
    }
}

/// Starts a handler's task.
pub(crate) fn drive(
    handler: Box<dyn EventHandler>,
    listener: ListenerHandle,
    source: SourceId,
    informer: &str,
    environment: &Arc<dyn Environment>,
    metrics: &Arc<SourceMetrics>,
) -> Registration {
    let (synced_sender, synced) = watch::channel(false);
    let (ended_sender, ended) = watch::channel(false);
    listener.feed().set_synced_callback(Arc::new(move |synced_source| {
        if synced_source == source {
            synced_sender.send_replace(true);
        }
    }));
    let panics = Arc::default();
    let driver = Driver {
        handler,
        listener: listener.clone(),
        environment: Arc::clone(environment),
        metrics: Arc::clone(metrics),
        panics: Arc::clone(&panics),
    };
    environment.spawn(
        "native-handler",
        Box::pin(async move {
            driver.run().await;
            ended_sender.send_replace(true);
        }),
    );
    Registration {
        listener,
        source,
        informer: Arc::from(informer),
        synced,
        ended,
        panics,
    }
}

struct Driver {
    handler: Box<dyn EventHandler>,
    listener: ListenerHandle,
    environment: Arc<dyn Environment>,
    metrics: Arc<SourceMetrics>,
    panics: Arc<AtomicU64>,
}

/// However a handler's task ends, nothing may wait for it.
impl Drop for Driver {
    fn drop(&mut self) {
        self.listener.control().abandon();
    }
}

impl Driver {
    async fn run(mut self) {
        let woken = Arc::new(Notify::new());
        let waker = Arc::clone(&woken);
        self.listener.consumer().set_waker(Arc::new(move || waker.notify_one()));
        let mut deliveries = Vec::with_capacity(CALLS_PER_BATCH_MAX);
        let mut outcomes = Vec::with_capacity(CALLS_PER_BATCH_MAX);
        let mut turn_began = self.environment.now();
        let mut now = turn_began;
        let mut batches = 0;
        loop {
            match self
                .listener
                .consumer()
                .next_batch(LaneSet::FIRST, now, CALLS_PER_BATCH_MAX, &mut deliveries)
            {
                NextBatch::Delivered(_) => {
                    self.call(&mut deliveries, &mut outcomes);
                    now = self.environment.now();
                    self.listener.consumer().done_batch(outcomes.drain(..), now);
                    batches += 1;
                    if batches < BATCHES_PER_TURN_MAX && now - turn_began < TURN_MAX {
                        continue;
                    }
                    tokio::task::yield_now().await;
                }
                NextBatch::WaitUntil(moment) => {
                    let wait = moment - now;
                    tokio::select! {
                        biased;
                        () = woken.notified() => {}
                        () = self.environment.sleep(wait) => {}
                    }
                }
                NextBatch::Idle => woken.notified().await,
                NextBatch::Closed => return,
            }
            turn_began = self.environment.now();
            now = turn_began;
            batches = 0;
        }
    }

    fn call(
        &mut self,
        deliveries: &mut Vec<Delivery>,
        outcomes: &mut Vec<(informant_cache::listener::DeliveryToken, DeliveryOutcome)>,
    ) {
        for delivery in deliveries.drain(..) {
            let outcome = self.handler.deliver(&delivery);
            if let DeliveryOutcome::Trapped(message) = &outcome {
                self.metrics.handler_panics.inc();
                self.panics.fetch_add(1, Ordering::Relaxed);
                let key = delivery.key().map(|key| key.to_key().to_string());
                tracing::error!(source = %delivery.source, key, error = %message, "native handler panicked");
            }
            outcomes.push((delivery.token, outcome));
        }
    }
}
