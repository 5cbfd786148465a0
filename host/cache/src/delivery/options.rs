//! The options of a listener, and its fixed limits.

use std::time::Duration;

/// How many events may be pending for one handler before new events fold into the pending event of their key.
///
/// 1,024 is the initial size of client-go's listener ring buffer; ours never grows past it. Folded events are counted
/// as [`ListenerCounters::coalesced`](crate::listener::ListenerCounters::coalesced).
pub const PENDING_EVENTS_MAX: usize = 1_024;

/// How many bytes of states that the store no longer holds may be pending for one handler: 64 MiB. Above it `old` is
/// dropped, then all but the metadata of a delete; both are counted.
pub const PENDING_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// How many dead letters a listener keeps. Above it the oldest is evicted and counted.
pub const DEAD_LETTERS_MAX: usize = 1_000;

/// The shortest resync period of a handler; shorter ones are raised to it. Source: client-go `minimumResyncPeriod`.
pub const RESYNC_MIN: Duration = Duration::from_secs(1);

/// The longest wait a handler may ask for; longer ones are cut to it, so that a wrong unit does not delay an event for
/// years.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How often one object state may time out before it becomes a dead letter, however many attempts
/// [`RetryOptions::attempts`] allows: each has cost the handler its memory, and others the time of the call.
pub const TIMEOUTS_MAX: u32 = 3;

/// How often one object state may trap before it becomes a dead letter, however many attempts
/// [`RetryOptions::attempts`] allows: each costs the handler its memory. Timeouts are counted apart.
pub const TRAPS_MAX: u32 = 5;

/// How long a namespace is suspect after a call about one of its objects trapped or timed out: 5 min.
pub const SUSPECT_TIME: Duration = Duration::from_secs(5 * 60);

/// How much of an instance's time calls of suspect namespaces may take, all together, in percent: 20.
pub const SUSPECT_SHARE_PERCENT: u32 = 20;

/// After a pause, calls of suspect namespaces may take the share of this time at once: 1 s. So quick calls need not
/// wait for each other.
pub(crate) const SUSPECT_BURST: Duration = Duration::from_secs(1);

/// How many namespaces of one handler may be suspect, and how many cluster-scoped objects: 1,000. Above it, the one
/// whose crash is the oldest is forgotten, and [counted](crate::listener::ListenerCounters::suspects_forgotten).
pub const SUSPECTS_MAX: usize = 1_000;

/// How many retries of one handler may start within a second, and how many may be ready or in flight at once. Later
/// ones wait, and are [counted](crate::listener::ListenerCounters::retries_limited) as `retries_limited`; new events do
/// not. Source: controller-runtime's default rate limiter.
pub const RETRIES_PER_SECOND_MAX: usize = 10;

/// How long a call waits for a source or an index that is not ready before it is made again.
pub(crate) const NOT_READY_WAIT_MAX: Duration = Duration::from_secs(60);

/// How many keys without an object (failed deletes) may be under retry. A delete that fails above it becomes a dead
/// letter at once: names may never come back, so nothing else bounds their number.
pub const RETRIED_DELETES_MAX: usize = 10_000;

/// The shortest wait before a call that a handler asked for; shorter ones are raised to it.
pub const REQUEUE_AFTER_MIN: Duration = Duration::from_millis(100);

/// How many calls in a row for one state of an object may ask for another call after [`REQUEUE_AFTER_MIN`]. From then
/// on [`REQUEUE_AFTER_MIN_UNCHANGED`] applies, until the object changes.
pub const REQUEUES_IN_A_ROW_MAX: u32 = 20;

/// The shortest wait before a call after [`REQUEUES_IN_A_ROW_MAX`] calls for the same state; shorter ones are raised to
/// it, and the keys are listed ([`Ledger::slowed_keys`](crate::listener::Ledger::slowed_keys)).
pub const REQUEUE_AFTER_MIN_UNCHANGED: Duration = Duration::from_secs(10);

/// How many deletes may wait for a call that the handler asked for. Above it the one that is due first is dropped, and
/// [counted](crate::listener::ListenerCounters::requeues_dropped) as `requeues_dropped`: names may never come back, so
/// nothing else bounds their number.
pub const REQUEUED_DELETES_MAX: usize = 10_000;

/// How many changed requeues of a source a listener remembers for its journal. Above it the next read returns all of
/// them.
pub const REQUEUE_CHANGES_MAX: usize = 16_384;

/// How often a due requeue is looked at while its key is busy or ahead of a cursor.
pub(crate) const REQUEUE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How many calls within [`min_interval`](ListenerOptions::min_interval) a listener remembers; an entry takes about 50
/// bytes. Above it the key that was called first may be called again at once, and is counted as
/// [`ListenerCounters::intervals_cut`](crate::listener::ListenerCounters::intervals_cut).
pub const SPACED_KEYS_MAX: usize = 1_048_576;

/// The longest error text kept with a dead letter, in bytes; the rest is cut off.
pub const ERROR_BYTES_MAX: usize = 4_096;

/// The longest error text kept with a key under retry, in bytes; the rest is cut off. There may be as many as there are
/// objects.
pub const RETRY_ERROR_BYTES_MAX: usize = 512;

/// How many keys a listener remembers that did not accept their last event and no longer have a dead letter. Above it
/// no delivery has [`exact_old`](crate::listener::Delivery::exact_old) until a replay.
pub const UNACCEPTED_KEYS_MAX: usize = 16_384;

/// How many objects a cursor takes from its snapshot at once.
pub(crate) const CURSOR_CHUNK_OBJECTS: usize = 64;

/// How many keys a cursor skips in one call, so that the lock is held for about a millisecond at most.
pub(crate) const CURSOR_STEPS_MAX: usize = 1_024;

/// A slot table larger than this frees its memory when it is empty.
pub(crate) const SLOTS_KEPT_MAX: usize = 4_096;

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
    /// closed listener has none. With [relations](crate::listener::Control::set_relations) the interval begins when a
    /// call ends.
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
    /// Whether calls of namespaces in which one crashed, or was held up, less than [`SUSPECT_TIME`] ago are limited to
    /// [`SUSPECT_SHARE_PERCENT`] of the time. Beyond that their keys wait, newer states fold in, and others are called.
    pub limits_suspects: bool,
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
    /// Attempts per state before it becomes a dead letter; 0: retryable failures are retried without end, timeouts up
    /// to [`TIMEOUTS_MAX`] and traps up to [`TRAPS_MAX`] times. A handler that asks for a retry after some time does
    /// not use up an attempt.
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
            limits_suspects: false,
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
