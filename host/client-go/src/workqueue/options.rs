//! The options of a queue, and of adding an item.

use std::fmt;
use std::time::Duration;

use super::limiter::{RateLimiter, default_rate_limiter};

/// How many different items one queue may hold, queued or delayed. Above it new items are rejected, counted as
/// [`WorkQueueStats::refused`](super::WorkQueueStats::refused).
///
/// A million keys is more objects than one informer is likely to hold: a program that reaches it probably adds items
/// that are not keys. client-go has no limit.
pub const WORKQUEUE_ITEMS_MAX: usize = 1_000_000;

/// How many items of higher priority in a row may be handed out before an older one; then the oldest is next.
///
/// One in 64 costs urgent work little, and prevents starvation, which users of controller-runtime report
/// (controller-runtime issue 3496).
pub const PASSED_OVER_MAX: u32 = 64;

/// The priority for items that are not urgent: objects of an initial list, and updates without changes. Source:
/// controller-runtime `LowPriority`.
pub const LOW_PRIORITY: i32 = -100;

/// The options of one queue.
pub struct WorkQueueOptions<T> {
    /// The delay of items that are added [rate limited](DueTime::RateLimited).
    pub limiter: Box<dyn RateLimiter<T>>,
    /// See [`WORKQUEUE_ITEMS_MAX`].
    pub items_max: usize,
    /// See [`PASSED_OVER_MAX`]; `u32::MAX` for strict priorities, as in controller-runtime.
    pub passed_over_max: u32,
    /// Protects the tables against items crafted to collide. It has no visible effect.
    pub hash_seed: u64,
}

/// Options for adding an item. Source: controller-runtime `AddOpts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// When it is due.
    pub when: DueTime,
    /// Higher goes first. A queued item keeps the higher of the two.
    pub priority: i32,
}

/// When an item is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DueTime {
    /// Now.
    #[default]
    Now,
    /// After this time; now if it is zero.
    After(Duration),
    /// After the rate limiter's delay.
    RateLimited,
}

impl<T: Clone + Eq + std::hash::Hash + Send + 'static> Default for WorkQueueOptions<T> {
    fn default() -> WorkQueueOptions<T> {
        WorkQueueOptions {
            limiter: default_rate_limiter(),
            items_max: WORKQUEUE_ITEMS_MAX,
            passed_over_max: PASSED_OVER_MAX,
            hash_seed: 0,
        }
    }
}

impl<T> fmt::Debug for WorkQueueOptions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueueOptions")
            .field("items_max", &self.items_max)
            .field("passed_over_max", &self.passed_over_max)
            .finish_non_exhaustive()
    }
}
