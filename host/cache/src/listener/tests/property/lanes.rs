//! The naive model of lanes: which lane a key belongs to, and which lanes received `Synced`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::schedule::retry_key;
use crate::listener::tests::*;

/// The naive model of lanes.
pub(super) struct Lanes {
    pub(super) count: Lane,
    /// How often the consumer asked.
    asked: u64,
    /// The store of each source: what it delivers keeps its lane.
    pub(super) stores: Arc<Mutex<BTreeMap<SourceId, u64>>>,
    pub(super) of_key: BTreeMap<(u64, String), Lane>,
    /// Which lanes received `Synced` since the last replay.
    pub(super) synced: BTreeSet<(SourceId, Lane)>,
}

impl Default for Lanes {
    fn default() -> Lanes {
        Lanes {
            count: 1,
            asked: 0,
            stores: Arc::default(),
            of_key: BTreeMap::new(),
            synced: BTreeSet::new(),
        }
    }
}

impl Lanes {
    pub(super) fn all(&self) -> LaneSet {
        let mut all = LaneSet::default();
        (0..self.count).for_each(|lane| all.insert(lane));
        all
    }

    /// The consumer handles some lanes and asks for others: all of them, or all but one, or one.
    pub(super) fn next_asked(&mut self) -> LaneSet {
        self.asked += 1;
        let one = (self.asked / 3 % u64::from(self.count)) as Lane;
        let mut asked = self.all();
        match self.asked % 3 {
            _ if self.count == 1 => {}
            0 => {}
            1 => asked.remove(one),
            _ => (0..self.count)
                .filter(|lane| *lane != one)
                .for_each(|lane| asked.remove(lane)),
        }
        asked
    }

    pub(super) fn check(&mut self, delivery: &Delivery, asked: LaneSet) {
        let line = shown(delivery);
        assert!(asked.contains(delivery.lane), "{line}: for {asked:?}");
        let (source, name) = retry_key(delivery);
        if name.is_empty() {
            self.synced.insert((source, delivery.lane));
            return;
        }
        let store = self.stores.lock().unwrap()[&source];
        let lane = *self.of_key.entry((store, name)).or_insert(delivery.lane);
        assert_eq!(lane, delivery.lane, "{line}: another lane than before");
    }

    pub(super) fn check_synced(&self, source: SourceId) {
        let received = (0..self.count).filter(|lane| self.synced.contains(&(source, *lane)));
        assert_eq!(received.count(), usize::from(self.count), "each lane receives synced");
    }
}
