//! What stands between the informer loop and one handler.
//!
//! ```text
//! informer loop ──attach, push──▶ Listener ──next──▶ consumer (a plugin's instances, a native handler's driver)
//!                                    ▲                  │
//!                                    └────────done──────┘
//! ```
//!
//! A pull state machine, one per handler, over any number of sources. It never calls anybody: the loop pushes changes
//! after each publish, the consumer pulls deliveries and answers them, and a callback wakes a consumer that was told to
//! wait.
//!
//! Promises, per key (source, namespace, name):
//!
//! - Order, and never two deliveries of a key at once. A delete and a create of one name are two events, never an
//!   update.
//! - Nothing is lost without a counter. While nothing fails and no more than
//!   [`pending_events_max`](ListenerOptions::pending_events_max) events wait, every event is delivered exactly once;
//!   above that the listener is *keyed*: newer events fold into the one that waits for their key. `old` is always the
//!   last state whose delivery ended. What waits is bounded in bytes, too.
//! - A source's objects are shown once from the first list on (`Initial`), again on [`ListenerHandle::replay`] and
//!   every [`resync`](ListenerOptions::resync). All three walk the newest snapshot; nothing is queued for them.
//!   [`What::Synced`] comes once every key of an initial list or replay was attempted. A replay of a source of which is
//!   kept what the handler has acknowledged ([`ListenerHandle::keep_replays`]) waits until that is noted.
//! - A failing key delays no other: it waits with growing back-off in one slot, and in the end becomes a
//!   [`DeadLetter`].
//!
//! Order across keys is not promised. No I/O, no clock (time is handed in), no tasks.

mod attach;
mod change;
mod cursor;
mod dead_letter;
mod delivery;
mod event;
mod handle;
mod inherit;
mod metadata;
mod options;
mod outcome;
mod pull;
mod push;
mod queue;
mod replay;
mod resume;
mod retry;
mod slots;
mod sources;
mod stats;

#[cfg(test)]
mod tests;

use informant_object::SourceId;

pub use self::change::{Change, ChangeKind};
pub use self::dead_letter::{DeadLetter, LastDelete};
pub use self::delivery::{Delivery, Next, Outcome, Pull, Token, What};
pub use self::handle::ListenerHandle;
pub use self::options::{
    DEAD_LETTERS_MAX, ERROR_BYTES_MAX, ListenerOptions, OnFailure, PENDING_BYTES_MAX, PENDING_EVENTS_MAX, RESYNC_MIN,
    RETRY_AFTER_MAX, RetryPolicy, UNACCEPTED_KEYS_MAX,
};
pub use self::replay::Requeue;
pub use self::resume::{AcceptedStates, OpenKeys, Resume, Vanished};
pub use self::stats::{InFlight, ListenerCounters, ListenerStats};

use self::dead_letter::DeadLetters;
use self::queue::Queue;
use self::replay::Keepers;
use self::retry::Timers;
use self::sources::Sources;
use crate::Moment;

/// Why nothing is handed out for a while. Both can hold at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The handler is being swapped. What comes meanwhile waits as usual.
    Swap,
    /// The handler is in quarantine. What comes meanwhile is folded key by key, so that what is delivered afterwards is
    /// the difference.
    Quarantine,
}

/// The state behind a [`ListenerHandle`].
#[derive(Debug)]
struct Listener {
    options: ListenerOptions,
    queue: Queue,
    sources: Sources,
    timers: Timers,
    letters: DeadLetters,
    /// When the next resync is due; none before the first source came, or without resync.
    resync_next: Option<Moment>,
    swapping: bool,
    quarantined: bool,
    closed: bool,
    /// The next delivery is the cursor's turn, if one runs.
    cursor_turn: bool,
    /// The consumer was told to wait, until then or until woken.
    told_to_wait: Option<Moment>,
    /// Sources that became synced and were not reported yet.
    newly_synced: Vec<SourceId>,
    keepers: Keepers,
}

impl Listener {
    fn new(mut options: ListenerOptions) -> Listener {
        options.resync = options.resync.map(|period| period.max(RESYNC_MIN));
        Listener {
            queue: Queue::new(&options),
            sources: Sources::default(),
            timers: Timers::default(),
            letters: DeadLetters::new(options.dead_letters_max, options.pending_bytes_max),
            resync_next: None,
            swapping: false,
            quarantined: false,
            closed: false,
            cursor_turn: false,
            told_to_wait: None,
            newly_synced: Vec::new(),
            keepers: Keepers::default(),
            options,
        }
    }

    fn is_paused(&self) -> bool {
        self.swapping || self.quarantined
    }
}
