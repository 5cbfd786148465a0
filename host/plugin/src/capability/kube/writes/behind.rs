//! Keys of which the cache may lack writes, for their next call.

use std::collections::HashSet;
use std::time::Duration;

use informant_cache::Moment;
use informant_object::{Key, KeyRef, SourceId};

/// Keys of one plugin that are remembered: 1,000. Above it all keys count as behind for [`ALL_BEHIND`].
pub(crate) const BEHIND_KEYS_MAX: usize = 1_000;

/// See [`BEHIND_KEYS_MAX`]: 60 s.
const ALL_BEHIND: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct BehindKeys {
    keys: HashSet<(SourceId, Key)>,
    /// All keys are, until then.
    all_until: Option<Moment>,
}

impl BehindKeys {
    /// The cache has not seen a write of the last call about this key.
    pub(super) fn insert(&mut self, source: SourceId, key: Key, now: Moment) {
        if self.keys.len() >= BEHIND_KEYS_MAX {
            self.keys.clear();
            self.all_until = Some(now + ALL_BEHIND);
        }
        self.keys.insert((source, key));
    }

    /// Whether this key is among them, for a call that begins now.
    pub(super) fn contains(&self, source: SourceId, key: KeyRef<'_>, now: Moment) -> bool {
        let all_are = self.all_until.is_some_and(|until| now < until);
        all_are || (!self.keys.is_empty() && self.keys.contains(&(source, key.to_key())))
    }

    /// A call about this key has succeeded, and knew it.
    pub(super) fn remove(&mut self, source: SourceId, key: KeyRef<'_>) {
        if !self.keys.is_empty() {
            self.keys.remove(&(source, key.to_key()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: SourceId = SourceId(1);

    #[test]
    fn a_key_is_behind_until_a_call_succeeds() {
        let mut behind = BehindKeys::default();
        behind.insert(SOURCE, Key::new("web", "a"), Moment::ZERO);
        let has = |behind: &BehindKeys, name| behind.contains(SOURCE, KeyRef::new("web", name), Moment::ZERO);
        assert!(has(&behind, "a") && has(&behind, "a") && !has(&behind, "b"));
        behind.remove(SOURCE, KeyRef::new("web", "a"));
        assert!(!has(&behind, "a"));
    }

    #[test]
    fn above_the_limit_all_keys_are_behind_for_a_while() {
        let mut behind = BehindKeys::default();
        for number in 0..=BEHIND_KEYS_MAX {
            behind.insert(SOURCE, Key::new("web", &number.to_string()), Moment::ZERO);
        }
        assert!(behind.keys.len() <= BEHIND_KEYS_MAX);
        let other = KeyRef::new("web", "other");
        assert!(behind.contains(SOURCE, other, Moment::ZERO));
        assert!(!behind.contains(SOURCE, other, Moment::ZERO + ALL_BEHIND));
    }
}
