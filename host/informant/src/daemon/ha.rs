//! `[ha]`: this process is one of several replicas, of which one acts.
//!
//! ```text
//! Leases ──▶ Group: standing ──▶ Replica ──▶ registry: Acting ──▶ supervisors of plugins: attach, or stand by
//!                     ▲             │ every second: ready? digest; while it acts: watermarks, oldest delete
//!                     └─────────────┘
//! ```
//!
//! Without `[ha]` a process acts from its start to its end.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use futures::future::join_all;
use informant_cache::{Environment, Moment};
use informant_config::{ClusterSection, Config, HaSection};
use informant_lease::{Gate, LeaseContent, MemberRecord, Notes, ReleaseReason, Standing};
use informant_plugin_host::ActingGate;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::acting::{Acting, Term, Watermarks};
use super::shared_state::{SharedState, TermOf};
use super::status_registry::{PluginPhase, StatusRegistry};
use crate::cluster::{Cluster, ClusterAccess, ClusterError};
use crate::replicas::{Group, GroupParts, GroupStatus, LeaseApi, SecretApi, times};

/// How often a replica looks whether it is ready, and publishes what a successor needs: 1 s.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often a replica that cannot connect to Informant's own cluster tries again: 5 s.
const CONNECT_RETRY: Duration = Duration::from_secs(5);

/// How long a replica that is not ready waits before it counts as ready nevertheless: 60 s after its start. What is
/// broken may be broken in every replica, and must not keep everything else from being handled.
const READY_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long calls that run may take to end when the work is handed over: 8 s, so that a stop, which takes 10 s at most,
/// can release the Lease. Then they are aborted, and their events are handled by the successor.
const HAND_OVER_CALLS_MAX: Duration = Duration::from_secs(8);

/// How long a hand-over waits until shared state is written, after the calls have ended: 2 s. With them, it ends with
/// the time of a stop. Events whose changes are not written then are handled by the successor.
const HAND_OVER_STATE_MAX: Duration = Duration::from_secs(2);

/// How long all replicas must have the same configuration before what plugins remember is deleted that are not in it:
/// 60 s. While a new configuration is rolled out, replicas with the old one and with the new one may act in turn.
const SAME_CONFIGURATION_MIN: Duration = Duration::from_secs(60);

/// How long standbys keep deletes at least: 10 min.
const KEPT_DELETES_AGE_MIN: Duration = Duration::from_secs(600);

/// How much longer than the oldest delete that the holder has not handled: 60 s.
const KEPT_DELETES_AGE_MARGIN: Duration = Duration::from_secs(60);

/// The note of watermarks in the Lease.
const WATERMARKS: &str = "watermarks";

/// The note of how old the oldest delete is that the holder has not handled, in seconds.
const OLDEST_DELETE_SECONDS: &str = "oldest-delete-seconds";

/// Tells whether everything that the configuration requires is ready.
pub(crate) type IsReady = fn(&StatusRegistry) -> bool;

pub(super) struct ReplicaParts {
    pub(super) place: ReplicaPlace,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) registry: StatusRegistry,
    pub(super) gate: Arc<ProcessGate>,
    /// What plugins remember, if it is shared.
    pub(super) shared: Option<SharedState>,
    pub(super) is_ready: IsReady,
    /// Where the admin server can be reached; empty if only from this machine.
    pub(super) address: Arc<str>,
}

/// Where this replica finds its group.
pub(super) struct ReplicaPlace {
    section: HaSection,
    group: Arc<str>,
    pod: Arc<str>,
    clusters: Vec<ClusterSection>,
}

/// The gate of all effects of this process. Closed until it has joined its group.
pub(super) struct ProcessGate {
    gate: OnceLock<Gate>,
    environment: Arc<dyn Environment>,
}

impl ProcessGate {
    pub(super) fn closed(environment: Arc<dyn Environment>) -> Self {
        Self {
            gate: OnceLock::new(),
            environment,
        }
    }
}

impl ActingGate for ProcessGate {
    fn remaining(&self) -> Option<Duration> {
        self.gate.get()?.remaining(self.environment.boot_now())
    }
}

