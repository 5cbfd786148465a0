//! What everybody may look at: which informers and plugins run, by which sections, and how each fares.
//!
//! Written by the tasks that keep them, read by the admin server and by each other. Holds the handles, runs nothing.
//! Entries come and go with the configuration; who holds one sees it end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use informant_cache::{Catalog, Source};
use informant_informer::{Discovered, Exclude, Exclusion, Idle, NamedInformer, ResourcePattern};
use informant_plugin_host::Plugin;
use tokio::sync::watch;

use super::clusters::Clusters;
use super::configuration::Configuration;
use super::exclude_warnings::ExcludeWarnings;
use crate::config::{InformerSection, PluginSection};

/// The configuration and how it fares. A clone is the same board.
#[derive(Clone, Debug)]
pub struct Board(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    catalog: Catalog,
    clusters: Clusters,
    /// Informers that still tell deletes of what was taken from them.
    leaving: Mutex<Vec<NamedInformer>>,
    informers: RwLock<BTreeMap<String, Arc<InformerEntry>>>,
    plugins: RwLock<BTreeMap<String, Arc<PluginEntry>>>,
    configuration: Mutex<Configuration>,
    stopping: AtomicBool,
}

/// One informer of the configuration, in all its clusters.
#[derive(Debug)]
pub struct InformerEntry {
    /// Its name.
    pub name: String,
    places: watch::Sender<Places>,
    exclude_warnings: Mutex<ExcludeWarnings>,
}

/// An informer by cluster; the only cluster has the empty name.
pub type Places = BTreeMap<String, Place>;

/// An informer in one cluster.
#[derive(Clone, Debug)]
pub struct Place {
    /// The section it runs by; while nothing runs, the one that it is to run by.
    pub section: Arc<InformerSection>,
    /// How far it has come.
    pub phase: InformerPhase,
}

/// Where the keeper of an informer in one cluster writes.
#[derive(Debug, Clone)]
pub(super) struct OwnPlace {
    entry: Arc<InformerEntry>,
    pub(super) cluster: String,
}

/// How far an informer has come.
#[derive(Clone, Debug)]
pub enum InformerPhase {
    /// The API server is asked what the resource is; nothing is watched yet.
    Discovering {
        /// Why it takes more than one try.
        trouble: Option<Arc<str>>,
    },
    /// It lists and watches. How that goes, its sources tell.
    Running(Arc<RunningInformer>),
    /// The configuration asks for what cannot be; only another configuration helps.
    Refused {
        /// Why.
        reason: Arc<str>,
    },
    /// It was stopped in order.
    Stopped,
}

/// An informer that lists and watches.
#[derive(Debug)]
pub struct RunningInformer {
    /// The informer.
    pub shared: NamedInformer,
    /// What its only resource turned out to be. Of several, `shared.spec().resources` has those that are served.
    pub discovered: Option<Discovered>,
}

/// One plugin of the configuration.
#[derive(Debug)]
pub struct PluginEntry {
    /// Its name.
    pub name: String,
    section: Mutex<Arc<PluginSection>>,
    phase: watch::Sender<PluginPhase>,
}

/// How far a plugin has come.
#[derive(Clone)]
pub enum PluginPhase {
    /// It is being compiled and started.
    Loading,
    /// It could not be loaded; a change of its file is a new try.
    Refused {
        /// Why.
        reason: Arc<str>,
    },
    /// It is loaded. How it fares, it tells itself.
    Running(Plugin),
    /// It was stopped in order.
    Stopped,
}

impl std::fmt::Debug for PluginPhase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Loading => f.write_str("Loading"),
            Self::Refused { reason } => f.debug_struct("Refused").field("reason", reason).finish(),
            Self::Running(plugin) => f.debug_tuple("Running").field(&plugin.name()).finish(),
            Self::Stopped => f.write_str("Stopped"),
        }
    }
}

impl Board {
    /// A board on which nothing runs yet.
    #[must_use]
    pub fn new(catalog: Catalog, configuration: Configuration) -> Self {
        Self(Arc::new(Parts {
            catalog,
            clusters: Clusters::default(),
            leaving: Mutex::default(),
            informers: RwLock::default(),
            plugins: RwLock::default(),
            configuration: Mutex::new(configuration),
            stopping: AtomicBool::new(false),
        }))
    }

    /// All sources.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The informers by name.
    #[must_use]
    pub fn informers(&self) -> Vec<Arc<InformerEntry>> {
        let informers = self.0.informers.read().unwrap_or_else(PoisonError::into_inner);
        informers.values().cloned().collect()
    }

    /// One informer.
    #[must_use]
    pub fn informer(&self, name: &str) -> Option<Arc<InformerEntry>> {
        let informers = self.0.informers.read().unwrap_or_else(PoisonError::into_inner);
        informers.get(name).cloned()
    }

    /// The plugins by name.
    #[must_use]
    pub fn plugins(&self) -> Vec<Arc<PluginEntry>> {
        let plugins = self.0.plugins.read().unwrap_or_else(PoisonError::into_inner);
        plugins.values().cloned().collect()
    }

