//! Supervises one plugin: loads it, attaches it to its informers, and applies changes of its section and its component.
//!
//! A refused version changes nothing that runs: at start the plugin is missing and its status says why; later the
//! previous version keeps running. The next change of the section or of the file is the next attempt, so that a section
//! whose component arrives a moment later is applied then.

use std::sync::Arc;

use informant_plugin_host::{LoadError, Plugin, PluginHost};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::STOP_MAX;
use super::config_supervisor::{SectionCommand, SectionResult};
use super::configuration::Section;
use super::desired_plugin::DesiredPlugin;
use super::durable_state::DurableState;
use super::file_content::ContentHash;
use super::file_watch::Ticks;
use super::plugin_attachments::PluginAttachments;
use super::status_registry::{PluginEntry, PluginPhase, StatusRegistry};
use crate::metrics::Metrics;

/// Supervises a plugin.
pub(super) struct PluginSupervisor {
    pub(super) entry: Arc<PluginEntry>,
    /// The plugin as configured; an older version may be running.
    pub(super) wanted: Arc<DesiredPlugin>,
    pub(super) registry: StatusRegistry,
    pub(super) host: PluginHost,
    pub(super) metrics: Metrics,
    pub(super) durables: DurableState,
    pub(super) commands: mpsc::UnboundedReceiver<SectionCommand<DesiredPlugin>>,
    pub(super) ticks: Ticks,
    /// Notified when the plugin may have stopped using an informer.
    pub(super) released: Arc<Notify>,
    pub(super) stop: CancellationToken,
}

/// The running plugin.
struct Running {
    attachments: PluginAttachments,
    applied: Arc<DesiredPlugin>,
}

/// The next thing to handle.
enum PluginEvent {
    Command(SectionCommand<DesiredPlugin>),
    Informer(super::plugin_attachments::InformerChange),
    /// The running version has passed or failed its probation.
    ProbationEnded,
    FileChanged,
    End,
}

