//! `[ha]`: this process is one of several replicas. One acts, or each for the objects of its [shards].
//!
//! ```text
//! Leases ──▶ Group: standing ──▶ Replica ──▶ registry: Acting ──▶ supervisors of plugins: attach, or stand by
//!                     ▲             │ every second: ready? digest; while it acts: watermarks, oldest delete
//!                     └─────────────┘
//! ```
//!
//! Without `[ha]` a process acts from its start to its end.

mod gate;
mod notes;
mod place;
mod shards;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use futures::future::join_all;
use informant_cache::listener::Ledger;
use informant_cache::{Catalog, Environment, Moment};
use informant_lease::{Layout, Member, MemberRecord, StandbyReason, Standing};
use informant_object::SourceId;
use informant_plugin_host::Plugin;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(super) use self::gate::ProcessGate;
use self::notes::{published_oldest_delete, watermarks, write_notes};
pub(super) use self::place::ReplicaPlace;
use self::shards::Shards;
use super::acting::{Acting, Term, Watermarks};
use super::shared_state::{Reading, SharedState, TermOf};
use super::shared_term::{PublishedWatermarks, SharedTerm};
use super::status_registry::{PluginPhase, StatusRegistry};
use crate::replicas::{Group, GroupParts, GroupStatus, LeaseApi, SecretApi, times};
use crate::vital_task::vital;

/// How often a replica looks whether it is ready, and publishes what a successor needs: 1 s.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How often a replica that cannot connect to Informant's own cluster tries again: 5 s.
const CONNECT_RETRY: Duration = Duration::from_secs(5);

/// How long a replica that is not ready waits before it counts as ready nevertheless: 60 s after its start. What is
/// broken may be broken in every replica, and must not keep everything else from being handled.
const READY_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long calls that run may take to end when the work is handed over: 6 s, so that a stop, which takes 10 s at most,
/// can release the Lease. Then they are aborted, and their events are handled by the successor.
const HAND_OVER_CALLS_MAX: Duration = Duration::from_secs(6);

/// How long a hand-over waits until shared state is written, after the calls have ended: 2 s. With them, it ends with
/// the time of a stop. Events whose changes are not written then are handled by the successor.
const HAND_OVER_STATE_MAX: Duration = Duration::from_secs(2);

/// How long all replicas must have the same configuration before what plugins remember is deleted that are not in it:
/// 60 s. While a new configuration is rolled out, replicas with the old one and with the new one may act in turn.
const SAME_CONFIGURATION_MIN: Duration = Duration::from_secs(60);

/// How long a replica must not have renewed its Lease before its configuration no longer counts for that: 24 h. The
/// Lease of one that was scaled away stays.
const MEMBER_GONE_MIN: Duration = Duration::from_secs(24 * 3_600);

/// How long standbys keep deletes at least: 10 min.
const KEPT_DELETES_AGE_MIN: Duration = Duration::from_secs(600);

/// How much longer than the oldest delete that the holder has not handled: 60 s.
const KEPT_DELETES_AGE_MARGIN: Duration = Duration::from_secs(60);

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

/// Keeps deletes for the case that this process takes over.
pub(super) fn keep_deletes(catalog: &Catalog, now: Moment) {
    catalog.kept_deletes().keep(Some(KEPT_DELETES_AGE_MIN), now);
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
            shards: Shards::new(&parts),
            parts,
            held: None,
            same_since: None,
            counts_as_ready: false,
            kept_for: KEPT_DELETES_AGE_MIN,
            acts_since: None,
            logged: None,
        };
        let (stopped, done) = (stop.clone(), left.clone().drop_guard());
        let run = async move {
            member.run(stopped).await;
            drop(done);
        };
        environment.spawn("replica", Box::pin(vital("replica", run)));
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
    /// Present while the Lease names this process.
    held: Option<HeldLease>,
    /// For plugins whose objects are divided.
    shards: Shards,
    /// Since when all replicas that live have the same configuration.
    same_since: Option<Moment>,
    /// It is not ready, and counts as ready nevertheless.
    counts_as_ready: bool,
    /// How long deletes are kept.
    kept_for: Duration,
    /// Since when plugins have been called in this term.
    acts_since: Option<Moment>,
    /// What the log has said.
    logged: Option<String>,
}

