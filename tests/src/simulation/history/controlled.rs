//! What a controller does: a plugin that reconciles ConfigMaps, owns Secrets, and has a timer.

use serde::{Deserialize, Serialize};

use super::{Ended, ObjectVersion};

/// One event of a controller. Of several processes, one runs at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "did")]
pub enum Controlled {
    /// A process starts on what the last one has stored.
    Started {
        /// When the last run of its timer was due that is recorded as ended, in milliseconds; none: there is no record.
        recorded_ms: Option<i64>,
    },
    /// The process was killed.
    Killed,
    /// A call about a ConfigMap begins.
    Began {
        /// A word that no other call has.
        call: String,
        /// The namespace of the ConfigMap.
        namespace: String,
        /// Its name.
        name: String,
        /// The state that the call received; none: it is gone.
        primary: Option<ObjectVersion>,
        /// Its Secrets, as the call found them.
        children: Vec<ObjectVersion>,
    },
    /// The call has pruned Secrets, or deferred it.
    Pruned {
        /// The namespace of the ConfigMap.
        namespace: String,
        /// Its name.
        name: String,
        /// Why the cache may have lacked some of them, or known later states of none; empty: it had all.
        gaps: Vec<String>,
    },
    /// The call ends.
    Ended {
        /// The namespace of the ConfigMap.
        namespace: String,
        /// Its name.
        name: String,
        /// How.
        ended: Ended,
    },
    /// The API server received a write of a Secret.
    Wrote {
        /// The namespace of the ConfigMap.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The API server received an Event.
    Recorded {
        /// The call that recorded it.
        call: String,
    },
    /// A run of the timer begins.
    TimerBegan {
        /// As in `Began`.
        call: String,
        /// When it was due, in milliseconds.
        scheduled_ms: i64,
        /// How many earlier ones it stands for.
        missed: u32,
    },
    /// The run ends.
    TimerEnded {
        /// How.
        ended: Ended,
    },
    /// Everything is at rest.
    AtRest {
        /// Each name that a ConfigMap may have.
        maps: Vec<ControlledMap>,
    },
}

/// A name, with what the API server has of it at rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlledMap {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The ConfigMap, if it exists.
    pub primary: Option<ObjectVersion>,
    /// Its Secrets.
    pub children: Vec<ObjectVersion>,
    /// How many it wants.
    pub wanted: usize,
}
