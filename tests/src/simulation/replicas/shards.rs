//! What a process does for handlers whose objects are divided among the replicas, as the daemon does it
//! (`host/informant/src/daemon/ha/shards.rs`).
//!
//! ```text
//! Status ─▶ Shards: held, ending ─▶ ProcessGate
//!                    ├─ acting ─▶ a task for each ReplicaHandler: begin, move, stand by
//!                    └─ read ───▶ a task that lets the informer read other shards
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use informant_cache::listener::HeldShards;
use informant_cache::{Catalog, Division, Environment, KeptDeletes, ShardSet};
use informant_lease::{Layout, Standing};
use tokio::sync::watch;

use super::super::history::Split;
use super::super::watched::Watched;
use super::super::world::World;
use super::gate::ProcessGate;
use super::handler::{ReplicaHandler, Watermarks};
use super::life::ProcessEnvironment;
use super::member::{HAND_OVER_CALLS_MAX, published_oldest_delete, watermarks};
use super::node::{Node, ShardStatus, Status};

/// How often a hand-over looks whether calls have ended.
const HAND_OVER_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Whether the handlers of a process act for some shards.
#[derive(Clone)]
pub(super) enum Acting {
    No,
    /// What runs may end.
    Ending,
    Yes(Arc<ShardTerms>),
}

#[derive(Clone, PartialEq)]
pub(super) struct ShardTerms {
    pub(super) division: Division,
    /// Another one: whatever was done before, handlers stand by in between.
    pub(super) stint: u64,
    pub(super) held: BTreeMap<u8, ShardTerm>,
}

#[derive(Clone, PartialEq)]
pub(super) struct ShardTerm {
    pub(super) epoch: u32,
    /// What the process before has published, by handler; none if there was none.
    pub(super) predecessor: Option<BTreeMap<String, Watermarks>>,
}

pub(super) struct Shards {
    world: Arc<World>,
    environment: Arc<ProcessEnvironment>,
    node: Arc<Node>,
    gate: Arc<ProcessGate>,
    handlers: Vec<Arc<ReplicaHandler>>,
    kept_deletes: KeptDeletes,
    terms: ShardTerms,
    /// Those that are being handed over.
    ending: BTreeSet<u8>,
    /// What this process has said last of those that it holds, by handler.
    said: BTreeMap<u8, BTreeMap<String, Watermarks>>,
    /// Leases were lost, and nothing was published since.
    has_lost: bool,
    /// For each of the handlers: the receivers of one channel are woken in random order.
    acting: Vec<watch::Sender<Acting>>,
    read: watch::Sender<HeldShards>,
}

impl Shards {
    pub(super) fn start(
        world: &Arc<World>,
        node: &Arc<Node>,
        gate: &Arc<ProcessGate>,
        (watched, catalog, split): (&Arc<Watched>, &Catalog, Split),
        handlers: &[Arc<ReplicaHandler>],
    ) -> Self {
        let environment = Arc::clone(&gate.environment);
        let mut acting = Vec::new();
        for handler in handlers {
            let (sender, receiver) = watch::channel(Acting::No);
            let follow = Arc::clone(handler).follow(receiver, catalog.clone());
            environment.spawn("handler of shards", Box::pin(follow));
            acting.push(sender);
        }
        let read = watch::Sender::new(HeldShards {
            division: Division::WHOLE,
            shards: ShardSet::default(),
        });
        let (watched, mut reads) = (Arc::clone(watched), read.subscribe());
        let follow = async move {
            while reads.changed().await.is_ok() {
                let HeldShards { division, shards } = *reads.borrow_and_update();
                watched.read_shards(split.filter(division, shards)).await;
            }
        };
        environment.spawn("informer of shards", Box::pin(follow));
        Self {
            world: Arc::clone(world),
            environment,
            node: Arc::clone(node),
            gate: Arc::clone(gate),
            handlers: handlers.to_vec(),
            kept_deletes: catalog.kept_deletes().clone(),
            terms: ShardTerms {
                division: Division::WHOLE,
                stint: 0,
                held: BTreeMap::new(),
            },
            ending: BTreeSet::new(),
            said: BTreeMap::new(),
            has_lost: false,
            acting,
            read,
        }
    }

    /// Follows the Leases. Returns the shards that are to be handed over, whose calls are about to [end](Self::end).
    pub(super) fn follow(&mut self, status: &Status) -> ShardSet {
        let layouts = status.shards.iter().filter_map(|shard| shard.layout);
        let layout = layouts.max_by_key(|layout| layout.generation);
        let of_layout = status.shards.iter().filter(|shard| shard.layout == layout);
        let acting = of_layout.filter_map(|shard| Some((shard.shard, (shard.epoch()?, shard))));
        let acting: BTreeMap<u8, (u32, &ShardStatus)> = acting.collect();
        let ends = self.begin_ends(status);
        self.drop_lost(&acting);
        self.drop_ended(status);
        self.gain(layout, &acting);
        self.show();
        ends
    }

