//! The status of all clusters, informers and plugins: which run, with which sections, and in which phase.
//! Supervisors write it; the admin server and other supervisors read it. It holds handles and runs nothing. Entries are
//! added and removed with the configuration; a reader that holds an entry sees it end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use informant_cache::listener::HeldShards;
use informant_cache::{Catalog, Division, Environment, ShardSet, Source};
use informant_config::{InformerSection, PluginSection};
use informant_informer::{Discovered, Exclusion, NamedInformer, UnusedExclusion};
use informant_object::SourceId;
use informant_plugin_host::{Plugin, PluginHost};
use informant_spec::{Exclude, ResourcePattern};
use tokio::sync::watch;

use super::acting::{Acting, Term};
use super::cluster_registry::ClusterRegistry;
use super::configuration::{Configuration, Section};
use super::exclude_warnings::ExcludeWarnings;
use super::history::History;
use super::section_command::{Reply, SectionResult};
use crate::effect_log::EffectLog;
use crate::replicas::{Group, GroupStatus, pod_of};
use crate::sync::lock;

/// The configuration and its status. Clones share the same data.
#[derive(Clone, Debug)]
pub struct StatusRegistry(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    catalog: Catalog,
    clusters: ClusterRegistry,
    /// Informers that still deliver the deletes of their last objects.
    retiring: Mutex<Vec<NamedInformer>>,
    informers: RwLock<BTreeMap<String, Arc<InformerEntry>>>,
    plugins: RwLock<BTreeMap<String, Arc<PluginEntry>>>,
    configuration: Mutex<Configuration>,
    stopping: AtomicBool,
    acting: watch::Sender<Acting>,
    /// The same, of plugins whose objects are divided among replicas.
    divided_acting: watch::Sender<Acting>,
    /// What informers read whose objects are divided.
    read_shards: watch::Sender<HeldShards>,
    replicas: Replicas,
    /// What plugins have done.
    effects: EffectLog,
    history: History,
}

/// The group of replicas, with `[ha]`.
#[derive(Debug, Default)]
struct Replicas {
    /// Set once this process has joined it.
    group: OnceLock<Group>,
    /// Why it has not.
    not_joined: Mutex<Option<Arc<str>>>,
    watermarks_left_out: AtomicUsize,
    /// Each plugin was loaded or refused once.
    has_loaded: AtomicBool,
}

/// What is known of the replicas.
#[derive(Clone, Debug)]
pub(crate) enum ReplicasStatus {
    /// This process acts alone, without `[ha]`.
    Alone,
    /// It has not joined its group.
    NotJoined {
        reason: Arc<str>,
    },
    Joined(Arc<GroupStatus>),
}

/// One informer of the configuration, in all its clusters.
#[derive(Debug)]
pub struct InformerEntry {
    pub name: String,
    statuses: watch::Sender<InformerStatuses>,
    exclude_warnings: Mutex<ExcludeWarnings>,
}

/// An informer's status by cluster; the only cluster has the empty name.
pub(crate) type InformerStatuses = BTreeMap<String, InformerStatus>;

#[derive(Clone, Debug)]
pub struct InformerStatus {
    /// The section that is running, or, while nothing is, the one to start with.
    pub section: Arc<InformerSection>,
    pub phase: InformerPhase,
    /// The last source that readiness waits for: the newest of the process when the informer started, or when its
    /// section last changed. A kind that appears later has a greater id.
    pub required_up_to: SourceId,
}

/// What the supervisor of an informer in one cluster writes to.
#[derive(Debug, Clone)]
pub(super) struct StatusHandle {
    entry: Arc<InformerEntry>,
    pub(super) cluster: String,
    catalog: Catalog,
    read_shards: watch::Receiver<HeldShards>,
}

