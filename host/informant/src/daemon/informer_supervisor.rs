//! Supervises one informer in one cluster: starts it, applies changes of its section, and keeps its status in the
//! registry.
//!
//! A running informer changes only when the API server accepts the new request: until then the previous version of the
//! section is in effect, and the new one is pending (see [`PendingChange`]).
//!
//! A cluster that cannot be reached, or that does not serve the resource (yet), is retried with back-off. The rest of
//! the daemon continues, including the same informer in other clusters. Once the informer runs, it recovers by itself.

mod pending_change;
mod resolved;
mod startup;

use std::sync::Arc;

use informant_cache::Environment;
use informant_cache::listener::HeldShards;
use informant_config::InformerSection;
use informant_informer::{InformerSpec, NamedInformer, ReconfigureError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::pending_change::PendingChange;
pub(super) use self::resolved::{ResolvedResource, spec};
use self::startup::Startup;
use super::STOP_MAX;
use super::cluster_registry::{ClusterEntry, ClusterPhase};
use super::configuration::Section;
use super::durable_state::DurableState;
use super::section_command::{CommandReceiver, Removal, Reply, SectionChange, SectionCommand, SectionResult};
use super::status_registry::{InformerPhase, RunningInformer, StatusHandle, StatusRegistry};
use super::{or_never, until};
use crate::cluster::Cluster;
use crate::logging::cluster_field;
use crate::metrics::Metrics;

pub(super) struct InformerSupervisor {
    pub(super) status: StatusHandle,
    pub(super) registry: StatusRegistry,
    pub(super) cluster: Arc<ClusterEntry>,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) metrics: Metrics,
    pub(super) durables: DurableState,
    pub(super) commands: CommandReceiver<InformerSection>,
    pub(super) stop: CancellationToken,
}

enum InformerEvent {
    Command(SectionCommand<InformerSection>),
    /// The API server accepts the request of the changed section.
    ChangeAccepted,
    /// The cluster's section changed: its name stands for another cluster now.
    ClusterChanged,
    /// This replica reads other shards.
    ShardsChanged,
}

impl InformerSupervisor {
    /// Runs until the section is removed or `stop`. On `stop`, [`Daemon::stop`](super::Daemon::stop) stops the
    /// informer.
    pub(super) async fn run(self) {
        until(self.stop.clone(), self.supervise()).await;
    }

    async fn supervise(&self) {
        // The client of the running informer.
        let mut cluster = None;
        let mut pending = None;
        let mut shards = self.status.read_shards();
        loop {
            match self.next(&mut cluster, &mut pending, &mut shards).await {
                InformerEvent::Command(SectionCommand::Change(section, reply)) => {
                    pending = self.change(section, reply, pending.take()).await;
                }
                InformerEvent::Command(SectionCommand::Revert(reply)) => {
                    self.revert(pending.take()).await;
                    drop(reply);
                }
                InformerEvent::ChangeAccepted => {
                    if let Some(change) = pending.take() {
                        self.conclude(change).await;
                    }
                }
                InformerEvent::Command(SectionCommand::Remove(removal, reply)) => {
                    reply.set_step("waits for the running informer to stop");
                    let retiring = self.remove(removal).await;
                    self.answer(Some(reply), Ok(()));
                    if let Some(retiring) = retiring {
                        retiring.drained().await;
                        self.registry.retiring().retain(|other| !other.ptr_eq(&retiring));
                    }
                    return;
                }
                InformerEvent::ShardsChanged => self.read_shards(pending.as_ref()).await,
                InformerEvent::ClusterChanged => {
                    self.stop_running("its cluster section changed").await;
                    self.status.set_phase(InformerPhase::Discovering { last_error: None });
                }
            }
        }
    }

