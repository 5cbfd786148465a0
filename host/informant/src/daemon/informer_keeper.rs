//! Brings one informer up in one cluster, follows its section, and keeps its place on the board.
//!
//! A cluster that cannot be reached, or that does not know the resource (yet), is asked again at a stated pace; the
//! rest of the daemon, the same informer in other clusters included, goes on. Once the informer runs, it looks after
//! itself.

mod bring_up;
mod found;

use std::sync::Arc;

use informant_cache::Environment;
use informant_informer::{InformerSpec, NamedInformer};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::bring_up::BringUp;
pub use self::bring_up::{DISCOVERY_RETRY_FIRST, DISCOVERY_RETRY_MAX};
pub(super) use self::found::{Found, spec};
use super::STOP_MAX;
use super::board::{Board, InformerPhase, OwnPlace};
use super::clusters::{ClusterEntry, ClusterPhase};
use super::configuration::Section;
use super::durables::Durables;
use super::order::{Order, Outcome, Removal};
use crate::cluster::Cluster;
use crate::config::InformerSection;
use crate::metrics::Metrics;

/// What it takes to keep an informer in a cluster.
pub(super) struct InformerKeeper {
    pub(super) place: OwnPlace,
    pub(super) board: Board,
    pub(super) cluster: Arc<ClusterEntry>,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) metrics: Metrics,
    pub(super) durables: Durables,
    pub(super) orders: mpsc::UnboundedReceiver<Order<InformerSection>>,
    pub(super) stop: CancellationToken,
}

enum Next {
    Order(Order<InformerSection>),
    /// The cluster's section changed: under its name there is another one now.
    AnotherCluster,
}

