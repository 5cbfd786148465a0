//! What stands between the informer loops and an index plugin.
//!
//! ```text
//! informer loop ──begin_backfill, submit──▶ IndexFeed ──next_batch──▶ workers (a plugin's index instances)
//!              ◀──────────poll────────────      ▲                        │
//!                                               └───────complete─────────┘
//! ```
//!
//! A pull state machine, one per index plugin, over any number of sources. It never calls anybody: the loop hands in
//! each batch's changes and polls for the contents that go with it, workers pull objects and hand back values, and
//! callbacks wake whoever was told to wait.
//!
//! Promises, per source:
//!
//! - What [`IndexFeedHandle::poll`] answers as [`IndexPoll::Ready`] is exactly what the index function says of every
//!   object that was submitted, or in the snapshot the back-fill began with, as it was last: the index is attached
//!   whole or not at all.
//! - The loop waits for a source only while it is attached, and as long as the loop likes
//!   ([`IndexFeedHandle::overrun`]): never for a plugin to start, to be rebuilt or to catch up.
//! - An object that fails is absent from these indexes until it changes, counted and listed, in the contents too.
//!
//! No I/O, no clock (time is handed in), no tasks. What an index is: [`IndexContents`].

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

/// Two overruns within this time and the source is held back before it is attached again.
pub const OVERRUN_WINDOW: Duration = Duration::from_secs(10);

/// How long a source is held back after it overran twice; doubles each time, up to [`HOLD_MAX`].
pub const HOLD_BASE: Duration = Duration::from_secs(10);

/// The longest time a source is held back. A source without an overrun for that long starts at [`HOLD_BASE`] again.
pub const HOLD_MAX: Duration = Duration::from_secs(5 * 60);

/// The contents of each index of a feed, by name.
pub type NamedContents = Vec<(Arc<str>, IndexContents)>;

/// What [`IndexFeedHandle::poll`] answers.
#[derive(Clone, Debug)]
#[must_use = "the loop has to attach or detach the indexes"]
pub enum IndexPoll {
    /// All that was submitted is in: attach these, and publish.
    Ready(NamedContents),
    /// The source is attached and something submitted is being computed: wait for the waker, within the budget.
    Computing,
    /// The source is not attached: publish without its indexes.
    Detached,
}

/// Where a source of a feed stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Nothing is computed: not loaded yet, failed, or the back-fill has yet to begin.
    Detached {
        /// Why, for people.
        reason: Arc<str>,
    },
    /// Every object is being computed.
    Backfilling {
        /// Objects computed or being computed.
        done: usize,
        /// Objects in the snapshot the back-fill began with.
        total: usize,
    },
    /// It overran; what was left undone is being computed, and the loop does not wait.
    Behind {
        /// Objects yet to be computed.
        waiting: usize,
        /// It is not attached again before then.
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
    /// Which object.
    pub key: Key,
    /// What the plugin said, or the host for it.
    pub error: String,
}

/// What failed since it was asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentFailures {
    /// Failures, at least one.
    pub count: u64,
    /// The object that failed last.
    pub key: Key,
    /// What the plugin said of it, or the host for it.
    pub error: String,
}

/// What a feed has counted since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexFeedCounters {
    /// Objects handed to workers.
    pub handed_out: u64,
    /// Objects whose values were taken.
    pub computed: u64,
    /// Objects that failed.
    pub failed: u64,
    /// Results that came too late: the object had changed or gone, or the feed had failed.
    pub superseded: u64,
    /// Batches that were published without the indexes because the budget was spent.
    pub overruns: u64,
    /// Times a source was held back.
    pub held: u64,
    /// Times the workers failed altogether.
    pub failures: u64,
}

/// Values by the name of their index. A name that does not occur has no values; one that occurs twice has all of both.
pub type NamedValues = Vec<(String, Vec<String>)>;

/// One object to compute. Answered with an [`IndexResult`] of the same `number`, `source` and `key`.
#[derive(Clone, Debug)]
pub struct IndexJob {
    /// Names this job in the answer. Never used twice by one feed.
    pub number: u64,
    /// The source of the object.
    pub source: SourceId,
    /// Which object.
    pub key: Key,
    /// As it is now.
    pub object: Object,
}

/// What became of one job.
#[derive(Clone, Debug)]
pub struct IndexResult {
    /// The job's number.
    pub number: u64,
    /// The job's source.
    pub source: SourceId,
    /// The job's key.
    pub key: Key,
    /// The object's values, or why there are none: what the plugin said, or what became of it.
    pub values: Result<NamedValues, String>,
}

impl IndexJob {
    /// The job's answer.
    #[must_use]
    pub fn answer(self, values: Result<NamedValues, String>) -> IndexResult {
        IndexResult {
            number: self.number,
            source: self.source,
            key: self.key,
            values,
        }
    }
}