    /// Starts and follows the informer until a command arrives, the `pending` change is accepted, or the cluster
    /// changes.
    async fn next(
        &self,
        cluster: &mut Option<Arc<Cluster>>,
        pending: &mut Option<PendingChange>,
        shards: &mut watch::Receiver<HeldShards>,
    ) -> InformerEvent {
        let mut clusters = self.cluster.watch();
        let parts = self.parts();
        let attempted = pending.as_ref().and_then(PendingChange::in_place).cloned();
        let start_and_follow = async {
            if matches!(self.status.phase(), InformerPhase::Discovering { .. }) {
                parts.wait_for_retiring().await;
                let connected = parts.connected(&mut clusters).await;
                *cluster = Some(Arc::clone(&connected));
                tokio::select! {
                    biased;
                    () = client_other_than(&connected, &mut clusters) => return,
                    () = parts.run(&connected) => {}
                }
            }
            if let Some(own) = cluster {
                tokio::select! {
                    biased;
                    () = client_other_than(own, &mut clusters) => {}
                    () = parts.follow(own, attempted) => {}
                }
            }
        };
        let accepted = or_never(pending.as_mut().map(|change| self.accepted(change)));
        tokio::select! {
            biased;
            command = self.commands.next() => InformerEvent::Command(command),
            // An error: the registry, which this has, is gone.
            _ = shards.changed() => InformerEvent::ShardsChanged,
            () = accepted => InformerEvent::ChangeAccepted,
            () = start_and_follow => InformerEvent::ClusterChanged,
        }
    }

