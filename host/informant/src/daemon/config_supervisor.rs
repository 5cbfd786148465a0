//! Supervises everything in the configuration: starts, changes and ends one supervisor per section.
//!
//! ```text
//! Config ──compared with the running sections──▶ commands to supervisors ──▶ results, one per section
//! ```
//!
//! An informer has a supervisor in each of its clusters. Guarantees: a section whose meaning is unchanged is left
//! alone, wherever in the file it moved; clusters start before informers, and informers before the plugins that name
//! them; an informer that a plugin still uses, because the plugin's new section was refused, is removed only with that
//! plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::Environment;
use informant_config::{ClusterSection, Config, InformerSection, PluginSection};
use informant_plugin_host::PluginHost;
use tokio::sync::Notify;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::cluster_supervisor::ClusterSupervisor;
use super::config_reader::ConfigChecks;
use super::configuration::Section;
use super::durable_state::DurableState;
use super::file_watch::FileWatch;
use super::informer_supervisor::InformerSupervisor;
use super::plugin_supervisor::PluginSupervisor;
use super::section_command::{CommandSender, Pending, Removal, SectionChange, SectionCommand, commands};
use super::status_registry::{PluginPhase, StatusRegistry};
use crate::activities::Activities;
use crate::cluster::{ClusterAccess, EffectGate};
use crate::guests::compile_memory_bytes;
use crate::metrics::Metrics;

pub(super) struct SupervisorParts {
    pub(super) registry: StatusRegistry,
    pub(super) access: ClusterAccess,
    /// The gate of the effects of plugins.
    pub(super) effects: EffectGate,
    pub(super) activities: Activities,
    /// Changes when credentials have to be read again.
    pub(super) reloads: watch::Receiver<u64>,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) host: PluginHost,
    pub(super) metrics: Metrics,
    pub(super) durables: DurableState,
    pub(super) watch: FileWatch,
    pub(super) checks: ConfigChecks,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

pub(super) struct ConfigSupervisor {
    parts: SupervisorParts,
    clusters: BTreeMap<String, Supervised<ClusterSection>>,
    informers: BTreeMap<InformerKey, Supervised<InformerSection>>,
    plugins: BTreeMap<String, Supervised<PluginSection>>,
    /// Informers that the configuration no longer names but plugins still use.
    orphaned: BTreeSet<InformerKey>,
    /// Sections that are being removed. One that returns waits, because both would be known by the same name.
    ending: BTreeSet<Section>,
    /// The configuration that contains sections that returned too early.
    deferred: Option<Config>,
    /// A section ended since that configuration was applied.
    may_apply_deferred: bool,
    released: Arc<Notify>,
}

/// An informer's name and a cluster's.
type InformerKey = (String, String);

struct Supervised<S> {
    wanted: Arc<S>,
    commands: CommandSender<S>,
}

impl ConfigSupervisor {
    /// Without any supervisor.
    pub(super) fn new(parts: SupervisorParts) -> Self {
        Self {
            parts,
            clusters: BTreeMap::new(),
            informers: BTreeMap::new(),
            plugins: BTreeMap::new(),
            orphaned: BTreeSet::new(),
            ending: BTreeSet::new(),
            deferred: None,
            may_apply_deferred: false,
            released: Arc::default(),
        }
    }

    /// Notified when [`remove_unused`](Self::remove_unused) may have something to remove.
    pub(super) fn released(&self) -> Arc<Notify> {
        Arc::clone(&self.released)
    }

    /// Applies `config`. The commands are sent when this returns; the returned values give their results.
    pub(super) fn apply(&mut self, config: &Config) -> Vec<Pending> {
        self.deferred = None;
        self.may_apply_deferred = false;
        self.parts.durables.apply(config);
        self.parts
            .host
            .set_compile_memory(compile_memory_bytes(&config.all_plugins));
        let mut pending = self.apply_clusters(config);
        pending.extend(self.apply_informers(config));
        for (name, section) in &config.plugins {
            let own = Section::Plugin(name.clone());
            pending.extend(match self.plugins.get_mut(name) {
                None if self.ending.contains(&own) => self.defer(config),
                None => Some(self.add_plugin(name, Arc::new(section.clone()))),
                Some(running) if running.wanted.spec == section.spec => None,
                Some(running) => Some(running.change(own, Arc::new(section.clone()))),
            });
        }
        for name in removed(&self.plugins, &config.plugins) {
            if let Some(running) = self.plugins.remove(&name) {
                pending.push(running.remove(&mut self.ending, Section::Plugin(name), Removal::Silent));
            }
        }
        pending
    }

