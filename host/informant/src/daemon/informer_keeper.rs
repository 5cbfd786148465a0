//! Brings one informer up and keeps its place on the board.
//!
//! An API server that cannot be reached, or that does not know the resource (yet), is asked again at a stated pace; the rest
//! of the daemon goes on. Once the informer runs, it looks after itself.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Catalog, Environment};
use informant_informer::{Discovered, InformerOptions, ReflectorOptions, SharedInformer, SourceSpec, discover_in};
use tokio_util::sync::CancellationToken;

use super::board::{InformerEntry, InformerPhase, RunningInformer};
use crate::cluster::Cluster;
use crate::config::InformerSection;
use crate::metrics::Metrics;

/// The pause after the first failed question; it doubles with each further one.
pub const DISCOVERY_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest pause between questions.
pub const DISCOVERY_RETRY_MAX: Duration = Duration::from_secs(30);

/// What it takes to start an informer.
#[derive(Clone)]
pub(crate) struct InformerKeeper {
    pub(crate) entry: Arc<InformerEntry>,
    pub(crate) cluster: Cluster,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) catalog: Catalog,
    pub(crate) metrics: Metrics,
    pub(crate) stop: CancellationToken,
}

impl InformerKeeper {
    /// Runs until the informer is started, or `stop`.
    pub(crate) async fn run(self) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = self.bring_up() => {}
        }
    }

    async fn bring_up(&self) {
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

    fn start(&self, discovered: &Discovered) -> Result<SharedInformer, String> {
        let section = &self.entry.section;
        if let (Some(namespace), false) = (&section.namespace, discovered.namespaced) {
            let resource = &discovered.gvr;
            return Err(format!(
                "`namespaces` names {namespace}, but {resource} is not in namespaces: leave it out"
            ));
        }
        SharedInformer::start_with(
            spec(&self.entry.name, section, discovered),
            self.cluster.client.clone(),
            Arc::clone(&self.environment),
            self.catalog.clone(),
            &self.metrics.informers,
            options(section),
        )
        .map_err(|error| error.to_string())
    }

    /// Asks until there is an answer.
    async fn discover(&self) -> Discovered {
        let mut pause = DISCOVERY_RETRY_FIRST;
        loop {
            let resource = &self.entry.section.resource.value;
            let error = match discover_in(&self.cluster.client, Arc::clone(&self.environment), resource).await {
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

fn options(section: &InformerSection) -> InformerOptions {
    InformerOptions {
        reflector: ReflectorOptions {
            watch_list: section.watch_list,
            ..ReflectorOptions::default()
        },
        ..InformerOptions::default()
    }
}

fn spec(name: &str, section: &InformerSection, discovered: &Discovered) -> SourceSpec {
    SourceSpec {
        informer: name.to_owned(),
        cluster: String::new(),
        resource: discovered.gvr.clone(),
        kind: discovered.kind.clone(),
        namespaced: discovered.namespaced,
        namespace: section.namespace.clone(),
        label_selector: section.label_selector.clone(),
        field_selector: section.field_selector.clone(),
        drop: section.drop.clone(),
        keep_managed_fields: section.keep_managed_fields,
        indexes: section.indexes.clone(),
        resync: section.resync,
    }
}