/// The Lease in the hands of this process.
struct HeldLease {
    epoch: u32,
    /// What the predecessor has published; none if there was none.
    predecessor: Option<Watermarks>,
    /// What is shared, once plugins act with it.
    shared: Option<SharedTerm>,
}

impl GroupMember {
    async fn run(mut self, stop: CancellationToken) {
        let Some(group) = stop.run_until_cancelled(self.join()).await else {
            return;
        };
        self.parts.registry.set_group(group.clone());
        let mut statuses = group.watch();
        let (mut is_stopping, mut look_at) = (false, Moment::ZERO);
        loop {
            let status = Arc::clone(&statuses.borrow_and_update());
            self.follow(&group, &status).await;
            if status.has_ended {
                return;
            }
            // What is published changes the status.
            // A Lease that returns at once must not have what the term before has accepted: this one begins earlier.
            if self.shards.take_has_lost() || self.parts.environment.now() >= look_at {
                self.publish(&group, &status);
                look_at = self.parts.environment.now() + LOOK_INTERVAL;
            }
            let look = self.parts.environment.sleep(look_at - self.parts.environment.now());
            let read = async {
                match &self.parts.shared {
                    Some(shared) => shared.news().await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = statuses.changed() => if changed.is_err() { return },
                () = stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    group.leave();
                }
                () = read => {}
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
            // Set with the division.
            layout: Arc::default(),
            is_ready: false,
            address: Arc::clone(address),
        };
        Ok(Group::join(GroupParts {
            client: cluster.sources.clone(),
            leases,
            group: Arc::clone(&place.group),
            pod: Arc::clone(&place.pod),
            times: times(place.section.speed),
            division: place.division(),
            record,
            environment,
        })?)
    }

    /// Lets the plugins act or stand by, as the standing of this process says.
    async fn follow(&mut self, group: &Group, status: &GroupStatus) {
        let ends = self.shards.follow(status);
        match &status.standing {
            Standing::Acting { .. } if !self.may_act(status) => self.stop_acting(),
            Standing::Acting { epoch, .. } => {
                if self.held.as_ref().is_none_or(|held| held.epoch != *epoch) {
                    self.hold(group, status, *epoch);
                }
                self.act(group);
            }
            Standing::HandingOver { .. } if self.begins_hand_over(status) => {
                let calls = end_calls(self.parts.registry.clone());
                let ((), ended) = tokio::join!(calls, self.shards.end(ends));
                self.hand_over(group, status).await;
                return self.handed_over(group, ended);
            }
            Standing::HandingOver { .. } => {}
            Standing::Standby { why, .. } => {
                if self.held.is_some() || !matches!(*self.parts.registry.acting(false).borrow(), Acting::No) {
                    tracing::warn!(lease = %status.lease, reason = %why, "this replica no longer acts");
                    self.stop_acting();
                    let oldest = status.content.as_ref().and_then(published_oldest_delete);
                    write_notes(group, 0, ("", ""), oldest);
                }
            }
            Standing::Acquiring { .. } | Standing::Releasing { .. } => {
                // It stood still for so long that the Lease, of which it has seen nothing since, has expired.
                if self.held.is_some() && matches!(status.standing, Standing::Acquiring { .. }) {
                    let reason = StandbyReason::DeadlinePassed(None);
                    tracing::warn!(lease = %status.lease, %reason, "this replica no longer acts");
                }
                self.stop_acting();
            }
        }
        let ended = self.shards.end(ends).await;
        self.handed_over(group, ended);
    }

    /// Calls for these shards have ended.
    fn handed_over(&mut self, group: &Group, ended: Vec<u8>) {
        for shard in ended {
            self.set_notes(group, shard);
            group.handed_over(shard);
        }
    }

    /// Whether plugins that act for all objects may act by the Lease of the first shard. Other replicas act for a part
    /// of the objects of theirs if this one is not configured for shards, and the work is divided.
    fn may_act(&self, status: &GroupStatus) -> bool {
        let first = status.shards.first().and_then(|shard| shard.layout);
        self.parts.place.division().is_some() || first.unwrap_or(Layout::WHOLE).division.shards == 1
    }

    /// Lets nothing begin any more of plugins that act for all objects; false if that was done before.
    fn begins_hand_over(&self, status: &GroupStatus) -> bool {
        let registry = &self.parts.registry;
        if matches!(*registry.acting(false).borrow(), Acting::Ending) {
            return false;
        }
        tracing::info!(lease = %status.lease, "handing over to another replica");
        registry.set_acting(Acting::Ending);
        // The events of calls that changed keys end when the changes are written.
        if let Some(shared) = &self.parts.shared {
            shared.hurry();
        }
        true
    }

    /// Calls of these plugins have ended: writes what they remember.
    async fn hand_over(&mut self, group: &Group, status: &GroupStatus) {
        // What is not written yet is not published.
        self.set_notes(group, 0);
        if let Some(shared) = self.parts.shared.as_ref() {
            if !shared.flush(HAND_OVER_STATE_MAX).await {
                tracing::warn!(lease = %status.lease, "shared state was not written before the hand-over");
            }
            shared.end();
        }
        if self.parts.place.division().is_none() {
            // What was handled until now.
            self.set_notes(group, 0);
            group.handed_over(0);
        }
    }

    /// The Lease names this process: reads what is shared. Plugins act when it is read.
    fn hold(&mut self, group: &Group, status: &GroupStatus, epoch: u32) {
        let registry = &self.parts.registry;
        let own = self.shards.configuration(status);
        let predecessor = status.predecessor.as_ref().map(|content| watermarks(content, &own));
        // If the Lease was deleted, there may have been one nevertheless, and its handlers wait for these.
        let has_kept_deletes = || registry.catalog().kept_deletes().stats().deletes > 0;
        let predecessor = predecessor.or_else(|| has_kept_deletes().then(Watermarks::default));
        tracing::info!(lease = %status.lease, epoch, takeover = predecessor.is_some(), "this replica acts");
        if let Some(shared) = &self.parts.shared {
            shared.begin(TermOf {
                identity: &status.identity,
                epoch,
                gate: group.gate().clone(),
            });
        }
        // Of an earlier term that ended a moment ago.
        whole_plugins(registry).for_each(|plugin| plugin.end_term());
        self.acts_since = None;
        self.held = Some(HeldLease {
            epoch,
            predecessor,
            shared: None,
        });
    }

    /// Lets plugins act, unless they do. If shared state was repaired since, they begin once more.
    fn act(&mut self, group: &Group) {
        let Some(held) = &mut self.held else { return };
        let registry = &self.parts.registry;
        let shared = match self.parts.shared.as_ref().map(SharedState::reading) {
            // A plugin that was paused must not be called.
            Some(Reading::Opening) => return,
            Some(Reading::Open(shared)) => Some(shared),
            Some(Reading::Refused) | None => None,
        };
        let present = registry.acting(false).borrow().term().cloned();
        let present = present.filter(|term| term.epoch == held.epoch);
        if present.as_ref().is_some_and(|term| term.shared == shared) {
            return;
        }
        if let Some(shared) = shared.as_ref().filter(|_| present.is_some()) {
            // Commands of the meantime hold.
            let paused = whole_plugins(registry).filter(|plugin| plugin.is_paused_by_command());
            paused.for_each(|plugin| drop(shared.write_pause(&plugin)));
        }
        held.shared.clone_from(&shared);
        self.acts_since.get_or_insert(self.parts.environment.boot_now());
        self.parts.gate.open(group.gate(), held.epoch);
        registry.set_acting(Acting::Yes(Arc::new(Term {
            epoch: held.epoch,
            predecessor: held.predecessor.clone(),
            shared,
            shards: None,
        })));
    }

    fn stop_acting(&mut self) {
        (self.held, self.acts_since) = (None, None);
        self.parts.gate.close();
        whole_plugins(&self.parts.registry).for_each(|plugin| plugin.end_term());
        if let Some(shared) = &self.parts.shared {
            shared.end();
        }
        self.parts.registry.set_acting(Acting::No);
    }

    /// Tells the group what is known here.
    fn publish(&mut self, group: &Group, status: &GroupStatus) {
        let (environment, registry) = (Arc::clone(&self.parts.environment), self.parts.registry.clone());
        let (waited, now) = (environment.now() - self.began, environment.boot_now());
        let is_ready = (self.parts.is_ready)(&registry);
        let mut others = status
            .members
            .iter()
            .filter(|member| member.identity != status.identity);
        // A healthy holder must not hand over to a newer version that is broken.
        let is_needed = !others.any(|member| member.is_live(now) && member.record.is_ready);
        self.counts_as_ready = !is_ready && (self.counts_as_ready || (waited >= READY_WAIT_MAX && is_needed));
        group.set_ready(is_ready || self.counts_as_ready);
        group.set_digest(registry.configuration().digest.clone());
        let oldest = match &status.standing {
            Standing::Acting { .. } => {
                self.set_notes(group, 0);
                oldest_delete(&registry, environment.now())
            }
            // They have what this process has handled until now.
            Standing::HandingOver { .. } | Standing::Releasing { .. } => None,
            Standing::Standby { .. } | Standing::Acquiring { .. } => {
                let oldest = status.content.as_ref().and_then(published_oldest_delete);
                write_notes(group, 0, ("", ""), oldest);
                oldest
            }
        };
        let oldest = oldest.max(self.shards.oldest_delete(status));
        let others = status.shards.iter().map(|shard| shard.shard).filter(|shard| *shard > 0);
        for shard in others {
            match self.shards.holds(shard) {
                true => self.set_notes(group, shard),
                // As for the first one.
                false if self.shards.is_ending(shard) => {}
                false => write_notes(group, shard, ("", ""), oldest),
            }
        }
        let wanted = (oldest.unwrap_or_default() + KEPT_DELETES_AGE_MARGIN).max(KEPT_DELETES_AGE_MIN);
        // While shared state cannot be read, no plugin is called: what has been kept since before this term stays.
        let wanted = match &status.standing {
            Standing::Acting { since, .. } if self.acts_since.is_none() => {
                wanted.max(KEPT_DELETES_AGE_MIN + (now - *since))
            }
            _ => wanted,
        };
        // Listeners may not have been attached yet, and receive what is kept when they are.
        let may_shrink = match &status.standing {
            Standing::Acting { .. } => self.acts_since.is_some_and(|since| now - since >= KEPT_DELETES_AGE_MIN),
            Standing::Standby { .. } => status.content.is_some(),
            _ => false,
        };
        self.kept_for = match may_shrink {
            true => wanted,
            false => self.kept_for.max(wanted),
        };
        registry
            .catalog()
            .kept_deletes()
            .keep(Some(self.kept_for), environment.now());
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
        // Also of one that does not renew its Lease: it may come back, and have a plugin that no other has.
        let boot_now = environment.boot_now();
        let mut members = status.members.iter();
        let is_gone = |member: &Member| boot_now - member.observed >= MEMBER_GONE_MIN;
        if !members.all(|member| member.record.digest == digest || is_gone(member)) {
            self.same_since = None;
            return;
        }
        let since = *self.same_since.get_or_insert(now);
        if now.since(since) >= SAME_CONFIGURATION_MIN {
            let plugins = registry.plugins().into_iter().map(|entry| entry.name.to_string());
            shared.keep_only_plugins(&plugins.collect());
        }
    }

    /// What the Lease of a shard says of what this process has handled.
    fn set_notes(&mut self, group: &Group, shard: u8) {
        let configuration = self.shards.configuration(&group.status());
        let mut watermarks = self.shards.watermarks(shard, &configuration);
        let (registry, now) = (&self.parts.registry, self.parts.environment.now());
        let mut oldest = oldest_delete(registry, now);
        if shard == 0 {
            watermarks.extend(watermarks_of(registry, whole_plugins(registry), Ledger::watermark));
            // Only in one Lease: two holders that inherit from each other would never forget it.
            oldest = oldest.max(self.inherited());
        }
        let (text, left_out) = watermarks.to_text();
        registry.set_watermarks_left_out(left_out);
        let mut published = PublishedWatermarks { configuration, text };
        if shard == 0 {
            published = self.once_written(published);
        }
        write_notes(group, shard, (&published.configuration, &published.text), oldest);
    }

    /// A watermark counts dead letters as accepted, and a successor has only those that are written.
    fn once_written(&self, mut published: PublishedWatermarks) -> PublishedWatermarks {
        let registry = &self.parts.registry;
        if self.parts.shared.is_some() && self.held.as_ref().is_some_and(|held| held.shared.is_none()) {
            published.text.clear();
        }
        if let Some(shared) = self.held.as_ref().and_then(|held| held.shared.as_ref()) {
            shared.keep(whole_plugins(registry), |informer| registry.sources(informer));
            published = shared.publish(published);
        }
        published
    }

    /// The age of the oldest delete that this replica has to keep for others, above what it has to keep at least.
    fn inherited(&self) -> Option<Duration> {
        let above = self.kept_for.checked_sub(KEPT_DELETES_AGE_MARGIN)?;
        (self.kept_for > KEPT_DELETES_AGE_MIN).then_some(above)
    }

    /// Says once what keeps this replica from being one.
    fn log(&mut self, status: &GroupStatus) {
        let problem = status.failure.as_ref().map(ToString::to_string);
        if problem != self.logged {
            match &problem {
                Some(reason) => {
                    tracing::warn!(lease = %status.lease, %reason, "the Leases of the replicas cannot be used")
                }
                None => tracing::info!(lease = %status.lease, "the Leases of the replicas can be used again"),
            }
            self.logged = problem;
        }
    }
}

fn running_plugins(registry: &StatusRegistry) -> impl Iterator<Item = Plugin> {
    let phases = registry.plugins().into_iter().map(|entry| entry.phase());
    phases.filter_map(|phase| match phase {
        PluginPhase::Running(plugin) => Some(plugin),
        _ => None,
    })
}

/// Ends the calls of plugins that act for all objects.
async fn end_calls(registry: StatusRegistry) {
    join_all(whole_plugins(&registry).map(|plugin| async move {
        plugin.hand_over(HAND_OVER_CALLS_MAX).await;
    }))
    .await;
    // One that began to act meanwhile.
    let acting = whole_plugins(&registry).filter(|plugin| !plugin.is_standby());
    join_all(acting.map(|plugin| async move { plugin.stand_by().await })).await;
}

/// Those that act for all objects.
fn whole_plugins(registry: &StatusRegistry) -> impl Iterator<Item = Plugin> {
    running_plugins(registry).filter(|plugin| !plugin.spec().is_divided)
}

/// How far plugins have accepted their sources, by what their ledgers say.
fn watermarks_of(
    registry: &StatusRegistry,
    plugins: impl Iterator<Item = Plugin>,
    watermark: impl Fn(&Ledger, SourceId) -> Option<u64>,
) -> Watermarks {
    let mut watermarks = Watermarks::default();
    for plugin in plugins {
        let listener = plugin.listener();
        for (_, informer) in &plugin.spec().informers {
            for source in registry.sources(informer) {
                if let Some(watermark) = watermark(listener.ledger(), source.id()) {
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
