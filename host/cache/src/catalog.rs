//! The sources of the process, and where to read them.
//!
//! Shared by all parts of the process. An id is never reused; looking up a source or its snapshot neither allocates nor
//! waits for a writer; lists have a stable order. Does not read, start or stop sources.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use informant_object::SourceId;

use crate::budget::CacheBudget;
use crate::kept_deletes::KeptDeletes;
use crate::readiness::{Awaited, Readiness, ReadyWatch};
use crate::source::{Source, SourceInfo};
use crate::store::Garbage;

/// The sources of a process. A clone is the same catalog.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    sources: Arc<RwLock<Sources>>,
    budget: CacheBudget,
    kept_deletes: KeptDeletes,
}

#[derive(Debug, Default)]
struct Sources {
    by_id: BTreeMap<SourceId, Arc<Source>>,
    /// The last id given out. The first is 1.
    last: u32,
    readiness: Readiness,
    /// By informer, how many plugins are being loaded that may have indexes over it.
    loading: BTreeMap<String, usize>,
}

/// A plugin that may have indexes over an informer is being loaded, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct ExpectedIndexes {
    catalog: Catalog,
    informer: String,
}

/// The catalog has no such source, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("source {0} does not exist or was removed; look up the informer's sources again")]
pub struct UnknownSource(pub SourceId);

impl Catalog {
    /// An empty catalog.
    #[must_use]
    pub fn new() -> Catalog {
        Catalog::default()
    }

    /// An empty catalog whose sources share `budget`.
    #[must_use]
    pub fn with_budget(budget: CacheBudget) -> Catalog {
        Catalog {
            budget,
            ..Catalog::default()
        }
    }

    /// The budget of all sources.
    #[must_use]
    pub fn budget(&self) -> &CacheBudget {
        &self.budget
    }

    /// The deletes that are kept of all sources: none, until that is switched on.
    #[must_use]
    pub fn kept_deletes(&self) -> &KeptDeletes {
        &self.kept_deletes
    }

    /// Adds a source, [`SourceState::Syncing`](crate::SourceState::Syncing) and empty, with a new id.
    pub fn add_source(&self, info: SourceInfo) -> SourceId {
        self.add(info, true)
    }

    /// As [`add_source`](Self::add_source), but [`sources_of`](Self::sources_of) does not list it until
    /// [`swap_listed`](Self::swap_listed) does.
    pub fn add_staged_source(&self, info: SourceInfo) -> SourceId {
        self.add(info, false)
    }

    /// Atomically lists `show` among an informer's sources and no longer lists `hide`. An unlisted source can still be
    /// looked up by id.
    pub fn swap_listed(&self, hide: &[SourceId], show: &[SourceId]) {
        let sources = self.write();
        let set = |ids: &[SourceId], listed: bool| {
            for source in ids.iter().filter_map(|id| sources.by_id.get(id)) {
                source.set_listed(listed);
            }
        };
        set(hide, false);
        set(show, true);
        let readiness = sources.readiness.clone();
        drop(sources);
        show.iter().for_each(|id| readiness.notify(Awaited::Source(*id)));
    }

    /// Calls `callback`, under no lock, when a source is listed, becomes ready or is removed, and when an index of one
    /// becomes ready; until the watch is dropped. Called on the thread that made the change: it must be quick.
    pub fn watch_ready(&self, callback: impl Fn(Awaited) + Send + Sync + 'static) -> ReadyWatch {
        let readiness = self.read().readiness.clone();
        readiness.watch(Arc::new(callback))
    }

    /// A plugin that may have indexes over `informer` is being loaded: until this is dropped, an index that the
    /// informer does not have may become ready.
    pub fn expect_indexes(&self, informer: &str) -> ExpectedIndexes {
        *self.write().loading.entry(informer.to_owned()).or_default() += 1;
        ExpectedIndexes {
            catalog: self.clone(),
            informer: informer.to_owned(),
        }
    }

