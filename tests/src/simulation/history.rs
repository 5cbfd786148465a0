//! What happened in a run, in the order in which it happened.

use std::fmt;

use serde::Serialize;

/// One version of one object, as the API server numbered it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ObjectVersion {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Which incarnation of the name.
    pub uid: String,
    /// The resource version.
    pub version: u64,
}

impl ObjectVersion {
    /// Namespace and name.
    pub fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl fmt::Display for ObjectVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{} ({})", self.namespace, self.name, self.version, self.uid)
    }
}

/// What a handler was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// The object is there.
    Add,
    /// The object is there, and another state was known.
    Update,
    /// The object is gone.
    Delete,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The handler accepted it.
    Ok,
    /// The handler asked for another try.
    Retry,
    /// The handler refused it for good.
    Permanent,
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Entry {
    /// The API server accepted a write.
    Written {
        /// The state it made.
        object: ObjectVersion,
    },
    /// The API server accepted a delete, at this version.
    Removed {
        /// The state it removed, with the version of the removal.
        object: ObjectVersion,
    },
    /// Something was done to the server or the informer.
    Fault {
        /// What, in words.
        name: String,
    },
    /// A call into a handler begins.
    Begin {
        /// Which handler.
        handler: u32,
        /// What it is told.
        told: Told,
        /// The state it is told about; for a delete the last known one.
        object: ObjectVersion,
        /// The old state that an update came with.
        old: Option<ObjectVersion>,
        /// Whether a delete's final state is unknown.
        unknown: bool,
        /// `watch`, `relist`, …
        reason: String,
        /// The version the store had for the key when the call began; none: absent.
        stored: Option<u64>,
    },
    /// It ends.
    End {
        /// Which handler.
        handler: u32,
        /// The key the call was about.
        namespace: String,
        /// The key the call was about.
        name: String,
        /// How.
        ended: Ended,
    },
    /// A handler was told that it has seen the whole source.
    Synced {
        /// Which handler.
        handler: u32,
        /// Namespace and name of what was there when the handler came and, in the same incarnation, still is.
        there: Vec<(String, String)>,
    },
    /// A handler was removed: nothing is promised to it any more.
    Left {
        /// Which handler.
        handler: u32,
    },
    /// Everything has come to rest.
    Quiet {
        /// What the API server holds.
        cluster: Vec<ObjectVersion>,
        /// What the store holds.
        store: Vec<ObjectVersion>,
        /// What the store's index answers: value and keys, sorted.
        index: Vec<(String, Vec<String>)>,
        /// What a scan over the store makes of the same index.
        scan: Vec<(String, Vec<String>)>,
    },
}

/// A run, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Each entry with the nanoseconds of simulated time since the run began.
    pub entries: Vec<(u64, Entry)>,
}

impl fmt::Display for History {
    /// JSON lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nanos, entry) in &self.entries {
            let entry = serde_json::to_string(entry).map_err(|_| fmt::Error)?;
            writeln!(f, "{{\"us\":{},\"entry\":{entry}}}", nanos / 1_000)?;
        }
        Ok(())
    }
}
