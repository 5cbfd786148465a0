//! Native handlers: the task that drives one, and the registration its owner keeps.
//!
//! Each handler has its own task and its own listener, so that a slow or panicking one delays no other. Calls of one handler never overlap. A
//! panic is contained by [`EventHandler::deliver`](informant_cache::EventHandler) and answered as a trap, which the listener retries.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::{Delivery, Outcome, Pull};
use informant_cache::{Environment, EventHandler, ListenerHandle};
use informant_object::SourceId;
use tokio::sync::{Notify, watch};

use crate::metrics::SourceMetrics;

/// How many calls are fetched and answered together; the clock is read once for them.
const CALLS_PER_BATCH_MAX: usize = 64;

/// How long one handler's calls go on before other tasks get their turn. Whole batches: a handler that needs a microsecond per call makes hundreds of
/// calls in a turn and keeps up with its loop, one that needs a millisecond holds its thread for a batch at most.
const TURN_MAX: Duration = Duration::from_millis(1);

/// How many batches a turn has at most, however quick they are, so that a clock that stands still does not make a turn endless.
const BATCHES_PER_TURN_MAX: usize = 8;

/// What the owner of a handler keeps. Dropping it changes nothing: the handler stays until it is removed or the informer stops.
#[derive(Debug, Clone)]
pub struct Registration {
    listener: ListenerHandle,
    source: SourceId,
    synced: watch::Receiver<bool>,
    ended: watch::Receiver<bool>,
}

impl Registration {
    /// Whether the informer is synced and every object of its first list, as this handler was to see it, was attempted. A handler that failed
    /// counts as attempted; what failed is in [`ListenerHandle::dead_letters`] or still being retried.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until [`has_synced`](Self::has_synced). Ends too when the handler does.
    pub async fn synced(&mut self) {
        let Self { synced, ended, .. } = self;
        tokio::select! {
            biased;
            // An error says that nobody will tell any more: the informer is gone.
            _ = synced.wait_for(|synced| *synced) => {}
            _ = ended.wait_for(|ended| *ended) => {}
        }
    }

    /// The handler's listener: what waits, what failed, replays.
    #[must_use]
    pub fn listener(&self) -> &ListenerHandle {
        &self.listener
    }

    /// The source it was registered with.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.source
    }

    /// Waits until the handler is called no more, after its removal or the informer's stop.
    pub async fn ended(&mut self) {
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// Whether the handler is called no more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }
}

/// Starts a handler's task.
pub(crate) fn drive(
    handler: Box<dyn EventHandler>,
    listener: ListenerHandle,
    source: SourceId,
    environment: &Arc<dyn Environment>,
    metrics: &Arc<SourceMetrics>,
) -> Registration {
    let (synced_sender, synced) = watch::channel(false);
    let (ended_sender, ended) = watch::channel(false);
    listener.set_synced_callback(Arc::new(move |synced_source| {
        if synced_source == source {
            synced_sender.send_replace(true);
        }
    }));
    let driver = Driver {
        handler,
        listener: listener.clone(),
        environment: Arc::clone(environment),
        metrics: Arc::clone(metrics),
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
        synced,
        ended,
    }
}

struct Driver {
    handler: Box<dyn EventHandler>,
    listener: ListenerHandle,
    environment: Arc<dyn Environment>,
    metrics: Arc<SourceMetrics>,
}

impl Driver {
    async fn run(mut self) {
        let woken = Arc::new(Notify::new());
        let waker = Arc::clone(&woken);
        self.listener.set_waker(Arc::new(move || waker.notify_one()));
        let mut deliveries = Vec::with_capacity(CALLS_PER_BATCH_MAX);
        let mut outcomes = Vec::with_capacity(CALLS_PER_BATCH_MAX);
        let mut turn_began = self.environment.now();
        let mut now = turn_began;
        let mut batches = 0;
        loop {
            match self.listener.next_batch(now, CALLS_PER_BATCH_MAX, &mut deliveries) {
                Pull::Delivered(_) => {
                    self.call(&mut deliveries, &mut outcomes);
                    now = self.environment.now();
                    self.listener.done_batch(outcomes.drain(..), now);
                    batches += 1;
                    if batches < BATCHES_PER_TURN_MAX && now - turn_began < TURN_MAX {
                        continue;
                    }
                    tokio::task::yield_now().await;
                }
                Pull::WaitUntil(moment) => {
                    let wait = moment - now;
                    tokio::select! {
                        biased;
                        () = woken.notified() => {}
                        () = self.environment.sleep(wait) => {}
                    }
                }
                Pull::Idle => woken.notified().await,
                Pull::Closed => return,
            }
            turn_began = self.environment.now();
            now = turn_began;
            batches = 0;
        }
    }

    fn call(
        &mut self,
        deliveries: &mut Vec<Delivery>,
        outcomes: &mut Vec<(informant_cache::listener::Token, Outcome)>,
    ) {
        for delivery in deliveries.drain(..) {
            let outcome = self.handler.deliver(&delivery);
            if let Outcome::Trapped(message) = &outcome {
                self.metrics.handler_panics.inc();
                tracing::error!(source = %delivery.source, key = ?delivery.key(), "{message}");
            }
            outcomes.push((delivery.token, outcome));
        }
    }
}
