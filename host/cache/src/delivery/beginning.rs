//! How a listener begins with a source.

use std::time::Duration;

use crate::delivery::dead_letters::DeadLetter;

/// For how long after a takeover an object that is new here may be one that the other process has delivered: its watch
/// may have been ahead of this one's. Until then such an object and its delete do not cancel out.
///
/// A watch that is later by a minute is no longer live, and a list follows.
pub const TAKEOVER_LAG_MAX: Duration = Duration::from_secs(60);

/// How a listener begins with the objects of a source that it is attached to.
#[derive(Clone, Debug, Default)]
pub enum Beginning {
    /// Each object comes once, with reason [`Initial`](crate::Reason::Initial).
    #[default]
    Start,
    /// Another process has called the handler until now, and may have left these dead letters, oldest first. None: it
    /// is not known which.
    Takeover(Takeover, Option<Vec<DeadLetter>>),
}

/// How a listener continues what another process did. First come the deletes that were [kept](crate::KeptDeletes), then
/// the objects, with reason [`Takeover`](crate::Reason::Takeover).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Takeover {
    /// The last [watermark](crate::listener::Ledger::watermark) of that process for this handler and source: deletes up
    /// to it are left out. None: all that were kept are delivered.
    ///
    /// Versions compare only within one history. A caller that knows that the source was rolled back since then passes
    /// none.
    pub watermark: Option<u64>,
    /// Each object comes once. Otherwise only those whose version the watermark does not cover, or is no number.
    pub all_objects: bool,
}
