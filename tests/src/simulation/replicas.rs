//! Replicas of which one acts: each a process with its own informer, caches and kept deletes, its own part in the
//! election, and the same two handlers.
//!
//! ```text
//!  Network: Leases, Secrets ◀──▶ Node (Election, Gate) ─standing─▶ Member ─act, stand by─▶ ReplicaHandler ─▶ history
//!                        ◀──▶ Shared (the journal of a term) ◀─what calls keep──────────────┘
//! ```
//!
//! In some seeds each acts for a part of the objects (`Shards`): then each part of them is called as a handler of its
//! own, which follows another one whenever its shard moves.
//!
//! Processes are killed between two steps of their tasks, stand still for longer than a Lease and continue, are cut off
//! from Informant's own cluster, hand over in order, and are replaced by newer versions. Election, gate, listener, kept
//! deletes and journal are the product's; what the daemon does with them is repeated here, because the daemon is a
//! program.

mod gate;
mod handler;
mod life;
mod member;
mod moves;
mod network;
mod node;
mod shards;
mod shared;
mod term;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informant_cache::Environment;
use informant_lease::LeaseTimes;

use self::handler::Terms;
use self::member::{Member, Place};
use self::network::{Network, Weather};
use super::history::{Entry, PARTS, Selection, Split};
use super::rng::Rng;
use super::schedule::{NAMES, NAMESPACES};
use super::world::World;

/// In how many percent of the seeds there are replicas.
const SEEDS_PERCENT: u64 = 15;

/// In how many percent of these the objects are divided.
const SHARDS_PERCENT: u64 = 45;

/// Separate the random numbers of this part from those of others.
const SALT: u64 = 0x7265_706c_6963_6173;
const SHARDS_SALT: u64 = 0x7368_6172_6473_2e2e;

/// The most steps that tasks run before a kill or a stop.
const YIELDS_MAX: u64 = 40;

/// The most time between two steps.
const STEP_MS_MAX: u64 = 1_500;

/// How long a process may take to stop in order; then it is killed.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The replicas of a run, and what outlives each process.
pub(super) struct Replicas {
    world: Arc<World>,
    rng: Rng,
    network: Arc<Network>,
    terms: Arc<Terms>,
    times: LeaseTimes,
    selection: Selection,
    /// How the objects are divided, if they are.
    split: Option<Split>,
    hosts: Vec<Host>,
    processes_ever: usize,
    /// The incarnations that the informer of each process is known to have had.
    held: BTreeSet<(u32, String)>,
}

struct Host {
    /// What its clock for leases said at the start of the run.
    boot: Duration,
    version: &'static str,
    /// Into how many shards it is configured to divide the objects.
    shards: u8,
    member: Option<Member>,
}

/// Whether a seed has replicas, unless it has another part that needs the whole process.
pub(super) fn draws_replicas(seed: u64) -> bool {
    Rng::new(seed ^ SALT).percent(SEEDS_PERCENT)
}

/// Whether each of the replicas of a seed acts for a part of the objects, and not one for all.
pub(super) fn draws_shards(seed: u64) -> bool {
    Rng::new(seed ^ SHARDS_SALT).percent(SHARDS_PERCENT)
}

impl Replicas {
    /// The replicas of a seed.
    pub(super) fn new(world: &Arc<World>, seed: u64) -> Self {
        let mut rng = Rng::new(!(seed ^ SALT));
        let hosts = 2 + rng.below(2);
        let split = draws_shards(seed).then(|| {
            let by_name = rng.percent(50);
            // The API server hashes no names.
            let raw = !by_name && rng.percent(40);
            Split { by_name, raw }
        });
        Self {
            world: Arc::clone(world),
            network: Network::new(world, rng.split()),
            terms: Arc::default(),
            times: match rng.percent(70) {
                true => LeaseTimes::FAST,
                false => LeaseTimes::DEFAULT,
            },
            selection: Selection {
                namespaces: match rng.percent(30) {
                    true => NAMESPACES.map(str::to_owned).into(),
                    false => Default::default(),
                },
                group: None,
            },
            hosts: (0..hosts)
                .map(|_| Host {
                    boot: Duration::from_secs(rng.below(1_000)),
                    version: "0.1.0",
                    shards: PARTS,
                    member: None,
                })
                .collect(),
            split,
            rng,
            processes_ever: 0,
            held: BTreeSet::new(),
        }
    }

