//! Who keeps what: one keeper for each section of the configuration, started, told and ended as the configuration
//! changes.
//!
//! ```text
//! Config ──compared with what is kept──▶ orders to keepers ──▶ outcomes, one a section
//! ```
//!
//! An informer has a keeper in each of its clusters. Promises: a section that says the same as before is left alone,
//! wherever in the file it has moved; clusters are there before informers, informers before the plugins that name them;
//! an informer that a plugin still runs on, because its new section was refused, is let go only when that plugin is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use informant_cache::Environment;
use informant_plugin_host::PluginHost;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::board::{Board, PluginPhase};
use super::cluster_keeper::ClusterKeeper;
use super::configuration::Section;
use super::durables::Durables;
use super::file_watch::Ticks;
use super::informer_keeper::InformerKeeper;
use super::order::{Order, Outcome, Removal};
use super::plugin_keeper::PluginKeeper;
use super::plugin_spec::Wanted;
use crate::cluster::ClusterAccess;
use crate::config::{ClusterSection, Config, InformerSection};
use crate::metrics::Metrics;

/// What keepers are made with.
pub(super) struct FleetParts {
    pub(super) board: Board,
    pub(super) access: ClusterAccess,
    pub(super) environment: Arc<dyn Environment>,
    pub(super) host: PluginHost,
    pub(super) metrics: Metrics,
    pub(super) durables: Durables,
    pub(super) tasks: TaskTracker,
    pub(super) stop: CancellationToken,
}

/// The keepers.
pub(super) struct Fleet {
    parts: FleetParts,
    clusters: BTreeMap<String, Kept<ClusterSection>>,
    informers: BTreeMap<InCluster, Kept<InformerSection>>,
    plugins: BTreeMap<String, Kept<Wanted>>,
    /// Informers that the configuration names no more, and plugins still run on.
    leaving: BTreeSet<InCluster>,
    files: watch::Sender<u64>,
    released: Arc<Notify>,
}

