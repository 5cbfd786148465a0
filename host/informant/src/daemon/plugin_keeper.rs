//! Loads one plugin, attaches it to its informers, and swaps its component when the file changes.
//!
//! A component that is refused changes nothing that runs: at start the plugin is missing and says why, later the old one goes
//! on. Either way the next change of the file is the next try.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_plugin_host::{Plugin, PluginHost, PluginSpec};
use tokio_util::sync::CancellationToken;

use super::board::{Board, InformerPhase, PluginEntry, PluginPhase, RunningInformer};
use super::content::Content;
use super::file_watch::Ticks;
use super::wiring::Wiring;
use crate::config::{PluginSection, Required};
use crate::metrics::Metrics;

/// What it takes to keep a plugin.
pub(crate) struct PluginKeeper {
    pub(crate) entry: Arc<PluginEntry>,
    pub(crate) board: Board,
    pub(crate) host: PluginHost,
    pub(crate) metrics: Metrics,
    pub(crate) ticks: Ticks,
    pub(crate) stop: CancellationToken,
}

impl PluginKeeper {
    /// Runs until `stop`; the plugin itself is stopped by who ends the daemon.
    pub(crate) async fn run(mut self) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep() => {}
        }
    }

    async fn keep(&mut self) {
        let (plugin, mut content) = self.load().await;
        plugin.start().await;
        self.entry.set_phase(PluginPhase::Running(plugin.clone()));
        let mut coming: FuturesUnordered<_> = self
            .entry
            .section
            .informers
            .iter()
            .map(|(_, name)| running(&self.board, &name.value))
            .collect();
        let mut wiring = Wiring::new(plugin);
        let mut ticks = self.ticks.clone();
        loop {
            tokio::select! {
                biased;
                Some(informer) = coming.next() => wiring.add(informer).await,
                changed = ticks.changed() => match changed {
                    Ok(()) => content = self.swap_if_changed(&mut wiring, content).await,
                    // Nobody watches files any more: the daemon ends.
                    Err(_) => return std::future::pending().await,
                },
            }
        }
    }

    /// Loads the component, as often as its file changes until it is good.
    async fn load(&mut self) -> (Plugin, Content) {
        let name = &self.entry.name;
        loop {
            let content = Content::of(self.component()).await;
            match self.host.load(spec(&self.board, name, &self.entry.section)).await {
                Ok(plugin) => {
                    self.metrics.daemon.loaded(name, true);
                    tracing::info!(plugin = %name, version = %plugin.manifest().version, digest = %plugin.digest().short(), roles = %plugin.roles(), "plugin loaded");
                    // What was loaded, which may be newer than what was looked at.
                    let loaded = Content::Hash(plugin.digest().bytes());
                    return (plugin, loaded);
                }
                Err(error) => {
                    self.metrics.daemon.loaded(name, false);
                    let component = self.component().display();
                    tracing::error!(plugin = %name, %component, error = %error, "plugin refused; it is tried again when its file changes");
                    self.entry.set_phase(PluginPhase::Refused {
                        reason: error.to_string().into(),
                    });
                }
            }
            while Content::of(self.component()).await == content {
                if self.ticks.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
            self.entry.set_phase(PluginPhase::Loading);
        }
    }

    /// Swaps the component if the file's content differs from `known`. Returns what is known now.
    async fn swap_if_changed(&self, wiring: &mut Wiring, known: Content) -> Content {
        let now = Content::of(self.component()).await;
        // A file that is missing for a moment is being replaced; what runs goes on.
        if now == known || matches!(now, Content::Unreadable(_)) {
            return known;
        }
        let (name, component) = (&self.entry.name, self.component().display());
        match wiring.plugin.swap(self.component()).await {
            Ok(swapped) => {
                wiring.refit(&swapped).await;
                let (version, digest) = (&wiring.plugin.manifest().version, swapped.digest.short());
                tracing::info!(plugin = %name, %component, %version, %digest, "plugin swapped");
                // What was swapped in, which may be newer than what was looked at.
                return Content::Hash(swapped.digest.bytes());
            }
            Err(error) => {
                tracing::error!(plugin = %name, %component, error = %error, "new component refused; the old one goes on");
            }
        }
        now
    }

    fn component(&self) -> &Path {
        &self.entry.section.component.value
    }
}

/// Waits until the informer called `name` runs; `None` if it never will.
async fn running(board: &Board, name: &str) -> Option<Arc<RunningInformer>> {
    let mut phase = board.informer(name)?.watch();
    let running = phase
        .wait_for(|phase| matches!(phase, InformerPhase::Running(_)))
        .await
        .ok()?;
    match &*running {
        InformerPhase::Running(running) => Some(Arc::clone(running)),
        _ => None,
    }
}

fn spec(board: &Board, name: &str, section: &PluginSection) -> PluginSpec {
    let informers = section
        .informers
        .iter()
        .map(|(alias, informer)| (alias.clone(), informer.value.clone()));
    PluginSpec {
        name: name.to_owned(),
        component: section.component.value.clone(),
        sha256: section.sha256,
        config: section.config.clone(),
        informers: informers.collect(),
        limits: section.limits,
        resync: section.resync.or_else(|| shortest_resync(board, section)),
        on_reload: section.on_reload,
        on_restart: section.on_restart,
        on_failure: section.on_failure,
        required: section.required != Required::No,
    }
}

/// A plugin has one resync for all its informers: the shortest that any of them asks for.
fn shortest_resync(board: &Board, section: &PluginSection) -> Option<Duration> {
    let informers = section
        .informers
        .iter()
        .filter_map(|(_, name)| board.informer(&name.value));
    informers.filter_map(|informer| informer.section.resync).min()
}