    /// Runs and disturbs them as long as `playing`; then lets them run.
    pub(super) async fn play(replicas: &mut Option<Self>, playing: &AtomicBool) {
        let Some(replicas) = replicas else { return };
        replicas.start(0);
        while playing.load(Ordering::Relaxed) {
            replicas.step().await;
            replicas.note_held();
        }
        replicas.network.set_weather(Default::default());
        replicas.network.connect_all();
        for host in 0..replicas.hosts.len() {
            match &replicas.hosts[host].member {
                Some(member) => member.environment.life.proceed(&mut replicas.rng),
                None => replicas.start(host),
            }
        }
    }

    async fn step(&mut self) {
        match self.rng.below(20) {
            0..7 => self.churn().await,
            7..11 => self.start_one(),
            11 | 12 => self.kill_one().await,
            13 | 14 => self.stop_one().await,
            15 => self.proceed_all(),
            16 => self.disturb_network(),
            17 => self.end_one().await,
            _ => {}
        }
        let pause = match self.rng.percent(40) {
            true => self.rng.below(20),
            false => self.rng.below(STEP_MS_MAX),
        };
        self.pass_ms(pause).await;
    }

    /// Deletes and creates some names.
    async fn churn(&mut self) {
        for _ in 0..self.rng.below(4) {
            if !self.world.may_be_written() {
                return;
            }
            let (namespace, name) = (self.rng.pick(&NAMESPACES), format!("map-{}", self.rng.below(NAMES)));
            let value = format!("v{}", self.rng.below(4));
            match self.world.exists(namespace, &name) && self.rng.percent(50) {
                true => drop(self.world.delete(namespace, &name)),
                false => drop(self.world.put(namespace, &name, &value, "a")),
            }
            if self.rng.percent(50) {
                self.yield_some().await;
            }
        }
    }

    /// Starts a process where none runs, now and then of a newer version.
    fn start_one(&mut self) {
        let empty = (0..self.hosts.len()).find(|host| self.hosts[*host].member.is_none());
        let Some(host) = empty else { return };
        if self.rng.percent(20) {
            self.hosts[host].version = "0.2.0";
        }
        if self.split.is_some() && self.rng.percent(20) {
            self.hosts[host].shards = self.rng.pick(&[1, 2, PARTS]);
        }
        self.start(host);
    }

    fn start(&mut self, host: usize) {
        self.processes_ever += 1;
        let place = Place {
            host,
            number: self.processes_ever,
            version: self.hosts[host].version,
            boot: self.hosts[host].boot,
            times: self.times,
            selection: self.selection.clone(),
            split: self.split,
            shards: self.hosts[host].shards,
        };
        let rng = self.rng.split();
        let member = Member::start(&self.world, &self.network, &self.terms, place, rng);
        self.world
            .note(format!("host {host} starts process {}", self.processes_ever));
        self.hosts[host].member = Some(member);
    }

    /// One that acts, more often than not.
    fn pick_one(&mut self) -> Option<usize> {
        let runs = |host: &usize| self.hosts[*host].member.is_some();
        let acts = |host: &usize| {
            self.hosts[*host]
                .member
                .as_ref()
                .is_some_and(|member| member.node.is_acting())
        };
        let running: Vec<usize> = (0..self.hosts.len()).filter(runs).collect();
        let acting: Vec<usize> = running.iter().copied().filter(acts).collect();
        let acting = match acting.as_slice() {
            [] => None,
            [one] => Some(*one),
            several => Some(self.rng.pick(several)),
        };
        match acting.filter(|_| self.rng.percent(70)) {
            None if running.is_empty() => None,
            None => Some(self.rng.pick(&running)),
            acting => acting,
        }
    }

    /// Nothing of it happens after this moment, but what has left it.
    async fn kill_one(&mut self) {
        let Some(host) = self.pick_one() else { return };
        self.yield_some().await;
        self.kill(host).await;
    }

