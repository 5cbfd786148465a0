//! One replica as the daemon runs it, with what it does to the world.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Division, Moment, ShardHash};

use crate::layout::Layout;
use crate::replica::{LeaseName, ReplicaInput};
use crate::standing::Standing;
use crate::{Election, LeaseRequest, LeaseTimes, MemberRecord, ReplicaLeases};

#[derive(Debug)]
pub(super) struct Process {
    pub(super) identity: Arc<str>,
    host: usize,
    replica: ReplicaLeases,
    is_ready: bool,
    is_stopping: bool,
    /// The division that it is configured for.
    pub(super) division: Division,
    /// Effects that have begun and not ended, by shard.
    pub(super) in_flight: BTreeMap<u8, BTreeSet<usize>>,
    /// Shards and epochs for which its gate was open, and is no longer.
    pub(super) ended_epochs: BTreeSet<(u8, u32)>,
    pub(super) open_epochs: BTreeMap<u8, u32>,
    /// When it was last ready, in true time.
    pub(super) last_ready: Moment,
}

/// The pod on a host.
pub(super) fn pod_of(host: usize) -> Arc<str> {
    format!("informant-{host}").into()
}

impl Process {
    pub(super) fn new(
        now: Moment,
        (host, number, version): (usize, usize, &str),
        times: LeaseTimes,
        division: Division,
    ) -> Process {
        let pod = pod_of(host);
        let identity: Arc<str> = format!("{pod}_{number}").into();
        let record = MemberRecord {
            version: version.into(),
            digest: "d".into(),
            layout: "".into(),
            is_ready: false,
            address: "".into(),
        };
        Process {
            replica: ReplicaLeases::new(now, (Arc::clone(&identity), pod), times, Some(division), record),
            host,
            is_ready: false,
            is_stopping: false,
            division,
            in_flight: BTreeMap::new(),
            ended_epochs: BTreeSet::new(),
            open_epochs: BTreeMap::new(),
            last_ready: Moment::ZERO,
            identity,
        }
    }

    /// Handles `input`. Returns what to send.
    pub(super) fn step(&mut self, now: Moment, input: ReplicaInput) -> Vec<(LeaseName, LeaseRequest)> {
        match &input {
            ReplicaInput::Ready(is_ready) => self.is_ready = *is_ready,
            ReplicaInput::Stop => self.is_stopping = true,
            _ => {}
        }
        self.replica.step(now, input)
    }

    pub(super) fn next_wake(&self, now: Moment) -> Moment {
        self.replica.next_wake(now)
    }

    /// What it is for each shard.
    pub(super) fn standings(&self) -> Vec<(u8, Standing)> {
        let elections = self.replica.elections();
        elections
            .map(|(shard, election)| (shard, election.standing()))
            .collect()
    }

    /// The elections in which it holds the Lease of a shard, and the layout by which it does.
    pub(super) fn held(&self) -> impl Iterator<Item = (u8, Layout, &Election)> {
        let elections = self.replica.elections();
        elections.filter_map(|(shard, election)| Some((shard, election.term_layout()?, election)))
    }

    /// The shard of a key, as this process sees it.
    pub(super) fn shard_of(&self, layout: Layout, key: &str) -> u8 {
        let is_wrong = seeded_bug(SeededBug::OtherShardHash) && self.host % 2 == 1;
        let hash = if is_wrong { ShardHash::Raw } else { layout.division.hash };
        Division {
            hash,
            ..layout.division
        }
        .shard_of(key)
    }

    pub(super) fn is_acting(&self) -> bool {
        let mut standings = self.replica.elections().map(|(_, election)| election.standing());
        standings.any(|standing| matches!(standing, Standing::Acting { .. }))
    }

    pub(super) fn is_handing_over(&self, shard: u8) -> bool {
        let election = self.replica.election(shard);
        election.is_some_and(|election| matches!(election.standing(), Standing::HandingOver { .. }))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Whether others may expect it to acquire what is released to it.
    pub(super) fn is_candidate(&self) -> bool {
        self.is_ready && !self.is_stopping
    }

    pub(super) fn has_ended(&self) -> bool {
        self.replica.has_ended()
    }
}