    /// Whether a plugin is being loaded that may have indexes over `informer`.
    #[must_use]
    pub fn expects_indexes(&self, informer: &str) -> bool {
        self.read().loading.contains_key(informer)
    }

    fn add(&self, info: SourceInfo, listed: bool) -> SourceId {
        let mut sources = self.write();
        sources.last = sources
            .last
            .checked_add(1)
            .expect("a process creates fewer than 2^32 sources");
        let id = SourceId(sources.last);
        let readiness = sources.readiness.clone();
        let source = Source::new(id, info, readiness.clone());
        source.set_listed(listed);
        sources.by_id.insert(id, Arc::new(source));
        drop(sources);
        if listed {
            readiness.notify(Awaited::Source(id));
        }
        id
    }

    /// Removes a source. Holders of it see it [`SourceState::Stopped`](crate::SourceState::Stopped) and empty; returns
    /// its content, to be dropped on a thread that may block.
    pub fn remove_source(&self, id: SourceId) -> Option<Garbage> {
        let source = self.write().by_id.remove(&id)?;
        Some(source.remove().into_garbage())
    }

    /// The id that was given out last; 0 before the first. Sources that are added later have greater ids.
    #[must_use]
    pub fn last_id(&self) -> SourceId {
        SourceId(self.read().last)
    }

    /// The source itself, for repeated access.
    #[must_use]
    pub fn source(&self, id: SourceId) -> Option<Arc<Source>> {
        self.read().by_id.get(&id).cloned()
    }

    /// The identity of a source.
    #[must_use]
    pub fn info(&self, id: SourceId) -> Option<SourceInfo> {
        self.read().by_id.get(&id).map(|source| source.info().clone())
    }

    /// The sources of an informer, oldest first; none for an informer that does not exist.
    #[must_use]
    pub fn sources_of(&self, informer: &str) -> Vec<Arc<Source>> {
        let sources = self.read();
        let of_informer = |source: &&Arc<Source>| source.info().informer == informer && source.is_listed();
        sources.by_id.values().filter(of_informer).cloned().collect()
    }

