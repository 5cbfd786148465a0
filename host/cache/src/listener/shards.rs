//! Shards: which of several consumers at one listener a key belongs to.
//!
//! A listener for a plugin with several instances has as many shards. A key keeps its shard, also when its source is
//! replaced by another one of the same cluster and resource. With one shard nothing is hashed.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::FixedState;
use informant_object::{KeyRef, SourceId};

use crate::seeded_bug::{SeededBug, seeded_bug};

/// How many shards a listener may have: 64.
pub const SHARDS_MAX: u8 = 64;

/// The seed of the shards. Fixed, so that a key has the same shard in every listener and every process.
const SHARD_SEED: u64 = 0x1a2b_3c4d_5e6f_7081;

/// The number of a shard, from 0.
pub type Shard = u8;

/// A set of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(u64);

/// A number for the cluster and the resource of a source: the same for two sources that deliver the same objects.
pub type SourceHash = Arc<dyn Fn(SourceId) -> u64 + Send + Sync>;

/// Assigns keys to shards.
pub(super) struct Sharding {
    count: Shard,
    identity: Option<SourceHash>,
    /// The identities of attached sources.
    known: BTreeMap<SourceId, u64>,
    hasher: FixedState,
}

impl ShardSet {
    /// The only shard of a listener without shards.
    pub const FIRST: ShardSet = ShardSet(1);

    /// Adds a shard below [`SHARDS_MAX`].
    pub fn insert(&mut self, shard: Shard) {
        self.0 |= 1 << shard;
    }

    /// Removes a shard.
    pub fn remove(&mut self, shard: Shard) {
        self.0 &= !(1 << shard);
    }

    /// Whether the shard is in it.
    #[must_use]
    pub fn contains(self, shard: Shard) -> bool {
        self.0 & (1 << shard) != 0
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its shards, in order.
    pub fn iter(self) -> impl Iterator<Item = Shard> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let shard = u8::try_from(left.trailing_zeros()).ok().filter(|_| left != 0)?;
            left &= left - 1;
            Some(shard)
        })
    }
}

impl ShardSet {
    /// Its shards in order, beginning with those from `first` on.
    pub(super) fn iter_from(self, first: Shard) -> impl Iterator<Item = Shard> {
        let from_first = u64::MAX.checked_shl(first.into()).unwrap_or(0);
        ShardSet(self.0 & from_first)
            .iter()
            .chain(ShardSet(self.0 & !from_first).iter())
    }
}

impl Sharding {
    pub(super) fn new() -> Sharding {
        Sharding {
            count: 1,
            identity: None,
            known: BTreeMap::new(),
            hasher: FixedState::with_seed(SHARD_SEED),
        }
    }

    /// Uses `count` shards from now on, at least one and at most [`SHARDS_MAX`], for these sources and later ones.
    pub(super) fn set(&mut self, count: Shard, identity: SourceHash, sources: &[SourceId]) {
        self.count = count.clamp(1, SHARDS_MAX);
        self.identity = Some(identity);
        self.known.clear();
        sources.iter().for_each(|source| self.attached(*source));
    }

    pub(super) fn count(&self) -> Shard {
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

    /// The shard of a key.
    pub(super) fn of(&self, source: SourceId, key: KeyRef<'_>) -> Shard {
        if self.count == 1 {
            return 0;
        }
        let known = self.known.get(&source).copied();
        let identity = known.unwrap_or_else(|| self.identify(source));
        let hash = self.hasher.hash_one((identity, key));
        // Below the count, which is a `u8`.
        (hash % u64::from(self.count)) as Shard
    }

    fn identify(&self, source: SourceId) -> u64 {
        if seeded_bug(SeededBug::ShardFollowsSource) {
            return source.0.into();
        }
        self.identity.as_ref().map_or(0, |identity| identity(source))
    }
}

impl fmt::Debug for Sharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharding")
            .field("count", &self.count)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_lists_its_shards_in_order() {
        let mut set = ShardSet::default();
        assert!(set.is_empty());
        [63, 0, 7, 7].into_iter().for_each(|shard| set.insert(shard));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 7, 63]);
        for (first, shards) in [(0, [0, 7, 63]), (7, [7, 63, 0]), (8, [63, 0, 7]), (64, [0, 7, 63])] {
            assert_eq!(set.iter_from(first).collect::<Vec<_>>(), shards);
        }
        set.remove(0);
        set.remove(63);
        assert_eq!(set.iter().collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn keys_spread_evenly_and_keep_their_shard_under_another_source() {
        let mut sharding = Sharding::new();
        // Sources 1 and 2 deliver the same objects, 3 others.
        sharding.set(16, Arc::new(|source| u64::from(source.0 / 3)), &[SourceId(1)]);
        let mut counts = [0; 16];
        let mut moved = 0;
        for number in 0..16_000 {
            let name = format!("web-{number}");
            let key = KeyRef {
                namespace: "default",
                name: &name,
            };
            let shard = sharding.of(SourceId(1), key);
            assert_eq!(shard, sharding.of(SourceId(2), key));
            moved += usize::from(shard != sharding.of(SourceId(3), key));
            counts[usize::from(shard)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        assert!(moved > 14_000, "other objects of the same name: {moved}");
    }
}
