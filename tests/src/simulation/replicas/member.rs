//! One process of a group of replicas: its informer with its caches and kept deletes, its handlers, and what the daemon
//! does as its standing changes (`host/informant/src/daemon/ha.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::{Ledger, ListenerOptions, RetryOptions};
use informant_cache::{Catalog, Division, Environment, Moment, ShardSet};
use informant_informer::ReflectorOptions;
use informant_lease::ReplicaInput;
use informant_lease::{LeaseContent, LeaseTimes, Notes, Standing};
use tokio::sync::Notify;

use super::super::history::{Selection, Split};
use super::super::rng::Rng;
use super::super::watched::Watched;
use super::super::world::World;
use super::gate::ProcessGate;
use super::handler::{HANDLERS, ReplicaHandler, Terms, Watermarks};
use super::life::ProcessEnvironment;
use super::network::Network;
use super::node::{Node, ShardStatus, Status};
use super::shards::Shards;
use super::shared::Shared;

/// All objects are in one part.
const WHOLE: Split = Split {
    by_name: false,
    raw: false,
};

/// As in the daemon.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
const READY_WAIT_MAX: Duration = Duration::from_secs(60);
pub(super) const HAND_OVER_CALLS_MAX: Duration = Duration::from_secs(6);
const HAND_OVER_STATE_MAX: Duration = Duration::from_secs(2);
pub(super) const KEPT_DELETES_AGE_MIN: Duration = Duration::from_secs(600);
const KEPT_DELETES_AGE_MARGIN: Duration = Duration::from_secs(60);
const WATERMARKS: &str = "watermarks";
const CONFIGURATION: &str = "configuration";
const OLDEST_DELETE_SECONDS: &str = "oldest-delete-seconds";

/// Where a process starts.
pub(super) struct Place {
    pub(super) host: usize,
    /// Of the process; no other one has it.
    pub(super) number: usize,
    pub(super) version: &'static str,
    /// What the machine's clock for leases said at the start of the run.
    pub(super) boot: Duration,
    pub(super) times: LeaseTimes,
    /// How the objects are divided, if they are.
    pub(super) split: Option<Split>,
    /// Into how many shards it is configured to divide them.
    pub(super) shards: u8,
    pub(super) selection: Selection,
}

pub(super) struct Member {
    pub(super) watched: Arc<Watched>,
    pub(super) environment: Arc<ProcessEnvironment>,
    pub(super) node: Arc<Node>,
    pub(super) handlers: Vec<Arc<ReplicaHandler>>,
    ended: Arc<Notify>,
}

/// The task that lets the handlers act and stand by.
struct Following {
    world: Arc<World>,
    watched: Arc<Watched>,
    environment: Arc<ProcessEnvironment>,
    node: Arc<Node>,
    handlers: Vec<Arc<ReplicaHandler>>,
    gate: Arc<ProcessGate>,
    shared: Arc<Shared>,
    /// If the objects are divided.
    shards: Option<Shards>,
    catalog: Catalog,
    began: Moment,
    kept_for: Duration,
    acting: Acting,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Acting {
    No,
    Ending,
    /// Under this epoch.
    Yes(u32),
}

impl Member {
    pub(super) fn start(
        world: &Arc<World>,
        network: &Arc<Network>,
        terms: &Arc<Terms>,
        place: Place,
        mut rng: Rng,
    ) -> Self {
        let environment = ProcessEnvironment::new(&world.environment, place.boot, rng.split());
        let environment = Arc::new(environment);
        let catalog = Catalog::new();
        catalog
            .kept_deletes()
            .keep(Some(KEPT_DELETES_AGE_MIN), environment.now());
        let reflector = ReflectorOptions {
            watch_list: rng.percent(60),
            ..ReflectorOptions::default()
        };
        let tasks = Arc::clone(&environment) as Arc<dyn Environment>;
        let none = |split: Split| split.filter(Division::WHOLE, ShardSet::default());
        let reads = (place.selection, place.split.map(none));
        let watched = Watched::start_replica(world, reads, reflector, tasks, catalog.clone());
        let division = place.split.map(|split| split.division(place.shards));
        let node = Node::start(
            (place.host, place.number, place.version),
            (place.times, division),
            &environment,
            network,
        );
        let gate = ProcessGate::closed(&environment, place.split.unwrap_or(WHOLE));
        let gate = Arc::new(gate);
        let handlers: Vec<_> = HANDLERS
            .iter()
            .map(|handler| {
                let (options, rng) = (options(&mut rng), rng.split());
                let handler = ReplicaHandler::new(*handler, world, &watched, &gate, terms, options, rng);
                Arc::new(handler)
            })
            .collect();
        let shards = place.split.map(|split| {
            let reads = (&watched, &catalog, split);
            Shards::start(world, &node, &gate, reads, &handlers)
        });
        let following = Following {
            world: Arc::clone(world),
            watched: Arc::clone(&watched),
            environment: Arc::clone(&environment),
            node: Arc::clone(&node),
            handlers: handlers.clone(),
            gate,
            shared: Arc::new(Shared::new(place.host, network, &environment)),
            shards,
            catalog,
            began: environment.now(),
            kept_for: KEPT_DELETES_AGE_MIN,
            acting: Acting::No,
        };
        let ended = Arc::new(Notify::new());
        let end = Arc::clone(&ended);
        let run = async move {
            following.run().await;
            end.notify_one();
        };
        environment.spawn("replica", Box::pin(run));
        Self {
            watched,
            environment,
            node,
            handlers,
            ended,
        }
    }

