//! What happened in a run, in the order in which it happened.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// One version of one object, as the API server numbered it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// What an informer asks the API server for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The namespaces to stay within; empty: all of them.
    pub namespaces: BTreeSet<String>,
    /// The value of the label `group` that objects must have; none: any.
    pub group: Option<String>,
}

impl Selection {
    /// Whether an object of that namespace with that label belongs to it.
    #[must_use]
    pub fn takes(&self, namespace: &str, group: &str) -> bool {
        (self.namespaces.is_empty() || self.namespaces.contains(namespace))
            && self.group.as_deref().is_none_or(|wanted| wanted == group)
    }
}

/// What a handler was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The handler accepted it.
    Ok,
    /// The handler asked for another try, or broke down over it.
    Retry,
    /// The handler refused it for good.
    Permanent,
}

/// A call into a handler, as it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// Which handler.
    pub handler: u32,
    /// What it is told.
    pub told: Told,
    /// The state it is told about; for a delete the last known one.
    pub object: ObjectVersion,
    /// The old state that an update came with.
    pub old: Option<ObjectVersion>,
    /// Whether a delete's final state is unknown.
    pub unknown: bool,
    /// `watch`, `relist`, …
    pub reason: String,
    /// The version the store had for the key when the call began; none: absent.
    pub stored: Option<u64>,
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Entry {
    /// The API server accepted a write.
    Written {
        /// The state it made.
        object: ObjectVersion,
        /// The label `group` of that state.
        group: String,
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
    /// From now on an informer is to ask for this.
    Selected {
        /// Which informer.
        informer: u32,
        /// What.
        selection: Selection,
    },
    /// A handler was registered.
    Came {
        /// Which handler.
        handler: u32,
        /// With which informer.
        informer: u32,
        /// It never fails and its buffer is never full: it is told each state that its watch shows.
        keeps_all: bool,
    },
    /// A call into a handler begins.
    Begin(Call),
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
    /// An index was compared with the store, both of one moment.
    Looked {
        /// Which informer's.
        informer: u32,
        /// What the store's index answers: value and keys, sorted.
        index: Vec<(String, Vec<String>)>,
        /// What a scan over the store makes of the same index.
        scan: Vec<(String, Vec<String>)>,
    },
    /// Everything has come to rest.
    Quiet {
        /// Which informer.
        informer: u32,
        /// What the API server holds of what the informer asks for.
        cluster: Vec<ObjectVersion>,
        /// What the store holds.
        store: Vec<ObjectVersion>,
    },
}

/// A run, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Each entry with the nanoseconds of simulated time since the run began.
    pub entries: Vec<(u64, Entry)>,
}

/// One line as it is written.
#[derive(Serialize, Deserialize)]
struct HistoryLine {
    us: u64,
    entry: Entry,
}

impl History {
    /// Reads JSON lines, as [`Display`](fmt::Display) writes them. Time is kept to the microsecond.
    ///
    /// # Errors
    /// If a line is none of a history; the error says which.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read = |(at, line): (usize, &str)| {
            serde_json::from_str::<HistoryLine>(line)
                .map(|line| (line.us * 1_000, line.entry))
                .map_err(|error| format!("line {}: {error}", at + 1))
        };
        let entries = text.lines().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }
}

impl fmt::Display for History {
    /// JSON lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nanos, entry) in &self.entries {
            let line = HistoryLine {
                us: nanos / 1_000,
                entry: entry.clone(),
            };
            writeln!(f, "{}", serde_json::to_string(&line).map_err(|_| fmt::Error)?)?;
        }
        Ok(())
    }
}
