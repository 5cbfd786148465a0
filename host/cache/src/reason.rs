//! Why an event is told.

use std::fmt;

/// Why a handler is told of an object now. Where several events fold into one, the newest reason wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The object was in the source when the handler first saw it (client-go's `isInInitialList`).
    Initial,
    /// The API server's watch said so.
    Watch,
    /// A list after the first one showed it; what happened in between was not seen.
    Relist,
    /// The handler's resync period passed; nothing has changed.
    Resync,
    /// A new version of the handler asked for everything again.
    Replay,
    /// Someone asked for this key again, after a dead letter for example.
    Requeue,
    /// The informer's selector, namespaces or cuts were changed.
    Reconfigured,
    /// The cluster went back in time (an etcd restore): a new source epoch began.
    Restored,
}

impl Reason {
    /// The reason's name as contract, metrics and logs write it.
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