    /// All sources, oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Source>> {
        self.read().by_id.values().cloned().collect()
    }

    /// The names of the informers that have sources, sorted.
    #[must_use]
    pub fn informers(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .read()
            .by_id
            .values()
            .filter(|source| source.is_listed())
            .map(|source| source.info().informer.clone())
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    // The map stays consistent after a panic: it changes by single inserts and removes.
    fn read(&self) -> RwLockReadGuard<'_, Sources> {
        self.sources.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sources> {
        self.sources.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ExpectedIndexes {
    fn drop(&mut self) {
        let ExpectedIndexes { catalog, informer } = self;
        let mut sources = catalog.write();
        if let Some(plugins) = sources.loading.get_mut(informer) {
            *plugins -= 1;
            if *plugins == 0 {
                sources.loading.remove(informer);
            }
        }
        let readiness = sources.readiness.clone();
        drop(sources);
        // What waits for an index that the plugin does not have gets another answer now.
        for source in catalog.sources_of(informer) {
            readiness.notify(Awaited::Index(source.id()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use informant_object::ResourceVersion;

    use super::*;
    use crate::{IndexContents, SourceState, StoreWriter};

    fn sources(catalog: &Catalog, informer: &str) -> Vec<SourceId> {
        catalog.sources_of(informer).iter().map(|source| source.id()).collect()
    }

    fn info(informer: &str, cluster: &str) -> SourceInfo {
        SourceInfo {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        }
    }

    #[test]
    fn source_ids_are_never_reused() {
        let catalog = Catalog::new();
        let first = catalog.add_source(info("pods", ""));
        drop(catalog.remove_source(first).unwrap());
        let second = catalog.add_source(info("pods", ""));
        assert!(second > first);
        assert!(catalog.remove_source(first).is_none());
        assert!(catalog.info(first).is_none() && catalog.source(first).is_none());
    }

    #[test]
    fn informer_sources_are_listed_oldest_first() {
        let catalog = Catalog::new();
        let east = catalog.add_source(info("pods", "east"));
        let nodes = catalog.add_source(info("nodes", "east"));
        let west = catalog.add_source(info("pods", "west"));
        assert_eq!(sources(&catalog, "pods"), [east, west]);
        assert_eq!(sources(&catalog, "nodes"), [nodes]);
        assert!(sources(&catalog, "jobs").is_empty());
        assert_eq!(catalog.informers(), ["nodes", "pods"]);
        assert_eq!(catalog.all().len(), 3);
        assert_eq!(catalog.info(west).unwrap().cluster, "west");
    }

    #[test]
    fn staged_source_is_listed_only_after_the_swap() {
        let catalog = Catalog::new();
        let old = catalog.add_source(info("pods", ""));
        let new = catalog.add_staged_source(info("pods", ""));
        assert_eq!(sources(&catalog, "pods"), [old]);
        assert!(catalog.source(new).is_some());
        catalog.swap_listed(&[old], &[new]);
        assert_eq!(sources(&catalog, "pods"), [new]);
        assert!(catalog.source(old).is_some());
    }

    #[test]
    fn watch_hears_of_each_source_and_index_that_becomes_ready() {
        let (catalog, heard) = (Catalog::new(), Arc::new(Mutex::new(Vec::new())));
        let hears = Arc::clone(&heard);
        let watch = catalog.watch_ready(move |ready| hears.lock().unwrap().push(ready));
        let take = || std::mem::take(&mut *heard.lock().unwrap());
        let pods = catalog.add_source(info("pods", ""));
        assert_eq!(
            take(),
            [Awaited::Source(pods)],
            "it may be the one that a call waits for"
        );
        let mut writer = StoreWriter::publishing_to(&catalog, pods).unwrap();
        writer.declare_index("app").unwrap();
        writer.publish();
        assert_eq!(take(), []);
        catalog.source(pods).unwrap().set_synced();
        catalog.source(pods).unwrap().set_synced();
        assert_eq!(take(), [Awaited::Source(pods)]);
        writer.attach_index("app", IndexContents::default()).unwrap();
        writer.publish();
        writer.set_version(ResourceVersion::new("2"), 0);
        writer.publish();
        assert_eq!(take(), [Awaited::Index(pods)]);
        let kind = catalog.add_staged_source(info("all", ""));
        catalog.source(kind).unwrap().set_of_pattern();
        catalog.source(kind).unwrap().set_state(SourceState::Forbidden);
        assert_eq!(take(), [Awaited::Source(kind)], "its informer is read without it");
        drop(watch);
        drop(catalog.remove_source(pods));
        assert_eq!(take(), []);
    }

    #[test]
    fn index_is_expected_while_a_plugin_is_loaded() {
        let (catalog, heard) = (Catalog::new(), Arc::new(Mutex::new(Vec::new())));
        let pods = catalog.add_source(info("pods", ""));
        let hears = Arc::clone(&heard);
        let _watch = catalog.watch_ready(move |ready| hears.lock().unwrap().push(ready));
        let [first, second] = [catalog.expect_indexes("pods"), catalog.expect_indexes("pods")];
        drop(first);
        assert!(catalog.expects_indexes("pods") && !catalog.expects_indexes("nodes"));
        drop(second);
        assert!(!catalog.expects_indexes("pods"));
        assert_eq!(*heard.lock().unwrap(), [Awaited::Index(pods); 2]);
    }

    #[test]
    fn a_clone_is_the_same_catalog() {
        let catalog = Catalog::new();
        let id = catalog.clone().add_source(info("pods", ""));
        catalog.source(id).unwrap().set_state(SourceState::Forbidden);
        assert_eq!(catalog.clone().source(id).unwrap().state(), SourceState::Forbidden);
        assert_eq!(
            UnknownSource(id).to_string(),
            "source 1 does not exist or was removed; look up the informer's sources again"
        );
    }
}
