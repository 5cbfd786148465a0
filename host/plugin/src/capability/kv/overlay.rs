//! The keys of a plugin in dry run: what it changes is seen by its later calls, and stored nowhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use super::key_value::{KvChange, KvHandled, KvSpace, KvUsage};
use crate::effects::Effects;
use crate::observed::{Effect, EffectKind};
use crate::sync::lock;

/// Changes over the keys that are stored. The quota bounds the new values, and what is stored bounds the deleted keys.
pub(super) struct Overlay {
    stored: Arc<dyn KvSpace>,
    effects: Arc<Effects>,
    changes: Mutex<Changes>,
}

#[derive(Default)]
struct Changes {
    /// The new values; none: the key is stored, and deleted here.
    values: BTreeMap<String, Option<Arc<[u8]>>>,
    /// By how much there are more keys and bytes than stored.
    keys: isize,
    bytes: isize,
}

impl Overlay {
    pub(super) fn new(stored: Arc<dyn KvSpace>, effects: Arc<Effects>) -> Overlay {
        Overlay {
            stored,
            effects,
            changes: Mutex::default(),
        }
    }

    #[cfg(test)]
    pub(super) fn changed_keys(&self) -> Vec<String> {
        self.lock().values.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        // Only counts can be wrong after a panic.
        lock(&self.changes)
    }
}

impl KvSpace for Overlay {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        match self.lock().values.get(key) {
            Some(value) => value.clone(),
            None => self.stored.get(key),
        }
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        let changes = self.lock();
        merged(&*self.stored, &changes.values, prefix, cursor, max)
    }

    fn usage(&self) -> KvUsage {
        let (stored, changes) = (self.stored.usage(), self.lock());
        KvUsage {
            keys: stored.keys.saturating_add_signed(changes.keys),
            bytes: stored.bytes.saturating_add_signed(changes.bytes),
        }
    }

    /// What is stored nowhere cannot fail.
    fn failure(&self) -> Option<String> {
        None
    }

    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>) {
        let mut kept = self.lock();
        for (key, value) in changes {
            self.effects.record(effect(&key, value.as_deref()));
            let stored = self.stored.get(&key);
            let is_stored = stored.is_some();
            let before = kept.values.get(&key).cloned().unwrap_or(stored);
            let (keys_before, bytes_before) = size(&key, before.as_deref());
            let (keys, bytes) = size(&key, value.as_deref());
            kept.keys += keys - keys_before;
            kept.bytes += bytes - bytes_before;
            match value {
                None if !is_stored => drop(kept.values.remove(&key)),
                value => drop(kept.values.insert(key, value)),
            }
        }
        drop(kept);
        if let Some(handled) = handled {
            (handled.report)();
        }
    }
}

/// The first `max` keys that start with `prefix` and sort after `cursor`, of those stored and their changes.
pub(super) fn merged(
    stored: &dyn KvSpace,
    changes: &BTreeMap<String, Option<Arc<[u8]>>>,
    prefix: &str,
    cursor: &str,
    max: usize,
) -> Vec<String> {
    // Each change hides at most one key.
    let base = stored.keys(prefix, cursor, max + changes.len());
    let mut keys: BTreeSet<String> = base.into_iter().collect();
    for (key, value) in changes {
        match value {
            Some(_) if key.starts_with(prefix) && key.as_str() > cursor => drop(keys.insert(key.clone())),
            Some(_) => {}
            None => drop(keys.remove(key)),
        }
    }
    keys.into_iter().take(max).collect()
}

/// The change of a key: its new value, or none if it is deleted.
pub(super) fn effect(key: &str, value: Option<&[u8]>) -> Effect {
    let action = if value.is_some() { "set" } else { "delete" };
    Effect {
        detail: value.map(|value| format!("{} B", value.len())).unwrap_or_default(),
        ..Effect::new(EffectKind::Kv, action, key)
    }
}

/// Keys and bytes that a key takes.
fn size(key: &str, value: Option<&[u8]>) -> (isize, isize) {
    value.map_or((0, 0), |value| (1, (key.len() + value.len()).cast_signed()))
}
