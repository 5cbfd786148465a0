//! [`Shards`]: what this process does for plugins whose objects are divided among the replicas.
//!
//! ```text
//! status ──▶ held ──▶ gates, registry: what plugins act for, and what informers read
//!              └ handing over: calls end ──▶ watermark ──▶ Lease released ──▶ informers forget the objects
//! ```
//!
//! A shard whose Lease is lost without a hand-over ends everything that these plugins do, and they begin again:
//! deferred writes about its objects must not wait before those of others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use informant_cache::listener::{HeldShards, Ledger};
use informant_cache::{Division, Environment, ShardSet};
use informant_lease::{Layout, Standing};
use informant_plugin_host::Plugin;

use super::notes::{published_oldest_delete, watermarks};
use super::{HAND_OVER_CALLS_MAX, ProcessGate, ReplicaParts, running_plugins, watermarks_of};
use crate::daemon::acting::{Acting, ShardTerm, ShardTerms, Watermarks};
use crate::daemon::status_registry::StatusRegistry;
use crate::replicas::{GroupStatus, ShardStatus};

/// How often a hand-over looks whether calls have ended: 10 ms.
const HAND_OVER_LOOK_INTERVAL: Duration = Duration::from_millis(10);

pub(super) struct Shards {
    registry: StatusRegistry,
    environment: Arc<dyn Environment>,
    gate: Arc<ProcessGate>,
    /// Whether this process is configured for shards.
    is_divided: bool,
    terms: ShardTerms,
    /// Those that are being handed over.
    ending: BTreeSet<u8>,
    /// What this process has said last of those that it holds, and of which configuration that is.
    said: BTreeMap<u8, (String, Watermarks)>,
    /// Leases were lost, and nothing was published since.
    has_lost: bool,
}

impl Shards {
    pub(super) fn new(parts: &ReplicaParts) -> Self {
        Self {
            registry: parts.registry.clone(),
            environment: Arc::clone(&parts.environment),
            gate: Arc::clone(&parts.gate),
            is_divided: parts.place.division().is_some(),
            terms: ShardTerms {
                division: Division::WHOLE,
                stint: 0,
                held: BTreeMap::new(),
            },
            ending: BTreeSet::new(),
            said: BTreeMap::new(),
            has_lost: false,
        }
    }

    /// To which configuration watermarks belong.
    pub(super) fn configuration(&self, status: &GroupStatus) -> String {
        let digest = self.registry.configuration().digest.clone();
        match self.is_divided {
            true => format!("{digest} {}", status.layout),
            false => digest.to_string(),
        }
    }

    /// Follows the Leases. Returns the shards that are to be handed over, whose calls are about to [end](Self::end).
    pub(super) fn follow(&mut self, status: &GroupStatus) -> ShardSet {
        if !self.is_divided {
            // It holds them if no replica can act for them, and calls nothing.
            let others = status.shards.iter().filter(|shard| shard.shard > 0);
            let ending = others.filter(|shard| matches!(shard.standing, Standing::HandingOver { .. }));
            return ending.map(|shard| shard.shard).collect();
        }
        let layouts = status.shards.iter().filter_map(|shard| shard.layout);
        let layout = layouts.max_by_key(|layout| layout.generation);
        let is_acting =
            |shard: &&ShardStatus| matches!(shard.standing, Standing::Acting { .. }) && shard.layout == layout;
        let acting = status.shards.iter().filter(is_acting);
        let acting: BTreeMap<u8, (u32, &ShardStatus)> = acting
            .filter_map(|shard| Some((shard.shard, (epoch(shard)?, shard))))
            .collect();
        let ends = self.begin_ends(status);
        let own = self.configuration(status);
        self.drop_lost(&acting, &own);
        self.drop_ended(status, &own);
        self.gain(layout, &acting, status);
        self.show();
        ends
    }

