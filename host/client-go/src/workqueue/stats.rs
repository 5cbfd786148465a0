//! Statistics of a workqueue.

use std::time::Duration;

/// The upper bounds of a [`DurationHistogram`]'s buckets, in seconds. Source: client-go's and component-base's
/// `workqueue_queue_duration_seconds` and `workqueue_work_duration_seconds`.
pub const DURATION_BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// A histogram of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DurationHistogram {
    /// How many durations are in each bucket, not cumulative; the last bucket is for those above all bounds.
    pub counts: [u64; DURATION_BUCKETS.len() + 1],
    /// The sum of all durations.
    pub sum: Duration,
}

/// Statistics of a queue at one time. "Grows" marks counters.
///
/// Source: client-go `util/workqueue/metrics.go`; each field names its metric there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkQueueStats {
    /// Queued items, including those added while they are processed. `workqueue_depth`.
    pub depth: usize,
    /// Delayed items that are not due.
    pub delayed: usize,
    /// Items being processed.
    pub processing: usize,
    /// Additions that queued an item. Grows. `workqueue_adds_total`.
    pub adds: u64,
    /// Additions of items that were already queued. Grows.
    pub merged: u64,
    /// Additions with a delay or rate limited. Grows. `workqueue_retries_total`.
    pub retries: u64,
    /// Additions rejected at [`WORKQUEUE_ITEMS_MAX`](super::WORKQUEUE_ITEMS_MAX). Grows.
    pub refused: u64,
    /// Additions after the shut-down. Grows.
    pub ignored: u64,
    /// Delayed items dropped by the shut-down. Grows.
    pub delayed_dropped: u64,
    /// Items whose failures the limiter remembers.
    pub failing: usize,
    /// The time from addition to processing. Grows. `workqueue_queue_duration_seconds`.
    pub queue_duration: DurationHistogram,
    /// The processing time. Grows. `workqueue_work_duration_seconds`.
    pub work_duration: DurationHistogram,
    /// The processing time so far of all items being processed, summed. `workqueue_unfinished_work_seconds`.
    pub unfinished_work: Duration,
    /// The longest of these times. `workqueue_longest_running_processor_seconds`.
    pub longest_running: Duration,
}

/// The remaining items of a queue that was shut down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "the remaining items were accepted and not done: finish them, or report them as lost"]
pub struct Remaining {
    /// Queued items: [`get`](super::WorkQueue::get) still returns them.
    pub queued: usize,
    /// Items being processed.
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
