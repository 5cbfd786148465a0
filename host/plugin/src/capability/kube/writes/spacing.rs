//! Detects a handler that writes to the same object again and again, and spaces the calls of the key that causes it.
//!
//! The usual cause is an echo: the handler reacts to its own write, or to that of another controller which reverts it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use informant_cache::Moment;
use informant_object::{Key, SourceId};

use crate::capability::kube::writes::Target;

/// Effective writes to one object within [`SPACING_WINDOW`] from which on the key is spaced: 10.
pub(crate) const SPACING_WRITES: usize = 10;

/// See [`SPACING_WRITES`]: 60 s.
pub(crate) const SPACING_WINDOW: Duration = Duration::from_secs(60);

/// The first wait of a spaced key: 1 s. It doubles with each further write.
pub(crate) const SPACING_MIN: Duration = Duration::from_secs(1);

/// The longest wait of a spaced key: 5 min.
pub(crate) const SPACING_MAX: Duration = Duration::from_secs(300);

/// Objects of one plugin whose writes are counted: 10,000. Further ones are not, until others have been quiet for
/// [`SPACING_WINDOW`].
pub(crate) const SPACING_TARGETS_MAX: usize = 10_000;

/// Keys of one plugin whose waits grow: 10,000. Each further one waits for [`SPACING_MIN`], and is not listed.
pub(crate) const SPACED_KEYS_MAX: usize = 10_000;

/// Between two searches for what is over, which visit everything: 1 s.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(crate) struct Spacing {
    recent: HashMap<Target, VecDeque<Moment>>,
    spaced: HashMap<(SourceId, Key), SpacedKey>,
    next_sweep: Option<Moment>,
}

/// A key whose calls are spaced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SpacedKey {
    target: Target,
    wait: Duration,
    until: Moment,
}

/// A key whose calls are spaced, because its handler writes to one object again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritingKey {
    /// The source of the event's object.
    pub source: SourceId,
    /// The key of the event's object.
    pub key: Key,
    /// The object that is written to.
    pub target: String,
    /// How long its next call waits after the last one.
    pub wait: Duration,
}

impl Spacing {
    /// Whether a key may be spaced after it has changed `targets`: one more write to one of them is too many, or some
    /// key is spaced.
    pub(crate) fn may_space(&self, targets: &[Target]) -> bool {
        let is_near = |target| {
            self.recent
                .get(target)
                .is_some_and(|times| times.len() + targets.len() >= SPACING_WRITES)
        };
        !targets.is_empty()
            && (!self.spaced.is_empty() || targets.len() >= SPACING_WRITES || targets.iter().any(is_near))
    }

    /// A call for `key` has changed `target`. Returns how long the key's next call waits, if it is spaced.
    pub(crate) fn wrote(&mut self, source: SourceId, key: &Key, target: &Target, now: Moment) -> Option<Duration> {
        let is_often = self.count(target, now);
        let key = (source, key.clone());
        let before = self.spaced.get(&key).filter(|spaced| !spaced.has_calmed_down(now));
        let wait = match before {
            Some(spaced) => (spaced.wait * 2).min(SPACING_MAX),
            None if is_often => SPACING_MIN,
            None => return None,
        };
        if self.spaced.len() >= SPACED_KEYS_MAX && !self.spaced.contains_key(&key) {
            self.sweep(now);
            if self.spaced.len() >= SPACED_KEYS_MAX {
                return Some(wait);
            }
        }
        let spaced = SpacedKey {
            target: target.clone(),
            wait,
            until: now + wait,
        };
        self.spaced.insert(key, spaced);
        Some(wait)
    }

    /// The first `max` keys that are spaced, by source and key, and how many there are.
    pub(crate) fn keys(&mut self, now: Moment, max: usize) -> (usize, Vec<WritingKey>) {
        self.spaced.retain(|_, spaced| !spaced.has_calmed_down(now));
        let mut keys: Vec<WritingKey> = self
            .spaced
            .iter()
            .map(|((source, key), spaced)| WritingKey {
                source: *source,
                key: key.clone(),
                target: spaced.target.to_string(),
                wait: spaced.wait,
            })
            .collect();
        keys.sort_unstable_by(|a, b| (a.source, &a.key).cmp(&(b.source, &b.key)));
        keys.truncate(max);
        (self.spaced.len(), keys)
    }