    /// Those that are handed over from now on: nothing more is called for their objects.
    fn begin_ends(&mut self, status: &Status) -> ShardSet {
        let ending = status.shards.iter().filter(|shard| shard.is_handing_over());
        let ending = ending.map(|shard| shard.shard);
        let ends: ShardSet = ending.filter(|shard| !self.ending.contains(shard)).collect();
        for shard in ends.iter() {
            self.terms.held.remove(&shard);
            self.ending.insert(shard);
        }
        if ends != ShardSet::default() {
            self.note(&format!("hands {ends:?} over"));
            let handlers = self.handlers.iter();
            handlers.for_each(|handler| handler.listener().control().lose_shards(ends));
        }
        ends
    }

    /// Those whose Leases were lost.
    fn drop_lost(&mut self, acting: &BTreeMap<u8, (u32, &ShardStatus)>) {
        let is_held = |shard: &u8, term: &ShardTerm| acting.get(shard).is_some_and(|(epoch, _)| *epoch == term.epoch);
        let lost = self.terms.held.iter().filter(|(shard, term)| !is_held(shard, term));
        let lost: ShardSet = lost.map(|(shard, _)| *shard).collect();
        if lost == ShardSet::default() {
            return;
        }
        self.note(&format!("has lost {lost:?}"));
        for shard in lost.iter() {
            self.gate.close(shard);
            self.terms.held.remove(&shard);
            self.said.remove(&shard);
        }
        self.has_lost = true;
        self.begin_stint();
    }

    /// Those that were handed over, or whose hand-over took too long.
    fn drop_ended(&mut self, status: &Status) {
        let is_ending = |shard: u8| {
            let of_shard = status.shards.iter().find(|status| status.shard == shard);
            of_shard.is_some_and(ShardStatus::is_handing_over)
        };
        let ended: Vec<u8> = self.ending.iter().copied().filter(|shard| !is_ending(*shard)).collect();
        for shard in ended {
            self.gate.close(shard);
            self.ending.remove(&shard);
            self.said.remove(&shard);
            if self.calls_elsewhere() {
                self.begin_stint();
            }
        }
    }

    /// Whether Leases were lost since it was asked last: what they say when they return is to be published again.
    pub(super) fn take_has_lost(&mut self) -> bool {
        std::mem::take(&mut self.has_lost)
    }

    /// Everything that handlers do ends, and they begin again.
    fn begin_stint(&mut self) {
        self.terms.stint += 1;
        let held: Vec<u8> = self.terms.held.keys().copied().collect();
        for shard in held {
            let (accepted, said) = (self.accepted(shard), self.said.get(&shard).cloned());
            let Some(term) = self.terms.held.get_mut(&shard) else {
                continue;
            };
            let predecessor = term.predecessor.get_or_insert_default();
            for (handler, watermarks) in said.into_iter().flatten().chain(accepted) {
                let own = predecessor.entry(handler).or_default();
                for (scope, watermark) in watermarks {
                    let highest = own.entry(scope).or_default();
                    *highest = watermark.max(*highest);
                }
            }
        }
        self.handlers.iter().for_each(|handler| handler.end_term());
    }

    fn gain(&mut self, layout: Option<Layout>, acting: &BTreeMap<u8, (u32, &ShardStatus)>) {
        let Some(layout) = layout else { return };
        if self.terms.division != layout.division && self.terms.held.is_empty() && self.ending.is_empty() {
            self.terms.division = layout.division;
            self.gate.set_division(layout.division);
        }
        if self.terms.division != layout.division {
            return;
        }
        let own = self.node.configuration();
        for (number, (epoch, shard)) in acting {
            if self.terms.held.contains_key(number) || self.ending.contains(number) {
                continue;
            }
            let predecessor = shard.predecessor.as_ref().map(|content| watermarks(content, &own));
            let has_kept_deletes = || self.kept_deletes.stats().deletes > 0;
            let term = ShardTerm {
                epoch: *epoch,
                predecessor: predecessor.or_else(|| has_kept_deletes().then(BTreeMap::new)),
            };
            self.note(&format!("acts for shard {number} of {layout} with epoch {epoch}"));
            self.gate.open(*number, self.node.gate(*number), *epoch);
            self.terms.held.insert(*number, term);
        }
    }

