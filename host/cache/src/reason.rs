//! Why an event is delivered.

use std::fmt;

/// Why a handler receives an event. If events are folded, the newest reason wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The object was in the source when the handler was attached (client-go's `isInInitialList`).
    Initial,
    /// An event of the API server's watch.
    Watch,
    /// A list after the first one; intermediate changes were not observed.
    Relist,
    /// The handler's resync period passed; nothing has changed.
    Resync,
    /// A new version of the handler receives all objects again.
    Replay,
    /// A redelivery of this key was requested, for example after a dead letter.
    Requeue,
    /// The informer's selector, namespaces or cut fields were changed.
    Reconfigured,
    /// The cluster went back in time (an etcd restore): a new source epoch began.
    Restored,
}

impl Reason {
    /// The name of the reason in the WIT contract, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Initial => "initial",
            Reason::Watch => "watch",
            Reason::Relist => "relist",
            Reason::Resync => "resync",
            Reason::Replay => "replay",
            Reason::Requeue => "requeue",
            Reason::Reconfigured => "reconfigured",
            Reason::Restored => "restored",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
