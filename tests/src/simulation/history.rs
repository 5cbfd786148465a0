//! The events of a run, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

mod controlled;
mod part;

pub use controlled::{Controlled, ControlledMap};
pub(super) use part::PARTS;
pub use part::{Part, Split};

/// One version of one object, as numbered by the API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectVersion {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The incarnation of the name.
    pub uid: String,
    /// The resource version.
    pub version: u64,
}

impl ObjectVersion {
    /// Namespace and name.
    pub fn key(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }

    /// Namespace and name, and the uid.
    pub fn incarnation(&self) -> ((String, String), String) {
        ((self.namespace.clone(), self.name.clone()), self.uid.clone())
    }
}

impl fmt::Display for ObjectVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{} ({})", self.namespace, self.name, self.version, self.uid)
    }
}

/// What an informer requests from the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// The namespaces; empty means all.
    pub namespaces: BTreeSet<String>,
    /// The value that the label `group` must have; none means any.
    pub group: Option<String>,
}

impl Selection {
    /// Whether an object of that namespace with that label is selected.
    #[must_use]
    pub fn selects(&self, namespace: &str, group: &str) -> bool {
        (self.namespaces.is_empty() || self.namespaces.contains(namespace))
            && self.group.as_deref().is_none_or(|wanted| wanted == group)
    }
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EventKind {
    /// The object exists.
    Add,
    /// The object exists, and another state was known.
    Update,
    /// The object was deleted.
    Delete,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// The handler accepted it.
    Ok,
    /// The handler asked for a retry.
    Retry,
    /// The handler panicked, or trapped and lost its memory.
    Trap,
    /// The handler rejected it permanently.
    Permanent,
}

/// The start of a call into a handler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The handler.
    pub handler: u32,
    /// The kind of the call.
    pub kind: EventKind,
    /// The delivered state; for a delete the last known one.
    pub object: ObjectVersion,
    /// The old state of an update.
    pub old: Option<ObjectVersion>,
    /// Whether a delete's final state is unknown.
    pub unknown: bool,
    /// `watch`, `relist`, …
    pub reason: String,
    /// The version in the store for the key when the call began; none if absent.
    pub stored: Option<u64>,
    /// The instance that is called, from 0.
    #[serde(default)]
    pub instance: u8,
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Entry {
    /// The API server accepted a write.
    Written {
        /// The new state.
        object: ObjectVersion,
        /// The label `group` of that state.
        group: String,
    },
    /// The API server accepted a delete.
    Removed {
        /// The removed state, with the version of the removal.
        object: ObjectVersion,
    },
    /// The API server's database was restored from a backup: its versions went back.
    Restored {
        /// The version of the backup.
        version: u64,
        /// The objects in the backup.
        objects: Vec<ObjectVersion>,
    },
    /// A watch delivered a state to an informer, which is newer than everything in the informer's store.
    Shown {
        /// The informer.
        informer: u32,
        /// The kind of the watch event.
        kind: EventKind,
        /// The delivered state.
        object: ObjectVersion,
    },
    /// A fault or another change was applied to the server or the informer.
    Fault {
        /// Its description.
        name: String,
    },
    /// An informer has this selection from now on.
    Selected {
        /// The informer.
        informer: u32,
        /// The selection.
        selection: Selection,
    },
    /// A WebAssembly handler counted its calls, in its memory, before a call begins. A new version continues to count.
    Remembers {
        /// The handler.
        handler: u32,
        /// The calls since it lost its memory, including the next one.
        calls: u64,
    },
    /// The calls of a guest about these namespaces get a share of the time, because one trapped or the host waited for
    /// an object's body. The end of a list does not wait for them.
    Suspects {
        /// The handler.
        handler: u32,
        /// Those that were not named before.
        namespaces: Vec<String>,
    },
    /// A handler was registered.
    HandlerAdded {
        /// The handler.
        handler: u32,
        /// Its informer.
        informer: u32,
        /// It never fails and its buffer never fills: it receives each state that its watch shows.
        receives_every_state: bool,
        /// The shortest time between the starts of two calls for one key; 0 for none.
        #[serde(default)]
        min_interval_ms: u64,
        /// How many calls may begin in a second, after a burst of as many.
        #[serde(default)]
        calls_per_second_max: Option<u32>,
        /// Calls about namespaces in which one trapped get a share of the time.
        #[serde(default)]
        limits_suspects: bool,
        /// Unless it has forgotten them: a plugin does with a swap and a resume, which the history does not show.
        #[serde(default)]
        forgets_suspects: bool,
    },
    /// The handler that is registered next waited until all that its calls may read was there.
    Released {
        /// The handler.
        handler: u32,
        /// How long it waited.
        waited_ms: u64,
        /// How long it waits at most.
        wait_max_ms: u64,
        /// What readers of the cache find missing.
        missing: Vec<String>,
    },
    /// The handler just registered continues after the kill of the process that ran another one: a durable informer.
    Resumed {
        /// The handler.
        handler: u32,
        /// The handler before it; none in the first process.
        after: Option<u32>,
        /// It does not receive again what the handler before it accepted.
        continues: bool,
    },
    /// At rest: what a handler that sets a key for each object it handles has kept over all processes.
    Kept {
        /// The handler.
        handler: u32,
        /// Namespace, name and version of the last state that its call for the key succeeded with.
        values: Vec<(String, String, u64)>,
    },
    /// What a handler that sets a key for each object it handles finds of that when its process starts.
    Found {
        /// The handler.
        handler: u32,
        /// As in [`Entry::Kept`].
        values: Vec<(String, String, u64)>,
    },
    /// The handler just registered is called from now on by its process, which acts in place of another one.
    TookOver {
        /// The handler.
        handler: u32,
        /// The one that was called until now; none: it is the first.
        after: Option<u32>,
        /// It does not receive again what was accepted up to the watermark.
        continues: bool,
        /// By namespace, or for all as an empty one: the last version that the process before it has published.
        watermarks: BTreeMap<String, u64>,
        /// What it is called about, if the objects are divided among the processes.
        #[serde(default)]
        part: Option<Part>,
    },
    /// The informer of a replica has these incarnations in its store.
    Holds {
        /// The informer.
        informer: u32,
        /// Those that it was not known to have.
        uids: Vec<String>,
    },
    /// A write of shared state has taken effect.
    StateWritten {
        /// The term that has sent it; each has a greater number than those before it.
        term: u32,
    },
    /// At rest: what the replica calls that acts.
    Acting {
        /// The handlers.
        handlers: Vec<u32>,
    },
    /// A call into a handler begins.
    Begin(Call),
    /// The call ends.
    End {
        /// The handler.
        handler: u32,
        /// The namespace of the call's key.
        namespace: String,
        /// The name of the call's key.
        name: String,
        /// How it ended.
        ended: Ended,
    },
    /// With the call that ended just now, the handler asked for another one.
    Asked {
        /// The handler.
        handler: u32,
        /// The namespace of the call's key.
        namespace: String,
        /// The name of the call's key.
        name: String,
        /// How long it asked to wait, in milliseconds.
        after_ms: u64,
    },
    /// In the call that runs, the handler deferred a write.
    Deferred {
        /// The handler.
        handler: u32,
        /// The namespace of the call's key.
        namespace: String,
        /// The name of the call's key.
        name: String,
    },
    /// The API server received a write that the handler had deferred.
    Sent {
        /// The handler.
        handler: u32,
        /// The namespace of the key in whose call it was deferred.
        namespace: String,
        /// The name of that key.
        name: String,
    },
    /// A handler is synced: it has received the whole source.
    Synced {
        /// The handler.
        handler: u32,
        /// The lane that was called; each is.
        #[serde(rename = "shard")]
        lane: u8,
        /// The objects that existed when the handler was added and still exist in the same incarnation.
        there: Vec<ObjectVersion>,
    },
    /// A handler was removed: the contract no longer covers it.
    HandlerRemoved {
        /// The handler.
        handler: u32,
    },
    /// The process that runs a handler of a durable informer was killed.
    Killed {
        /// The handler.
        handler: u32,
        /// The uids of the ended incarnations that its process did not store for it: too many of their keys.
        dropped: Vec<String>,
    },
    /// An index whose values come from outside was queried.
    FedIndexChecked {
        /// The informer.
        informer: u32,
        /// Whether everything is at rest: then it must be ready.
        at_rest: bool,
        /// Its contents: values and keys, sorted; none if it is not ready.
        index: Option<Vec<(String, Vec<String>)>>,
        /// What it must contain: at rest computed from the cluster, else from the snapshot that was queried.
        model: Vec<(String, Vec<String>)>,
    },
    /// An index was compared with the store of the same snapshot.
    IndexChecked {
        /// The informer.
        informer: u32,
        /// The contents of the store's index: values and keys, sorted.
        index: Vec<(String, Vec<String>)>,
        /// The same index computed by a scan over the store.
        scan: Vec<(String, Vec<String>)>,
    },
    /// A handler read the body of an object of which it received only the head.
    BodyRead {
        /// The state of the head.
        head: ObjectVersion,
        /// The state of the body.
        body: ObjectVersion,
    },
    /// At rest: what the caches, which have a budget, take.
    CacheAtRest {
        /// The budget.
        max_bytes: usize,
        /// What counts as used.
        used_bytes: usize,
        /// What the stores take.
        bytes: usize,
        /// Objects that are stored whole.
        whole: usize,
        /// The bytes that the smallest shed namespace lacks, if there is one.
        least_shed_bytes: Option<usize>,
    },
    /// Of a controller.
    Controller(Controlled),
    /// Everything is at rest: no further events can come.
    AtRest {
        /// The informer.
        informer: u32,
        /// The objects of the API server that the informer selects.
        cluster: Vec<ObjectVersion>,
        /// The objects in the store.
        store: Vec<ObjectVersion>,
    },
}

/// A run, from its beginning to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Each entry with the nanoseconds of simulated time since the start of the run.
    pub entries: Vec<(u64, Entry)>,
}

/// One line of the text form.
#[derive(Serialize, Deserialize)]
struct HistoryLine {
    us: u64,
    entry: Entry,
}

impl History {
    /// Reads JSON lines, as [`Display`](fmt::Display) writes them. Time is kept to the microsecond.
    ///
    /// # Errors
    /// If a line is invalid; the error names it.
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
