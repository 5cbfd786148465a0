//! The barrier before a plugin's first calls: those about the objects of a cluster wait until everything that the
//! plugin may read of that cluster is there: its sources, and the indexes over them, its own and those of others.
//!
//! Until then the plugin's listener is not attached to its informers in that cluster ([`CallBarrier`]): its cursors
//! start later. `wait-for-max` bounds the wait.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Awaited, Catalog, ReadyWatch};
use informant_informer::CallBarrier;
use informant_plugin_host::{Plugin, Role};
use informant_spec::WaitFor;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::status_registry::{InformerPhase, PluginEntry, PluginPhase, RunningInformer, StatusRegistry};

/// How long news of sources and indexes are collected before a barrier looks at them: at a start there are many.
const NEWS_COLLECTED: Duration = Duration::from_millis(10);

/// How often a barrier looks without news while it holds events. Plugins come and go, and with them the indexes that it
/// waits for. A look visits all plugins.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The same once it holds none, and something is still not ready, which may last: 5 s. Only the status waits for it.
const OVERDUE_LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// How long the first calls wait for other plugins that are being loaded: they may compute indexes over the same
/// informers. At a start plugins are loaded within moments of each other. One that takes longer delays only itself.
const LOADING_WAIT_MAX: Duration = Duration::from_secs(5);

/// How many of the missing sources and indexes are named.
const MISSING_NAMED_MAX: usize = 5;

/// What a plugin's calls wait for.
pub(super) struct PluginBarrier {
    barrier: CallBarrier<Arc<RunningInformer>>,
    looks: Looks,
}

/// When a barrier looks at what is ready.
struct Looks {
    news: Arc<Notify>,
    _watch: ReadyWatch,
    last: Instant,
    /// The next look, if it is decided.
    next: Option<Instant>,
}

/// What a barrier reads.
pub(super) struct Needed<'a> {
    pub(super) plugin: &'a Plugin,
    pub(super) registry: &'a StatusRegistry,
    /// The names of the plugin's informers.
    pub(super) informers: Vec<&'a str>,
}

impl PluginBarrier {
    pub(super) fn new(catalog: &Catalog) -> Self {
        Self {
            barrier: CallBarrier::default(),
            looks: Looks::new(catalog),
        }
    }

    /// Waits until it is time to [look](Self::release). Cancel safe.
    pub(super) async fn news(&mut self) {
        match look_interval(&self.barrier) {
            Some(interval) => self.looks.wait(interval).await,
            None => std::future::pending().await,
        }
    }

    /// Holds the events of an informer until its cluster is ready.
    pub(super) fn hold(&mut self, cluster: &str, informer: Arc<RunningInformer>) {
        self.barrier.hold(cluster, informer, Instant::now());
    }

    /// No longer holds the events of an informer. Returns whether it did.
    pub(super) fn forget(&mut self, cluster: &str, informer: &Arc<RunningInformer>) -> bool {
        self.barrier.forget(cluster, |other| Arc::ptr_eq(other, informer))
    }

    /// Whether it holds events.
    pub(super) fn holds(&self) -> bool {
        !self.barrier.is_empty()
    }

    /// Holds nothing any more: the plugin handles no events.
    pub(super) fn release_all(&mut self) {
        self.barrier.clear();
    }

    /// Returns the informers whose events are delivered from now on: their cluster is ready, or has waited for
    /// `wait-for-max`. And the first of what is not ready, for the plugin's status.
    pub(super) fn release(&mut self, needed: &Needed<'_>) -> (Vec<Arc<RunningInformer>>, Option<String>) {
        self.looks.looked();
        let (plugin, spec) = (needed.plugin.name(), needed.plugin.spec());
        let wait_max = match needed.plugin.roles().has(Role::Reconciler) {
            // It would take what is not there yet for absent.
            true => Some(Duration::MAX),
            false => (spec.wait_for == WaitFor::All).then_some(spec.wait_for_max),
        };
        let released = self.barrier.release(Instant::now(), wait_max, |cluster, waited| {
            let loading = || (waited < LOADING_WAIT_MAX).then(|| needed.being_loaded()).flatten();
            needed.first_missing(cluster).or_else(loading)
        });
        for (cluster, waited) in released.overdue {
            tracing::warn!(
                plugin,
                cluster = (!cluster.is_empty()).then_some(&cluster),
                missing = needed.named_missing(&cluster),
                waited_seconds = waited.as_secs(),
                "not everything that the plugin may read is ready; calling it without"
            );
        }
        (released.informers, released.missing)
    }
}

/// How often to look without news. None: the barrier is over.
fn look_interval<T>(barrier: &CallBarrier<T>) -> Option<Duration> {
    let interval = match barrier.is_empty() {
        true => OVERDUE_LOOK_INTERVAL,
        false => LOOK_INTERVAL,
    };
    (!barrier.is_over()).then_some(interval)
}

