//! Who keeps what: one keeper for each section of the configuration, started, told and ended as the configuration changes.
//!
//! ```text
//! Config ──compared with what is kept──▶ orders to keepers ──▶ outcomes, one a section
//! ```
//!
//! Promises: a section that says the same as before is left alone, wherever in the file it has moved; informers are there before the
//! plugins that name them; one that a plugin still runs on, because its new section was refused, is let go only when that plugin is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use informant_cache::Environment;
use informant_plugin_host::PluginHost;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::board::{Board, PluginPhase};
use super::configuration::Section;
use super::file_watch::Ticks;
use super::informer_keeper::InformerKeeper;
use super::order::{Order, Outcome};
use super::plugin_keeper::PluginKeeper;
use super::plugin_spec::Wanted;
use crate::cluster::Cluster;
use crate::config::{Config, InformerSection};
use crate::metrics::Metrics;

/// What keepers are made with.
pub(super) struct FleetParts {
    pub(super) board: Board,
    pub(super) cluster: Cluster,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) host: PluginHost,
    pub(super) metrics: Metrics,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// The keepers.
pub(super) struct Fleet {
    parts: FleetParts,
    informers: BTreeMap<String, Kept<InformerSection>>,
    plugins: BTreeMap<String, Kept<Wanted>>,
    /// Informers that the configuration names no more, and plugins still run on.
    leaving: BTreeSet<String>,
    files: watch::Sender<u64>,
    released: Arc<Notify>,
}

/// A section and who keeps it.
struct Kept<S> {
    wanted: Arc<S>,
    orders: mpsc::UnboundedSender<Order<S>>,
}

/// A section that was given another version, or is gone, and what will come of it.
pub(super) struct Pending {
    pub(super) section: Section,
    pub(super) change: Change,
    outcome: oneshot::Receiver<Outcome>,
}

/// What became of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Added,
    Changed,
    Removed,
}

impl Change {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Removed => "removed",
        }
    }
}

impl Pending {
    /// Waits for it.
    pub(super) async fn outcome(self) -> (Section, Change, Outcome) {
        // A keeper that ends answers nothing any more.
        let outcome = self.outcome.await.unwrap_or_else(|_| Err("Informant stops".into()));
        (self.section, self.change, outcome)
    }
}

impl Fleet {
    /// Nobody yet.
    pub(super) fn new(parts: FleetParts) -> Self {
        Self {
            parts,
            informers: BTreeMap::new(),
            plugins: BTreeMap::new(),
            leaving: BTreeSet::new(),
            files: watch::Sender::new(0),
            released: Arc::default(),
        }
    }

    /// The files whose change keepers want to be [told](Self::look_at_files) of.
    pub(super) fn files(&self) -> BTreeSet<PathBuf> {
        self.plugins
            .values()
            .map(|kept| kept.wanted.file().to_owned())
            .collect()
    }

    /// Has keepers look whether their files changed.
    pub(super) fn look_at_files(&self) {
        self.files.send_modify(|tick| *tick += 1);
    }

    /// Told when [`let_go`](Self::let_go) may find something to do.
    pub(super) fn released(&self) -> Arc<Notify> {
        Arc::clone(&self.released)
    }

    /// Makes what is kept what `config` says. The orders are given when this returns; what comes of them is in the answer.
    pub(super) fn take(&mut self, config: &Config) -> Vec<Pending> {
        let mut pending = Vec::new();
        for (name, section) in &config.informers {
            self.leaving.remove(name);
            let wanted = Arc::new(section.clone());
            pending.extend(match self.informers.get_mut(name) {
                None => {
                    self.add_informer(name, wanted);
                    // Whether the API server knows it shows on the board, whenever that is.
                    Some(done(Section::Informer(name.clone()), Change::Added))
                }
                Some(kept) if kept.wanted.says_the_same_as(&wanted) => None,
                Some(kept) => Some(kept.change(Section::Informer(name.clone()), wanted)),
            });
        }
        for (name, section) in &config.plugins {
            let wanted = Arc::new(Wanted::new(config, section));
            pending.extend(match self.plugins.get_mut(name) {
                None => Some(self.add_plugin(name, wanted)),
                Some(kept) if kept.wanted.says_the_same_as(&wanted) => None,
                Some(kept) => Some(kept.change(Section::Plugin(name.clone()), wanted)),
            });
        }
        let gone: Vec<String> = difference(&self.plugins, &config.plugins);
        for name in gone {
            let kept = self.plugins.remove(&name);
            pending.extend(kept.map(|kept| kept.remove(Section::Plugin(name))));
        }
        self.leaving.extend(difference(&self.informers, &config.informers));
        pending
    }