    fn parts(&self) -> Startup<'_> {
        Startup {
            status: &self.status,
            registry: &self.registry,
            environment: &self.environment,
            metrics: &self.metrics,
            durables: &self.durables,
        }
    }

    fn answer(&self, reply: Option<Reply>, result: SectionResult) {
        let section = Section::Informer(self.status.name().to_owned(), self.status.cluster.clone());
        if reply.is_none() && result.is_ok() {
            tracing::info!(%section, change = SectionChange::Changed.as_str(), "section applied");
        }
        self.registry.answer(section, reply, result);
    }

    /// Applies another version of the section, or begins to. The running informer is reconfigured, unless the resource
    /// or persistence changed.
    async fn change(
        &self,
        section: Arc<InformerSection>,
        reply: Reply,
        superseded: Option<PendingChange>,
    ) -> Option<PendingChange> {
        let own = self.status.section();
        let InformerPhase::Running(running) = self.status.phase() else {
            if section.durable.is_none() && own.is_some_and(|own| own.durable.is_some()) {
                // Persisted state must not be found if the informer becomes durable again later.
                self.forget();
            }
            self.restart_with(section);
            self.answer(Some(reply), Ok(()));
            return None;
        };
        reply.set_step("waits for the running informer to take the change");
        if own.as_ref().is_some_and(|own| own.has_same_settings(&section)) {
            self.revert(superseded).await;
            self.answer(Some(reply), Ok(()));
            return None;
        }
        if !own.is_some_and(|own| can_reconfigure_to(&own, &section)) {
            self.revert(superseded).await;
            return Some(PendingChange::replacement(section, reply));
        }
        if let Err(error) = self.reconfigure(&running, &section).await {
            self.revert(superseded).await;
            self.answer(Some(reply), Err(error.to_string().into()));
            return None;
        }
        Some(PendingChange::of_running(section, reply))
    }

    /// Lets a running informer read the shards that are this replica's now.
    async fn read_shards(&self, pending: Option<&PendingChange>) {
        let tried = pending.and_then(PendingChange::in_place).cloned();
        let Some(section) = tried.or_else(|| self.status.section()) else {
            return;
        };
        if let (Some(_), InformerPhase::Running(running)) = (section.shard_by, self.status.phase())
            && let Err(error) = self.reconfigure(&running, &section).await
        {
            let (informer, cluster) = (self.status.name(), cluster_field(&self.status.cluster));
            tracing::warn!(informer, cluster, %error, "informer cannot read other shards");
        }
    }

    async fn reconfigure(&self, running: &RunningInformer, section: &InformerSection) -> Result<(), ReconfigureError> {
        // Discovery runs right afterwards and finds what else the section matches.
        let found = ResolvedResource::of(running, section);
        let spec = InformerSpec {
            durable: running.shared.spec().durable,
            ..spec(&self.status, section, &found)
        };
        running.shared.reconfigure(spec).await
    }

    /// Drops a change that is not in effect yet. An informer that tries its request returns to the section in effect.
    async fn revert(&self, change: Option<PendingChange>) {
        if change.as_ref().and_then(PendingChange::in_place).is_some()
            && let (InformerPhase::Running(running), Some(own)) = (self.status.phase(), self.status.section())
            && let Err(error) = self.reconfigure(&running, &own).await
        {
            let (informer, cluster) = (self.status.name(), cluster_field(&self.status.cluster));
            tracing::warn!(informer, cluster, %error, "reverting a changed section failed");
        }
    }

    /// The API server accepts the request of a changed section.
    async fn conclude(&self, change: PendingChange) {
        let section = change.section;
        if change.replaces {
            // Another resource is another informer: handlers receive no deletes, and plugins receive the new objects
            // from scratch. The same goes for an informer that is persisted differently. If it is persisted as before
            // and requests something else, its kept state tells.
            self.stop_running("its resource or persistence changed").await;
            if self.status.section().is_some_and(|own| own.durable != section.durable) {
                self.forget();
            }
            self.restart_with(section);
        } else {
            self.status.set_section(section);
        }
        self.answer(change.reply, Ok(()));
    }

    /// Nothing is running: starts with discovery of the section's resource.
    fn restart_with(&self, section: Arc<InformerSection>) {
        self.status.set_section(section);
        self.status.set_phase(InformerPhase::Discovering { last_error: None });
    }

    async fn stop_running(&self, reason: &str) {
        if let InformerPhase::Running(running) = self.status.phase() {
            let report = running.shared.stop(STOP_MAX).await;
            let (informer, cluster) = (self.status.name(), cluster_field(&self.status.cluster));
            tracing::info!(
                informer,
                cluster,
                reason,
                undelivered = report.undelivered,
                "informer stopped"
            );
        }
    }

    /// Deletes its persisted state. The state of a retiring informer of the same name is deleted once its deletes are
    /// delivered.
    fn forget(&self) {
        let (name, cluster) = (self.status.name(), &self.status.cluster);
        if self.registry.retiring_of(name, cluster).is_empty() {
            self.durables.forget(name, cluster);
        }
    }

    /// Stops the informer and frees its memory. If handlers are to receive deletes, the informer is returned while it
    /// delivers them.
    async fn remove(&self, removal: Removal) -> Option<NamedInformer> {
        let retiring = match (removal, self.status.phase()) {
            (Removal::Notify, InformerPhase::Running(running)) => {
                let retiring = running.shared.clone();
                self.durables.forget_at_end(self.status.name(), &self.status.cluster);
                self.registry.retiring().push(retiring.clone());
                retiring.drain();
                Some(retiring)
            }
            _ => {
                self.stop_running("removed").await;
                self.forget();
                None
            }
        };
        self.status.set_phase(InformerPhase::Stopped);
        self.registry.remove_informer(&self.status);
        self.metrics.forget_informer(self.status.name(), &self.status.cluster);
        retiring
    }
}

/// Whether a running informer can be reconfigured to `section`. Persisted state belongs to one request and one form of
/// objects.
fn can_reconfigure_to(own: &InformerSection, section: &InformerSection) -> bool {
    let request = |section: &InformerSection| {
        let selectors = (section.label_selector.clone(), section.field_selector.clone());
        let cuts = (section.drop.clone(), section.digest.clone());
        let form = (cuts, section.keep_managed_fields, section.metadata_only);
        (section.namespaces.clone(), selectors, form)
    };
    let same_persistence =
        own.durable == section.durable && (own.durable.is_none() || request(own) == request(section));
    own.resource == section.resource && same_persistence
}

/// Waits until the cluster has another client than `own`.
async fn client_other_than(own: &Arc<Cluster>, clusters: &mut watch::Receiver<ClusterPhase>) {
    let is_other = |phase: &ClusterPhase| match phase {
        ClusterPhase::Connected(cluster) => !Arc::ptr_eq(cluster, own),
        ClusterPhase::Connecting { .. } | ClusterPhase::Removed => false,
    };
    if clusters.wait_for(is_other).await.is_err() {
        // The cluster is gone, and this informer is about to be removed.
        std::future::pending::<()>().await;
    }
}
