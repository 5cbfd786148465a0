//! The replicas of one Informant: Leases of Informant's own cluster say which of them acts for what.
//!
//! ```text
//! Leases ──informer──▶ Driver: ReplicaLeases ──requests──▶ Leases
//!                        │ standing   ▲ ready, notes, stop
//!                        ▼                         │
//!                 GroupStatus ─────────────▶ daemon: acts, or is a standby
//! ```
//!
//! The rules are those of `informant-lease`, which does no I/O. This module reads and writes the Leases and passes time
//! on. What acting means is the daemon's business.

mod driver;
mod lease_api;
mod lease_watch;
mod secret_api;

use std::sync::Arc;

use informant_cache::{Division, Environment};
use informant_config::HaSpeed;
use informant_informer::ClusterClient;
use informant_lease::{Gate, Layout, LeaseContent, LeaseTimes, Member, MemberRecord, Notes, Standing};
use tokio::sync::{mpsc, watch};

pub(crate) use self::lease_api::LeaseApi;
pub(crate) use self::secret_api::{SECRET_REQUEST_MAX, SecretApi};

use crate::vital_task::vital;

use self::driver::{Command, Driver};
use self::lease_watch::LeaseWatch;
pub(crate) use self::lease_watch::LeaseWatchError;

/// What a group of replicas is made of.
pub(crate) struct GroupParts {
    pub(crate) client: ClusterClient,
    pub(crate) leases: LeaseApi,
    /// What the names of its Leases begin with.
    pub(crate) group: Arc<str>,
    /// The name of this replica's pod.
    pub(crate) pod: Arc<str>,
    pub(crate) times: LeaseTimes,
    /// Into how many shards this replica is configured to divide the work; none: it acts for all of it or for nothing.
    pub(crate) division: Option<Division>,
    /// What this replica says about itself at first.
    pub(crate) record: MemberRecord,
    pub(crate) environment: Arc<dyn Environment>,
}

/// The group of this replica, as this replica sees it. The task behind it ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<Arc<GroupStatus>>,
    gate: Gate,
}

/// What is known of the group now.
#[derive(Clone, Debug)]
pub(crate) struct GroupStatus {
    /// `NAMESPACE/NAME` of the Lease that says who acts.
    pub(crate) lease: Arc<str>,
    /// This process in it.
    pub(crate) identity: Arc<str>,
    pub(crate) standing: Standing,
    /// The Lease as it was last observed.
    pub(crate) content: Option<LeaseContent>,
    /// Whether the process that it names is a replica that renews its own Lease.
    pub(crate) named_is_live: bool,
    /// What the Lease said when this process acquired it.
    pub(crate) predecessor: Option<LeaseContent>,
    /// Into how many shards the work is divided now.
    pub(crate) layout: Layout,
    /// The layout that follows, while the replicas change to it.
    pub(crate) next_layout: Option<Layout>,
    /// Each shard, in order; the first one is what the fields above are about.
    pub(crate) shards: Vec<ShardStatus>,
    /// All replicas whose Leases exist, by name.
    pub(crate) members: Vec<Member>,
    /// Another process that writes the Lease of this replica's pod.
    pub(crate) other: Option<Arc<str>>,
    /// Why the own member Lease cannot be written, or the Leases cannot be read.
    pub(crate) failure: Option<Arc<str>>,
    /// Leases of members that were ignored because there are too many.
    pub(crate) ignored: u64,
    /// The process stops, and has released what it held.
    pub(crate) has_ended: bool,
}

/// A part of the work, by its Lease.
#[derive(Clone, Debug)]
pub(crate) struct ShardStatus {
    pub(crate) shard: u8,
    /// What this process is for it.
    pub(crate) standing: Standing,
    /// The layout by which this process acts; none while it does not.
    pub(crate) layout: Option<Layout>,
    /// The live replica in the Lease: the identity of its process.
    pub(crate) holder: Option<Arc<str>>,
    /// How often the Lease was acquired.
    pub(crate) transitions: u32,
    /// The Lease as it was last observed.
    pub(crate) content: Option<LeaseContent>,
    /// What it said when this process acquired it.
    pub(crate) predecessor: Option<LeaseContent>,
    pub(crate) gate: Gate,
}

impl Group {
    /// Joins the group.
    ///
    /// # Errors
    /// If the informer of its Leases cannot be started.
    pub(crate) fn join(parts: GroupParts) -> Result<Group, LeaseWatchError> {
        let (news, seen) = mpsc::unbounded_channel();
        let (commands, receiver) = mpsc::unbounded_channel();
        let place = (parts.leases.namespace(), Arc::clone(&parts.group));
        let watch = LeaseWatch::start(parts.client.clone(), place, Arc::clone(&parts.environment), news)?;
        let environment = Arc::clone(&parts.environment);
        let driver = Driver::new(parts, watch, seen, receiver);
        let (gate, status) = (driver.gate(), driver.status());
        environment.spawn("replicas", Box::pin(vital("replicas", driver.run())));
        Ok(Group { commands, status, gate })
    }

    pub(crate) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) fn status(&self) -> Arc<GroupStatus> {
        Arc::clone(&self.status.borrow())
    }

    /// Changes with every change of the status.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<GroupStatus>> {
        self.status.clone()
    }

    /// Whether this replica could act.
    pub(crate) fn set_ready(&self, is_ready: bool) {
        self.send(Command::Ready(is_ready));
    }

    /// The digest of the configuration that is in effect.
    pub(crate) fn set_digest(&self, digest: Arc<str>) {
        self.send(Command::Digest(digest));
    }

    /// What the Lease of a shard carries for a successor, while this process holds it.
    pub(crate) fn set_notes(&self, shard: u8, notes: Notes) {
        self.send(Command::Notes(shard, notes));
    }

    /// Gives all Leases up forever, and leaves the group. The shards are then [`Standing::HandingOver`], until
    /// [`handed_over`](Self::handed_over).
    pub(crate) fn leave(&self) {
        self.send(Command::Stop);
    }

    /// All effects of this process for a shard have ended, and none begins.
    pub(crate) fn handed_over(&self, shard: u8) {
        self.send(Command::HandedOver(shard));
    }

    fn send(&self, command: Command) {
        // Without a receiver the runtime stops.
        let _ = self.commands.send(command);
    }
}

impl GroupStatus {
    /// The pod of the process that acts, as far as it is known: the one that the Lease names, if it renews its own.
    pub(crate) fn holder(&self) -> Option<&str> {
        let holder = match &self.standing {
            Standing::Acting { .. } | Standing::HandingOver { .. } => Some(&*self.identity),
            _ => self.named().filter(|_| self.named_is_live),
        };
        holder.map(pod_of)
    }

    /// What the Lease says: the identity of a process, which may be lost, or no replica.
    pub(crate) fn named(&self) -> Option<&str> {
        let holder = self.content.as_ref().map(|content| &*content.holder);
        holder.filter(|holder| !holder.is_empty())
    }
}

/// The pod of a process: its identity is `POD_NUMBER`.
pub(crate) fn pod_of(identity: &str) -> &str {
    identity.rsplit_once('_').map_or(identity, |(pod, _)| pod)
}

/// The times of a configured speed.
pub(crate) fn times(speed: HaSpeed) -> LeaseTimes {
    match speed {
        HaSpeed::Normal => LeaseTimes::DEFAULT,
        HaSpeed::Fast => LeaseTimes::FAST,
    }
}
