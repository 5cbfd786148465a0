//! The options of a listener.

use std::time::Duration;

use crate::delivery::limits::{
    DEAD_LETTERS_MAX, PENDING_BYTES_MAX, PENDING_EVENTS_MAX, REQUEUED_DELETES_MAX, RETRIED_DELETES_MAX,
    RETRIES_PER_SECOND_MAX,
};

/// The options of one listener.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// See [`PENDING_EVENTS_MAX`].
    pub pending_events_max: usize,
    /// See [`PENDING_BYTES_MAX`].
    pub pending_bytes_max: usize,
    /// How often every object is redelivered as an update with equal `old` and `new`; none for never. At least
    /// [`RESYNC_MIN`].
    pub resync: Option<Duration>,
    /// The shortest time between the starts of two calls of one key; none or zero: no limit. The first event is
    /// delivered at once. Later ones fold until the interval ends, and then the last state is delivered; a delete and
    /// the add of its successor stay two calls. Retries and requeues obey it, too. A replay ends all intervals; a
    /// closed listener has none.
    pub min_interval: Option<Duration>,
    /// How many deliveries may start in a second; none: no limit. After a pause, as many may start at once. All kinds
    /// count, except those that are filtered or given back. Nothing is dropped: events wait in the queue and fold at
    /// its limits, objects wait for their cursor.
    pub calls_per_second_max: Option<u32>,
    /// How failures are retried.
    pub retry: RetryOptions,
    /// See [`RETRIES_PER_SECOND_MAX`]. At least 1.
    pub retries_per_second_max: usize,
    /// See [`RETRIED_DELETES_MAX`].
    pub retried_deletes_max: usize,
    /// See [`REQUEUED_DELETES_MAX`].
    pub requeued_deletes_max: usize,
    /// See [`DEAD_LETTERS_MAX`].
    pub dead_letters_max: usize,
    /// What happens after a failure.
    pub on_failure: FailurePolicy,
    /// Spreads retries, and protects the key table against names crafted to collide. From the environment's random
    /// numbers.
    pub seed: u64,
}

/// How a failing key is retried: after `initial`, doubling up to `max`, with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryOptions {
    /// The wait after the first failure; jitter adds up to a quarter.
    pub initial: Duration,
    /// The longest wait, jitter included.
    pub max: Duration,
    /// Attempts per state before it becomes a dead letter; 0: retryable failures are retried without end, traps and
    /// timeouts up to [`CRASHES_MAX`] times. A handler that asks for a retry after some time does not use up an
    /// attempt.
    pub attempts: u32,
}

/// What happens after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailurePolicy {
    /// Retry; out of attempts, make it a dead letter.
    #[default]
    Retry,
    /// Count it and continue.
    Skip,
}

impl Default for ListenerOptions {
    fn default() -> ListenerOptions {
        ListenerOptions {
            pending_events_max: PENDING_EVENTS_MAX,
            pending_bytes_max: PENDING_BYTES_MAX,
            resync: None,
            min_interval: None,
            calls_per_second_max: None,
            retry: RetryOptions::default(),
            retries_per_second_max: RETRIES_PER_SECOND_MAX,
            retried_deletes_max: RETRIED_DELETES_MAX,
            requeued_deletes_max: REQUEUED_DELETES_MAX,
            dead_letters_max: DEAD_LETTERS_MAX,
            on_failure: FailurePolicy::Retry,
            seed: 0,
        }
    }
}

impl Default for RetryOptions {
    fn default() -> RetryOptions {
        RetryOptions {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(5 * 60),
            attempts: 0,
        }
    }
}