    /// Hands over, and ends.
    pub(super) async fn stop(&self) {
        self.node.input(ReplicaInput::Stop);
        self.ended.notified().await;
    }
}

fn options(rng: &mut Rng) -> ListenerOptions {
    ListenerOptions {
        pending_events_max: rng.pick(&[2, 8, 1_024, 1_024]),
        retry: RetryOptions {
            attempts: 1_000,
            ..RetryOptions::default()
        },
        seed: 1 + rng.below(u64::MAX - 1),
        ..ListenerOptions::default()
    }
}

impl Following {
    async fn run(mut self) {
        let mut statuses = self.node.watch();
        let mut look_at = Moment::ZERO;
        loop {
            let status = statuses.borrow_and_update().clone();
            self.follow(&status).await;
            if status.has_ended {
                return;
            }
            let has_lost = self.shards.as_mut().is_some_and(Shards::take_has_lost);
            if has_lost || self.environment.now() >= look_at {
                self.publish(&status);
                look_at = self.environment.now() + LOOK_INTERVAL;
            }
            tokio::select! {
                biased;
                changed = statuses.changed() => if changed.is_err() { return },
                () = self.environment.sleep(look_at - self.environment.now()) => {}
            }
        }
    }

    async fn follow(&mut self, status: &Status) {
        match &mut self.shards {
            Some(shards) => {
                let ends = shards.follow(status);
                for shard in shards.end(ends).await.iter() {
                    self.set_notes(shard);
                    self.node.input(ReplicaInput::HandedOver(shard));
                }
            }
            None => self.follow_first(status).await,
        }
    }

    /// The work is not divided.
    async fn follow_first(&mut self, status: &Status) {
        let first = status.first();
        match &first.standing {
            Standing::Acting { epoch, .. } if self.acting != Acting::Yes(*epoch) => self.act(*epoch, first).await,
            Standing::Acting { .. } => {}
            Standing::HandingOver { .. } if self.acting == Acting::Ending => {}
            Standing::HandingOver { .. } => {
                self.acting = Acting::Ending;
                self.shared.hurry();
                let handed_over = self
                    .handlers
                    .iter()
                    .map(|handler| handler.hand_over(HAND_OVER_CALLS_MAX));
                futures::future::join_all(handed_over).await;
                self.shared.flush(HAND_OVER_STATE_MAX).await;
                self.shared.end();
                self.set_notes(0);
                self.node.input(ReplicaInput::HandedOver(0));
            }
            Standing::Standby { .. } if self.acting != Acting::No => {
                self.stop_acting().await;
                let oldest = first.content.as_ref().and_then(published_oldest_delete);
                self.write_notes(0, &BTreeMap::new(), oldest);
            }
            Standing::Standby { .. } => {}
            Standing::Acquiring { .. } | Standing::Releasing { .. } => self.stop_acting().await,
        }
    }

    async fn act(&mut self, epoch: u32, first: &ShardStatus) {
        if self.acting != Acting::No {
            // Of an earlier term that ended a moment ago.
            self.stop_acting().await;
        }
        let own = self.node.configuration();
        let predecessor = first.predecessor.as_ref().map(|content| watermarks(content, &own));
        let has_kept_deletes = || self.catalog.kept_deletes().stats().deletes > 0;
        let predecessor = predecessor.or_else(|| has_kept_deletes().then(BTreeMap::new));
        let identity = self.node.identity();
        self.shared.begin(&identity, epoch, self.node.gate(0));
        self.gate.open(0, self.node.gate(0), epoch);
        self.acting = Acting::Yes(epoch);
        self.world.note(format!("{identity} acts with epoch {epoch}"));
        // Their history is another one than when this process began to watch them.
        let is_restored = self.watched.named.statuses().iter().any(|status| status.epoch > 0);
        for handler in &self.handlers {
            let of_handler = |all: &BTreeMap<String, Watermarks>| match is_restored {
                true => Watermarks::new(),
                false => all.get(handler.name()).cloned().unwrap_or_default(),
            };
            let predecessor = predecessor.as_ref().map(of_handler);
            let all = vec![(None, predecessor.clone())];
            handler.act(all, predecessor.as_ref(), Some(&self.shared));
        }
    }

