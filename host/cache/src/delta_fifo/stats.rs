//! What the queue has done since it was made.

/// Counters of one [`DeltaFifo`](crate::DeltaFifo). Each only grows. Whatever came in and did not go out is in one of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaFifoStats {
    /// Deltas that came in and were queued, requeued ones aside.
    pub queued_deltas: u64,
    /// Deltas handed out by `pop` and `pop_batch`.
    pub popped_deltas: u64,
    /// Deletes queued by a replace for objects that its list lacked.
    pub tombstones: u64,
    /// Items of a replace that were the known object itself, with nothing queued: seen, and nothing to tell.
    pub unchanged: u64,
    /// Deletes of objects that were neither queued nor known.
    pub deletes_ignored: u64,
    /// Deletes that went into one with the delete before them.
    pub deletes_collapsed: u64,
    /// Objects whose new version was withheld because the transform failed on them.
    pub transforms_failed: u64,
    /// Deltas whose processing failed. What the consumer put back is in `requeued` too.
    pub failed_deltas: u64,
    /// Deltas put back by `add_if_not_present`.
    pub requeued: u64,
    /// Deltas not put back by `add_if_not_present`, because their key was in line again with newer ones.
    pub requeues_superseded: u64,
    /// Look-ups of known objects that failed.
    pub lookups_failed: u64,
}
