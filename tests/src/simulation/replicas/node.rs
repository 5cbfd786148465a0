//! The state machines of a process about Leases, as the daemon drives them (`host/informant/src/replicas/driver.rs`).

use std::sync::{Arc, Mutex};

use informant_cache::{Division, Environment, Moment};
use informant_lease::{
    Election, Gate, Layout, LeaseContent, LeaseTimes, MemberRecord, ReplicaInput, ReplicaLeases, Standing,
};
use tokio::sync::{Notify, mpsc, watch};

use super::super::world::locked;
use super::life::ProcessEnvironment;
use super::network::Network;

/// How often a step may be due again at once.
const STEPS_AT_ONCE_MAX: usize = 8;

pub(super) struct Node {
    host: usize,
    environment: Arc<ProcessEnvironment>,
    network: Arc<Network>,
    machines: Mutex<ReplicaLeases>,
    inbox: mpsc::UnboundedSender<ReplicaInput>,
    status: watch::Sender<Status>,
    wake: Notify,
}

/// What its process follows.
#[derive(Clone, PartialEq)]
pub(super) struct Status {
    /// The first one is there.
    pub(super) shards: Vec<ShardStatus>,
    pub(super) has_ended: bool,
}

/// What it follows of a shard.
#[derive(Clone, PartialEq)]
pub(super) struct ShardStatus {
    pub(super) shard: u8,
    pub(super) standing: Standing,
    /// The Lease as it was last observed.
    pub(super) content: Option<LeaseContent>,
    /// As it was when this process acquired it.
    pub(super) predecessor: Option<LeaseContent>,
    /// To which it belongs in the term of this process.
    pub(super) layout: Option<Layout>,
}

impl Node {
    /// Starts the machines of process `number` on `host`.
    pub(super) fn start(
        (host, number, version): (usize, usize, &str),
        (times, division): (LeaseTimes, Option<Division>),
        environment: &Arc<ProcessEnvironment>,
        network: &Arc<Network>,
    ) -> Arc<Self> {
        let (inbox, inputs) = mpsc::unbounded_channel();
        let pod: Arc<str> = format!("informant-{host}").into();
        let identity = format!("{pod}_{number}").into();
        let record = MemberRecord {
            version: version.into(),
            digest: "d".into(),
            layout: "".into(),
            is_ready: false,
            address: "".into(),
        };
        let now = environment.boot_now();
        let machines = ReplicaLeases::new(now, (identity, pod), times, division, record);
        let status = Status::of(&machines);
        let node = Arc::new(Self {
            host,
            environment: Arc::clone(environment),
            network: Arc::clone(network),
            machines: Mutex::new(machines),
            inbox: inbox.clone(),
            status: watch::Sender::new(status),
            wake: Notify::new(),
        });
        network.watch(host, inbox);
        let drive = Arc::clone(&node).drive(inputs);
        environment.spawn("lease driver", Box::pin(drive));
        node
    }

    /// The gate of a shard that is known.
    pub(super) fn gate(&self, shard: u8) -> Gate {
        let machines = locked(&self.machines);
        machines.election(shard).expect("it is known").gate().clone()
    }

    pub(super) fn identity(&self) -> Arc<str> {
        Arc::clone(locked(&self.machines).identity())
    }

    /// To which configuration watermarks belong.
    pub(super) fn configuration(&self) -> String {
        locked(&self.machines).layout().0.to_string()
    }

    pub(super) fn watch(&self) -> watch::Receiver<Status> {
        self.status.subscribe()
    }

    /// It, or it may believe that it, acts.
    pub(super) fn is_acting(&self) -> bool {
        let acts =
            |shard: &ShardStatus| matches!(shard.standing, Standing::Acting { .. } | Standing::HandingOver { .. });
        self.status.borrow().shards.iter().any(acts)
    }

    pub(super) fn input(&self, input: ReplicaInput) {
        let (requests, status) = {
            let mut machines = locked(&self.machines);
            let now = self.environment.boot_now();
            let mut requests = machines.step(now, input);
            let mut steps = 0;
            while machines.next_wake(now) <= now && steps < STEPS_AT_ONCE_MAX {
                requests.extend(machines.step(now, ReplicaInput::Clock));
                steps += 1;
            }
            (requests, Status::of(&machines))
        };
        for (name, request) in requests {
            self.network.send(self.host, name, request, self.inbox.clone());
        }
        self.status.send_if_modified(|before| {
            let is_changed = *before != status;
            *before = status;
            is_changed
        });
        self.wake.notify_one();
    }

    async fn drive(self: Arc<Self>, mut inputs: mpsc::UnboundedReceiver<ReplicaInput>) {
        self.input(ReplicaInput::Clock);
        loop {
            let now = self.environment.boot_now();
            let wake = locked(&self.machines).next_wake(now);
            let sleep = match wake {
                Moment::NEVER => Box::pin(std::future::pending()),
                wake => self.environment.sleep(wake - now),
            };
            tokio::select! {
                biased;
                Some(input) = inputs.recv() => self.input(input),
                () = self.wake.notified() => {}
                () = sleep => self.input(ReplicaInput::Clock),
            }
        }
    }
}

impl Status {
    fn of(machines: &ReplicaLeases) -> Self {
        let of_shard = |(shard, election): (u8, &Election)| ShardStatus {
            shard,
            standing: election.standing(),
            content: election.lease().map(|lease| lease.content.clone()),
            predecessor: election.predecessor().cloned(),
            layout: election.term_layout(),
        };
        Self {
            shards: machines.elections().map(of_shard).collect(),
            has_ended: machines.has_ended(),
        }
    }

    /// That of all the work, if it is not divided.
    pub(super) fn first(&self) -> &ShardStatus {
        &self.shards[0]
    }
}
