//! What can be set about a queue, and how an item is added.

use std::fmt;
use std::time::Duration;

use super::limiter::{RateLimiter, default_rate_limiter};

/// How many different items may wait in one queue, in line or delayed. Beyond it an item that does not wait yet is
/// refused, counted as [`WorkQueueStats::refused`](super::WorkQueueStats::refused).
///
/// A million keys is more objects than one informer is likely to hold: who gets here adds something that is no key.
/// client-go has no limit.
pub const WORKQUEUE_ITEMS_MAX: usize = 1_000_000;

/// How many items in a row may be handed out past an older one because theirs is the higher priority; then the oldest
/// has its turn.
///
/// A sixty-fourth of the turns costs urgent work little, and keeps the rest from waiting forever, which
/// controller-runtime's users report of theirs (controller-runtime issue 3496).
pub const PASSED_OVER_MAX: u32 = 64;

/// The priority for what is not urgent: objects of an initial list, and updates that changed nothing. Source:
/// controller-runtime `LowPriority`.
pub const LOW_PRIORITY: i32 = -100;

/// How one queue behaves.
pub struct WorkQueueOptions<T> {
    /// How long items wait that are added [rate limited](When::RateLimited).
    pub limiter: Box<dyn RateLimiter<T>>,
    /// See [`WORKQUEUE_ITEMS_MAX`].
    pub items_max: usize,
    /// See [`PASSED_OVER_MAX`]; `u32::MAX` for priorities without mercy, as controller-runtime has them.
    pub passed_over_max: u32,
    /// Guards the tables against items made to collide. Nothing visible depends on it.
    pub hash_seed: u64,
}

/// How an item is added, apart from "now, like any other". Source: controller-runtime `AddOpts`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddOptions {
    /// When it may be handed out.
    pub when: When,
    /// The higher goes first. An item that waits already keeps the higher of the two.
    pub priority: i32,
}

/// When an item may be handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// Once so much time has passed; at once if that is zero.
    After(Duration),
    /// When the queue's limiter says.
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
