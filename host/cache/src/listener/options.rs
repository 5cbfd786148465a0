//! What can be set about a listener, and the limits that cannot.

use std::time::Duration;

/// How many events may wait for one handler in full before further events of a waiting key are folded into it.
///
/// 1,024 is what client-go's listener ring starts with; ours never grows past it. Folded ones are counted as
/// [`ListenerCounters::coalesced`](super::ListenerCounters::coalesced).
pub const PENDING_EVENTS_MAX: usize = 1_024;

/// How many bytes of states that the store holds no more may wait for one handler: 64 MiB. Above it `old` is dropped,
/// then all but the metadata of a delete; both are counted.
pub const PENDING_BYTES_MAX: usize = 64 * 1_024 * 1_024;

/// How many dead letters a listener keeps. The oldest goes first, counted.
pub const DEAD_LETTERS_MAX: usize = 1_000;

/// The shortest resync period of a handler; a shorter one is raised to it. Source: client-go `minimumResyncPeriod`.
pub const RESYNC_MIN: Duration = Duration::from_secs(1);

/// The longest wait a handler may ask for; a longer one is cut to it, so that a slip of a unit does not lose an event
/// for years.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest error text that is kept with a dead letter, in bytes; the rest is cut off.
pub const ERROR_BYTES_MAX: usize = 4_096;

/// How many keys a listener remembers that did not accept their last event and have no dead letter any more. Beyond it
/// no delivery is [fresh](super::Delivery::fresh) until a replay.
pub const UNACCEPTED_KEYS_MAX: usize = 16_384;

/// How many objects a cursor takes from its snapshot at once.
pub(super) const CURSOR_CHUNK_OBJECTS: usize = 64;

/// How many keys a cursor passes over in one call, so that the lock is never held for longer than about a millisecond.
pub(super) const CURSOR_STEPS_MAX: usize = 1_024;

/// A table of slots larger than this gives its memory back when it is empty.
pub(super) const SLOTS_KEPT_MAX: usize = 4_096;

/// How one listener behaves.
#[derive(Clone, Debug)]
pub struct ListenerOptions {
    /// See [`PENDING_EVENTS_MAX`].
    pub pending_events_max: usize,
    /// See [`PENDING_BYTES_MAX`].
    pub pending_bytes_max: usize,
    /// How often every object is told again as an update from itself to itself; none for never. At least
    /// [`RESYNC_MIN`].
    pub resync: Option<Duration>,
    /// How failures are tried again.
    pub retry: RetryPolicy,
    /// See [`DEAD_LETTERS_MAX`].
    pub dead_letters_max: usize,
    /// What a failure leads to.
    pub on_failure: OnFailure,
    /// Spreads retries, and guards the table of keys against names made to collide. From the environment's randomness.
    pub seed: u64,
}

/// How a failing key is tried again: `base`, doubling up to `max`, with jitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The wait after the first failure; jitter adds up to a quarter.
    pub base: Duration,
    /// The longest wait, jitter included.
    pub max: Duration,
    /// How often one state is tried before it becomes a dead letter. At least 1.
    pub attempts: u32,
}

/// What a failure leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Retry, then a dead letter.
    #[default]
    Retry,
    /// Count it and go on.
    Skip,
}

impl Default for ListenerOptions {
    fn default() -> ListenerOptions {
        ListenerOptions {
            pending_events_max: PENDING_EVENTS_MAX,
            pending_bytes_max: PENDING_BYTES_MAX,
            resync: None,
            retry: RetryPolicy::default(),
            dead_letters_max: DEAD_LETTERS_MAX,
            on_failure: OnFailure::Retry,
            seed: 0,
        }
    }
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            base: Duration::from_secs(1),
            max: Duration::from_secs(5 * 60),
            attempts: 10,
        }
    }
}
