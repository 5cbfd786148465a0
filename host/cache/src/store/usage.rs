//! The memory of a store: what its objects and index entries take, in all and by namespace, and what readers of older
//! snapshots keep alive.
//!
//! The writer adds up what it writes. Readers look at the sums without a walk.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::fast::FixedState;
use informant_object::{KeyRef, Object, allocation_bytes};

use super::root::Root;
use crate::index::TREE_ENTRY_BYTES;

/// What an `Arc<str>` holds besides its text.
const ARC_BYTES: usize = 16;

/// Roots that are remembered before those that are free again are sought among all of them. Those at both ends are
/// found at once.
const HELD_ROOTS_SOUGHT_MIN: usize = 64;

/// The memory that `object` takes in a store: its text and positions, its key and its entry, rounded as the allocator
/// rounds. Without index entries.
#[must_use]
pub fn stored_bytes(object: &Object) -> usize {
    let KeyRef { namespace, name } = object.key();
    let slash = usize::from(!namespace.is_empty());
    let key = allocation_bytes(ARC_BYTES + namespace.len() + slash + name.len());
    allocation_bytes(object.size_bytes()) + key + TREE_ENTRY_BYTES
}

/// What the writer and the readers of all roots of a store share.
#[derive(Debug, Default)]
pub(super) struct StoreUsage {
    /// Of each namespace that has objects, or is shed.
    namespaces: Mutex<HashMap<Box<str>, NamespaceUsage, FixedState>>,
    held: Mutex<HeldRoots>,
}

/// The objects of a namespace.
#[derive(Clone, Copy, Debug, Default)]
struct NamespaceUsage {
    objects: usize,
    bytes: usize,
    /// What the bodies would add of which only the heads are stored.
    body_bytes: usize,
    is_shed: bool,
}

impl StoreUsage {
    /// For another writer of the same source, which has no objects yet.
    pub(super) fn without_objects(&self) -> StoreUsage {
        StoreUsage {
            namespaces: Mutex::default(),
            held: Mutex::new(lock(&self.held).clone()),
        }
    }

    /// Remembers a root that was replaced: readers may hold it.
    pub(super) fn replaced(&self, root: &Arc<Root>) {
        lock(&self.held).push(root);
    }

    /// See [`Snapshot::held_bytes`](super::Snapshot::held_bytes); `newest` is the newest root.
    pub(super) fn held_bytes(&self, newest: &Root) -> usize {
        let until = newest.replaced_bytes + newest.reformed_bytes;
        lock(&self.held).bytes(until, |held| held.replaced_bytes + held.reformed_bytes)
    }

    /// See [`Snapshot::held_states_bytes`](super::Snapshot::held_states_bytes).
    pub(super) fn held_states_bytes(&self, newest: &Root) -> usize {
        lock(&self.held).bytes(newest.replaced_bytes, |held| held.replaced_bytes)
    }

    /// The namespaces whose objects take the most memory, the largest first.
    pub(super) fn largest_namespaces(&self, count: usize) -> Vec<(Box<str>, usize)> {
        let mut largest: Vec<(Box<str>, usize)> = Vec::with_capacity(count + 1);
        for (namespace, NamespaceUsage { bytes, .. }) in &*lock(&self.namespaces) {
            let is_before = |(other, size): &(Box<str>, usize)| (Reverse(*size), other) < (Reverse(*bytes), namespace);
            let at = largest.partition_point(is_before);
            if at < count {
                largest.insert(at, (namespace.clone(), *bytes));
                largest.truncate(count);
            }
        }
        largest
    }

    pub(super) fn set_shed(&self, namespace: &str, is_shed: bool) {
        let mut namespaces = lock(&self.namespaces);
        let usage = namespaces.entry(namespace.into()).or_default();
        usage.is_shed = is_shed;
        if usage.is_unused() {
            namespaces.remove(namespace);
        }
    }

    /// The namespace with the most bytes that is not shed.
    pub(super) fn largest_whole_namespace(&self) -> Option<(Box<str>, usize)> {
        let namespaces = lock(&self.namespaces);
        let whole = namespaces.iter().filter(|(_, usage)| !usage.is_shed);
        let (namespace, usage) = whole.max_by_key(|(namespace, usage)| (usage.bytes, Reverse(&**namespace)))?;
        Some((namespace.clone(), usage.bytes))
    }

    /// See [`Snapshot::mean_whole_bytes`](super::Snapshot::mean_whole_bytes).
    pub(super) fn mean_whole_bytes(&self, namespace: &str) -> Option<usize> {
        let namespaces = lock(&self.namespaces);
        let usage = namespaces.get(namespace)?;
        (usage.bytes + usage.body_bytes).checked_div(usage.objects)
    }