    /// One plugin.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<Arc<PluginEntry>> {
        let plugins = self.0.plugins.read().unwrap_or_else(PoisonError::into_inner);
        plugins.get(name).cloned()
    }

    /// What became of the configuration's last change.
    pub fn configuration(&self) -> MutexGuard<'_, Configuration> {
        self.0.configuration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clusters by name.
    pub(crate) fn clusters(&self) -> &Clusters {
        &self.0.clusters
    }

    /// Enters an informer that is about to start in a cluster.
    pub(super) fn add_informer(&self, name: &str, cluster: &str, section: Arc<InformerSection>) -> OwnPlace {
        let mut informers = self.0.informers.write().unwrap_or_else(PoisonError::into_inner);
        let entry = informers.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(InformerEntry {
                name: name.to_owned(),
                places: watch::Sender::new(Places::new()),
                exclude_warnings: Mutex::default(),
            })
        });
        let place = Place {
            section,
            phase: InformerPhase::Discovering { trouble: None },
        };
        entry
            .places
            .send_modify(|places| drop(places.insert(cluster.to_owned(), place)));
        OwnPlace {
            entry: Arc::clone(entry),
            cluster: cluster.to_owned(),
        }
    }

    /// Enters a plugin that is about to be loaded.
    pub(super) fn add_plugin(&self, name: &str, section: Arc<PluginSection>) -> Arc<PluginEntry> {
        let entry = Arc::new(PluginEntry {
            name: name.to_owned(),
            section: Mutex::new(section),
            phase: watch::Sender::new(PluginPhase::Loading),
        });
        let mut plugins = self.0.plugins.write().unwrap_or_else(PoisonError::into_inner);
        plugins.insert(name.to_owned(), Arc::clone(&entry));
        entry
    }

    /// Takes an informer out of a cluster; out of the last one it is gone.
    pub(super) fn remove_informer(&self, own: &OwnPlace) {
        let mut informers = self.0.informers.write().unwrap_or_else(PoisonError::into_inner);
        own.entry.places.send_modify(|places| drop(places.remove(&own.cluster)));
        if own.entry.places.borrow().is_empty() {
            informers.remove(&own.entry.name);
        }
    }

    /// Informers that still tell deletes of what was taken from them.
    pub(super) fn leaving(&self) -> MutexGuard<'_, Vec<NamedInformer>> {
        self.0.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those of them that were the informer `name` in `cluster`.
    pub(super) fn leaving_of(&self, name: &str, cluster: &str) -> Vec<NamedInformer> {
        let was = |informer: &&NamedInformer| {
            let source = informer.spec().source;
            source.informer == name && source.cluster == cluster
        };
        self.leaving().iter().filter(was).cloned().collect()
    }

    pub(super) fn remove_plugin(&self, name: &str) {
        let mut plugins = self.0.plugins.write().unwrap_or_else(PoisonError::into_inner);
        plugins.remove(name);
    }

    /// Whether the daemon is on its way out.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Acquire)
    }

    pub(super) fn set_stopping(&self) {
        self.0.stopping.store(true, Ordering::Release);
    }

    /// All informers were stopped.
    pub(super) fn set_stopped(&self) {
        for entry in self.informers() {
            entry.places.send_modify(|places| {
                places
                    .values_mut()
                    .for_each(|place| place.phase = InformerPhase::Stopped);
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
    /// The informer in each of its clusters.
    #[must_use]
    pub fn places(&self) -> Places {
        self.places.borrow().clone()
    }

    /// Tells of each change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Places> {
        self.places.subscribe()
    }
}

impl OwnPlace {
    /// The informer's name.
    pub(super) fn name(&self) -> &str {
        &self.entry.name
    }

    pub(super) fn section(&self) -> Option<Arc<InformerSection>> {
        let places = self.entry.places.borrow();
        places.get(&self.cluster).map(|place| Arc::clone(&place.section))
    }

    pub(super) fn phase(&self) -> InformerPhase {
        let places = self.entry.places.borrow();
        places
            .get(&self.cluster)
            .map_or(InformerPhase::Stopped, |place| place.phase.clone())
    }

    pub(super) fn set_section(&self, section: Arc<InformerSection>) {
        self.change(|place| place.section = section);
    }

    pub(super) fn set_phase(&self, phase: InformerPhase) {
        self.change(|place| place.phase = phase);
    }

    /// Takes what this cluster serves of what `exclude` names. Returns the entries, if any, of which it is certain now
    /// that they leave nothing out in any cluster, each once.
    pub(super) fn judge_exclude(
        &self,
        judged: (&ResourcePattern, &Exclude),
        said: &BTreeMap<String, Exclusion>,
    ) -> Vec<(String, Idle)> {
        let clusters: Vec<String> = self.entry.places.borrow().keys().cloned().collect();
        let warnings = self.entry.exclude_warnings.lock();
        let mut warnings = warnings.unwrap_or_else(PoisonError::into_inner);
        warnings.take(&self.cluster, &clusters, judged, said)
    }

    fn change(&self, change: impl FnOnce(&mut Place)) {
        self.entry.places.send_if_modified(|places| {
            let place = places.get_mut(&self.cluster);
            place.map(change).is_some()
        });
    }
}

impl PluginEntry {
    /// The section it runs by; while nothing runs, the one that it is to run by.
    #[must_use]
    pub fn section(&self) -> Arc<PluginSection> {
        Arc::clone(&self.section.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set_section(&self, section: Arc<PluginSection>) {
        *self.section.lock().unwrap_or_else(PoisonError::into_inner) = section;
    }

    /// How far it has come.
    #[must_use]
    pub fn phase(&self) -> PluginPhase {
        self.phase.borrow().clone()
    }

    pub(super) fn set_phase(&self, phase: PluginPhase) {
        self.phase.send_replace(phase);
    }
}
