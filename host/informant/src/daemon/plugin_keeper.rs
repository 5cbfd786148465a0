//! Loads one plugin, attaches it to its informers, and follows its section and its component as they change.
//!
//! What is refused changes nothing that runs: at start the plugin is missing and says why, later the old version goes
//! on. The next change of the section or of the file is the next try, so that a section whose component comes a moment
//! later is taken in then.

use std::sync::Arc;

use informant_plugin_host::{LoadError, Plugin, PluginHost};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::STOP_MAX;
use super::board::{Board, PluginEntry, PluginPhase};
use super::configuration::Section;
use super::content::Content;
use super::durables::Durables;
use super::file_watch::Ticks;
use super::order::{Order, Outcome};
use super::plugin_spec::Wanted;
use super::wiring::Wiring;
use crate::metrics::Metrics;

/// What it takes to keep a plugin.
pub(super) struct PluginKeeper {
    pub(super) entry: Arc<PluginEntry>,
    /// What the configuration says; an older version may run.
    pub(super) wanted: Arc<Wanted>,
    pub(super) board: Board,
    pub(super) host: PluginHost,
    pub(super) metrics: Metrics,
    pub(super) durables: Durables,
    pub(super) orders: mpsc::UnboundedReceiver<Order<Wanted>>,
    pub(super) ticks: Ticks,
    /// Told when other informers may be named than before.
    pub(super) released: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

/// What runs.
struct Running {
    wiring: Wiring,
    applied: Arc<Wanted>,
}

/// What there is to do.
enum Next {
    Order(Order<Wanted>),
    Informer(super::wiring::Arrival),
    /// The version that runs has proved good, or bad.
    Trial,
    Look,
    End,
}

impl PluginKeeper {
    /// Runs until the section is gone or `stop`; at the latter the plugin itself is stopped by who ends the daemon.
    ///
    /// `first` is told what comes of the first try.
    pub(super) async fn run(mut self, first: oneshot::Sender<Outcome>) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.keep(first) => {}
        }
    }

    async fn keep(&mut self, first: oneshot::Sender<Outcome>) {
        let mut running = None;
        // The content of the component that was tried last.
        let mut tried = self.look().await;
        // Whoever waits for an outcome may have gone.
        let _ = first.send(self.converge(&mut running, &mut tried).await);
        loop {
            match self.next(&mut running).await {
                Next::Order(Order::Change(wanted, done)) => {
                    self.wanted = wanted;
                    tried = self.look().await;
                    let _ = done.send(self.converge(&mut running, &mut tried).await);
                }
                Next::Order(Order::Remove(_, done)) => {
                    self.remove(running).await;
                    let _ = done.send(Ok(()));
                    return;
                }
                Next::Informer(arrival) => {
                    if let Some(running) = &mut running {
                        running.wiring.attach(arrival).await;
                    }
                }
                Next::Trial => {
                    if let Some(running) = &mut running {
                        conclude_trial(&mut running.wiring).await;
                    }
                }
                Next::Look => self.follow_file(&mut running, &mut tried).await,
                // Nobody gives orders any more: the daemon ends.
                Next::End => return std::future::pending().await,
            }
        }
    }

    /// Orders come before files: who changes both at once wants the new section for the new component.
    async fn next(&mut self, running: &mut Option<Running>) -> Next {
        let plugin = running.as_ref().map(|running| running.wiring.plugin.clone());
        let arrival = async {
            match running {
                Some(running) => running.wiring.next().await,
                None => std::future::pending().await,
            }
        };
        let trial = async {
            match plugin {
                Some(plugin) => plugin.trial_ends().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            order = self.orders.recv() => order.map_or(Next::End, Next::Order),
            arrival = arrival => Next::Informer(arrival),
            () = trial => Next::Trial,
            changed = self.ticks.changed() => changed.map_or(Next::End, |()| Next::Look),
        }
    }

    async fn look(&self) -> Content {
        Content::of(self.wanted.file()).await
    }

    /// Makes what runs what is wanted, or says why not.
    async fn converge(&self, running: &mut Option<Running>, tried: &mut Content) -> Outcome {
        let outcome = match running {
            None => self.load().await.map(|fresh| *running = Some(fresh)),
            Some(running) => self.reconfigure(running).await,
        };
        let waits = outcome.as_ref().err().cloned();
        let section = Section::Plugin(self.entry.name.clone());
        self.board.configuration().note(section, waits);
        if let Some(running) = running
            && outcome.is_ok()
        {
            self.entry.set_section(Arc::new(running.applied.section.clone()));
            let listener = running.wiring.plugin.listener();
            self.durables
                .name(&listener, &self.entry.name, running.applied.section.on_start);
            // What was taken, which may be newer than what was looked at; unless the file was refused, and an older one
            // runs.
            if running.wiring.plugin.status().rolled_back.is_none() {
                *tried = Content::Hash(running.wiring.plugin.digest().bytes());
            }
            self.released.notify_one();
        }
        outcome
    }

    async fn load(&self) -> Result<Running, Arc<str>> {
        let name = &self.entry.name;
        self.entry.set_section(Arc::new(self.wanted.section.clone()));
        self.entry.set_phase(PluginPhase::Loading);
        let loaded = self.load_best().await;
        self.metrics.daemon.loaded(name, loaded.is_ok());
        match loaded {
            Ok(plugin) => {
                tracing::info!(plugin = %name, version = %plugin.manifest().version, digest = %plugin.digest().short(), roles = %plugin.roles(), "plugin loaded");
                plugin.start().await;
                self.entry.set_phase(PluginPhase::Running(plugin.clone()));
                Ok(Running {
                    wiring: Wiring::new(plugin, &self.board, self.wanted.informers()),
                    applied: Arc::clone(&self.wanted),
                })
            }
            Err(error) => {
                let component = self.wanted.file().display();
                tracing::error!(plugin = %name, %component, error = %error, "plugin refused; it is tried again when its file or its section changes");
                let reason: Arc<str> = error.to_string().into();
                self.entry.set_phase(PluginPhase::Refused {
                    reason: Arc::clone(&reason),
                });
                Err(reason)
            }
        }
    }

    /// The component, or the last good one in its place.
    async fn load_best(&self) -> Result<Plugin, LoadError> {
        let spec = self.wanted.spec(&self.entry.name);
        match self.host.load(spec.clone()).await {
            Ok(plugin) => Ok(plugin),
            Err(refused) => self.host.load_last_good(spec, &refused).await.ok_or(refused),
        }
    }

    async fn reconfigure(&self, running: &mut Running) -> Outcome {
        let name = &self.entry.name;
        let wiring = &mut running.wiring;
        match wiring.plugin.reconfigure(self.wanted.spec(name)).await {
            Ok(swapped) => {
                if let Some(swapped) = &swapped {
                    wiring.refit(swapped).await;
                }
                wiring.set_informers(self.wanted.informers());
                running.applied = Arc::clone(&self.wanted);
                let digest = wiring.plugin.digest().short().to_string();
                let new_instance = swapped.is_some();
                tracing::info!(plugin = %name, %digest, new_instance, "plugin runs by its new section");
                Ok(())
            }
            Err(error) => {
                tracing::error!(plugin = %name, error = %error, "the plugin's new section is refused; it runs by the old one, and the new one is tried again when the file of the component or the section changes");
                Err(error.to_string().into())
            }
        }
    }

    /// The component may be another one.
    async fn follow_file(&self, running: &mut Option<Running>, tried: &mut Content) {
        let now = self.look().await;
        // A file that is missing for a moment is being replaced; what runs goes on.
        if now == *tried || matches!(now, Content::Unreadable(_)) {
            return;
        }
        *tried = now;
        match running {
            Some(running) if Arc::ptr_eq(&running.applied, &self.wanted) => {
                if let Some(taken) = self.swap(&mut running.wiring).await {
                    *tried = taken;
                }
            }
            _ => {
                self.converge(running, tried).await.ok();
            }
        }
    }

    /// Swaps the component. Returns what was taken, which may be newer than what was looked at.
    async fn swap(&self, wiring: &mut Wiring) -> Option<Content> {
        let (name, component) = (&self.entry.name, self.wanted.file().display());
        match wiring.plugin.swap(self.wanted.file()).await {
            Ok(swapped) => {
                wiring.refit(&swapped).await;
                let (version, digest) = (&wiring.plugin.manifest().version, swapped.digest.short());
                tracing::info!(plugin = %name, %component, %version, %digest, "plugin swapped");
                Some(Content::Hash(swapped.digest.bytes()))
            }
            Err(error) => {
                tracing::error!(plugin = %name, %component, error = %error, "new component refused; the old one goes on");
                None
            }
        }
    }

    /// Ends the plugin in order: what it has accepted it is told, then it is gone with all its series.
    async fn remove(&self, running: Option<Running>) {
        let name = &self.entry.name;
        if let Some(Running { mut wiring, .. }) = running {
            let plugin: Plugin = wiring.plugin.clone();
            let undelivered = plugin.stop(STOP_MAX).await.undelivered;
            wiring.set_informers(std::iter::empty());
            self.durables.unname(&plugin.listener());
            tracing::info!(plugin = %name, undelivered, "plugin removed");
        }
        self.entry.set_phase(PluginPhase::Stopped);
        self.board.remove_plugin(name);
        self.board.configuration().note(Section::Plugin(name.clone()), None);
        self.metrics.daemon.forget_plugin(name);
        self.released.notify_one();
    }
}

/// Goes back to the last good version if the one that runs has failed.
async fn conclude_trial(wiring: &mut Wiring) {
    if let Some(swapped) = wiring.plugin.conclude_trial().await {
        wiring.refit(&swapped).await;
    }
}