    /// Ends informers that the configuration names no more and no plugin runs on.
    pub(super) fn let_go(&mut self) -> Vec<Pending> {
        let mut pending = Vec::new();
        for name in std::mem::take(&mut self.leaving) {
            let section = Section::Informer(name.clone());
            if let Some(plugin) = self.user_of(&name) {
                let reason =
                    format!("is no longer in the file, and goes on for [plugin.{plugin}], which still runs on it");
                self.parts.board.configuration().note(section, Some(reason.into()));
                self.leaving.insert(name);
            } else if let Some(kept) = self.informers.remove(&name) {
                pending.push(kept.remove(section));
            }
        }
        pending
    }

    /// A plugin that runs on the informer.
    fn user_of(&self, informer: &str) -> Option<String> {
        let mut plugins = self.parts.board.plugins().into_iter();
        let user = plugins.find(|entry| {
            let section = entry.section();
            let names_it = section.informers.iter().any(|(_, name)| name.value == informer);
            names_it && matches!(entry.phase(), PluginPhase::Running(_))
        })?;
        Some(user.name.clone())
    }

    fn add_informer(&mut self, name: &str, wanted: Arc<InformerSection>) {
        let parts = &self.parts;
        let (sender, orders) = mpsc::unbounded_channel();
        let keeper = InformerKeeper {
            entry: parts.board.add_informer(name, Arc::clone(&wanted)),
            board: parts.board.clone(),
            cluster: parts.cluster.clone(),
            environment: Arc::clone(&parts.environment),
            metrics: parts.metrics.clone(),
            orders,
            stop: parts.stop.clone(),
        };
        self.spawn("informer-keeper", keeper.run());
        let kept = Kept { wanted, orders: sender };
        self.informers.insert(name.to_owned(), kept);
    }

    fn add_plugin(&mut self, name: &str, wanted: Arc<Wanted>) -> Pending {
        let parts = &self.parts;
        let (sender, orders) = mpsc::unbounded_channel();
        let (first, outcome) = oneshot::channel();
        let keeper = PluginKeeper {
            entry: parts.board.add_plugin(name, Arc::new(wanted.section.clone())),
            wanted: Arc::clone(&wanted),
            board: parts.board.clone(),
            host: parts.host.clone(),
            metrics: parts.metrics.clone(),
            orders,
            ticks: self.ticks(),
            released: Arc::clone(&self.released),
            stop: parts.stop.clone(),
        };
        self.spawn("plugin-keeper", keeper.run(first));
        let kept = Kept { wanted, orders: sender };
        self.plugins.insert(name.to_owned(), kept);
        Pending {
            section: Section::Plugin(name.to_owned()),
            change: Change::Added,
            outcome,
        }
    }

    fn ticks(&self) -> Ticks {
        self.files.subscribe()
    }

    fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let tracked = self.parts.tasks.track_future(task);
        self.parts.environment.spawn(name, Box::pin(tracked));
    }
}

impl<S> Kept<S> {
    fn change(&mut self, section: Section, wanted: Arc<S>) -> Pending {
        self.wanted = Arc::clone(&wanted);
        let (done, outcome) = oneshot::channel();
        // A keeper that ends drops `done`, which is an answer too.
        let _ = self.orders.send(Order::Change(wanted, done));
        Pending {
            section,
            change: Change::Changed,
            outcome,
        }
    }

    fn remove(self, section: Section) -> Pending {
        let (done, outcome) = oneshot::channel();
        let _ = self.orders.send(Order::Remove(done));
        Pending {
            section,
            change: Change::Removed,
            outcome,
        }
    }
}

/// What needs no waiting for.
fn done(section: Section, change: Change) -> Pending {
    let (sender, outcome) = oneshot::channel();
    // The receiver is here.
    let _ = sender.send(Ok(()));
    Pending {
        section,
        change,
        outcome,
    }
}

/// The keys that `kept` has and `wanted` lacks.
fn difference<A, B>(kept: &BTreeMap<String, A>, wanted: &BTreeMap<String, B>) -> Vec<String> {
    let gone = kept.keys().filter(|name| !wanted.contains_key(*name));
    gone.cloned().collect()
}