    async fn kill(&mut self, host: usize) {
        self.note_held();
        let Some(member) = self.hosts[host].member.take() else {
            return;
        };
        member.environment.life.kill();
        self.world.note(format!("host {host} loses its process"));
        member.watched.forget(&self.world);
    }

    /// It stands still, for less or for longer than a Lease lasts.
    async fn stop_one(&mut self) {
        let Some(host) = self.pick_one() else { return };
        self.yield_some().await;
        let Some(member) = &self.hosts[host].member else { return };
        member.environment.life.stop();
        self.world.note(format!("host {host} stands still"));
        let life = member.environment.life.clone();
        let pause = match self.rng.percent(60) {
            true => self.times.duration.mul_f64(1.0 + self.rng.below(100) as f64 / 100.0),
            false => Duration::from_millis(self.rng.below(3_000)),
        };
        let (world, environment) = (Arc::clone(&self.world), Arc::clone(&self.world.environment));
        let mut rng = self.rng.split();
        let proceed = async move {
            environment.sleep(pause).await;
            if life.is_stopped() {
                world.note(format!("host {host} continues"));
                life.proceed(&mut rng);
            }
        };
        self.world.environment.spawn("continue", Box::pin(proceed));
    }

    fn proceed_all(&mut self) {
        let members = self.hosts.iter().filter_map(|host| host.member.as_ref());
        let stopped = members.filter(|member| member.environment.life.is_stopped());
        stopped.for_each(|member| member.environment.life.proceed(&mut self.rng));
    }

    /// Informant's own cluster.
    fn disturb_network(&mut self) {
        let name = match self.rng.below(8) {
            0 | 1 => {
                self.network.connect_all();
                "all replicas are connected".to_owned()
            }
            2 | 3 => {
                let Some(host) = self.pick_one() else { return };
                self.network.cut_off(host);
                format!("host {host} is cut off from the Leases")
            }
            4 => {
                let shard = match self.split {
                    Some(_) => self.rng.below(PARTS.into()) as u8,
                    None => 0,
                };
                self.network.delete_lease(shard);
                format!("the Lease of shard {shard} is deleted")
            }
            _ => {
                let weather = [(); 2].map(|()| Weather {
                    way_ms_max: self.rng.pick(&[0, 0, 50, 400, 1_500]),
                    lost_percent: self.rng.pick(&[0, 0, 10, 60]),
                });
                self.network.set_weather(weather);
                format!("ways to Leases and to Secrets: {weather:?}")
            }
        };
        self.world.note(name);
    }

    /// It hands over, and ends.
    async fn end_one(&mut self) {
        let Some(host) = self.pick_one() else { return };
        let Some(member) = &self.hosts[host].member else { return };
        self.world.note(format!("host {host} is stopped"));
        tokio::select! {
            biased;
            () = member.stop() => {}
            () = self.world.environment.sleep(STOP_MAX) => {}
        }
        self.kill(host).await;
    }

    /// Lets the tasks run some steps.
    async fn yield_some(&mut self) {
        for _ in 0..self.rng.below(YIELDS_MAX) {
            tokio::task::yield_now().await;
        }
    }

    async fn pass_ms(&self, ms: u64) {
        self.world.environment.sleep(Duration::from_millis(ms)).await;
    }

    /// Records the incarnations that informers have.
    fn note_held(&mut self) {
        for member in self.hosts.iter().filter_map(|host| host.member.as_ref()) {
            let informer = member.watched.id;
            let stored = member.watched.stored().into_iter().map(|object| object.uid);
            let uids: Vec<String> = stored.filter(|uid| self.held.insert((informer, uid.clone()))).collect();
            if !uids.is_empty() {
                self.world.record(Entry::Holds { informer, uids });
            }
        }
    }

    /// Everything is at rest: records who acts, and what the handlers have kept.
    pub(super) fn record_rest(&self) {
        let members = self.hosts.iter().filter_map(|host| host.member.as_ref());
        let handlers: Vec<_> = members.flat_map(|member| &member.handlers).collect();
        let terms = handlers.iter().filter_map(|handler| handler.term());
        self.world.record(Entry::Acting {
            handlers: terms.flat_map(|term| term.handlers()).collect(),
        });
        handlers.iter().for_each(|handler| handler.record_rest());
    }
}