impl ReplicaPlace {
    /// Where the replica of `[ha]` finds its group.
    ///
    /// # Errors
    /// If it has no name, or its group has none.
    pub(super) fn of(section: &HaSection, config: &Config, access: &ClusterAccess) -> Result<Self> {
        let pod = std::env::var("HOSTNAME").unwrap_or_default();
        if pod.is_empty() {
            bail!(
                "[ha] needs the name of this replica in the environment variable HOSTNAME, which is empty; a pod has it"
            );
        }
        let group = match (&section.group, stateful_set(&pod)) {
            (Some(group), _) => group.as_str(),
            (None, Some(set)) => set,
            (None, None) => bail!(
                "[ha] needs `group`: the host name, {pod:?}, is not that of a pod of a StatefulSet, such as informant-0"
            ),
        };
        let configured = |name: &str| {
            let section = config.clusters.get(name)?;
            Some(access.flags.over(name, &section.value))
        };
        let in_cluster = ClusterSection {
            in_cluster: true,
            ..ClusterSection::default()
        };
        let clusters = match &section.cluster {
            Some(name) => configured(name).into_iter().collect(),
            None => std::iter::once(in_cluster).chain(configured("")).collect(),
        };
        Ok(Self {
            section: section.clone(),
            group: group.into(),
            pod: pod.into(),
            clusters,
        })
    }

    /// Informant's own cluster: the first one that it runs in, or that the configuration names.
    async fn connect(&self) -> Result<Cluster> {
        let mut problem = None;
        for section in &self.clusters {
            match Cluster::connect(section).await {
                Ok(cluster) => return Ok(cluster),
                // It does not run in a pod.
                Err(error @ ClusterError::InCluster(_)) => problem = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        match problem {
            Some(problem) => Err(problem).context("set `cluster` in [ha] to Informant's own cluster"),
            None => bail!("set `cluster` in [ha]: no cluster is configured"),
        }
    }
}

/// The StatefulSet whose pod has this name: `informant` of `informant-0`.
fn stateful_set(pod: &str) -> Option<&str> {
    let (set, number) = pod.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !set.is_empty()).then_some(set)
}

/// This process in its group.
#[derive(Debug)]
pub(super) struct Replica {
    stop: CancellationToken,
    /// Cancelled once it has left the group.
    left: CancellationToken,
}

impl Replica {
    /// Joins the group, and acts while the Lease names it.
    pub(super) fn start(parts: ReplicaParts) -> Self {
        let (stop, left) = (CancellationToken::new(), CancellationToken::new());
        let environment = Arc::clone(&parts.environment);
        let member = GroupMember {
            began: parts.environment.now(),
            parts,
            same_since: None,
            logged: None,
        };
        let (stopped, done) = (stop.clone(), left.clone().drop_guard());
        let run = async move {
            member.run(stopped).await;
            drop(done);
        };
        environment.spawn("replica", Box::pin(run));
        Self { stop, left }
    }

    /// Hands over to another replica, and leaves the group. Returns at `until` at the latest: the Leases then expire.
    pub(super) async fn leave(&self, until: Instant) {
        self.stop.cancel();
        let _ = tokio::time::timeout_at(until, self.left.cancelled()).await;
    }
}

/// Takes part in the group until the process has left it.
struct GroupMember {
    parts: ReplicaParts,
    began: Moment,
    /// Since when all replicas that live have the same configuration.
    same_since: Option<Moment>,
    /// What the log has said.
    logged: Option<String>,
}

impl GroupMember {
    async fn run(mut self, stop: CancellationToken) {
        let Some(group) = stop.run_until_cancelled(self.join()).await else {
            return;
        };
        self.parts.registry.set_group(group.clone());
        // It was set nowhere else.
        let _ = self.parts.gate.gate.set(group.gate().clone());
        let mut statuses = group.watch();
        let (mut is_stopping, mut look_at) = (false, Moment::ZERO);
        loop {
            let status = Arc::clone(&statuses.borrow_and_update());
            self.follow(&group, &status).await;
            if status.has_ended {
                return;
            }
            // What is published changes the status.
            if self.parts.environment.now() >= look_at {
                self.publish(&group, &status);
                look_at = self.parts.environment.now() + LOOK_INTERVAL;
            }
            let look = self.parts.environment.sleep(look_at - self.parts.environment.now());
            tokio::select! {
                biased;
                changed = statuses.changed() => if changed.is_err() { return },
                () = stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    group.release(ReleaseReason::Stop);
                }
                () = look => {}
            }
        }
    }