    /// Remembers that a section of `config` has to wait for the end of its predecessor.
    fn defer(&mut self, config: &Config) -> Option<Pending> {
        self.deferred.get_or_insert_with(|| config.clone());
        None
    }

    /// The supervisor of a removed section has answered: its name is free.
    pub(super) fn ended(&mut self, section: &Section) {
        self.may_apply_deferred |= self.ending.remove(section);
    }

    /// Applies the sections that had to wait, if one of them may begin.
    pub(super) fn apply_deferred(&mut self) -> Vec<Pending> {
        match self.deferred.take_if(|_| self.may_apply_deferred) {
            Some(config) => self.apply(&config),
            None => Vec::new(),
        }
    }

    fn apply_clusters(&mut self, config: &Config) -> Vec<Pending> {
        let mut pending = Vec::new();
        for (name, section) in &config.clusters {
            let wanted = Arc::new(self.parts.access.flags.over(name, &section.value));
            let own = Section::Cluster(name.clone());
            pending.extend(match self.clusters.get_mut(name) {
                None if self.ending.contains(&own) => self.defer(config),
                None => {
                    self.add_cluster(name, wanted);
                    // The registry shows the result of the login later.
                    Some(Pending::started(Section::Cluster(name.clone()), SectionChange::Added))
                }
                Some(running) if running.wanted == wanted => None,
                Some(running) => Some(running.change(Section::Cluster(name.clone()), wanted)),
            });
        }
        for name in removed(&self.clusters, &config.clusters) {
            if let Some(running) = self.clusters.remove(&name) {
                pending.push(running.remove(&mut self.ending, Section::Cluster(name), Removal::Silent));
            }
        }
        pending
    }

    fn apply_informers(&mut self, config: &Config) -> Vec<Pending> {
        let mut pending = Vec::new();
        let mut wanted: BTreeMap<InformerKey, Arc<InformerSection>> = BTreeMap::new();
        for (name, section) in &config.informers {
            // Per cluster; the informer's other clusters are irrelevant here.
            let own = Arc::new(InformerSection {
                clusters: Vec::new(),
                ..section.clone()
            });
            let keys = config
                .clusters_of(section)
                .map(|cluster| (name.clone(), cluster.to_owned()));
            wanted.extend(keys.map(|key| (key, Arc::clone(&own))));
        }
        for (key, wanted) in &wanted {
            let section = || Section::Informer(key.0.clone(), key.1.clone());
            let returned = self.orphaned.remove(key);
            if returned {
                self.parts.registry.configuration().set_pending(section(), None);
            }
            // The entry of a cluster that is ending is not the one that the informer is for.
            let must_wait = self.ending.contains(&section()) || !self.clusters.contains_key(&key.1);
            pending.extend(match self.informers.get_mut(key) {
                None if must_wait => self.defer(config),
                None => {
                    self.add_informer(key, Arc::clone(wanted));
                    // The registry shows the result of discovery later.
                    Some(Pending::started(section(), SectionChange::Added))
                }
                Some(running) if !returned && running.wanted.has_same_settings(wanted) => None,
                Some(running) => Some(running.change(section(), Arc::clone(wanted))),
            });
        }
        for key in removed(&self.informers, &wanted) {
            let (informer, cluster) = &key;
            let removal = match (
                config.clusters.contains_key(cluster),
                config.informers.contains_key(informer),
            ) {
                // Handlers are notified, as they are for a namespace that was removed.
                (true, true) => Removal::Notify,
                // Unknown what happens to the objects: Informant no longer watches this cluster.
                (false, _) => Removal::Silent,
                (true, false) => {
                    let running = self.informers.get(&key).filter(|_| !self.orphaned.contains(&key));
                    let section = Section::Informer(key.0.clone(), key.1.clone());
                    pending.extend(running.map(|running| running.revert(section)));
                    self.orphaned.insert(key);
                    continue;
                }
            };
            pending.extend(self.remove_informer(&key, removal));
        }
        pending
    }

    fn remove_informer(&mut self, key: &InformerKey, removal: Removal) -> Option<Pending> {
        self.orphaned.remove(key);
        let running = self.informers.remove(key)?;
        let section = Section::Informer(key.0.clone(), key.1.clone());
        Some(running.remove(&mut self.ending, section, removal))
    }

    /// Removes informers that the configuration no longer names and no plugin uses. A plugin that is `changing` may let
    /// go of them in a moment.
    pub(super) fn remove_unused(&mut self, changing: impl Fn(&str) -> bool) -> Vec<Pending> {
        let mut pending = Vec::new();
        for key in std::mem::take(&mut self.orphaned) {
            if let Some(plugin) = self.user_of(&key.0) {
                if changing(&plugin) {
                    self.orphaned.insert(key);
                    continue;
                }
                let section = Section::Informer(key.0.clone(), key.1.clone());
                let reason = format!("was removed from the file, but [plugin.{plugin}] still uses it");
                self.parts
                    .registry
                    .configuration()
                    .set_pending(section, Some(reason.into()));
                self.orphaned.insert(key);
            } else {
                pending.extend(self.remove_informer(&key, Removal::Silent));
            }
        }
        pending
    }

