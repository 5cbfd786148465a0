//! Work to be done per item, each item by one worker at a time: client-go's `util/workqueue`.
//!
//! ```text
//! add ───────────────▶ line ──get──▶ processing ──done──▶ gone, or in line again if it was added meanwhile
//! add_after ─▶ delayed ──due──▶ ▲
//! add_rate_limited ─▶ limiter says how long ─▶ add_after
//! ```
//!
//! Promises: an item is never with two workers at once; however often it is added while it waits, it is handed out
//! once, and added while it is worked on, once more after that. The line goes by priority, then by arrival; no item is
//! passed over forever ([`PASSED_OVER_MAX`]). What is not handed out is in [`WorkQueueStats`].
//!
//! [`WorkQueue`] is plain `&mut` state: time is handed in, nothing waits, no thread, no clock, no chance. Threads share
//! a [`blocking::WorkQueue`](crate::blocking::WorkQueue), tasks the same one by its wake-up.
//!
//! Sources: client-go `util/workqueue` (`queue.go`, `delaying_queue.go`, `default_rate_limiters.go`, `metrics.go`) and
//! controller-runtime's `pkg/controller/priorityqueue`; departures are stated at the items.

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
pub use self::options::{AddOptions, LOW_PRIORITY, PASSED_OVER_MAX, WORKQUEUE_ITEMS_MAX, When, WorkQueueOptions};
pub use self::queue::{Admission, Get, WorkQueue};
pub use self::stats::{DURATION_BUCKETS, DurationHistogram, Remaining, WorkQueueStats};
