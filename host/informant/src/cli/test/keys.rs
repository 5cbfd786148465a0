//! The keys of the plugin under test, in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex};

use informant_plugin_host::{KeyValue, KvChange, KvHandled, KvOpening, KvSpace, KvUsage};

use crate::sync::lock;

/// Keys and values. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Keys(Arc<Mutex<BTreeMap<String, Arc<[u8]>>>>);

impl Keys {
    pub(super) fn of(values: &[(String, Vec<u8>)]) -> Keys {
        let values = values.iter().map(|(key, value)| (key.clone(), value.as_slice().into()));
        Keys(Arc::new(Mutex::new(values.collect())))
    }

    pub(super) fn value(&self, key: &str) -> Option<Arc<[u8]>> {
        lock(&self.0).get(key).cloned()
    }
}

impl KeyValue for Keys {
    fn open(&self, _plugin: &str) -> KvOpening {
        let keys = self.clone();
        Box::pin(async { Ok(Arc::new(keys) as Arc<dyn KvSpace>) })
    }
}

impl KvSpace for Keys {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.value(key)
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        let values = lock(&self.0);
        let from = match cursor >= prefix && !cursor.is_empty() {
            true => Bound::Excluded(cursor),
            false => Bound::Included(prefix),
        };
        let after = values.range::<str, _>((from, Bound::Unbounded)).map(|(key, _)| key);
        after
            .take_while(|key| key.starts_with(prefix))
            .take(max)
            .cloned()
            .collect()
    }

    fn usage(&self) -> KvUsage {
        let values = lock(&self.0);
        KvUsage {
            keys: values.len(),
            bytes: values.iter().map(|(key, value)| key.len() + value.len()).sum(),
        }
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>) {
        {
            let mut values = lock(&self.0);
            for (key, value) in changes {
                match value {
                    Some(value) => drop(values.insert(key, value)),
                    None => drop(values.remove(&key)),
                }
            }
        }
        if let Some(handled) = handled {
            (handled.report)();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_listed_by_prefix_after_a_cursor() {
        let keys = Keys::of(&["a", "b/1", "b/2", "b/3", "c"].map(|key| (key.to_owned(), Vec::new())));
        assert_eq!(KvSpace::keys(&keys, "b/", "", 2), ["b/1", "b/2"]);
        assert_eq!(KvSpace::keys(&keys, "b/", "b/2", 9), ["b/3"]);
        assert_eq!(KvSpace::keys(&keys, "", "b/3", 9), ["c"]);
        assert_eq!(KvSpace::keys(&keys, "b/", "a", 9), ["b/1", "b/2", "b/3"]);
    }
}