    async fn join(&mut self) -> Group {
        loop {
            match self.try_join().await {
                Ok(group) => return group,
                Err(error) => {
                    let reason: Arc<str> = format!("{error:#}").into();
                    tracing::warn!(%reason, "cannot join the group of replicas; retrying");
                    self.parts.registry.set_not_joined(reason);
                }
            }
            self.parts.environment.sleep(CONNECT_RETRY).await;
        }
    }

    async fn try_join(&self) -> Result<Group> {
        let ReplicaParts {
            place,
            environment,
            registry,
            address,
            shared,
            ..
        } = &self.parts;
        let cluster = place.connect().await?;
        let (namespace, environment) = (place.section.namespace.as_deref(), Arc::clone(environment));
        let leases = LeaseApi::new(
            cluster.client.clone(),
            namespace,
            &place.group,
            Arc::clone(&environment),
        );
        if let Some(shared) = shared {
            let (client, environment) = (cluster.client.clone(), Arc::clone(&environment));
            shared.connect(SecretApi::new(client, namespace, &place.group, environment));
        }
        let record = MemberRecord {
            version: env!("CARGO_PKG_VERSION").into(),
            digest: registry.configuration().digest.clone(),
            layout: "1".into(),
            is_ready: false,
            address: Arc::clone(address),
        };
        Ok(Group::join(GroupParts {
            client: cluster.sources.clone(),
            leases,
            group: Arc::clone(&place.group),
            pod: Arc::clone(&place.pod),
            times: times(place.section.speed),
            record,
            environment,
        })?)
    }

    /// Lets the plugins act or stand by, as the standing of this process says.
    async fn follow(&mut self, group: &Group, status: &GroupStatus) {
        let registry = &self.parts.registry;
        match &status.standing {
            Standing::Acting { epoch, .. } => {
                if registry
                    .acting()
                    .borrow()
                    .term()
                    .is_none_or(|term| term.epoch != *epoch)
                {
                    let predecessor = status.predecessor.as_ref().map(watermarks);
                    tracing::info!(lease = %status.lease, epoch, takeover = predecessor.is_some(), "this replica acts");
                    if let Some(shared) = &self.parts.shared {
                        shared.begin(TermOf {
                            identity: &status.identity,
                            epoch: *epoch,
                            gate: group.gate().clone(),
                        });
                    }
                    registry.set_acting(Acting::Yes(Arc::new(Term {
                        epoch: *epoch,
                        predecessor,
                    })));
                }
            }
            Standing::HandingOver { .. } => {
                if matches!(*registry.acting().borrow(), Acting::Ending) {
                    return;
                }
                tracing::info!(lease = %status.lease, "handing over to another replica");
                registry.set_acting(Acting::Ending);
                let shared = self.parts.shared.as_ref();
                // The events of calls that changed keys end when the changes are written.
                if let Some(shared) = shared {
                    shared.hurry();
                }
                join_all(running_plugins(registry).map(|plugin| async move {
                    plugin.hand_over(HAND_OVER_CALLS_MAX).await;
                }))
                .await;
                if let Some(shared) = shared {
                    if !shared.flush(HAND_OVER_STATE_MAX).await {
                        tracing::warn!(lease = %status.lease, "shared state was not written before the hand-over");
                    }
                    shared.end();
                }
                // What was handled until now.
                self.set_notes(group);
                group.handed_over();
            }
            Standing::Standby { why, .. } => {
                if !matches!(*registry.acting().borrow(), Acting::No) {
                    tracing::warn!(lease = %status.lease, reason = %why, "this replica no longer acts");
                    self.stop_acting();
                    write_notes(group, "", status.content.as_ref().and_then(published_oldest_delete));
                }
            }
            Standing::Acquiring { .. } | Standing::Releasing { .. } => self.stop_acting(),
        }
    }

    fn stop_acting(&self) {
        if let Some(shared) = &self.parts.shared {
            shared.end();
        }
        self.parts.registry.set_acting(Acting::No);
    }

