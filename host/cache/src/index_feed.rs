//! The index feed: the queue between the informer loops and an index plugin.
//!
//! ```text
//! informer loop ──begin_backfill, submit──▶ IndexFeed ──next_batch──▶ workers (a plugin's index instances)
//!              ◀──────────poll────────────      ▲                        │
//!                                               └───────complete─────────┘
//! ```
//!
//! A pull state machine, one per index plugin, over any number of sources. It calls neither side itself: the loop
//! submits each batch's changes and polls for the matching contents, workers pull objects and return values, and
//! callbacks wake the side that waits.
//!
//! Promises, per source:
//!
//! - The contents of [`IndexPoll::Ready`] are exactly the values of the latest state of every object that was submitted
//!   or in the snapshot of the back-fill: the index is attached complete or not at all.
//! - The loop waits only for an attached source, and only within its budget ([`IndexFeedHandle::overrun`]): never for a
//!   plugin to start, to be rebuilt or to catch up.
//! - An object that fails is absent from these indexes until it changes; it is counted and listed, in the contents,
//!   too.
//!
//! No I/O, no clock (time is passed in), no tasks. See [`IndexContents`] for the contents of an index.

mod feed;
mod handle;
mod source;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use informant_object::{Key, Object, SourceId};

pub use self::handle::IndexFeedHandle;
use crate::{IndexContents, Moment};

/// After two overruns within this time the source is held back before it is attached again.
pub const OVERRUN_WINDOW: Duration = Duration::from_secs(10);

/// How long a source is held back after it overran twice; doubles each time, up to [`HOLD_MAX`].
pub const HOLD_BASE: Duration = Duration::from_secs(10);

/// The longest time a source is held back. A source without an overrun for that long starts at [`HOLD_BASE`] again.
pub const HOLD_MAX: Duration = Duration::from_secs(5 * 60);

/// The contents of each index of a feed, by name.
pub type NamedContents = Vec<(Arc<str>, IndexContents)>;

/// The result of [`IndexFeedHandle::poll`].
#[derive(Clone, Debug)]
#[must_use = "the loop has to attach or detach the indexes"]
pub enum IndexPoll {
    /// Everything submitted is computed: attach these contents, and publish.
    Ready(NamedContents),
    /// The source is attached and submitted objects are being computed: wait for the waker, within the budget.
    Computing,
    /// The source is not attached: publish without its indexes.
    Detached,
}

/// The state of a source in a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Nothing is computed: the plugin is not loaded yet or failed, or the back-fill has not started.
    Detached {
        /// The reason, as text.
        reason: Arc<str>,
    },
    /// Every object is being computed.
    Backfilling {
        /// Objects computed or being computed.
        done: usize,
        /// Objects in the snapshot of the back-fill.
        total: usize,
    },
    /// It overran its budget; the missing objects are being computed, and the loop does not wait.
    Behind {
        /// Objects not computed yet.
        waiting: usize,
        /// It is not attached again before this time.
        held_until: Option<Moment>,
    },
    /// Its values are part of each publish.
    Attached,
}

/// An object that an index plugin failed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexFailure {
    /// The source of the object.
    pub source: SourceId,
    /// The key of the object.
    pub key: Key,
    /// The error, from the plugin or the host.
    pub error: String,
}

/// The failures since the last call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentFailures {
    /// Failures, at least one.
    pub count: u64,
    /// The object that failed last.
    pub key: Key,
    /// Its error, from the plugin or the host.
    pub error: String,
}

/// Counters since the feed was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFeedCounters {
    /// Objects given to workers.
    pub handed_out: u64,
    /// Objects whose values were accepted.
    pub computed: u64,
    /// Objects that failed.
    pub failed: u64,
    /// Results that came too late: the object had changed or was deleted, or the feed had failed.
    pub superseded: u64,
    /// Batches published without the indexes because the budget was used up.
    pub overruns: u64,
    /// Times a source was held back.
    pub held: u64,
    /// Times the plugin failed as a whole.
    pub failures: u64,
}

/// The values of one object for each index of the feed, in the order of [`IndexFeedHandle::names`].
pub type ValuesByIndex = Vec<Vec<String>>;

/// One object to compute. Completed by an [`IndexResult`] with the same `number`, `source` and `key`.
#[derive(Clone, Debug)]
pub struct IndexJob {
    /// Identifies this job. Never reused by one feed.
    pub number: u64,
    /// The source of the object.
    pub source: SourceId,
    /// The key of the object.
    pub key: Key,
    /// The current state.
    pub object: Object,
}

/// The result of one job.
#[derive(Clone, Debug)]
pub struct IndexResult {
    /// The job's number.
    pub number: u64,
    /// The job's source.
    pub source: SourceId,
    /// The job's key.
    pub key: Key,
    /// The object's values, or the error.
    pub values: Result<ValuesByIndex, String>,
}

impl IndexJob {
    /// The result of this job.
    #[must_use]
    pub fn answer(self, values: Result<ValuesByIndex, String>) -> IndexResult {
        IndexResult {
            number: self.number,
            source: self.source,
            key: self.key,
            values,
        }
    }
}