    /// Counts a write; returns whether there were too many.
    pub(crate) fn count(&mut self, target: &Target, now: Moment) -> bool {
        if self.recent.len() >= SPACING_TARGETS_MAX && !self.recent.contains_key(target) {
            self.sweep(now);
            if self.recent.len() >= SPACING_TARGETS_MAX {
                return false;
            }
        }
        let times = self.recent.entry(target.clone()).or_default();
        times.push_back(now);
        if times.len() > SPACING_WRITES {
            times.pop_front();
        }
        times.len() == SPACING_WRITES && times.front().is_some_and(|first| !is_old(*first, now))
    }

    /// Forgets objects and keys that have been quiet, if that was not tried just now.
    fn sweep(&mut self, now: Moment) {
        if self.next_sweep.is_some_and(|next| now < next) {
            return;
        }
        self.next_sweep = Some(now + SWEEP_INTERVAL);
        self.recent
            .retain(|_, times| times.back().is_some_and(|last| !is_old(*last, now)));
        self.spaced.retain(|_, spaced| !spaced.has_calmed_down(now));
    }
}

fn is_old(at: Moment, now: Moment) -> bool {
    now - at > SPACING_WINDOW
}

impl SpacedKey {
    /// It has not written for a while, although it could.
    fn has_calmed_down(&self, now: Moment) -> bool {
        now > self.until + SPACING_WINDOW
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::kube::api::KubeAddress;

    const SECOND: Duration = Duration::from_secs(1);

    fn target(name: &str) -> Target {
        Target::new(&KubeAddress::of_pod(name), name)
    }

    fn wrote(spacing: &mut Spacing, name: &str, now: Moment) -> Option<Duration> {
        spacing.wrote(SourceId(1), &Key::new("web", name), &target(name), now)
    }

    #[test]
    fn ten_writes_in_a_minute_space_the_key() {
        let mut spacing = Spacing::default();
        let mut now = Moment::ZERO + SECOND;
        for _ in 0..9 {
            assert_eq!(wrote(&mut spacing, "a", now), None);
        }
        let mut waits = Vec::new();
        for _ in 0..11 {
            let wait = wrote(&mut spacing, "a", now).unwrap();
            waits.push(wait.as_secs());
            now += wait;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        assert_eq!(wrote(&mut spacing, "b", now), None, "only that key");
        let (count, keys) = spacing.keys(now, 3);
        assert_eq!((count, keys[0].key.to_string().as_str()), (1, "web/a"));
        assert_eq!(keys[0].target, "v1/pods web/a");
    }

    #[test]
    fn a_key_that_calms_down_is_spaced_no_longer() {
        let mut spacing = Spacing::default();
        let mut now = Moment::ZERO + SECOND;
        let waits = (0..10).filter_map(|_| wrote(&mut spacing, "a", now)).count();
        assert_eq!(waits, 1);
        now += SPACING_MIN + SPACING_WINDOW + SECOND;
        assert_eq!(spacing.keys(now, 3).0, 0);
        assert_eq!(wrote(&mut spacing, "a", now), None);
    }

    #[test]
    fn slow_writes_are_never_spaced() {
        let mut spacing = Spacing::default();
        let times = (0..100).map(|number| Moment::ZERO + 7 * SECOND * number);
        assert!(times.into_iter().all(|now| wrote(&mut spacing, "a", now).is_none()));
    }

    #[test]
    fn counted_objects_are_bounded() {
        let mut spacing = Spacing::default();
        let now = Moment::ZERO + SECOND;
        for number in 0..SPACING_TARGETS_MAX + 10 {
            wrote(&mut spacing, &format!("pod-{number}"), now);
        }
        assert_eq!(spacing.recent.len(), SPACING_TARGETS_MAX);
        wrote(&mut spacing, "late", now + 2 * SPACING_WINDOW);
        assert_eq!(spacing.recent.len(), 1);
    }

    #[test]
    fn spaced_keys_are_bounded() {
        let mut spacing = Spacing::default();
        let now = Moment::ZERO + SECOND;
        let mut write = |number: usize, now| {
            let key = Key::new("web", &format!("pod-{number}"));
            spacing.wrote(SourceId(1), &key, &target("shared"), now);
            spacing.spaced.len()
        };
        let largest = (0..SPACED_KEYS_MAX + 100).map(|number| write(number, now)).max();
        assert_eq!(largest, Some(SPACED_KEYS_MAX));
        let later = now + SPACING_MIN + 2 * SPACING_WINDOW;
        assert_eq!((0..10).map(|number| write(number, later)).max(), Some(SPACED_KEYS_MAX));
        assert_eq!(write(SPACED_KEYS_MAX + 100, later), 2, "quiet ones are forgotten");
    }
}
