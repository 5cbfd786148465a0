//! [`Contests`]: the elections that a replica takes part in.

use std::collections::BTreeMap;
use std::sync::Arc;

use informant_cache::Moment;

use crate::election::{Election, Task};
use crate::members::Candidates;
use crate::times::LeaseTimes;

/// An election, and what was last passed to it.
#[derive(Debug)]
pub(super) struct Contest {
    pub(super) election: Election,
    pub(super) candidates: Candidates,
    pub(super) task: Task,
}

/// The elections of the shards. That of the first one is always there.
#[derive(Debug)]
pub(super) struct Contests {
    pub(super) first: Contest,
    others: BTreeMap<u8, Contest>,
}

impl Contest {
    pub(super) fn new(now: Moment, identity: Arc<str>, times: LeaseTimes, task: Task) -> Contest {
        Contest {
            election: Election::new(now, identity, times, task),
            candidates: Candidates::default(),
            task,
        }
    }
}

impl Contests {
    pub(super) fn new(first: Contest) -> Contests {
        Contests {
            first,
            others: BTreeMap::new(),
        }
    }

    pub(super) fn get(&self, shard: u8) -> Option<&Contest> {
        match shard {
            0 => Some(&self.first),
            shard => self.others.get(&shard),
        }
    }

    pub(super) fn get_mut(&mut self, shard: u8) -> Option<&mut Contest> {
        match shard {
            0 => Some(&mut self.first),
            shard => self.others.get_mut(&shard),
        }
    }

    /// Adds the election of another shard than the first.
    pub(super) fn add(&mut self, shard: u8, contest: Contest) {
        self.others.insert(shard, contest);
    }

    /// In the order of the shards.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u8, &Contest)> {
        let others = self.others.iter().map(|(shard, contest)| (*shard, contest));
        std::iter::once((0, &self.first)).chain(others)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u8, &mut Contest)> {
        let others = self.others.iter_mut().map(|(shard, contest)| (*shard, contest));
        std::iter::once((0, &mut self.first)).chain(others)
    }
}
