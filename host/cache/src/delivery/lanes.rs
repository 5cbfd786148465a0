//! Lanes: which of several consumers at one listener a key belongs to.
//!
//! A listener for a plugin with several instances has as many lanes. A key keeps its lane, also when its source is
//! replaced by another one of the same cluster and resource. With one lane nothing is hashed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informant_object::{KeyRef, SourceId};

use crate::ResourceIdentity;
use crate::seeded_bug::{SeededBug, seeded_bug};

/// How many lanes a listener may have: 64.
pub const LANES_MAX: u8 = 64;

/// The number of a lane, from 0.
pub type Lane = u8;

/// A set of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSet(u64);

/// Which cluster and resource a source delivers.
pub type ResourceIdentities = Arc<dyn Fn(SourceId) -> ResourceIdentity + Send + Sync>;

/// Assigns keys to lanes.
pub(crate) struct LaneMap {
    count: Lane,
    identity: Option<ResourceIdentities>,
    /// The identities of attached sources.
    known: BTreeMap<SourceId, ResourceIdentity>,
}

impl LaneSet {
    /// The only lane of a listener without lanes.
    pub const FIRST: LaneSet = LaneSet(1);

    /// Adds a lane below [`LANES_MAX`].
    pub fn insert(&mut self, lane: Lane) {
        self.0 |= 1 << lane;
    }

    /// Removes a lane.
    pub fn remove(&mut self, lane: Lane) {
        self.0 &= !(1 << lane);
    }

    /// Whether the lane is in it.
    #[must_use]
    pub fn contains(self, lane: Lane) -> bool {
        self.0 & (1 << lane) != 0
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its lanes, in order.
    pub fn iter(self) -> impl Iterator<Item = Lane> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let lane = u8::try_from(left.trailing_zeros()).ok().filter(|_| left != 0)?;
            left &= left - 1;
            Some(lane)
        })
    }
}

impl LaneSet {
    /// Its lanes in order, beginning with those from `first` on.
    pub(crate) fn iter_from(self, first: Lane) -> impl Iterator<Item = Lane> {
        let from_first = u64::MAX.checked_shl(first.into()).unwrap_or(0);
        LaneSet(self.0 & from_first)
            .iter()
            .chain(LaneSet(self.0 & !from_first).iter())
    }
}

impl LaneMap {
    pub(crate) fn new() -> LaneMap {
        LaneMap {
            count: 1,
            identity: None,
            known: BTreeMap::new(),
        }
    }

    /// Uses `count` lanes from now on, at least one and at most [`LANES_MAX`], for these sources and later ones.
    pub(crate) fn set(&mut self, count: Lane, identity: ResourceIdentities, sources: &[SourceId]) {
        self.count = count.clamp(1, LANES_MAX);
        self.identity = Some(identity);
        self.known.clear();
        sources.iter().for_each(|source| self.attached(*source));
    }

    pub(crate) fn count(&self) -> Lane {
        self.count
    }

    /// A source was attached.
    pub(crate) fn attached(&mut self, source: SourceId) {
        if self.count > 1 {
            self.known.insert(source, self.identify(source));
        }
    }

    /// A source was detached.
    pub(crate) fn detached(&mut self, source: SourceId) {
        self.known.remove(&source);
    }

    /// The lane of a key.
    pub(crate) fn of(&self, source: SourceId, key: KeyRef<'_>) -> Lane {
        if self.count == 1 {
            return 0;
        }
        let known = self.known.get(&source).copied();
        let resource = known.unwrap_or_else(|| self.identify(source));
        resource.object(key).range(self.count)
    }

    fn identify(&self, source: SourceId) -> ResourceIdentity {
        match &self.identity {
            Some(identity) if !seeded_bug(SeededBug::LaneFollowsSource) => identity(source),
            _ => ResourceIdentity::new("", "", &source.to_string()),
        }
    }
}

impl fmt::Debug for LaneMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneMap")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_lists_its_lanes_in_order() {
        let mut set = LaneSet::default();
        assert!(set.is_empty());
        [63, 0, 7, 7].into_iter().for_each(|lane| set.insert(lane));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 7, 63]);
        for (first, lanes) in [(0, [0, 7, 63]), (7, [7, 63, 0]), (8, [63, 0, 7]), (64, [0, 7, 63])] {
            assert_eq!(set.iter_from(first).collect::<Vec<_>>(), lanes);
        }
        set.remove(0);
        set.remove(63);
        assert_eq!(set.iter().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn keys_spread_evenly_and_keep_their_lane_under_another_source() {
        let mut lane_map = LaneMap::new();
        // Sources 1 and 2 deliver the same objects, 3 others.
        lane_map.set(
            16,
            Arc::new(|source| ResourceIdentity::new("", "", &(source.0 / 3).to_string())),
            &[SourceId(1)],
        );
        let mut counts = [0; 16];
        let mut moved = 0;
        for number in 0..16_000 {
            let name = format!("web-{number}");
            let key = KeyRef {
                namespace: "default",
                name: &name,
            };
            let lane = lane_map.of(SourceId(1), key);
            assert_eq!(lane, lane_map.of(SourceId(2), key));
            moved += usize::from(lane != lane_map.of(SourceId(3), key));
            counts[usize::from(lane)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        assert!(moved > 14_000, "other objects of the same name: {moved}");
    }
}
