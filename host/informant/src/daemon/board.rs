//! What everybody may look at: which informers and plugins the configuration has, and how each fares.
//!
//! Written by the tasks that keep them, read by the admin server and by each other. Holds the handles, runs nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use informant_cache::{Catalog, Source};
use informant_informer::{Discovered, SharedInformer};
use informant_plugin_host::Plugin;
use tokio::sync::watch;

use crate::config::{Config, InformerSection, PluginSection};

/// The configuration and how it fares. A clone is the same board.
#[derive(Clone, Debug)]
pub struct Board(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    catalog: Catalog,
    informers: BTreeMap<String, Arc<InformerEntry>>,
    plugins: BTreeMap<String, Arc<PluginEntry>>,
    stopping: AtomicBool,
}

/// One informer of the configuration.
#[derive(Debug)]
pub struct InformerEntry {
    /// Its name.
    pub name: String,
    /// What the configuration says.
    pub section: InformerSection,
    phase: watch::Sender<InformerPhase>,
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
    pub shared: SharedInformer,
    /// What its resource turned out to be.
    pub discovered: Discovered,
}

/// One plugin of the configuration.
#[derive(Debug)]
pub struct PluginEntry {
    /// Its name.
    pub name: String,
    /// What the configuration says.
    pub section: PluginSection,
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
    pub fn new(config: &Config, catalog: Catalog) -> Self {
        let informers = config.informers.iter().map(|(name, section)| {
            let phase = watch::Sender::new(InformerPhase::Discovering { trouble: None });
            let entry = InformerEntry {
                name: name.clone(),
                section: section.clone(),
                phase,
            };
            (name.clone(), Arc::new(entry))
        });
        let plugins = config.plugins.iter().map(|(name, section)| {
            let phase = watch::Sender::new(PluginPhase::Loading);
            (
                name.clone(),
                Arc::new(PluginEntry {
                    name: name.clone(),
                    section: section.clone(),
                    phase,
                }),
            )
        });
        let (informers, plugins) = (informers.collect(), plugins.collect());
        Self(Arc::new(Parts {
            catalog,
            informers,
            plugins,
            stopping: AtomicBool::new(false),
        }))
    }

    /// All sources.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// The informers by name.
    pub fn informers(&self) -> impl Iterator<Item = &Arc<InformerEntry>> {
        self.0.informers.values()
    }

    /// One informer.
    #[must_use]
    pub fn informer(&self, name: &str) -> Option<&Arc<InformerEntry>> {
        self.0.informers.get(name)
    }

    /// The plugins by name.
    pub fn plugins(&self) -> impl Iterator<Item = &Arc<PluginEntry>> {
        self.0.plugins.values()
    }

    /// Whether the daemon is on its way out.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.stopping.load(Ordering::Acquire)
    }

    pub(super) fn set_stopping(&self) {
        self.0.stopping.store(true, Ordering::Release);
    }

    /// The sources of an informer, oldest first.
    #[must_use]
    pub fn sources(&self, informer: &str) -> Vec<Arc<Source>> {
        self.0.catalog.sources_of(informer)
    }
}

impl InformerEntry {
    /// How far it has come.
    #[must_use]
    pub fn phase(&self) -> InformerPhase {
        self.phase.borrow().clone()
    }

    /// Tells of each change.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<InformerPhase> {
        self.phase.subscribe()
    }

    pub(super) fn set_phase(&self, phase: InformerPhase) {
        self.phase.send_replace(phase);
    }
}

impl PluginEntry {
    /// How far it has come.
    #[must_use]
    pub fn phase(&self) -> PluginPhase {
        self.phase.borrow().clone()
    }

    pub(super) fn set_phase(&self, phase: PluginPhase) {
        self.phase.send_replace(phase);
    }
}