#[derive(Clone, Debug)]
pub enum InformerPhase {
    /// Discovery of the resource is running; nothing is watched yet.
    Discovering {
        /// Why the last attempt failed.
        last_error: Option<Arc<str>>,
    },
    /// It lists and watches. Its sources have the details.
    Running(Arc<RunningInformer>),
    /// The section cannot work; only a changed configuration helps.
    Refused {
        reason: Arc<str>,
    },
    Stopped,
}

/// An informer that lists and watches.
#[derive(Debug)]
pub struct RunningInformer {
    pub shared: NamedInformer,
    /// Its resource as discovered, if it has exactly one. With a pattern, `shared.spec().resources` has the served
    /// ones.
    pub discovered: Option<Discovered>,
}

/// One plugin of the configuration.
#[derive(Debug)]
pub struct PluginEntry {
    pub name: String,
    section: Mutex<Arc<PluginSection>>,
    phase: watch::Sender<PluginPhase>,
    /// What it may read and is not ready, while its first calls wait for that or began without it.
    missing: Mutex<Option<Missing>>,
}

/// What a plugin may read and is not ready.
#[derive(Debug, Clone)]
struct Missing {
    what: Arc<str>,
    /// Calls wait for it; otherwise they began without it.
    is_awaited: bool,
}

#[derive(Clone)]
pub enum PluginPhase {
    /// It is being compiled and started, by this host.
    Loading(PluginHost),
    /// It could not be loaded; a change of its file or section triggers the next attempt.
    Refused {
        reason: Arc<str>,
    },
    /// It is loaded. The plugin has its own status.
    Running(Plugin),
    Stopped,
}

impl std::fmt::Debug for PluginPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Loading(_) => f.write_str("Loading"),
            Self::Refused { reason } => f.debug_struct("Refused").field("reason", reason).finish(),
            Self::Running(plugin) => f.debug_tuple("Running").field(&plugin.name()).finish(),
            Self::Stopped => f.write_str("Stopped"),
        }
    }
}

impl StatusRegistry {
    #[must_use]
    pub fn new(catalog: Catalog, configuration: Configuration) -> Self {
        Self(Arc::new(Parts {
            catalog,
            clusters: ClusterRegistry::default(),
            retiring: Mutex::default(),
            informers: RwLock::default(),
            plugins: RwLock::default(),
            configuration: Mutex::new(configuration),
            stopping: AtomicBool::new(false),
            acting: watch::Sender::new(Acting::Yes(Arc::new(Term::default()))),
            divided_acting: watch::Sender::new(Acting::No),
            read_shards: watch::Sender::new(HeldShards {
                division: Division::WHOLE,
                shards: ShardSet::default(),
            }),
            replicas: Replicas::default(),
            effects: EffectLog::default(),
            history: History::default(),
        }))
    }

    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    #[must_use]
    pub fn informers(&self) -> Vec<Arc<InformerEntry>> {
        let informers = self.0.informers.read().unwrap_or_else(PoisonError::into_inner);
        informers.values().cloned().collect()
    }

    #[must_use]
    pub fn informer(&self, name: &str) -> Option<Arc<InformerEntry>> {
        let informers = self.0.informers.read().unwrap_or_else(PoisonError::into_inner);
        informers.get(name).cloned()
    }

    #[must_use]
    pub fn plugins(&self) -> Vec<Arc<PluginEntry>> {
        let plugins = self.0.plugins.read().unwrap_or_else(PoisonError::into_inner);
        plugins.values().cloned().collect()
    }

    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<Arc<PluginEntry>> {
        let plugins = self.0.plugins.read().unwrap_or_else(PoisonError::into_inner);
        plugins.get(name).cloned()
    }

    pub(crate) fn history(&self) -> &History {
        &self.0.history
    }

    pub(crate) fn effects(&self) -> &EffectLog {
        &self.0.effects
    }

