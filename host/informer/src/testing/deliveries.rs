//! A listener's deliveries, one after the other.

use std::sync::Arc;

use informant_cache::listener::{Delivery, Next, Outcome};
use informant_cache::{Environment, ListenerHandle};
use tokio::sync::Notify;

use crate::TokioEnvironment;

/// Waits for what there is to deliver, for a handler that has one call at a time.
pub(crate) struct Deliveries {
    listener: ListenerHandle,
    environment: Arc<TokioEnvironment>,
    woken: Arc<Notify>,
}

impl Deliveries {
    pub(crate) fn of(listener: ListenerHandle, environment: Arc<TokioEnvironment>) -> Self {
        let woken = Arc::new(Notify::new());
        let notify = Arc::clone(&woken);
        listener.set_waker(Arc::new(move || notify.notify_one()));
        Self {
            listener,
            environment,
            woken,
        }
    }

    /// None once the listener is closed.
    pub(crate) async fn next(&self) -> Option<Delivery> {
        loop {
            match self.listener.next(self.environment.now()) {
                Next::Deliver(delivery) => return Some(delivery),
                Next::Closed => return None,
                Next::WaitUntil(_) | Next::Idle => self.woken.notified().await,
            }
        }
    }

    /// The handler did what it had to.
    pub(crate) fn done(&self, delivery: &Delivery) {
        self.listener.done(delivery.token, Outcome::Ok, self.environment.now());
    }
}
