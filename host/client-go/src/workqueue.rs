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
//! Threads share a [`WorkQueue`], whose [`get`](WorkQueue::get) blocks; tasks share it, too, with its waker. It reads
//! no clock: a [`ClockFn`] is passed in.
//!
//! Sources: client-go `util/workqueue` (`queue.go`, `delaying_queue.go`, `default_rate_limiters.go`, `metrics.go`) and
//! controller-runtime's `pkg/controller/priorityqueue`; departures are documented at the items.

#[cfg(test)]
mod blocking_tests;
mod limiter;
mod options;
mod queue;
mod stats;
#[cfg(test)]
mod tests;
mod waiting;
mod work_queue;

use std::sync::Arc;

use informant_cache::Moment;

pub use self::limiter::{
    BucketRateLimiter, DEFAULT_BACK_OFF_BASE, DEFAULT_BACK_OFF_MAX, DEFAULT_BUCKET_BURST, DEFAULT_BUCKET_PER_SECOND,
    FAILING_ITEMS_MAX, ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter, MaxOfRateLimiter, RateLimiter,
    WithMaxWaitRateLimiter, default_item_based_rate_limiter, default_rate_limiter,
};
pub use self::options::{AddOptions, DueTime, LOW_PRIORITY, PASSED_OVER_MAX, WORKQUEUE_ITEMS_MAX, WorkQueueOptions};
pub use self::queue::{Admission, Get};
pub use self::stats::{DURATION_BUCKETS, DurationHistogram, Remaining, WorkQueueStats};
pub use self::work_queue::{Wake, WorkQueue};

/// A clock: returns the current time. Must not go back.
///
/// ```
/// # use std::{sync::Arc, time::Instant};
/// # use informant_client_go::{Moment, workqueue::ClockFn};
/// let began = Instant::now();
/// let clock: ClockFn = Arc::new(move || Moment::ZERO + began.elapsed());
/// # assert!(clock() <= clock());
/// ```
pub type ClockFn = Arc<dyn Fn() -> Moment + Send + Sync>;