    /// The result of the last configuration change.
    pub fn configuration(&self) -> MutexGuard<'_, Configuration> {
        lock(&self.0.configuration)
    }

    pub(crate) fn clusters(&self) -> &ClusterRegistry {
        &self.0.clusters
    }

    /// Adds an informer that is about to start in a cluster.
    pub(super) fn add_informer(&self, name: &str, cluster: &str, section: Arc<InformerSection>) -> StatusHandle {
        let mut informers = self.0.informers.write().unwrap_or_else(PoisonError::into_inner);
        let entry = informers.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(InformerEntry {
                name: name.to_owned(),
                statuses: watch::Sender::new(InformerStatuses::new()),
                exclude_warnings: Mutex::default(),
            })
        });
        let status = InformerStatus {
            section,
            phase: InformerPhase::Discovering { last_error: None },
            required_up_to: self.0.catalog.last_id(),
        };
        entry
            .statuses
            .send_modify(|statuses| drop(statuses.insert(cluster.to_owned(), status)));
        StatusHandle {
            entry: Arc::clone(entry),
            cluster: cluster.to_owned(),
            catalog: self.0.catalog.clone(),
            read_shards: self.read_shards(),
        }
    }

    /// Adds a plugin that `host` is about to load.
    pub(super) fn add_plugin(&self, name: &str, section: Arc<PluginSection>, host: &PluginHost) -> Arc<PluginEntry> {
        let entry = Arc::new(PluginEntry {
            name: name.to_owned(),
            section: Mutex::new(section),
            phase: watch::Sender::new(PluginPhase::Loading(host.clone())),
            missing: Mutex::default(),
        });
        let mut plugins = self.0.plugins.write().unwrap_or_else(PoisonError::into_inner);
        plugins.insert(name.to_owned(), Arc::clone(&entry));
        entry
    }

    /// Removes an informer from a cluster, and its entry with the last cluster.
    pub(super) fn remove_informer(&self, own: &StatusHandle) {
        let mut informers = self.0.informers.write().unwrap_or_else(PoisonError::into_inner);
        own.entry
            .statuses
            .send_modify(|statuses| drop(statuses.remove(&own.cluster)));
        if own.entry.statuses.borrow().is_empty() {
            informers.remove(&own.entry.name);
        }
    }

    /// Informers that still deliver the deletes of their last objects.
    pub(super) fn retiring(&self) -> MutexGuard<'_, Vec<NamedInformer>> {
        lock(&self.0.retiring)
    }

    /// The retiring informers that were `name` in `cluster`.
    pub(super) fn retiring_of(&self, name: &str, cluster: &str) -> Vec<NamedInformer> {
        let was = |informer: &&NamedInformer| {
            let source = informer.spec().source;
            source.informer == name && source.cluster == cluster
        };
        self.retiring().iter().filter(was).cloned().collect()
    }

    pub(super) fn remove_plugin(&self, name: &str) {
        let mut plugins = self.0.plugins.write().unwrap_or_else(PoisonError::into_inner);
        plugins.remove(name);
    }

    /// Shows the result of a section, and answers if that was not done before.
    pub(super) fn answer(&self, section: Section, reply: Option<Reply>, result: SectionResult) {
        let mut configuration = self.configuration();
        configuration.set_pending(section, result.as_ref().err().cloned());
        if let Some(reply) = reply {
            reply.send(result);
        }
    }

    /// Whether the plugins of this process act: those whose objects are divided among replicas, or the others. Changes
    /// with the Leases.
    pub(super) fn acting(&self, is_divided: bool) -> watch::Receiver<Acting> {
        match is_divided {
            true => self.0.divided_acting.subscribe(),
            false => self.0.acting.subscribe(),
        }
    }

    /// Whether they act now.
    pub(crate) fn acts(&self, is_divided: bool) -> bool {
        let acting = match is_divided {
            true => &self.0.divided_acting,
            false => &self.0.acting,
        };
        matches!(*acting.borrow(), Acting::Yes(_))
    }

    pub(super) fn set_acting(&self, acting: Acting) {
        self.0.acting.send_replace(acting);
    }

    pub(super) fn set_divided_acting(&self, acting: Acting) {
        self.0.divided_acting.send_replace(acting);
    }

    /// The shards that informers read whose objects are divided among replicas.
    pub(super) fn read_shards(&self) -> watch::Receiver<HeldShards> {
        self.0.read_shards.subscribe()
    }

    pub(super) fn set_read_shards(&self, shards: HeldShards) {
        self.0
            .read_shards
            .send_if_modified(|read| std::mem::replace(read, shards) != shards);
    }

    /// Keeps for a successor whether the plugin is paused by command, if there may be one.
    pub(crate) async fn keep_pause(&self, plugin: &Plugin, environment: &dyn Environment) {
        let term = self.0.acting.borrow().term().cloned();
        if let Some(shared) = term.as_ref().and_then(|term| term.shared.as_ref()) {
            shared.keep_pause(plugin, environment).await;
        }
    }

    pub(super) fn set_group(&self, group: Group) {
        // Set by the one task that joins it.
        let _ = self.0.replicas.group.set(group);
        *lock(&self.0.replicas.not_joined) = None;
    }

    /// This process is one of several replicas, and has not joined them.
    pub(super) fn set_not_joined(&self, reason: Arc<str>) {
        *lock(&self.0.replicas.not_joined) = Some(reason);
    }

    pub(super) fn set_watermarks_left_out(&self, number: usize) {
        self.0.replicas.watermarks_left_out.store(number, Ordering::Relaxed);
    }

    /// How many watermarks did not fit into the Lease: what they cover comes again after a takeover.
    pub(crate) fn watermarks_left_out(&self) -> usize {
        self.0.replicas.watermarks_left_out.load(Ordering::Relaxed)
    }

    pub(crate) fn replicas(&self) -> ReplicasStatus {
        let replicas = &self.0.replicas;
        match (replicas.group.get(), lock(&replicas.not_joined).clone()) {
            (Some(group), _) => ReplicasStatus::Joined(group.status()),
            (None, Some(reason)) => ReplicasStatus::NotJoined { reason },
            (None, None) => ReplicasStatus::Alone,
        }
    }

    /// Whether this is one of several replicas whose plugins are loaded for the first time. It could take over the work
    /// and do none of it, so it is not ready, whatever the plugins require: a rolling update would replace the replicas
    /// that can call them.
    pub(crate) fn loads_for_the_first_time(&self) -> bool {
        let replicas = &self.0.replicas;
        let is_alone = replicas.group.get().is_none() && lock(&replicas.not_joined).is_none();
        if is_alone || replicas.has_loaded.load(Ordering::Relaxed) {
            return false;
        }
        let is_loading = |entry: &Arc<PluginEntry>| matches!(entry.phase(), PluginPhase::Loading(_));
        let loads = self.plugins().iter().any(is_loading);
        replicas.has_loaded.store(!loads, Ordering::Relaxed);
        loads
    }

    /// Whether plugins act in this process; otherwise the pod of the process that acts, if it is known and another one.
    pub(crate) fn acts_elsewhere(&self) -> Option<Option<String>> {
        let acts = self.acts(false) || self.acts(true);
        (!acts).then(|| match self.replicas() {
            ReplicasStatus::Joined(group) => {
                let is_other = |holder: &&str| *holder != pod_of(&group.identity);
                group.holder().filter(is_other).map(str::to_owned)
            }
            ReplicasStatus::Alone | ReplicasStatus::NotJoined { .. } => None,
        })
    }

    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Acquire)
    }

    pub(super) fn set_stopping(&self) {
        self.0.stopping.store(true, Ordering::Release);
    }

    pub(super) fn set_stopped(&self) {
        for entry in self.informers() {
            entry.statuses.send_modify(|statuses| {
                statuses
                    .values_mut()
                    .for_each(|status| status.phase = InformerPhase::Stopped);
            });
        }
    }

    /// The sources of an informer, oldest first.
    #[must_use]
    pub fn sources(&self, informer: &str) -> Vec<Arc<Source>> {
        self.0.catalog.sources_of(informer)
    }
}