    /// A plugin that uses the informer.
    fn user_of(&self, informer: &str) -> Option<String> {
        let mut plugins = self.parts.registry.plugins().into_iter();
        let user = plugins.find(|entry| {
            let section = entry.section();
            let names_it = section.informers().any(|(name, _)| name == informer);
            names_it && matches!(entry.phase(), PluginPhase::Running(_))
        })?;
        Some(user.name.clone())
    }

    fn add_cluster(&mut self, name: &str, wanted: Arc<ClusterSection>) {
        let parts = &self.parts;
        let (commands, receiver) = commands();
        let supervisor = ClusterSupervisor {
            entry: parts.registry.clusters().add(name),
            section: Arc::clone(&wanted),
            registry: parts.registry.clone(),
            environment: Arc::clone(&parts.environment),
            activities: parts.activities.clone(),
            in_process: parts.access.in_process.clone(),
            effects: parts.effects.clone(),
            commands: receiver,
            reloads: parts.reloads.clone(),
            stop: parts.stop.clone(),
        };
        self.spawn("cluster-supervisor", supervisor.run());
        let running = Supervised { wanted, commands };
        self.clusters.insert(name.to_owned(), running);
    }

    fn add_informer(&mut self, key: &InformerKey, wanted: Arc<InformerSection>) {
        let parts = &self.parts;
        let (name, cluster) = key;
        // Clusters were applied before.
        let Some(cluster) = parts.registry.clusters().entry(cluster) else {
            return;
        };
        let (commands, receiver) = commands();
        let supervisor = InformerSupervisor {
            status: parts.registry.add_informer(name, &cluster.name, Arc::clone(&wanted)),
            registry: parts.registry.clone(),
            cluster,
            environment: Arc::clone(&parts.environment),
            metrics: parts.metrics.clone(),
            durables: parts.durables.clone(),
            commands: receiver,
            stop: parts.stop.clone(),
        };
        self.spawn("informer-supervisor", supervisor.run());
        let running = Supervised { wanted, commands };
        self.informers.insert(key.clone(), running);
    }

    fn add_plugin(&mut self, name: &str, wanted: Arc<PluginSection>) -> Pending {
        let parts = &self.parts;
        let (commands, receiver) = commands();
        let (reply, pending) = Pending::new(Section::Plugin(name.to_owned()), SectionChange::Added);
        let supervisor = PluginSupervisor {
            entry: parts.registry.add_plugin(name, Arc::clone(&wanted), &parts.host),
            wanted: Arc::clone(&wanted),
            registry: parts.registry.clone(),
            host: parts.host.clone(),
            metrics: parts.metrics.clone(),
            durables: parts.durables.clone(),
            commands: receiver,
            watch: parts.watch.clone(),
            checks: parts.checks.clone(),
            released: Arc::clone(&self.released),
            stop: parts.stop.clone(),
        };
        self.spawn("plugin-supervisor", supervisor.run(reply));
        let running = Supervised { wanted, commands };
        self.plugins.insert(name.to_owned(), running);
        pending
    }

    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let tracked = self.parts.tasks.track_future(task);
        self.parts.environment.spawn(name, Box::pin(tracked));
    }
}

impl<S> Supervised<S> {
    fn change(&mut self, section: Section, wanted: Arc<S>) -> Pending {
        self.wanted = Arc::clone(&wanted);
        let (reply, pending) = Pending::new(section, SectionChange::Changed);
        self.commands.send(SectionCommand::Change(wanted, reply));
        pending
    }

    fn revert(&self, section: Section) -> Pending {
        let (reply, pending) = Pending::new(section, SectionChange::Changed);
        self.commands.send(SectionCommand::Revert(reply));
        pending
    }

    fn remove(self, ending: &mut BTreeSet<Section>, section: Section, removal: Removal) -> Pending {
        ending.insert(section.clone());
        let (reply, pending) = Pending::new(section, SectionChange::Removed);
        self.commands.send(SectionCommand::Remove(removal, reply));
        pending
    }
}

/// The names that are running and no longer wanted.
fn removed<K: Clone + Ord, A, B>(running: &BTreeMap<K, A>, wanted: &BTreeMap<K, B>) -> Vec<K> {
    let removed = running.keys().filter(|name| !wanted.contains_key(*name));
    removed.cloned().collect()
}