    /// Tells the group what is known here.
    fn publish(&mut self, group: &Group, status: &GroupStatus) {
        let ReplicaParts {
            environment,
            registry,
            is_ready,
            ..
        } = &self.parts;
        let waited = environment.now() - self.began;
        group.set_ready(is_ready(registry) || waited >= READY_WAIT_MAX);
        group.set_digest(registry.configuration().digest.clone());
        let oldest = match &status.standing {
            Standing::Acting { .. } => {
                self.set_notes(group);
                oldest_delete(registry, environment.now())
            }
            _ => {
                let oldest = status.content.as_ref().and_then(published_oldest_delete);
                write_notes(group, "", oldest);
                oldest
            }
        };
        let age_max = (oldest.unwrap_or_default() + KEPT_DELETES_AGE_MARGIN).max(KEPT_DELETES_AGE_MIN);
        registry.catalog().kept_deletes().keep(Some(age_max), environment.now());
        self.forget_removed_plugins(status);
        self.log(status);
    }

    /// Deletes what plugins remember that no replica has any more.
    fn forget_removed_plugins(&mut self, status: &GroupStatus) {
        let ReplicaParts {
            environment,
            registry,
            shared,
            ..
        } = &self.parts;
        let Some(shared) = shared else { return };
        let (now, digest) = (environment.now(), registry.configuration().digest.clone());
        let boot_now = environment.boot_now();
        let mut live = status.members.iter().filter(|member| member.is_live(boot_now));
        if !live.all(|member| member.record.digest == digest) {
            self.same_since = None;
            return;
        }
        let since = *self.same_since.get_or_insert(now);
        if now.since(since) >= SAME_CONFIGURATION_MIN {
            let plugins = registry.plugins().into_iter().map(|entry| entry.name.to_string());
            shared.keep_only_plugins(&plugins.collect());
        }
    }

    fn set_notes(&self, group: &Group) {
        let (registry, now) = (&self.parts.registry, self.parts.environment.now());
        let (text, left_out) = watermarks_of(registry).to_text();
        registry.set_watermarks_left_out(left_out);
        write_notes(group, &text, oldest_delete(registry, now));
    }

    /// Says once what keeps this replica from being one.
    fn log(&mut self, status: &GroupStatus) {
        let problem = status.failure.as_ref().map(ToString::to_string);
        if problem != self.logged {
            match &problem {
                Some(reason) => {
                    tracing::warn!(lease = %status.lease, %reason, "the Lease of this replica cannot be written")
                }
                None => tracing::info!(lease = %status.lease, "the Lease of this replica is written again"),
            }
            self.logged = problem;
        }
    }
}

/// Sets what the Lease says once this process holds it. A standby has no watermarks: those of the predecessor end with
/// the acquisition, because this process may deliver again what they cover, and be lost before the delete of that.
fn write_notes(group: &Group, watermarks: &str, oldest_delete: Option<Duration>) {
    let oldest = oldest_delete.unwrap_or_default().as_secs().to_string();
    // Watermarks fit.
    if let Ok(notes) = Notes::new([(WATERMARKS, watermarks), (OLDEST_DELETE_SECONDS, oldest.as_str())]) {
        group.set_notes(notes);
    }
}

/// What the predecessor has published.
fn watermarks(content: &LeaseContent) -> Watermarks {
    content.notes.get(WATERMARKS).map(Watermarks::parse).unwrap_or_default()
}

fn published_oldest_delete(content: &LeaseContent) -> Option<Duration> {
    let seconds = content.notes.get(OLDEST_DELETE_SECONDS)?;
    seconds.parse().ok().map(Duration::from_secs)
}

fn running_plugins(registry: &StatusRegistry) -> impl Iterator<Item = informant_plugin_host::Plugin> {
    let phases = registry.plugins().into_iter().map(|entry| entry.phase());
    phases.filter_map(|phase| match phase {
        PluginPhase::Running(plugin) => Some(plugin),
        _ => None,
    })
}

/// How far the plugins of this process have accepted their sources.
fn watermarks_of(registry: &StatusRegistry) -> Watermarks {
    let mut watermarks = Watermarks::default();
    for plugin in running_plugins(registry) {
        let listener = plugin.listener();
        for (_, informer) in &plugin.spec().informers {
            for source in registry.sources(informer) {
                if let Some(watermark) = listener.ledger().watermark(source.id()) {
                    watermarks.insert(plugin.name(), source.info(), watermark);
                }
            }
        }
    }
    watermarks
}

/// The age of the oldest delete that the plugins of this process have not accepted.
fn oldest_delete(registry: &StatusRegistry, now: Moment) -> Option<Duration> {
    let oldest = running_plugins(registry).map(|plugin| plugin.listener().ledger().oldest_delete(now));
    oldest.flatten().max()
}
