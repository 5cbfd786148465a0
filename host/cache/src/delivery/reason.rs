//! Why a handler is called.

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
    /// The cluster was rolled back (for example, an etcd restore): a new source epoch began.
    Restored,
    /// The delay passed that the handler asked for after its last call for the key.
    RequeueAfter,
    /// An operator asked for a call.
    Trigger,
    /// Another object has changed that [leads](crate::listener::Relation) to this one.
    Related,
    /// Another process has called the handler for the object until now.
    Takeover,
}

impl Reason {
    const ALL: [Reason; 12] = [
        Reason::Initial,
        Reason::Watch,
        Reason::Relist,
        Reason::Resync,
        Reason::Replay,
        Reason::Requeue,
        Reason::Reconfigured,
        Reason::Restored,
        Reason::RequeueAfter,
        Reason::Trigger,
        Reason::Related,
        Reason::Takeover,
    ];

    /// Whether the object, or what is known of it, has changed: the event is no repetition or call that was asked for.
    #[must_use]
    pub const fn is_change(self) -> bool {
        !matches!(
            self,
            Reason::Resync
                | Reason::Replay
                | Reason::Requeue
                | Reason::RequeueAfter
                | Reason::Trigger
                | Reason::Related
        )
    }

    /// The reason with this [name](Self::as_str).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == name)
    }

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
            Reason::RequeueAfter => "requeue-after",
            Reason::Trigger => "trigger",
            Reason::Related => "related",
            Reason::Takeover => "takeover",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