impl Looks {
    fn new(catalog: &Catalog) -> Self {
        let news = Arc::new(Notify::new());
        let notify = Arc::clone(&news);
        let watch = catalog.watch_ready(move |ready| {
            // Bodies come without end while a cache is shed.
            if !matches!(ready, Awaited::Body(_)) {
                notify.notify_one();
            }
        });
        Self {
            news,
            _watch: watch,
            last: Instant::now(),
            next: None,
        }
    }

    /// Waits for news, and until `interval` after the last look at most. Cancel safe.
    async fn wait(&mut self, interval: Duration) {
        let next = match self.next {
            Some(next) => next,
            None => {
                tokio::select! {
                    () = self.news.notified() => Instant::now() + NEWS_COLLECTED,
                    () = tokio::time::sleep_until(self.last + interval) => Instant::now(),
                }
            }
        };
        self.next = Some(next);
        tokio::time::sleep_until(next).await;
    }

    fn looked(&mut self) {
        self.last = Instant::now();
        self.next = None;
    }
}

impl Needed<'_> {
    /// The first of what is not ready of a cluster.
    fn first_missing(&self, cluster: &str) -> Option<String> {
        self.missing(cluster, 1).pop()
    }

    /// Another plugin that may compute indexes over these informers, while it is being loaded.
    fn being_loaded(&self) -> Option<String> {
        let is_needed = |entry: &PluginEntry| {
            let section = entry.section();
            let is_read = section.informers().any(|(name, _)| self.informers.contains(&name));
            is_read && matches!(entry.phase(), PluginPhase::Loading(_))
        };
        let loading = self.registry.plugins().into_iter().find(|entry| is_needed(entry))?;
        Some(format!("plugin {} is being loaded", loading.name))
    }

    /// What is not ready, in one text.
    fn named_missing(&self, cluster: &str) -> String {
        let mut missing = self.missing(cluster, MISSING_NAMED_MAX + 1);
        let are_more = missing.len() > MISSING_NAMED_MAX;
        missing.truncate(MISSING_NAMED_MAX);
        missing.join(", ") + if are_more { " and more" } else { "" }
    }

    /// The first `max` of what is not ready of a cluster.
    fn missing(&self, cluster: &str, max: usize) -> Vec<String> {
        let mut missing = Vec::new();
        for informer in &self.informers {
            self.add_missing(informer, cluster, max, &mut missing);
        }
        missing
    }

    fn add_missing(&self, informer: &str, cluster: &str, max: usize, missing: &mut Vec<String>) {
        let Some(entry) = self.registry.informer(informer) else {
            return;
        };
        let status = entry.watch().borrow().get(cluster).cloned();
        let running = match status.map(|status| status.phase) {
            Some(InformerPhase::Running(running)) => running,
            Some(InformerPhase::Discovering { .. }) => {
                return missing.push(format!("informer {informer} is being discovered"));
            }
            // Waiting does not help.
            Some(InformerPhase::Refused { .. } | InformerPhase::Stopped) | None => return,
        };
        let (indexes, catalog) = (self.indexes_of(informer), self.registry.catalog());
        let sources = running.shared.sources().into_iter();
        // One that is gone is no longer needed.
        for source in sources.filter_map(|source| catalog.source(source.source())) {
            if missing.len() >= max {
                return;
            }
            missing.extend(source.not_ready(&indexes));
        }
    }

    /// The indexes that plugins compute over an informer.
    fn indexes_of(&self, informer: &str) -> Vec<Arc<str>> {
        let others = self.registry.plugins().into_iter().filter_map(|entry| {
            let reads = entry.section().informers().any(|(name, _)| name == informer);
            match entry.phase() {
                PluginPhase::Running(plugin) if reads && plugin.name() != self.plugin.name() => plugin.index_feed(),
                _ => None,
            }
        });
        let feeds = self.plugin.index_feed().into_iter().chain(others);
        feeds.flat_map(|feed| feed.names()).collect()
    }
}

#[cfg(test)]
mod tests {
    use informant_cache::SourceInfo;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_overdue_barrier_looks_on_news_and_seldom_without() {
        let (catalog, mut barrier) = (Catalog::new(), CallBarrier::default());
        let mut looks = Looks::new(&catalog);
        let began = Instant::now();
        barrier.hold("", (), began);
        assert_eq!(look_interval(&barrier), Some(LOOK_INTERVAL));
        let late = began + Duration::from_secs(120);
        let released = barrier.release(late, Some(Duration::from_secs(60)), |_, _| Some("an index".to_owned()));
        assert_eq!(released.overdue.len(), 1);
        let interval = look_interval(&barrier).unwrap();
        looks.wait(interval).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        looks.looked();
        let _ = catalog.add_source(SourceInfo {
            informer: "pods".to_owned(),
            cluster: String::new(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        });
        looks.wait(interval).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5) + NEWS_COLLECTED);
        let _ = barrier.release(late, None, |_, _| None);
        assert_eq!(look_interval(&barrier), None);
    }
}