    /// Those that are handed over from now on: nothing more is called for their objects.
    fn begin_ends(&mut self, status: &GroupStatus) -> ShardSet {
        let is_ending = |shard: &&ShardStatus| matches!(shard.standing, Standing::HandingOver { .. });
        let ending = status.shards.iter().filter(is_ending).map(|shard| shard.shard);
        let ends: ShardSet = ending.filter(|shard| !self.ending.contains(shard)).collect();
        for shard in ends.iter() {
            self.terms.held.remove(&shard);
            self.ending.insert(shard);
        }
        if ends != ShardSet::default() {
            tracing::info!(shards = ?ends, "handing shards over to other replicas");
            for plugin in self.plugins() {
                plugin.listener().control().lose_shards(ends);
            }
        }
        ends
    }

    /// Those whose Leases were lost.
    fn drop_lost(&mut self, acting: &BTreeMap<u8, (u32, &ShardStatus)>, own: &str) {
        let is_held = |shard: &u8, term: &ShardTerm| acting.get(shard).is_some_and(|(epoch, _)| *epoch == term.epoch);
        let lost = self.terms.held.iter().filter(|(shard, term)| !is_held(shard, term));
        let lost: ShardSet = lost.map(|(shard, _)| *shard).collect();
        if lost == ShardSet::default() {
            return;
        }
        tracing::warn!(shards = ?lost, "this replica no longer acts for shards whose Leases it has lost");
        for shard in lost.iter() {
            self.gate.close_shard(shard);
            self.terms.held.remove(&shard);
            self.said.remove(&shard);
        }
        self.has_lost = true;
        self.begin_stint(own);
    }

