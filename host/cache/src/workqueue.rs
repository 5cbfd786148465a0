//! The workqueue: each item is processed by one worker at a time; client-go's `util/workqueue`.
//!
//! ```text
//! add ───────────────▶ queue ──get──▶ processing ──done──▶ removed, or queued again if it was added meanwhile
//! add_after ─▶ delayed ──due──▶ ▲
//! add_rate_limited ─▶ limiter computes the delay ─▶ add_after
//! ```
//!
//! Promises: two workers never have the same item at once. An item added repeatedly while it is queued is handed out
//! once; added while it is processed, once more after that. The queue is ordered by priority, then by arrival; no item
//! starves ([`PASSED_OVER_MAX`]). Items that are not handed out are counted in [`WorkQueueStats`].
//!
//! [`WorkQueue`] is plain `&mut` state: time is passed in; no waiting, no threads, no clock, no random numbers. Threads
//! share a [`blocking::WorkQueue`](crate::blocking::WorkQueue); tasks share it, too, with its waker.
//!
//! Sources: client-go `util/workqueue` (`queue.go`, `delaying_queue.go`, `default_rate_limiters.go`, `metrics.go`) and
//! controller-runtime's `pkg/controller/priorityqueue`; departures are documented at the items.

mod limiter;
mod options;
mod queue;
mod stats;
#[cfg(test)]
mod tests;
mod waiting;

pub use self::limiter::{
    BucketRateLimiter, DEFAULT_BACK_OFF_BASE, DEFAULT_BACK_OFF_MAX, DEFAULT_BUCKET_BURST, DEFAULT_BUCKET_PER_SECOND,
    FAILING_ITEMS_MAX, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter, RateLimiter,
    WithMaxWaitRateLimiter, default_item_based_rate_limiter, default_rate_limiter,
};
pub use self::options::{AddOptions, DueTime, LOW_PRIORITY, PASSED_OVER_MAX, WORKQUEUE_ITEMS_MAX, WorkQueueOptions};
pub use self::queue::{Admission, Get, WorkQueue};
pub use self::stats::{DURATION_BUCKETS, DurationHistogram, Remaining, WorkQueueStats};
