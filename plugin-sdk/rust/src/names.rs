//! The names of the contract's enum cases.

use std::fmt;

use crate::bindings::imports::informant::plugin::kube::ApiErrorCode;
use crate::bindings::imports::informant::plugin::log::Level;
use crate::bindings::imports::informant::plugin::store::SourceState;
use crate::bindings::imports::informant::plugin::types::{ErrorCode, Reason};

macro_rules! names {
    ($type:ident { $($case:ident => $name:literal,)+ }) => {
        impl $type {
            /// The name of the case in the contract.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$case => $name,)+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

names!(Reason {
    Initial => "initial",
    Watch => "watch",
    Relist => "relist",
    Resync => "resync",
    Replay => "replay",
    Requeue => "requeue",
    Reconfigured => "reconfigured",
    Restored => "restored",
    RequeueAfter => "requeue-after",
    Trigger => "trigger",
    Related => "related",
    Takeover => "takeover",
    Other => "other",
});

names!(ErrorCode {
    Denied => "denied",
    NotHere => "not-here",
    NotReady => "not-ready",
    NotFound => "not-found",
    UnknownInformer => "unknown-informer",
    UnknownIndex => "unknown-index",
    TooLarge => "too-large",
    Exhausted => "exhausted",
    Conflict => "conflict",
    Timeout => "timeout",
    Stale => "stale",
    Unavailable => "unavailable",
    Unsupported => "unsupported",
    Invalid => "invalid",
    Other => "other",
});

names!(SourceState {
    Syncing => "syncing",
    Live => "live",
    Stale => "stale",
    WaitingForResource => "waiting-for-resource",
    Forbidden => "forbidden",
    Refused => "refused",
    Stopped => "stopped",
    Other => "other",
});

names!(ApiErrorCode {
    Denied => "denied",
    NotHere => "not-here",
    Forbidden => "forbidden",
    Unauthorized => "unauthorized",
    NotFound => "not-found",
    AlreadyExists => "already-exists",
    Conflict => "conflict",
    Invalid => "invalid",
    Expired => "expired",
    TooLarge => "too-large",
    TooManyRequests => "too-many-requests",
    Timeout => "timeout",
    Unavailable => "unavailable",
    Unsupported => "unsupported",
    Other => "other",
});

names!(Level {
    Trace => "trace",
    Debug => "debug",
    Info => "info",
    Warn => "warn",
    Error => "error",
});
