//! The storage of a durable source, as the informer that uses it sees it.

use std::sync::Arc;

use informant_cache::Journal;

/// After how many seconds a handoff of durable sources that is blocked on the disk is reported: a warning, and one more
/// in `hand_over_waits_total`. A healthy disk takes milliseconds, an overloaded one a second or two.
///
/// The handoff keeps waiting. Giving up would lose or reorder events: the last events of the old source are still in
/// its journal, and the new source delivers the difference to them. Delivered too early, the older state would come
/// last, and stay. Nor is there a shortcut: filling the new source from scratch goes through a journal on the same
/// disk. Meanwhile the informer's handlers receive nothing, readers see the old source as it was last read, and further
/// changes of the informer wait; a stop does not. A disk that fails instead of hanging blocks nothing: a journal
/// delivers what it cannot persist.
pub const HANDOFF_WAIT_SECONDS_MAX: u64 = 10;

/// The storage of a durable source.
#[derive(Debug, Clone)]
pub struct DurableSource {
    /// Persists the source and delivers its events.
    pub journal: Arc<dyn Journal>,
    /// The highest version that an earlier process had seen: a lagging replica cannot take the source back behind it.
    pub high_water: Option<u64>,
    /// After how many seconds a handoff that is blocked on the disk is reported: see [`HANDOFF_WAIT_SECONDS_MAX`], the
    /// default.
    pub handoff_wait_seconds_max: u64,
}

impl DurableSource {
    /// A source persisted by `journal`, with default limits.
    pub fn new(journal: Arc<dyn Journal>, high_water: Option<u64>) -> Self {
        Self {
            journal,
            high_water,
            handoff_wait_seconds_max: HANDOFF_WAIT_SECONDS_MAX,
        }
    }
}