impl InformerKeeper {
    /// Runs until the section is gone or `stop`; at the latter the informer itself is stopped by who ends the daemon.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        // By which the informer runs, if it does.
        let mut cluster = None;
        loop {
            match self.next(&mut cluster).await {
                Next::Order(Order::Change(section, done)) => {
                    let outcome = self.change(section).await;
                    let waits = outcome.as_ref().err().cloned();
                    self.board.configuration().note(self.section(), waits);
                    // Whoever waits for the outcome may have gone.
                    let _ = done.send(outcome);
                }
                Next::Order(Order::Remove(removal, done)) => {
                    let leaving = self.remove(removal).await;
                    let _ = done.send(Ok(()));
                    if let Some(leaving) = leaving {
                        leaving.left().await;
                        self.board.leaving().retain(|other| !other.ptr_eq(&leaving));
                    }
                    return;
                }
                Next::AnotherCluster => {
                    self.stop_running("its cluster's section changed").await;
                    self.place.set_phase(InformerPhase::Discovering { trouble: None });
                }
            }
        }
    }

    /// Brings the informer up until there is something else to do.
    async fn next(&mut self, cluster: &mut Option<Arc<Cluster>>) -> Next {
        let mut clusters = self.cluster.watch();
        let orders = &mut self.orders;
        let order = async {
            match orders.recv().await {
                Some(order) => order,
                // Nobody gives orders any more: the daemon ends.
                None => std::future::pending().await,
            }
        };
        let parts = BringUp {
            place: &self.place,
            board: &self.board,
            environment: &self.environment,
            metrics: &self.metrics,
            durables: &self.durables,
        };
        let bring_up = async {
            if matches!(self.place.phase(), InformerPhase::Discovering { .. }) {
                parts.wait_for_leaving().await;
                let connected = parts.connected(&mut clusters).await;
                *cluster = Some(Arc::clone(&connected));
                tokio::select! {
                    biased;
                    () = another_than(&connected, &mut clusters) => return,
                    () = parts.run(&connected) => {}
                }
            }
            if let Some(own) = cluster {
                tokio::select! {
                    biased;
                    () = another_than(own, &mut clusters) => {}
                    () = parts.follow(own) => {}
                }
            }
        };
        tokio::select! {
            biased;
            order = order => Next::Order(order),
            () = bring_up => Next::AnotherCluster,
        }
    }

    fn section(&self) -> Section {
        Section::Informer(self.place.name().to_owned(), self.place.cluster.clone())
    }

    /// Takes another section: the informer that runs changes, unless it is about another resource.
    async fn change(&self, section: Arc<InformerSection>) -> Outcome {
        if let InformerPhase::Running(running) = self.place.phase() {
            let own = self.place.section();
            if own.is_some_and(|own| may_change_into(&own, &section)) {
                // What else a pattern means by the new section is asked for right afterwards.
                let found = Found::of(&running, &section);
                let spec = InformerSpec {
                    durable: running.shared.spec().durable,
                    ..spec(&self.place, &section, &found)
                };
                let changed = running.shared.reconfigure(spec).await;
                changed.map_err(|error| Arc::from(error.to_string()))?;
                self.place.set_section(section);
                return Ok(());
            }
            // Another resource is another informer: nobody is told of deletes, and plugins are shown the new one from
            // the beginning. So is one that is kept in another way, and one that is kept and asks for something else.
            self.stop_running("its section names another resource, or something else to keep")
                .await;
            self.forget();
        } else if section.durable.is_none() && self.place.section().is_some_and(|own| own.durable.is_some()) {
            // What an earlier process kept of it is not to be found if it is durable again one day.
            self.forget();
        }
        // Nothing runs by the old section: it is asked for the new one's resource from the beginning.
        self.place.set_section(section);
        self.place.set_phase(InformerPhase::Discovering { trouble: None });
        Ok(())
    }

    async fn stop_running(&self, why: &str) {
        if let InformerPhase::Running(running) = self.place.phase() {
            let report = running.shared.stop(STOP_MAX).await;
            let (informer, cluster) = (self.place.name(), &self.place.cluster);
            tracing::info!(%informer, %cluster, undelivered = report.undelivered, "informer stopped: {why}");
        }
    }

    /// Forgets what was kept of it. What is kept of one that is leaving under its name is forgotten once its deletes
    /// are told.
    fn forget(&self) {
        let (name, cluster) = (self.place.name(), &self.place.cluster);
        if self.board.leaving_of(name, cluster).is_empty() {
            self.durables.forget(name, cluster);
        }
    }

    /// Ends the informer and gives its memory back. If handlers are to be told that its objects are gone, it is
    /// returned while it does so.
    async fn remove(&self, removal: Removal) -> Option<NamedInformer> {
        let leaving = match (removal, self.place.phase()) {
            (Removal::Told, InformerPhase::Running(running)) => {
                let leaving = running.shared.clone();
                self.durables.forget_at_end(self.place.name(), &self.place.cluster);
                self.board.leaving().push(leaving.clone());
                leaving.retire();
                Some(leaving)
            }
            _ => {
                self.stop_running("removed").await;
                self.forget();
                None
            }
        };
        self.place.set_phase(InformerPhase::Stopped);
        self.board.remove_informer(&self.place);
        self.board.configuration().note(self.section(), None);
        self.metrics
            .daemon
            .forget_informer(self.place.name(), &self.place.cluster);
        leaving
    }
}

/// Whether an informer can go over to another section while it runs. What is kept on disk is kept for one request and
/// one form of objects.
fn may_change_into(own: &InformerSection, section: &InformerSection) -> bool {
    let request = |section: &InformerSection| {
        let selectors = (section.label_selector.clone(), section.field_selector.clone());
        let form = (section.drop.clone(), section.keep_managed_fields, section.metadata_only);
        (section.namespaces.clone(), selectors, form)
    };
    let is_kept_alike = own.durable == section.durable && (own.durable.is_none() || request(own) == request(section));
    own.resource == section.resource && is_kept_alike
}

/// Waits until the cluster can be asked by another client than `own`.
async fn another_than(own: &Arc<Cluster>, clusters: &mut watch::Receiver<ClusterPhase>) {
    let is_another = |phase: &ClusterPhase| match phase {
        ClusterPhase::Connected(cluster) => !Arc::ptr_eq(cluster, own),
        ClusterPhase::Connecting { .. } | ClusterPhase::Gone => false,
    };
    if clusters.wait_for(is_another).await.is_err() {
        // The cluster is gone: so will this informer be.
        std::future::pending::<()>().await;
    }
}

/// From 0.8 to 1.2, so that those that failed together do not come back together.
pub(super) fn jitter(random: u64) -> f64 {
    0.8 + 0.4 * ((random >> 11) as f64 / (1u64 << 53) as f64)
}
