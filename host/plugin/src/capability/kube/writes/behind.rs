//! What the cache had not seen of a reconciler's calls when their events ended.

use std::collections::HashMap;
use std::time::Duration;

use informant_cache::Moment;
use informant_object::{Key, SourceId};

use super::Written;

/// Keys of one plugin whose writes are remembered: 1,000. Above it all keys count as behind for [`ALL_BEHIND`].
pub(crate) const BEHIND_KEYS_MAX: usize = 1_000;

/// Writes of one key that are remembered: 16. The cache sees those of one call at about the same time.
const BEHIND_WRITES_MAX: usize = 16;

/// See [`BEHIND_KEYS_MAX`]: 60 s.
const ALL_BEHIND: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct BehindKeys {
    keys: HashMap<(SourceId, Key), Vec<Written>>,
    /// All keys are, until then.
    all_until: Option<Moment>,
}

impl BehindKeys {
    /// The cache has not seen `written` of a call about this key.
    pub(super) fn insert(&mut self, source: SourceId, key: Key, written: impl Iterator<Item = Written>, now: Moment) {
        if self.keys.len() >= BEHIND_KEYS_MAX {
            self.keys.clear();
            self.all_until = Some(now + ALL_BEHIND);
        }
        let writes = self.keys.entry((source, key)).or_default();
        let left = BEHIND_WRITES_MAX.saturating_sub(writes.len());
        writes.extend(written.take(left));
    }

    /// Whether the cache lacks a write of this key, of which it has those that are `seen` by now.
    pub(super) fn is_behind(
        &mut self,
        source: SourceId,
        key: impl FnOnce() -> Key,
        now: Moment,
        seen: impl Fn(&Written) -> bool,
    ) -> bool {
        let all_are = self.all_until.is_some_and(|until| now < until);
        if all_are || self.keys.is_empty() {
            return all_are;
        }
        let key = (source, key());
        let Some(writes) = self.keys.get_mut(&key) else {
            return false;
        };
        writes.retain(|write| !seen(write));
        let is_behind = !writes.is_empty();
        if !is_behind {
            self.keys.remove(&key);
        }
        is_behind
    }

    /// Whether a write of this key is one that `is_coming`.
    pub(super) fn awaits(
        &self,
        source: SourceId,
        key: impl FnOnce() -> Key,
        is_coming: impl Fn(&Written) -> bool,
    ) -> bool {
        !self.keys.is_empty()
            && self
                .keys
                .get(&(source, key()))
                .is_some_and(|writes| writes.iter().any(is_coming))
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::capability::kube::api::KubeAddress;

    const SOURCE: SourceId = SourceId(1);

    fn write(name: &str) -> Written {
        Written::of(KubeAddress::of_pod(name), None, None)
    }

    #[test]
    fn a_key_is_behind_until_its_writes_are_seen() {
        let mut behind = BehindKeys::default();
        behind.insert(
            SOURCE,
            Key::new("web", "a"),
            [write("x"), write("y")].into_iter(),
            Moment::ZERO,
        );
        let mut is_behind = |name: &str, seen: &[&str]| {
            let is_seen = |it: &Written| seen.iter().any(|seen| *it == write(seen));
            behind.is_behind(SOURCE, || Key::new("web", name), Moment::ZERO, is_seen)
        };
        assert!(is_behind("a", &[]) && is_behind("a", &["x"]) && !is_behind("b", &[]));
        assert!(!is_behind("a", &["y"]));
        assert!(!is_behind("a", &[]));
    }

    #[test]
    fn above_the_limit_all_keys_are_behind_for_a_while() {
        let mut behind = BehindKeys::default();
        for number in 0..=BEHIND_KEYS_MAX {
            let key = Key::new("web", &number.to_string());
            behind.insert(SOURCE, key, [write("x")].into_iter(), Moment::ZERO);
        }
        assert!(behind.keys.len() <= BEHIND_KEYS_MAX);
        let mut other = |now| behind.is_behind(SOURCE, || Key::new("web", "other"), now, |_| false);
        assert!(other(Moment::ZERO) && !other(Moment::ZERO + ALL_BEHIND));
    }
}
