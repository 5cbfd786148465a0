//! Brings an informer up: waits for its cluster, asks what its resource is, and starts it.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_informer::{Discovered, NamedInformer, ResourceName, discover_in};
use tokio::sync::watch;

use super::{Found, jitter, spec};
use crate::cluster::Cluster;
use crate::config::Resources;
use crate::daemon::board::{Board, InformerPhase, OwnPlace, RunningInformer};
use crate::daemon::clusters::ClusterPhase;
use crate::daemon::durables::Durables;
use crate::daemon::served;
use crate::metrics::Metrics;

/// The pause after the first failed question; it doubles with each further one.
pub const DISCOVERY_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause between questions.
pub const DISCOVERY_RETRY_MAX: Duration = Duration::from_secs(30);

/// What it takes to bring an informer up.
pub(super) struct BringUp<'k> {
    pub(super) place: &'k OwnPlace,
    pub(super) board: &'k Board,
    pub(super) environment: &'k Arc<dyn Environment>,
    pub(super) metrics: &'k Metrics,
    pub(super) durables: &'k Durables,
}

impl BringUp<'_> {
    /// Waits until the cluster can be asked.
    pub(super) async fn connected(&self, clusters: &mut watch::Receiver<ClusterPhase>) -> Arc<Cluster> {
        loop {
            let phase = clusters.borrow_and_update().clone();
            match phase {
                ClusterPhase::Connected(cluster) => return cluster,
                ClusterPhase::Connecting { trouble } => self.place.set_phase(InformerPhase::Discovering { trouble }),
                ClusterPhase::Gone => {}
            }
            if clusters.changed().await.is_err() {
                // Gone for good: so will this informer be.
                return std::future::pending().await;
            }
        }
    }

    /// Asks what the resource is, until that is known, and starts the informer.
    pub(super) async fn run(&self, cluster: &Cluster) {
        let found = self.discover(cluster).await;
        let (informer, of) = (self.place.name(), &self.place.cluster);
        match self.start(cluster, &found).await {
            Ok(shared) => {
                tracing::info!(%informer, cluster = %of, "informer started: {found}");
                let discovered = found.one();
                self.place
                    .set_phase(InformerPhase::Running(Arc::new(RunningInformer { shared, discovered })));
            }
            Err(reason) => {
                tracing::error!(%informer, cluster = %of, %reason, "informer refused: {found}");
                self.place.set_phase(InformerPhase::Refused { reason: reason.into() });
            }
        }
    }

    /// Waits until what was taken out of this cluster under the informer's name has told its deletes: told later than
    /// what comes back, they would take objects away from handlers that are there. No longer than a source may take to
    /// leave, 15 minutes.
    pub(super) async fn wait_for_leaving(&self) {
        for informer in self.board.leaving_of(self.place.name(), &self.place.cluster) {
            self.place.set_phase(InformerPhase::Discovering {
                trouble: Some("handlers are yet to be told what went when it left this cluster".into()),
            });
            informer.left().await;
            self.place.set_phase(InformerPhase::Discovering { trouble: None });
        }
    }

    /// Lets an informer of several resources follow what the API server serves. Does not end.
    pub(super) async fn follow(&self, cluster: &Cluster) {
        if let (InformerPhase::Running(running), Some(section)) = (self.place.phase(), self.place.section())
            && let Resources::Several(pattern) = &section.resource.value
        {
            let follower = served::Follower {
                place: self.place,
                section: &section,
                pattern,
                informer: &running.shared,
                client: &cluster.client,
                environment: self.environment,
            };
            follower.run().await;
        }
        std::future::pending().await
    }

    async fn start(&self, cluster: &Cluster, found: &Found) -> Result<NamedInformer, String> {
        let section = self.place.section().ok_or("it was removed")?;
        if let (
            Some(namespace),
            Found::One(Discovered {
                gvr, namespaced: false, ..
            }),
        ) = (section.namespaces.first(), found)
        {
            return Err(format!(
                "`namespaces` names {namespace}, but {gvr} is not in namespaces: leave it out"
            ));
        }
        let mut spec = spec(self.place, &section, found);
        spec.durable = self.durables.keeper(&section, &cluster.url, &spec).await?;
        NamedInformer::start(
            spec,
            cluster.client.clone(),
            Arc::clone(self.environment),
            self.board.catalog().clone(),
            &self.metrics.informers,
        )
        .map_err(|error| error.to_string())
    }

    /// Asks until there is an answer.
    async fn discover(&self, cluster: &Cluster) -> Found {
        let mut pause = DISCOVERY_RETRY_FIRST;
        let (informer, of) = (self.place.name(), &self.place.cluster);
        let Some(section) = self.place.section() else {
            return std::future::pending().await;
        };
        loop {
            let environment = Arc::clone(self.environment);
            let found = match &section.resource.value {
                Resources::One(name) => one(cluster, environment, name).await,
                Resources::Several(pattern) => served::first(&cluster.client, environment, pattern, &section).await,
            };
            let error = match found {
                Ok(found) => {
                    self.metrics.daemon.discovered(informer, of, true);
                    return found;
                }
                Err(error) => error,
            };
            self.metrics.daemon.discovered(informer, of, false);
            let jittered = pause.mul_f64(jitter(self.environment.random()));
            let again = humantime::format_duration(Duration::from_millis(jittered.as_millis() as u64)).to_string();
            tracing::warn!(%informer, cluster = %of, url = %cluster.url, %error, again_in = %again, "informer cannot start yet");
            self.place.set_phase(InformerPhase::Discovering {
                trouble: Some(error.into()),
            });
            self.environment.sleep(jittered).await;
            pause = (pause * 2).min(DISCOVERY_RETRY_MAX);
        }
    }
}

async fn one(cluster: &Cluster, environment: Arc<dyn Environment>, name: &ResourceName) -> Result<Found, String> {
    let found = discover_in(&cluster.client, environment, name).await;
    found.map(Found::One).map_err(|error| error.to_string())
}