    /// Lets handlers and the informer know.
    fn show(&self) {
        let reads = self.terms.held.keys().chain(&self.ending);
        let reads = HeldShards {
            division: self.terms.division,
            shards: reads.copied().collect(),
        };
        self.read
            .send_if_modified(|before| std::mem::replace(before, reads) != reads);
        let acting = match (self.terms.held.is_empty(), self.ending.is_empty()) {
            (true, true) => Acting::No,
            (true, false) => Acting::Ending,
            (false, _) => Acting::Yes(Arc::new(self.terms.clone())),
        };
        for sender in &self.acting {
            sender.send_if_modified(|before| {
                let is_same = match (&*before, &acting) {
                    (Acting::No, Acting::No) | (Acting::Ending, Acting::Ending) => true,
                    (Acting::Yes(before), Acting::Yes(now)) => before == now,
                    _ => false,
                };
                before.clone_from(&acting);
                !is_same
            });
        }
    }

    /// Waits until calls for these have ended, with what they defer. Returns those for which that is so: the Leases of
    /// others expire.
    pub(super) async fn end(&mut self, ends: ShardSet) -> ShardSet {
        if ends == ShardSet::default() {
            return ends;
        }
        if self.terms.held.is_empty() {
            // Nothing stays: what does not end is aborted, and handlers begin again.
            self.terms.stint += 1;
            let handlers = self.handlers.iter();
            join_all(handlers.map(|handler| handler.hand_over(HAND_OVER_CALLS_MAX))).await;
            return ends;
        }
        let until = self.environment.now() + HAND_OVER_CALLS_MAX;
        while self.calls_elsewhere() {
            if self.environment.now() >= until {
                return ShardSet::default();
            }
            self.environment.sleep(HAND_OVER_LOOK_INTERVAL).await;
        }
        ends
    }

    fn calls_elsewhere(&self) -> bool {
        let mut handlers = self.handlers.iter();
        handlers.any(|handler| handler.listener().ledger().in_flight_elsewhere() > 0)
    }

    /// By handler, how far it has accepted the objects of a shard, to be said in its Lease.
    pub(super) fn watermarks(&mut self, shard: u8) -> BTreeMap<String, Watermarks> {
        let watermarks = self.accepted(shard);
        self.said.insert(shard, watermarks.clone());
        watermarks
    }

    fn accepted(&self, shard: u8) -> BTreeMap<String, Watermarks> {
        let of_handler = |handler: &Arc<ReplicaHandler>| {
            let watermarks = handler.watermarks(|ledger, source| ledger.shard_watermark(source, shard));
            (handler.name().to_owned(), watermarks)
        };
        self.handlers.iter().map(of_handler).collect()
    }

    /// The age of the oldest delete of any shard that a holder has not handled: any of them may be this process next.
    pub(super) fn oldest_delete(&self, status: &Status) -> Option<Duration> {
        let others = status.shards.iter().filter(|shard| shard.shard > 0);
        let published = others.filter_map(|shard| published_oldest_delete(shard.content.as_ref()?));
        let own = self.handlers.iter().filter_map(|handler| handler.oldest_delete());
        published.chain(own).max()
    }

    /// Whether this process says how far it is with a shard.
    pub(super) fn holds(&self, shard: u8) -> bool {
        self.terms.held.contains_key(&shard)
    }

    pub(super) fn is_ending(&self, shard: u8) -> bool {
        self.ending.contains(&shard)
    }

    fn note(&self, what: &str) {
        self.world.note(format!("{} {what}", self.node.identity()));
    }
}

impl ShardStatus {
    /// The epoch in which this process acts for it.
    fn epoch(&self) -> Option<u32> {
        match self.standing {
            Standing::Acting { epoch, .. } => Some(epoch),
            _ => None,
        }
    }

    fn is_handing_over(&self) -> bool {
        matches!(self.standing, Standing::HandingOver { .. })
    }
}

impl ShardTerms {
    /// What a listener has to know of them.
    pub(super) fn held(&self) -> HeldShards {
        HeldShards {
            division: self.division,
            shards: self.held.keys().copied().collect(),
        }
    }

    /// How a handler begins that is attached to nothing yet: with the lowest watermark of each source; none if none of
    /// the shards has had another holder.
    pub(super) fn lowest(&self, handler: &str) -> Option<Watermarks> {
        let of_handler = |all: &BTreeMap<String, Watermarks>| all.get(handler).cloned().unwrap_or_default();
        let mut predecessors = self.held.values().map(|term| term.predecessor.as_ref().map(of_handler));
        let first = predecessors.next().flatten();
        predecessors.fold(first, |lowest, next| match (lowest, next) {
            (None, None) => None,
            (lowest, next) => Some(lower(lowest.unwrap_or_default(), &next.unwrap_or_default())),
        })
    }
}

fn lower(mut watermarks: Watermarks, others: &Watermarks) -> Watermarks {
    watermarks.retain(|scope, watermark| {
        let other = others.get(scope).copied();
        *watermark = other.map_or(0, |other| other.min(*watermark));
        other.is_some()
    });
    watermarks
}
