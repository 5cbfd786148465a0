//! Brings one informer up, follows its section, and keeps its place on the board.
//!
//! An API server that cannot be reached, or that does not know the resource (yet), is asked again at a stated pace; the rest
//! of the daemon goes on. Once the informer runs, it looks after itself.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_informer::{Discovered, InformerSpec, NamedInformer, ReflectorOptions, SourceSpec, discover_in};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::STOP_MAX;
use super::board::{Board, InformerEntry, InformerPhase, RunningInformer};
use super::configuration::Section;
use super::order::{Order, Outcome};
use crate::cluster::Cluster;
use crate::config::InformerSection;
use crate::metrics::Metrics;

/// The pause after the first failed question; it doubles with each further one.
pub const DISCOVERY_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause between questions.
pub const DISCOVERY_RETRY_MAX: Duration = Duration::from_secs(30);

/// What it takes to keep an informer.
pub(super) struct InformerKeeper {
    pub(super) entry: Arc<InformerEntry>,
    pub(super) board: Board,
    pub(super) cluster: Cluster,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) metrics: Metrics,
    pub(super) orders: mpsc::UnboundedReceiver<Order<InformerSection>>,
    pub(super) stop: CancellationToken,
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
        loop {
            match self.next_order().await {
                Order::Change(section, done) => {
                    let outcome = self.change(section).await;
                    let waits = outcome.as_ref().err().cloned();
                    let title = Section::Informer(self.entry.name.clone());
                    self.board.configuration().note(title, waits);
                    // Whoever waits for the outcome may have gone.
                    let _ = done.send(outcome);
                }
                Order::Remove(done) => {
                    self.remove().await;
                    let _ = done.send(Ok(()));
                    return;
                }
            }
        }
    }

    /// Brings the informer up until the next order comes.
    async fn next_order(&mut self) -> Order<InformerSection> {
        let (entry, orders) = (Arc::clone(&self.entry), &mut self.orders);
        let order = async {
            match orders.recv().await {
                Some(order) => order,
                // Nobody gives orders any more: the daemon ends.
                None => std::future::pending().await,
            }
        };
        let parts = BringUp {
            entry: &entry,
            board: &self.board,
            cluster: &self.cluster,
            environment: &self.environment,
            metrics: &self.metrics,
        };
        let bring_up = async {
            if matches!(entry.phase(), InformerPhase::Discovering { .. }) {
                parts.run().await;
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            order = order => order,
            order = bring_up => order,
        }
    }

    /// Takes another section: the informer that runs changes, unless it is about another resource.
    async fn change(&self, section: Arc<InformerSection>) -> Outcome {
        let name = &self.entry.name;
        if let InformerPhase::Running(running) = self.entry.phase() {
            let own = self.entry.section();
            if own.resource == section.resource {
                let spec = spec(name, &section, &running.discovered);
                let changed = running.shared.reconfigure(spec).await;
                changed.map_err(|error| Arc::from(error.to_string()))?;
                self.entry.set_section(section);
                return Ok(());
            }
            // Another resource is another informer: nobody is told of deletes, and plugins are shown the new one from the beginning.
            let report = running.shared.stop(STOP_MAX).await;
            tracing::info!(informer = %name, undelivered = report.undelivered, "informer stopped: its section names another resource");
        }
        // Nothing runs by the old section: it is asked for the new one's resource from the beginning.
        self.entry.set_section(section);
        self.entry.set_phase(InformerPhase::Discovering { trouble: None });
        Ok(())
    }

    /// Ends the informer: nobody is told of any delete, its memory is given back.
    async fn remove(&self) {
        let name = &self.entry.name;
        if let InformerPhase::Running(running) = self.entry.phase() {
            let report = running.shared.stop(STOP_MAX).await;
            tracing::info!(informer = %name, undelivered = report.undelivered, "informer removed");
        }
        self.entry.set_phase(InformerPhase::Stopped);
        self.board.remove_informer(name);
        self.board.configuration().note(Section::Informer(name.clone()), None);
        self.metrics.daemon.forget_informer(name);
    }
}

