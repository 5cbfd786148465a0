//! The naive model of shards: which shard a key belongs to, and which shards received `Synced`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::schedule::retry_key;
use crate::listener::tests::*;

/// The naive model of shards.
pub(super) struct Shards {
    pub(super) count: Shard,
    /// How often the consumer asked.
    asked: u64,
    /// The store of each source: what it delivers keeps its shard.
    pub(super) stores: Arc<Mutex<BTreeMap<SourceId, u64>>>,
    pub(super) of_key: BTreeMap<(u64, String), Shard>,
    /// Which shards received `Synced` since the last replay.
    pub(super) synced: BTreeSet<(SourceId, Shard)>,
}

impl Default for Shards {
    fn default() -> Shards {
        Shards {
            count: 1,
            asked: 0,
            stores: Arc::default(),
            of_key: BTreeMap::new(),
            synced: BTreeSet::new(),
        }
    }
}

impl Shards {
    pub(super) fn all(&self) -> ShardSet {
        let mut all = ShardSet::default();
        (0..self.count).for_each(|shard| all.insert(shard));
        all
    }

    /// The consumer handles some shards and asks for others: all of them, or all but one, or one.
    pub(super) fn next_asked(&mut self) -> ShardSet {
        self.asked += 1;
        let one = (self.asked / 3 % u64::from(self.count)) as Shard;
        let mut asked = self.all();
        match self.asked % 3 {
            _ if self.count == 1 => {}
            0 => {}
            1 => asked.remove(one),
            _ => (0..self.count)
                .filter(|shard| *shard != one)
                .for_each(|shard| asked.remove(shard)),
        }
        asked
    }

    pub(super) fn check(&mut self, delivery: &Delivery, asked: ShardSet) {
        let line = shown(delivery);
        assert!(asked.contains(delivery.shard), "{line}: for {asked:?}");
        let (source, name) = retry_key(delivery);
        if name.is_empty() {
            self.synced.insert((source, delivery.shard));
            return;
        }
        let store = self.stores.lock().unwrap()[&source];
        let shard = *self.of_key.entry((store, name)).or_insert(delivery.shard);
        assert_eq!(shard, delivery.shard, "{line}: another shard than before");
    }

    pub(super) fn check_synced(&self, source: SourceId) {
        let received = (0..self.count).filter(|shard| self.synced.contains(&(source, *shard)));
        assert_eq!(received.count(), usize::from(self.count), "each shard receives synced");
    }
}