impl InformerEntry {
    /// The informer's status in each of its clusters.
    #[must_use]
    pub fn by_cluster(&self) -> InformerStatuses {
        self.statuses.borrow().clone()
    }

    #[must_use]
    pub fn watch(&self) -> watch::Receiver<InformerStatuses> {
        self.statuses.subscribe()
    }
}

impl StatusHandle {
    /// What this informer reads if its objects are divided among replicas.
    pub(super) fn read_shards(&self) -> watch::Receiver<HeldShards> {
        self.read_shards.clone()
    }

    pub(super) fn name(&self) -> &str {
        &self.entry.name
    }

    pub(super) fn section(&self) -> Option<Arc<InformerSection>> {
        let statuses = self.entry.statuses.borrow();
        statuses.get(&self.cluster).map(|status| Arc::clone(&status.section))
    }

    pub(super) fn phase(&self) -> InformerPhase {
        let statuses = self.entry.statuses.borrow();
        statuses
            .get(&self.cluster)
            .map_or(InformerPhase::Stopped, |status| status.phase.clone())
    }

    /// Sets the section that is in effect now. Readiness waits for the sources that it has added.
    pub(super) fn set_section(&self, section: Arc<InformerSection>) {
        let required_up_to = self.catalog.last_id();
        self.change(|status| {
            status.section = section;
            status.required_up_to = required_up_to;
        });
    }