impl PluginSupervisor {
    /// Runs until the section is removed or `stop`. On `stop`, [`Daemon::stop`](super::Daemon::stop) stops the plugin.
    ///
    /// `first` receives the result of the first attempt.
    pub(super) async fn run(mut self, first: oneshot::Sender<SectionResult>) {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.supervise(first) => {}
        }
    }

    async fn supervise(&mut self, first: oneshot::Sender<SectionResult>) {
        let mut running = None;
        // The content of the component that was tried last.
        let mut tried = self.content().await;
        // The receiver may be gone.
        let _ = first.send(self.apply(&mut running, &mut tried).await);
        loop {
            match self.next(&mut running).await {
                PluginEvent::Command(SectionCommand::Change(wanted, reply)) => {
                    self.wanted = wanted;
                    tried = self.content().await;
                    let _ = reply.send(self.apply(&mut running, &mut tried).await);
                }
                PluginEvent::Command(SectionCommand::Remove(_, reply)) => {
                    self.remove(running).await;
                    let _ = reply.send(Ok(()));
                    return;
                }
                PluginEvent::Informer(change) => {
                    if let Some(running) = &mut running {
                        running.attachments.attach(change).await;
                    }
                }
                PluginEvent::ProbationEnded => {
                    if let Some(running) = &mut running {
                        conclude_probation(&mut running.attachments).await;
                    }
                }
                PluginEvent::FileChanged => self.follow_file(&mut running, &mut tried).await,
                // The sender is gone: the daemon is stopping.
                PluginEvent::End => return std::future::pending().await,
            }
        }
    }

    /// Commands take precedence over files: when both change at once, the new section belongs to the new component.
    async fn next(&mut self, running: &mut Option<Running>) -> PluginEvent {
        let plugin = running.as_ref().map(|running| running.attachments.plugin.clone());
        let change = async {
            match running {
                Some(running) => running.attachments.next().await,
                None => std::future::pending().await,
            }
        };
        let probation = async {
            match plugin {
                Some(plugin) => plugin.probation_ends().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            command = self.commands.recv() => command.map_or(PluginEvent::End, PluginEvent::Command),
            change = change => PluginEvent::Informer(change),
            () = probation => PluginEvent::ProbationEnded,
            changed = self.ticks.changed() => changed.map_or(PluginEvent::End, |()| PluginEvent::FileChanged),
        }
    }

    async fn content(&self) -> ContentHash {
        ContentHash::of(self.wanted.file()).await
    }

    /// Loads or reconfigures the plugin as configured, or returns why that failed.
    async fn apply(&self, running: &mut Option<Running>, tried: &mut ContentHash) -> SectionResult {
        let result = match running {
            None => self.load().await.map(|fresh| *running = Some(fresh)),
            Some(running) => self.reconfigure(running).await,
        };
        let pending = result.as_ref().err().cloned();
        let section = Section::Plugin(self.entry.name.clone());
        self.registry.configuration().set_pending(section, pending);
        if let Some(running) = running
            && result.is_ok()
        {
            self.entry.set_section(Arc::new(running.applied.section.clone()));
            let listener = running.attachments.plugin.listener();
            self.durables
                .name(&listener, &self.entry.name, running.applied.section.on_start);
            // What was loaded, which may be newer than what was hashed; unless the file was refused and an older one
            // runs.
            if running.attachments.plugin.status().rolled_back.is_none() {
                *tried = ContentHash::Hash(running.attachments.plugin.digest().bytes());
            }
            self.released.notify_one();
        }
        result
    }

    async fn load(&self) -> Result<Running, Arc<str>> {
        let name = &self.entry.name;
        self.entry.set_section(Arc::new(self.wanted.section.clone()));
        self.entry.set_phase(PluginPhase::Loading);
        let loaded = self.load_or_last_good().await;
        self.metrics.daemon.loaded(name, loaded.is_ok());
        match loaded {
            Ok(plugin) => {
                tracing::info!(plugin = %name, version = %plugin.manifest().version, digest = %plugin.digest().short(), roles = %plugin.roles(), "plugin loaded");
                plugin.start().await;
                self.entry.set_phase(PluginPhase::Running(plugin.clone()));
                Ok(Running {
                    attachments: PluginAttachments::new(plugin, &self.registry, self.wanted.informers()),
                    applied: Arc::clone(&self.wanted),
                })
            }
            Err(error) => {
                let component = self.wanted.file().display();
                tracing::error!(plugin = %name, %component, %error, "plugin refused; will retry when its file or section changes");
                let reason: Arc<str> = error.to_string().into();
                self.entry.set_phase(PluginPhase::Refused {
                    reason: Arc::clone(&reason),
                });
                Err(reason)
            }
        }
    }

    /// Loads the component, or the last good one if it is refused.
    async fn load_or_last_good(&self) -> Result<Plugin, LoadError> {
        let spec = self.wanted.spec(&self.entry.name);
        match self.host.load(spec.clone()).await {
            Ok(plugin) => Ok(plugin),
            Err(refused) => self.host.load_last_good(spec, &refused).await.ok_or(refused),
        }
    }

    async fn reconfigure(&self, running: &mut Running) -> SectionResult {
        let name = &self.entry.name;
        let attachments = &mut running.attachments;
        match attachments.plugin.reconfigure(self.wanted.spec(name)).await {
            Ok(swapped) => {
                if let Some(swapped) = &swapped {
                    attachments.apply_swap(swapped).await;
                }
                attachments.set_informers(self.wanted.informers());
                running.applied = Arc::clone(&self.wanted);
                let digest = attachments.plugin.digest().short().to_string();
                let new_instance = swapped.is_some();
                tracing::info!(plugin = %name, %digest, new_instance, "plugin reconfigured");
                Ok(())
            }
            Err(error) => {
                tracing::error!(plugin = %name, %error, "plugin reconfiguration refused; keeping the previous section");
                Err(error.to_string().into())
            }
        }
    }

    /// The component may have changed.
    async fn follow_file(&self, running: &mut Option<Running>, tried: &mut ContentHash) {
        let now = self.content().await;
        // A file that is missing for a moment is being replaced; the running version stays.
        if now == *tried || matches!(now, ContentHash::Unreadable(_)) {
            return;
        }
        *tried = now;
        match running {
            Some(running) if Arc::ptr_eq(&running.applied, &self.wanted) => {
                if let Some(loaded) = self.reload(&mut running.attachments).await {
                    *tried = loaded;
                }
            }
            _ => {
                self.apply(running, tried).await.ok();
            }
        }
    }

    /// Reloads the component. Returns what was loaded, which may be newer than what was hashed.
    async fn reload(&self, attachments: &mut PluginAttachments) -> Option<ContentHash> {
        let (name, component) = (&self.entry.name, self.wanted.file().display());
        match attachments.plugin.swap(self.wanted.file()).await {
            Ok(swapped) => {
                attachments.apply_swap(&swapped).await;
                let (version, digest) = (&attachments.plugin.manifest().version, swapped.digest.short());
                tracing::info!(plugin = %name, %component, %version, %digest, "plugin reloaded");
                Some(ContentHash::Hash(swapped.digest.bytes()))
            }
            Err(error) => {
                tracing::error!(plugin = %name, %component, %error, "plugin reload refused; keeping the previous version");
                None
            }
        }
    }

    /// Removes the plugin: delivers what it has accepted, stops it, and removes its metrics.
    async fn remove(&self, running: Option<Running>) {
        let name = &self.entry.name;
        if let Some(Running { mut attachments, .. }) = running {
            let plugin: Plugin = attachments.plugin.clone();
            let undelivered = plugin.stop(STOP_MAX).await.undelivered;
            attachments.set_informers(std::iter::empty());
            self.durables.forget_name(&plugin.listener());
            tracing::info!(plugin = %name, undelivered, "plugin removed");
        }
        self.entry.set_phase(PluginPhase::Stopped);
        self.registry.remove_plugin(name);
        self.registry
            .configuration()
            .set_pending(Section::Plugin(name.clone()), None);
        self.metrics.daemon.forget_plugin(name);
        self.released.notify_one();
    }
}

/// Rolls back to the last good version if the running one has failed its probation.
async fn conclude_probation(attachments: &mut PluginAttachments) {
    if let Some(swapped) = attachments.plugin.conclude_probation().await {
        attachments.apply_swap(&swapped).await;
    }
}