    async fn stop_acting(&mut self) {
        self.gate.close(0);
        self.handlers.iter().for_each(|handler| handler.end_term());
        self.shared.end();
        self.acting = Acting::No;
        for handler in &self.handlers {
            handler.stand_by().await;
            handler.detach().await;
        }
    }

    fn publish(&mut self, status: &Status) {
        let (now, boot_now) = (self.environment.now(), self.environment.boot_now());
        let is_ready = self.watched.named.has_synced() || now - self.began >= READY_WAIT_MAX;
        self.node.input(ReplicaInput::Ready(is_ready));
        let first = status.first();
        let oldest = match &first.standing {
            Standing::Acting { .. } => {
                self.set_notes(0);
                self.oldest_delete()
            }
            Standing::HandingOver { .. } | Standing::Releasing { .. } => None,
            Standing::Standby { .. } | Standing::Acquiring { .. } => {
                let oldest = first.content.as_ref().and_then(published_oldest_delete);
                self.write_notes(0, &BTreeMap::new(), oldest);
                oldest
            }
        };
        let oldest = oldest.max(self.shards.as_ref().and_then(|shards| shards.oldest_delete(status)));
        self.publish_others(status, oldest);
        let wanted = (oldest.unwrap_or_default() + KEPT_DELETES_AGE_MARGIN).max(KEPT_DELETES_AGE_MIN);
        let may_shrink = match &first.standing {
            Standing::Acting { since, .. } => boot_now - *since >= KEPT_DELETES_AGE_MIN,
            Standing::Standby { .. } => first.content.is_some(),
            _ => false,
        };
        self.kept_for = match may_shrink {
            true => wanted,
            false => self.kept_for.max(wanted),
        };
        self.catalog.kept_deletes().keep(Some(self.kept_for), now);
    }

    /// For all shards but the first one.
    fn publish_others(&mut self, status: &Status, oldest: Option<Duration>) {
        for shard in status.shards.iter().map(|shard| shard.shard).filter(|shard| *shard > 0) {
            let Some(shards) = &self.shards else { return };
            match shards.holds(shard) {
                true => self.set_notes(shard),
                false if shards.is_ending(shard) => {}
                false => self.write_notes(shard, &BTreeMap::new(), oldest),
            }
        }
    }

    fn set_notes(&mut self, shard: u8) {
        let of_handler =
            |handler: &Arc<ReplicaHandler>| (handler.name().to_owned(), handler.watermarks(Ledger::watermark));
        let watermarks = match &mut self.shards {
            Some(shards) => shards.watermarks(shard),
            None => self.handlers.iter().map(of_handler).collect(),
        };
        let above = self.kept_for.saturating_sub(KEPT_DELETES_AGE_MARGIN);
        let inherited = (self.kept_for > KEPT_DELETES_AGE_MIN && shard == 0).then_some(above);
        self.write_notes(shard, &watermarks, self.oldest_delete().max(inherited));
    }

    fn write_notes(&self, shard: u8, watermarks: &BTreeMap<String, Watermarks>, oldest: Option<Duration>) {
        let (watermarks, own) = (serde_json::to_string(watermarks), self.node.configuration());
        let oldest = oldest.unwrap_or_default().as_secs().to_string();
        let notes = [
            (CONFIGURATION, own.as_str()),
            (WATERMARKS, &watermarks.expect("names and numbers")),
            (OLDEST_DELETE_SECONDS, &oldest),
        ];
        let notes = Notes::new(notes).expect("they are short");
        self.node.input(ReplicaInput::Notes(shard, notes));
    }

    fn oldest_delete(&self) -> Option<Duration> {
        self.handlers.iter().filter_map(|handler| handler.oldest_delete()).max()
    }
}

/// What the predecessor has published, by handler.
pub(super) fn watermarks(content: &LeaseContent, own: &str) -> BTreeMap<String, Watermarks> {
    let note = |name| content.notes.get(name).unwrap_or_default();
    match note(CONFIGURATION) == own {
        true => serde_json::from_str(note(WATERMARKS)).unwrap_or_default(),
        false => BTreeMap::new(),
    }
}

pub(super) fn published_oldest_delete(content: &LeaseContent) -> Option<Duration> {
    let seconds = content.notes.get(OLDEST_DELETE_SECONDS)?;
    seconds.parse().ok().map(Duration::from_secs)
}
