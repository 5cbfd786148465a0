//! Which sources there are, and where to read them.
//!
//! Shared by everybody. Promises: an id is never used twice; looking up a source or its snapshot allocates nothing and
//! waits for no writer; lists come in a stable order. Does not read, start or stop a source.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use informant_object::SourceId;

use crate::source::{Source, SourceInfo, SourceState, SourceStatus};
use crate::store::{Garbage, Snapshot};

/// The sources of a process. A clone is the same catalog.
#[derive(Clone, Debug, Default)]
pub struct Catalog(Arc<RwLock<Sources>>);

#[derive(Debug, Default)]
struct Sources {
    by_id: BTreeMap<SourceId, Arc<Source>>,
    /// The last id given out. The first is 1.
    last: u32,
}

/// There is no source of this number, or no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no source {0} (any more); ask for the informer's sources again")]
pub struct UnknownSource(pub SourceId);

impl Catalog {
    /// An empty one.
    #[must_use]
    pub fn new() -> Catalog {
        Catalog::default()
    }

    /// Enters a source, [`SourceState::Syncing`] and empty, and gives it a number that no other had or will have.
    pub fn add_source(&self, info: SourceInfo) -> SourceId {
        self.add(info, true)
    }

    /// As [`add_source`](Self::add_source), but [`sources`](Self::sources) leaves it out until
    /// [`swap_listed`](Self::swap_listed) shows it.
    pub fn add_staged_source(&self, info: SourceInfo) -> SourceId {
        self.add(info, false)
    }

    /// Among an informer's sources shows `shown` and leaves `hidden` out, at once. Whoever knows a hidden source's
    /// number still finds it.
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
            .expect("a process makes fewer than 2^32 sources");
        let id = SourceId(sources.last);
        let source = Source::new(id, info);
        source.set_listed(listed);
        sources.by_id.insert(id, Arc::new(source));
        id
    }

    /// Removes a source. Those who hold it see it as [`SourceState::Stopped`] and empty; what it held is returned, to
    /// be dropped where nobody waits.
    pub fn remove_source(&self, id: SourceId) -> Option<Garbage> {
        let source = self.write().by_id.remove(&id)?;
        Some(source.remove().into_garbage())
    }

    /// The source itself, for who asks often.
    #[must_use]
    pub fn source(&self, id: SourceId) -> Option<Arc<Source>> {
        self.read().by_id.get(&id).cloned()
    }

    /// The newest published state of a source.
    #[must_use]
    pub fn snapshot(&self, id: SourceId) -> Option<Snapshot> {
        self.read().by_id.get(&id).map(|source| source.snapshot())
    }

    /// What a source is.
    #[must_use]
    pub fn info(&self, id: SourceId) -> Option<SourceInfo> {
        self.read().by_id.get(&id).map(|source| source.info().clone())
    }

    /// How a source fares.
    #[must_use]
    pub fn state(&self, id: SourceId) -> Option<SourceState> {
        self.read().by_id.get(&id).map(|source| source.state())
    }

    /// All there is to say of a source now.
    #[must_use]
    pub fn status(&self, id: SourceId) -> Option<SourceStatus> {
        self.read().by_id.get(&id).map(|source| source.status())
    }

    /// Notes how a source fares; nothing if it is gone.
    pub fn set_state(&self, id: SourceId, state: SourceState) {
        if let Some(source) = self.read().by_id.get(&id) {
            source.set_state(state);
        }
    }

    /// The numbers of an informer's sources, oldest first; none for an informer that does not exist.
    #[must_use]
    pub fn sources(&self, informer: &str) -> Vec<SourceId> {
        self.read().of(informer).map(|source| source.id()).collect()
    }

    /// The sources of an informer, oldest first.
    #[must_use]
    pub fn sources_of(&self, informer: &str) -> Vec<Arc<Source>> {
        self.read().of(informer).cloned().collect()
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

    // A panic elsewhere leaves the map whole: it is changed by single inserts and removes.
    fn read(&self) -> RwLockReadGuard<'_, Sources> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Sources> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sources {
    fn of(&self, informer: &str) -> impl Iterator<Item = &Arc<Source>> {
        self.by_id
            .values()
            .filter(move |source| source.info().informer == informer && source.is_listed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(informer: &str, cluster: &str) -> SourceInfo {
        SourceInfo {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: None,
        }
    }

    #[test]
    fn a_number_is_never_used_twice() {
        let catalog = Catalog::new();
        let first = catalog.add_source(info("pods", ""));
        drop(catalog.remove_source(first).unwrap());
        let second = catalog.add_source(info("pods", ""));
        assert!(second > first);
        assert!(catalog.remove_source(first).is_none());
        assert!(catalog.info(first).is_none() && catalog.state(first).is_none() && catalog.snapshot(first).is_none());
    }

    #[test]
    fn an_informer_has_its_sources_oldest_first() {
        let catalog = Catalog::new();
        let east = catalog.add_source(info("pods", "east"));
        let nodes = catalog.add_source(info("nodes", "east"));
        let west = catalog.add_source(info("pods", "west"));
        assert_eq!(catalog.sources("pods"), [east, west]);
        assert_eq!(catalog.sources("nodes"), [nodes]);
        assert!(catalog.sources("jobs").is_empty());
        assert_eq!(catalog.informers(), ["nodes", "pods"]);
        assert_eq!(catalog.all().len(), 3);
        assert_eq!(catalog.info(west).unwrap().cluster, "west");
    }

    #[test]
    fn a_staged_source_is_known_by_number_alone_until_it_takes_its_place() {
        let catalog = Catalog::new();
        let old = catalog.add_source(info("pods", ""));
        let new = catalog.add_staged_source(info("pods", ""));
        assert_eq!(catalog.sources("pods"), [old]);
        assert!(catalog.source(new).is_some());
        catalog.swap_listed(&[old], &[new]);
        assert_eq!(catalog.sources("pods"), [new]);
        assert!(catalog.source(old).is_some());
    }

    #[test]
    fn a_clone_is_the_same_catalog() {
        let catalog = Catalog::new();
        let id = catalog.clone().add_source(info("pods", ""));
        catalog.set_state(id, SourceState::Forbidden);
        catalog.set_state(SourceId(99), SourceState::Live);
        assert_eq!(catalog.clone().state(id), Some(SourceState::Forbidden));
        assert_eq!(
            UnknownSource(id).to_string(),
            "there is no source 1 (any more); ask for the informer's sources again"
        );
    }
}