/// What it takes to bring an informer up.
struct BringUp<'k> {
    entry: &'k InformerEntry,
    board: &'k Board,
    cluster: &'k Cluster,
    environment: &'k Arc<dyn Environment>,
    metrics: &'k Metrics,
}

impl BringUp<'_> {
    /// Asks what the resource is, until that is known, and starts the informer.
    async fn run(&self) {
        let discovered = self.discover().await;
        let (name, resource, kind) = (&self.entry.name, &discovered.gvr, &discovered.kind);
        match self.start(&discovered) {
            Ok(shared) => {
                tracing::info!(informer = %name, %resource, %kind, "informer started");
                self.entry
                    .set_phase(InformerPhase::Running(Arc::new(RunningInformer { shared, discovered })));
            }
            Err(reason) => {
                tracing::error!(informer = %name, %resource, %reason, "informer refused");
                self.entry.set_phase(InformerPhase::Refused { reason: reason.into() });
            }
        }
    }

    fn start(&self, discovered: &Discovered) -> Result<NamedInformer, String> {
        let section = &self.entry.section();
        if let (Some(namespace), false) = (section.namespaces.first(), discovered.namespaced) {
            let resource = &discovered.gvr;
            return Err(format!(
                "`namespaces` names {namespace}, but {resource} is not in namespaces: leave it out"
            ));
        }
        NamedInformer::start(
            spec(&self.entry.name, section, discovered),
            self.cluster.client.clone(),
            Arc::clone(self.environment),
            self.board.catalog().clone(),
            &self.metrics.informers,
        )
        .map_err(|error| error.to_string())
    }

    /// Asks until there is an answer.
    async fn discover(&self) -> Discovered {
        let mut pause = DISCOVERY_RETRY_FIRST;
        let section = self.entry.section();
        loop {
            let resource = &section.resource.value;
            let error = match discover_in(&self.cluster.client, Arc::clone(self.environment), resource).await {
                Ok(discovered) => {
                    self.metrics.daemon.discovered(&self.entry.name, true);
                    return discovered;
                }
                Err(error) => error,
            };
            self.metrics.daemon.discovered(&self.entry.name, false);
            let jittered = pause.mul_f64(jitter(self.environment.random()));
            let again = humantime::format_duration(Duration::from_millis(jittered.as_millis() as u64)).to_string();
            tracing::warn!(informer = %self.entry.name, cluster = %self.cluster.url, %error, again_in = %again, "informer cannot start yet");
            self.entry.set_phase(InformerPhase::Discovering {
                trouble: Some(error.to_string().into()),
            });
            self.environment.sleep(jittered).await;
            pause = (pause * 2).min(DISCOVERY_RETRY_MAX);
        }
    }
}

/// From 0.8 to 1.2, so that informers that failed together do not come back together.
fn jitter(random: u64) -> f64 {
    0.8 + 0.4 * ((random >> 11) as f64 / (1u64 << 53) as f64)
}

fn spec(name: &str, section: &InformerSection, discovered: &Discovered) -> InformerSpec {
    let source = SourceSpec {
        informer: name.to_owned(),
        cluster: String::new(),
        resource: discovered.gvr.clone(),
        kind: discovered.kind.clone(),
        namespaced: discovered.namespaced,
        namespace: None,
        label_selector: section.label_selector.clone(),
        field_selector: section.field_selector.clone(),
        drop: section.drop.clone(),
        keep_managed_fields: section.keep_managed_fields,
        metadata_only: section.metadata_only,
        indexes: section.indexes.clone(),
        resync: section.resync,
    };
    InformerSpec {
        source,
        resources: None,
        namespaces: section.namespaces.iter().cloned().collect(),
        reflector: ReflectorOptions {
            watch_list: section.watch_list,
            ..ReflectorOptions::default()
        },
    }
}