    /// The shed namespaces with the bytes of their bodies, the smallest first.
    pub(super) fn shed_namespaces(&self) -> Vec<(Box<str>, usize)> {
        let namespaces = lock(&self.namespaces);
        let shed = namespaces.iter().filter(|(_, usage)| usage.is_shed);
        let mut shed: Vec<_> = shed
            .map(|(namespace, usage)| (namespace.clone(), usage.body_bytes))
            .collect();
        shed.sort_unstable_by(|(a, a_bytes), (b, b_bytes)| (a_bytes, a).cmp(&(b_bytes, b)));
        shed
    }
}

impl NamespaceUsage {
    fn is_unused(&self) -> bool {
        self.bytes == 0 && !self.is_shed
    }
}

/// What was written since the sums by namespace were updated. A row of writes to one namespace updates them once.
#[derive(Debug, Default)]
pub(super) struct NamespaceTally {
    namespace: String,
    added: Sums,
    removed: Sums,
}

/// Objects, their bytes, and those of the bodies that heads lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    objects: usize,
    bytes: usize,
    body_bytes: usize,
}

impl Sums {
    fn add(&mut self, object: Option<&Object>) {
        let Some(object) = object else { return };
        self.objects += 1;
        self.bytes += stored_bytes(object);
        self.body_bytes += object.whole_bytes() - object.size_bytes();
    }
}

impl NamespaceTally {
    /// Counts that `removed` was replaced by `added` in `namespace`.
    pub(super) fn count(
        &mut self,
        usage: &StoreUsage,
        namespace: &str,
        added: Option<&Object>,
        removed: Option<&Object>,
    ) {
        if self.namespace != namespace {
            self.flush(usage);
            self.namespace.clear();
            self.namespace.push_str(namespace);
        }
        self.added.add(added);
        self.removed.add(removed);
    }

    /// Updates the sum of the namespace.
    pub(super) fn flush(&mut self, usage: &StoreUsage) {
        let (added, removed) = (std::mem::take(&mut self.added), std::mem::take(&mut self.removed));
        if added == removed {
            return;
        }
        let mut namespaces = lock(&usage.namespaces);
        let before = namespaces.get(self.namespace.as_str()).copied().unwrap_or_default();
        let after = NamespaceUsage {
            objects: (before.objects + added.objects).saturating_sub(removed.objects),
            bytes: (before.bytes + added.bytes).saturating_sub(removed.bytes),
            body_bytes: (before.body_bytes + added.body_bytes).saturating_sub(removed.body_bytes),
            ..before
        };
        match namespaces.get_mut(self.namespace.as_str()) {
            _ if after.is_unused() => drop(namespaces.remove(self.namespace.as_str())),
            Some(usage) => *usage = after,
            None => drop(namespaces.insert(self.namespace.as_str().into(), after)),
        }
    }
}

/// Roots that readers may still hold, the oldest first, without the newest root.
#[derive(Clone, Debug, Default)]
struct HeldRoots(VecDeque<HeldRoot>);

#[derive(Clone, Debug)]
struct HeldRoot {
    root: Weak<Root>,
    bytes: usize,
    replaced_bytes: u64,
    reformed_bytes: u64,
}

impl HeldRoots {
    fn push(&mut self, root: &Arc<Root>) {
        while self.0.back().is_some_and(HeldRoot::is_free) {
            self.0.pop_back();
        }
        while self.0.front().is_some_and(HeldRoot::is_free) {
            self.0.pop_front();
        }
        if self.0.len() >= HELD_ROOTS_SOUGHT_MIN {
            self.0.retain(|held| !held.is_free());
        }
        self.0.push_back(HeldRoot {
            root: Arc::downgrade(root),
            bytes: root.bytes,
            replaced_bytes: root.replaced_bytes,
            reformed_bytes: root.reformed_bytes,
        });
    }

    /// An object that only held roots have was replaced between the last one that has it and the next one. So these
    /// roots keep at most what was replaced in between, and at most what they have. `replaced_bytes` is what was ever
    /// replaced before a root.
    fn bytes(&self, mut replaced_until: u64, replaced_bytes: impl Fn(&HeldRoot) -> u64) -> usize {
        let mut sum = 0;
        for held in self.0.iter().rev().filter(|held| !held.is_free()) {
            let replaced = replaced_until.saturating_sub(replaced_bytes(held));
            sum += usize::try_from(replaced).unwrap_or(usize::MAX).min(held.bytes);
            replaced_until = replaced_bytes(held);
        }
        sum
    }
}

impl HeldRoot {
    fn is_free(&self) -> bool {
        self.root.strong_count() == 0
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