    /// Sets the phase. Readiness waits for the sources of an informer that was just started.
    pub(super) fn set_phase(&self, phase: InformerPhase) {
        let required_up_to = self.catalog.last_id();
        self.change(|status| {
            status.phase = phase;
            status.required_up_to = required_up_to;
        });
    }

    /// Updates what `exclude` matches in this cluster. Returns the entries, each once, that are now known to match
    /// nothing in any cluster.
    pub(super) fn update_exclude_warnings(
        &self,
        section: (&ResourcePattern, &Exclude),
        exclusions: &BTreeMap<String, Exclusion>,
    ) -> Vec<(String, UnusedExclusion)> {
        let clusters: Vec<String> = self.entry.statuses.borrow().keys().cloned().collect();
        let warnings = self.entry.exclude_warnings.lock();
        let mut warnings = warnings.unwrap_or_else(PoisonError::into_inner);
        warnings.update(&self.cluster, &clusters, section, exclusions)
    }

    fn change(&self, change: impl FnOnce(&mut InformerStatus)) {
        self.entry.statuses.send_if_modified(|statuses| {
            let status = statuses.get_mut(&self.cluster);
            status.map(change).is_some()
        });
    }
}

impl PluginEntry {
    /// The section that is running, or, while nothing is, the one to start with.
    #[must_use]
    pub fn section(&self) -> Arc<PluginSection> {
        Arc::clone(&lock(&self.section))
    }

    pub(super) fn set_section(&self, section: Arc<PluginSection>) {
        *lock(&self.section) = section;
    }

    #[must_use]
    pub fn phase(&self) -> PluginPhase {
        self.phase.borrow().clone()
    }

    /// What it may read and is not ready: its first calls about the objects of a cluster wait for that, or began
    /// without it.
    #[must_use]
    pub fn missing(&self) -> Option<Arc<str>> {
        lock(&self.missing).as_ref().map(|missing| Arc::clone(&missing.what))
    }

    /// What its first calls about the objects of a cluster wait for.
    #[must_use]
    pub fn awaited(&self) -> Option<Arc<str>> {
        let missing = lock(&self.missing);
        let awaited = missing.as_ref().filter(|missing| missing.is_awaited);
        awaited.map(|missing| Arc::clone(&missing.what))
    }

    pub(super) fn set_missing(&self, missing: Option<String>, is_awaited: bool) {
        *lock(&self.missing) = missing.map(|what| Missing {
            what: what.into(),
            is_awaited,
        });
    }

    pub(super) fn set_phase(&self, phase: PluginPhase) {
        self.phase.send_replace(phase);
    }
}
