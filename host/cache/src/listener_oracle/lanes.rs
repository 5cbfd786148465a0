//! Lanes: which of several consumers at one listener a key belongs to.
//!
//! A listener for a plugin with several instances has as many lanes. A key keeps its lane, also when its source is
//! replaced by another one of the same cluster and resource. With one lane nothing is hashed.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use informant_object::{KeyRef, SourceId};

use crate::seeded_bug::{SeededBug, seeded_bug};

/// How many lanes a listener may have: 64.
pub const LANES_MAX: u8 = 64;

/// The seed of the lanes. Fixed, so that a key has the same lane in every listener and every process.
const LANE_SEED: u64 = 0x1a2b_3c4d_5e6f_7081;

/// The number of a lane, from 0.
pub type Lane = u8;

/// A set of lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneSet(u64);

/// A number for the cluster and the resource of a source: the same for two sources that deliver the same objects.
pub type ResourceIdentities = Arc<dyn Fn(SourceId) -> crate::ResourceIdentity + Send + Sync>;

/// Assigns keys to lanes.
pub(super) struct LaneMap {
    count: Lane,
    identity: Option<ResourceIdentities>,
    /// The identities of attached sources.
    known: BTreeMap<SourceId, crate::ResourceIdentity>,
    hasher: FixedState,
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
    pub(super) fn iter_from(self, first: Lane) -> impl Iterator<Item = Lane> {
        let from_first = u64::MAX.checked_shl(first.into()).unwrap_or(0);
        LaneSet(self.0 & from_first)
            .iter()
            .chain(LaneSet(self.0 & !from_first).iter())
    }
}

impl LaneMap {
    pub(super) fn new() -> LaneMap {
        LaneMap {
            count: 1,
            identity: None,
            known: BTreeMap::new(),
            hasher: FixedState::with_seed(LANE_SEED),
        }
    }

    /// Uses `count` lanes from now on, at least one and at most [`LANES_MAX`], for these sources and later ones.
    pub(super) fn set(&mut self, count: Lane, identity: ResourceIdentities, sources: &[SourceId]) {
        self.count = count.clamp(1, LANES_MAX);
        self.identity = Some(identity);
        self.known.clear();
        sources.iter().for_each(|source| self.attached(*source));
    }

    pub(super) fn count(&self) -> Lane {
        self.count
    }

    /// A source was attached.
    pub(super) fn attached(&mut self, source: SourceId) {
        if self.count > 1 {
            self.known.insert(source, self.identify(source));
        }
    }

    /// A source was detached.
    pub(super) fn detached(&mut self, source: SourceId) {
        self.known.remove(&source);
    }

    /// The lane of a key.
    pub(super) fn of(&self, source: SourceId, key: KeyRef<'_>) -> Lane {
        if self.count == 1 {
            return 0;
        }
        let known = self.known.get(&source).copied();
        let identity = known.unwrap_or_else(|| self.identify(source));
        identity.object(key).range(self.count)
    }

    fn identify(&self, source: SourceId) -> crate::ResourceIdentity {
        match &self.identity {
            Some(identity) => identity(source),
            None => crate::ResourceIdentity::new("", "", ""),
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
