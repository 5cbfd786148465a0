//! The delivery contract, tested on a history: a pure function, so that it judges any recording.
//!
//! Per handler and key: calls are ordered and never overlap; nothing is told that the API server never held; a delete
//! is told once, and marked if its final state was not seen; one incarnation never becomes another without a delete in
//! between; the store is at least as new as the call; what a watch shows is neither skipped nor repeated. At rest: the
//! last that was accepted is the last there is, everybody was told of everything, the store is the cluster. At any
//! time: an index is what a scan says.
//!
//! What an informer asks for may change, and objects may leave its selection and come back: then a delete says that the
//! object does not belong any more, and its life may go on.

mod calls;
mod rest;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::history::{Call, Entry, History, ObjectVersion, Selection, Told};

/// A clause of the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Clause {
    /// Within one incarnation versions never go down, and `old` is what was told last.
    Ordered,
    /// No two calls about one key run at once.
    OneAtATime,
    /// Every state that is told existed.
    NoInvention,
    /// After a delete of an incarnation nothing is told of it.
    DeleteSeenOnce,
    /// A delete whose final state was not seen says so, and no other does.
    TombstoneMarked,
    /// A delete and a create of one name are two incarnations: never an update.
    IncarnationSafe,
    /// A look-up during a call finds the state that is told, or a newer one.
    SnapshotAtLeastAsNew,
    /// Synced is told, and after everything that was there.
    SyncComplete,
    /// A watch that breaks off and goes on loses and repeats nothing.
    Resumable,
    /// The last state that was accepted is the last there is.
    LastStateNeverLost,
    /// Every handler was told of every object.
    AtLeastOnce,
    /// The store is what the API server holds.
    StoreConverges,
    /// An index answers what a scan finds.
    IndexCoherent,
}

impl Clause {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Ordered,
        Self::OneAtATime,
        Self::NoInvention,
        Self::DeleteSeenOnce,
        Self::TombstoneMarked,
        Self::IncarnationSafe,
        Self::SnapshotAtLeastAsNew,
        Self::SyncComplete,
        Self::Resumable,
        Self::LastStateNeverLost,
        Self::AtLeastOnce,
        Self::StoreConverges,
        Self::IndexCoherent,
    ];

    /// Its name as `docs/explanation/delivery.md` writes it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::OneAtATime => "one at a time",
            Self::NoInvention => "no invention",
            Self::DeleteSeenOnce => "delete seen once",
            Self::TombstoneMarked => "tombstone marked",
            Self::IncarnationSafe => "incarnation safe",
            Self::SnapshotAtLeastAsNew => "snapshot at least as new",
            Self::SyncComplete => "sync complete",
            Self::Resumable => "resumable",
            Self::LastStateNeverLost => "last state never lost",
            Self::AtLeastOnce => "at least once",
            Self::StoreConverges => "store converges",
            Self::IndexCoherent => "index coherent",
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A clause of the contract that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub clause: Clause,
    /// Which entry shows it, counted from 0.
    pub entry: usize,
    /// What was seen.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: {}: {}", self.entry, self.clause, self.message)
    }
}

type Key = (String, String);

/// What one handler believes about one key.
#[derive(Default)]
struct Believed {
    running: Option<Running>,
    /// The newest state a call began with, whether it ended well or not.
    newest: Option<ObjectVersion>,
    /// The last state a call ended well with: there (true) or gone.
    accepted: Option<(bool, ObjectVersion)>,
    /// The last state whose delivery is over, well or not; none after a delete.
    over: Option<ObjectVersion>,
    /// As what it was told to be gone for another request, last.
    left: Option<ObjectVersion>,
    /// The state it refused for good, there (true) or gone, if nothing was accepted since.
    refused: Option<(bool, ObjectVersion)>,
}

/// A call that has begun.
#[derive(Clone)]
struct Running {
    told: Told,
    object: ObjectVersion,
    old: Option<ObjectVersion>,
    unknown: bool,
    reason: String,
}

#[derive(Default)]
struct Handler {
    informer: u32,
    keeps_all: bool,
    keys: BTreeMap<Key, Believed>,
    deleted: BTreeSet<(Key, String)>,
    attempted: BTreeSet<Key>,
    synced: bool,
}

#[derive(Default)]
struct Checker {
    /// Each state that ever was, with its label.
    written: BTreeMap<ObjectVersion, String>,
    /// The versions at which incarnations ended.
    removed: BTreeSet<ObjectVersion>,
    /// All that informers were ever to ask for.
    selections: BTreeMap<u32, Vec<Selection>>,
    handlers: BTreeMap<u32, Handler>,
    /// Handlers that were removed; calls that ran then may still end.
    left: BTreeSet<u32>,
    violations: Vec<Violation>,
}

/// Returns every breach of the contract, in order of appearance. Empty: it holds.
pub fn check(history: &History) -> Vec<Violation> {
    let mut checker = Checker::default();
    for (index, (_, entry)) in history.entries.iter().enumerate() {
        checker.see(index, entry);
    }
    checker.violations
}

impl Checker {
    fn see(&mut self, at: usize, entry: &Entry) {
        match entry {
            Entry::Begin(Call { handler, .. }) | Entry::End { handler, .. } | Entry::Synced { handler, .. }
                if self.left.contains(handler) => {}
            Entry::Written { object, group } => drop(self.written.insert(object.clone(), group.clone())),
            Entry::Removed { object } => drop(self.removed.insert(object.clone())),
            Entry::Fault { .. } => {}
            Entry::Selected { informer, selection } => {
                self.selections.entry(*informer).or_default().push(selection.clone());
            }
            Entry::Came {
                handler,
                informer,
                keeps_all,
            } => {
                let handler = self.handlers.entry(*handler).or_default();
                (handler.informer, handler.keeps_all) = (*informer, *keeps_all);
            }
            Entry::Begin(call) => self.begin(at, call),
            Entry::End {
                handler,
                namespace,
                name,
                ended,
            } => self.end(at, *handler, (namespace, name), *ended),
            Entry::Synced { handler, there } => self.synced(at, *handler, there),
            Entry::Left { handler } => {
                self.handlers.remove(handler);
                self.left.insert(*handler);
            }
            Entry::Looked { index, scan, .. } if index == scan => {}
            Entry::Looked { informer, index, scan } => {
                let message = format!("informer {informer}: the index says {index:?}, a scan {scan:?}");
                self.violate(at, Clause::IndexCoherent, message);
            }
            Entry::Quiet {
                informer,
                cluster,
                store,
            } => self.at_rest(at, *informer, cluster, store),
        }
    }

    fn violate(&mut self, entry: usize, clause: Clause, message: String) {
        self.violations.push(Violation { clause, entry, message });
    }

    /// Whether the informer was ever to ask for some objects only, by their labels: then one may leave and come back.
    fn ever_selected_by_state(&self, informer: u32) -> bool {
        let selections = self.selections.get(&informer);
        selections.is_some_and(|all| all.iter().any(|selection| selection.group.is_some()))
    }

    fn was(&self, state: &ObjectVersion) -> bool {
        self.written.contains_key(state) || self.removed.contains(state)
    }
}

#[cfg(test)]
mod tests;