/// An informer's name and a cluster's.
type InCluster = (String, String);

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
            clusters: BTreeMap::new(),
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

    /// Makes what is kept what `config` says. The orders are given when this returns; what comes of them is in the
    /// answer.
    pub(super) fn take(&mut self, config: &Config) -> Vec<Pending> {
        self.parts.durables.take(config);
        let mut pending = self.take_clusters(config);
        pending.extend(self.take_informers(config));
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
            pending.extend(kept.map(|kept| kept.remove(Section::Plugin(name), Removal::Silent)));
        }
        pending
    }

    fn take_clusters(&mut self, config: &Config) -> Vec<Pending> {
        let mut pending = Vec::new();
        for (name, section) in &config.clusters {
            let wanted = Arc::new(self.parts.access.flags.over(name, &section.value));
            pending.extend(match self.clusters.get_mut(name) {
                None => {
                    self.add_cluster(name, wanted);
                    // Whether it can be logged in to shows on the board, whenever that is.
                    Some(done(Section::Cluster(name.clone()), Change::Added))
                }
                Some(kept) if kept.wanted == wanted => None,
                Some(kept) => Some(kept.change(Section::Cluster(name.clone()), wanted)),
            });
        }
        let gone: Vec<String> = difference(&self.clusters, &config.clusters);
        for name in gone {
            let kept = self.clusters.remove(&name);
            pending.extend(kept.map(|kept| kept.remove(Section::Cluster(name), Removal::Silent)));
        }
        pending
    }

    fn take_informers(&mut self, config: &Config) -> Vec<Pending> {
        let mut pending = Vec::new();
        let mut wanted: BTreeMap<InCluster, Arc<InformerSection>> = BTreeMap::new();
        for (name, section) in &config.informers {
            // In which others it is, is nothing to the keeper of one.
            let own = Arc::new(InformerSection {
                clusters: Vec::new(),
                ..section.clone()
            });
            let places = config
                .clusters_of(section)
                .map(|cluster| (name.clone(), cluster.to_owned()));
            wanted.extend(places.map(|place| (place, Arc::clone(&own))));
        }
        for (place, wanted) in &wanted {
            self.leaving.remove(place);
            let section = || Section::Informer(place.0.clone(), place.1.clone());
            pending.extend(match self.informers.get_mut(place) {
                None => {
                    self.add_informer(place, Arc::clone(wanted));
                    // Whether the API server knows it shows on the board, whenever that is.
                    Some(done(section(), Change::Added))
                }
                Some(kept) if kept.wanted.says_the_same_as(wanted) => None,
                Some(kept) => Some(kept.change(section(), Arc::clone(wanted))),
            });
        }
        let gone: Vec<_> = self
            .informers
            .keys()
            .filter(|place| !wanted.contains_key(*place))
            .cloned()
            .collect();
        for place in gone {
            let (informer, cluster) = &place;
            let removal = match (
                config.clusters.contains_key(cluster),
                config.informers.contains_key(informer),
            ) {
                // As with a namespace that it names no more, its handlers are told.
                (true, true) => Removal::Told,
                // Nobody knows what became of the objects of a cluster that is asked no more.
                (false, _) => Removal::Silent,
                (true, false) => {
                    self.leaving.insert(place);
                    continue;
                }
            };
            pending.extend(self.remove_informer(&place, removal));
        }
        pending
    }

    fn remove_informer(&mut self, place: &InCluster, removal: Removal) -> Option<Pending> {
        self.leaving.remove(place);
        let kept = self.informers.remove(place)?;
        let section = Section::Informer(place.0.clone(), place.1.clone());
        Some(kept.remove(section, removal))
    }

    /// Ends informers that the configuration names no more and no plugin runs on.
    pub(super) fn let_go(&mut self) -> Vec<Pending> {
        let mut pending = Vec::new();
        for place in std::mem::take(&mut self.leaving) {
            if let Some(plugin) = self.user_of(&place.0) {
                let section = Section::Informer(place.0.clone(), place.1.clone());
                let reason =
                    format!("is no longer in the file, and goes on for [plugin.{plugin}], which still runs on it");
                self.parts.board.configuration().note(section, Some(reason.into()));
                self.leaving.insert(place);
            } else {
                pending.extend(self.remove_informer(&place, Removal::Silent));
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

    fn add_cluster(&mut self, name: &str, wanted: Arc<ClusterSection>) {
        let parts = &mut self.parts;
        let (sender, orders) = mpsc::unbounded_channel();
        let keeper = ClusterKeeper {
            entry: parts.board.clusters().add(name),
            section: Arc::clone(&wanted),
            board: parts.board.clone(),
            environment: Arc::clone(&parts.environment),
            orders,
            stop: parts.stop.clone(),
        };
        let connected = parts.access.connected.take().filter(|_| name.is_empty());
        self.spawn("cluster-keeper", keeper.run(connected));
        let kept = Kept { wanted, orders: sender };
        self.clusters.insert(name.to_owned(), kept);
    }

    fn add_informer(&mut self, place: &InCluster, wanted: Arc<InformerSection>) {
        let parts = &self.parts;
        let (name, cluster) = place;
        // The sections of clusters were taken before.
        let Some(cluster) = parts.board.clusters().entry(cluster) else {
            return;
        };
        let (sender, orders) = mpsc::unbounded_channel();
        let keeper = InformerKeeper {
            place: parts.board.add_informer(name, &cluster.name, Arc::clone(&wanted)),
            board: parts.board.clone(),
            cluster,
            environment: Arc::clone(&parts.environment),
            metrics: parts.metrics.clone(),
            durables: parts.durables.clone(),
            orders,
            stop: parts.stop.clone(),
        };
        self.spawn("informer-keeper", keeper.run());
        let kept = Kept { wanted, orders: sender };
        self.informers.insert(place.clone(), kept);
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
            durables: parts.durables.clone(),
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

    fn remove(self, section: Section, removal: Removal) -> Pending {
        let (done, outcome) = oneshot::channel();
        let _ = self.orders.send(Order::Remove(removal, done));
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
