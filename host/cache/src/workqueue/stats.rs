//! What a queue says of itself, as plain numbers.

use std::time::Duration;

/// The upper bounds of a [`DurationHistogram`]'s buckets, in seconds. Source: client-go's and component-base's
/// `workqueue_queue_duration_seconds` and `workqueue_work_duration_seconds`.
pub const DURATION_BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// How often something took how long.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DurationHistogram {
    /// How many durations were in each bucket, not those below it; the last is for those above all bounds.
    pub counts: [u64; DURATION_BUCKETS.len() + 1],
    /// All of them together.
    pub sum: Duration,
}

/// A queue at one moment. What only grows says so.
///
/// Source: client-go `util/workqueue/metrics.go`; each field names its metric there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkQueueStats {
    /// Items that wait to be handed out, those that were added while they are worked on included. `workqueue_depth`.
    pub depth: usize,
    /// Items whose time has not come.
    pub delayed: usize,
    /// Items that workers have.
    pub processing: usize,
    /// Additions by which an item came to wait. Grows. `workqueue_adds_total`.
    pub adds: u64,
    /// Additions of items that waited already. Grows.
    pub merged: u64,
    /// Additions that asked for a delay or for the limiter's. Grows. `workqueue_retries_total`.
    pub retries: u64,
    /// Additions refused at [`WORKQUEUE_ITEMS_MAX`](super::WORKQUEUE_ITEMS_MAX). Grows.
    pub refused: u64,
    /// Additions after the shut-down. Grows.
    pub ignored: u64,
    /// Delayed items dropped by the shut-down. Grows.
    pub delayed_dropped: u64,
    /// Items whose failures the limiter remembers.
    pub failing: usize,
    /// From being added to being handed out. Grows. `workqueue_queue_duration_seconds`.
    pub queue_duration: DurationHistogram,
    /// From being handed out to done. Grows. `workqueue_work_duration_seconds`.
    pub work_duration: DurationHistogram,
    /// How long the items that workers have been with them, together. `workqueue_unfinished_work_seconds`.
    pub unfinished_work: Duration,
    /// How long the first of them has. `workqueue_longest_running_processor_seconds`.
    pub longest_running: Duration,
}

/// What a queue that was shut down has not handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "what is left was accepted and not done: finish it, or say that it is lost"]
pub struct Remaining {
    /// Items in line: [`get`](super::WorkQueue::get) still hands them out.
    pub queued: usize,
    /// Items that workers have.
    pub processing: usize,
    /// Delayed items that the shut-down dropped.
    pub delayed_dropped: u64,
}

impl DurationHistogram {
    /// How many durations there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub(super) fn observe(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = DURATION_BUCKETS.partition_point(|&bound| bound < seconds);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(duration);
    }
}