    /// Whether Leases were lost since it was asked last: what they say when they return is to be published again.
    pub(super) fn take_has_lost(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// Everything that plugins do ends, and they begin again where they were. What they have accepted must not come
    /// again while a Lease says that they have: a successor would not repeat what follows it.
    fn begin_stint(&mut self, own: &str) {
        self.terms.stint += 1;
        let held: Vec<u8> = self.terms.held.keys().copied().collect();
        for shard in held {
            let accepted = self.accepted(shard);
            // Another configuration may have selected other objects.
            let said = self.said.get(&shard).filter(|(configuration, _)| configuration == own);
            let accepted = match said {
                Some((_, said)) => accepted.higher(said.clone()),
                None => accepted,
            };
            if let Some(term) = self.terms.held.get_mut(&shard) {
                let before = term.predecessor.take().filter(|_| said.is_some());
                term.predecessor = Some(accepted.or(before.unwrap_or_default()));
            }
        }
        self.plugins().for_each(|plugin| plugin.end_term());
    }

    /// Those that were handed over, or whose hand-over took too long.
    fn drop_ended(&mut self, status: &GroupStatus, own: &str) {
        let is_ending = |shard: u8| {
            let of_shard = status.shards.iter().find(|status| status.shard == shard);
            of_shard.is_some_and(|shard| matches!(shard.standing, Standing::HandingOver { .. }))
        };
        let ended: Vec<u8> = self.ending.iter().copied().filter(|shard| !is_ending(*shard)).collect();
        for shard in ended {
            self.gate.close_shard(shard);
            self.ending.remove(&shard);
            self.said.remove(&shard);
            if self
                .plugins()
                .any(|plugin| plugin.listener().ledger().in_flight_elsewhere() > 0)
            {
                self.begin_stint(own);
            }
        }
    }

    fn gain(&mut self, layout: Option<Layout>, acting: &BTreeMap<u8, (u32, &ShardStatus)>, status: &GroupStatus) {
        let Some(layout) = layout else { return };
        if self.terms.division != layout.division && self.terms.held.is_empty() && self.ending.is_empty() {
            self.terms.division = layout.division;
            self.gate.set_division(layout.division);
        }
        if self.terms.division != layout.division {
            return;
        }
        let own = self.configuration(status);
        for (number, (epoch, shard)) in acting {
            if self.terms.held.contains_key(number) || self.ending.contains(number) {
                continue;
            }
            let predecessor = shard.predecessor.as_ref().map(|content| watermarks(content, &own));
            // As for the Lease of all objects.
            let has_kept_deletes = || self.registry.catalog().kept_deletes().stats().deletes > 0;
            let predecessor = predecessor.or_else(|| has_kept_deletes().then(Watermarks::default));
            tracing::info!(
                shard = number,
                epoch,
                takeover = predecessor.is_some(),
                "this replica acts for a shard"
            );
            self.gate.open_shard(*number, &shard.gate, *epoch);
            let term = ShardTerm {
                epoch: *epoch,
                predecessor,
            };
            self.terms.held.insert(*number, term);
        }
    }

    /// Lets plugins and informers know.
    fn show(&self) {
        let reads = self.terms.held.keys().chain(&self.ending);
        self.registry.set_read_shards(HeldShards {
            division: self.terms.division,
            shards: reads.copied().collect(),
        });
        let before = self.registry.acting(true).borrow().clone();
        let is_same = before
            .term()
            .is_some_and(|term| term.shards.as_ref() == Some(&self.terms));
        let acting = match (self.terms.held.is_empty(), self.ending.is_empty()) {
            (true, true) => Acting::No,
            // What runs may end.
            (true, false) => Acting::Ending,
            (false, _) if is_same => return,
            (false, _) => Acting::Yes(Arc::new(self.terms.clone().into_term())),
        };
        self.registry.set_divided_acting(acting);
    }

    /// Waits until calls for these have ended, with what they defer. Returns those for which that is so: the Leases of
    /// others expire.
    pub(super) async fn end(&mut self, ends: ShardSet) -> Vec<u8> {
        if ends == ShardSet::default() {
            return Vec::new();
        }
        if self.terms.held.is_empty() {
            // Nothing stays: what does not end is aborted, and plugins begin again.
            self.terms.stint += 1;
            join_all(
                self.plugins()
                    .map(|plugin| async move { plugin.hand_over(HAND_OVER_CALLS_MAX).await }),
            )
            .await;
            return ends.iter().collect();
        }
        let until = self.environment.now() + HAND_OVER_CALLS_MAX;
        let runs = || {
            self.plugins()
                .any(|plugin| plugin.listener().ledger().in_flight_elsewhere() > 0)
        };
        while runs() {
            if self.environment.now() >= until {
                tracing::warn!(shards = ?ends, "calls for shards did not end in time: their Leases expire");
                return Vec::new();
            }
            self.environment.sleep(HAND_OVER_LOOK_INTERVAL).await;
        }
        ends.iter().collect()
    }

    /// How far plugins have accepted the objects of a shard, to be said in its Lease.
    pub(super) fn watermarks(&mut self, shard: u8, configuration: &str) -> Watermarks {
        let watermarks = self.accepted(shard);
        self.said.insert(shard, (configuration.to_owned(), watermarks.clone()));
        watermarks
    }

    /// How far plugins have accepted the objects of a shard. Nothing of what was accepted elsewhere: this process may
    /// deliver it again, and be lost before the delete of that.
    fn accepted(&self, shard: u8) -> Watermarks {
        let of_shard = |ledger: &Ledger, source| ledger.shard_watermark(source, shard);
        watermarks_of(&self.registry, self.plugins(), of_shard)
    }

    /// The age of the oldest delete of any shard that a holder has not handled: any of them may be this process next.
    pub(super) fn oldest_delete(&self, status: &GroupStatus) -> Option<Duration> {
        let now = self.environment.now();
        let others = status.shards.iter().filter(|shard| shard.shard > 0);
        let published = others.filter_map(|shard| published_oldest_delete(shard.content.as_ref()?));
        let own = self
            .plugins()
            .filter_map(|plugin| plugin.listener().ledger().oldest_delete(now));
        published.chain(own).max()
    }

    /// Whether this process says how far it is with a shard.
    pub(super) fn holds(&self, shard: u8) -> bool {
        self.terms.held.contains_key(&shard)
    }

    pub(super) fn is_ending(&self, shard: u8) -> bool {
        self.ending.contains(&shard)
    }

    fn plugins(&self) -> impl Iterator<Item = Plugin> {
        running_plugins(&self.registry).filter(|plugin| plugin.spec().is_divided)
    }
}

fn epoch(shard: &ShardStatus) -> Option<u32> {
    match shard.standing {
        Standing::Acting { epoch, .. } => Some(epoch),
        _ => None,
    }
}
