//! The sources of the process, and where to read them.
//!
//! Shared by all parts of the process. An id is never reused; looking up a source or its snapshot neither allocates nor
//! waits for a writer; lists have a stable order. Does not read, start or stop sources.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use informant_object::SourceId;

use crate::source::{Source, SourceInfo};
use crate::store::Garbage;

/// The sources of a process. A clone is the same catalog.
#[derive(Clone, Debug, Default)]
pub struct Catalog(Arc<RwLock<Sources>>);

#[derive(Debug, Default)]
struct Sources {
    by_id: BTreeMap<SourceId, Arc<Source>>,
    /// The last id given out. The first is 1.
    last: u32,
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
    }

    fn add(&self, info: SourceInfo, listed: bool) -> SourceId {
        let mut sources = self.write();
        sources.last = sources
            .last
            .checked_add(1)
            .expect("a process creates fewer than 2^32 sources");
        let id = SourceId(sources.last);
        let source = Source::new(id, info);
        source.set_listed(listed);
        sources.by_id.insert(id, Arc::new(source));
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
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sources> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceState;

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
