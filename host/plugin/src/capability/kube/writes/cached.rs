//! What the cache has of the objects that a plugin writes to.

use std::sync::{Arc, Mutex};

use informant_cache::{Catalog, Source, SourceState};
use informant_object::{KeyRef, Object, SourceId};

use crate::capability::kube::api::KubeAddress;
use crate::sync::lock;

/// The informers of one plugin, by the addresses of their objects.
pub(crate) struct OwnCache {
    catalog: Catalog,
    /// By their own names.
    informers: Mutex<Arc<[String]>>,
}

impl OwnCache {
    pub(crate) fn new(catalog: Catalog, informers: &[(String, String)]) -> OwnCache {
        let cache = OwnCache {
            catalog,
            informers: Mutex::new(Arc::from([])),
        };
        cache.set_informers(informers);
        cache
    }

    /// The section lists other informers: the plugin's name of each, and its own.
    pub(crate) fn set_informers(&self, informers: &[(String, String)]) {
        let names = informers.iter().map(|(_, name)| name.clone()).collect();
        *lock(&self.informers) = names;
    }

    /// A source of the plugin's informers that reads the object at `address`, if it matches its selectors.
    pub(crate) fn source(&self, address: &KubeAddress) -> Option<Arc<Source>> {
        let informers = Arc::clone(&lock(&self.informers));
        let resource = address.resource.to_string();
        let reads = |source: &Arc<Source>| {
            let info = source.info();
            let reads_namespace = info.namespace.as_ref().is_none_or(|own| *own == address.namespace);
            info.cluster == address.cluster && info.resource == resource && reads_namespace
        };
        informers
            .iter()
            .find_map(|informer| self.catalog.sources_of(informer).into_iter().find(reads))
    }

    /// The sources of the plugin's informers that read objects of this type in a cluster.
    pub(crate) fn sources_of_kind(&self, cluster: &str, api_version: &str, kind: &str) -> Vec<Arc<Source>> {
        let informers = Arc::clone(&lock(&self.informers));
        let reads = |source: &Arc<Source>| {
            let info = source.info();
            info.cluster == cluster && info.api_version == api_version && info.kind == kind
        };
        let sources = informers.iter().flat_map(|informer| self.catalog.sources_of(informer));
        sources.filter(reads).collect()
    }

    /// The one of them that reads this namespace.
    pub(crate) fn source_of_kind(
        &self,
        cluster: &str,
        api_version: &str,
        kind: &str,
        namespace: &str,
    ) -> Option<Arc<Source>> {
        let reads = |source: &Arc<Source>| source.info().namespace.as_ref().is_none_or(|own| *own == *namespace);
        self.sources_of_kind(cluster, api_version, kind).into_iter().find(reads)
    }

    /// Whether all sources in the cluster of `source` are live.
    pub(crate) fn is_live(&self, source: SourceId) -> bool {
        let Some(of) = self.catalog.source(source) else {
            return false;
        };
        let informers = Arc::clone(&lock(&self.informers));
        let is_live =
            |source: &Arc<Source>| source.info().cluster != of.info().cluster || source.state() == SourceState::Live;
        informers
            .iter()
            .all(|informer| self.catalog.sources_of(informer).iter().all(is_live))
    }

    /// The whole object at `address` and its source, if that is live. None if the cache has only its head.
    pub(crate) fn object(&self, address: &KubeAddress) -> Option<(Arc<Source>, Object)> {
        self.stored(address).filter(|(_, object)| !object.is_head())
    }

    fn stored(&self, address: &KubeAddress) -> Option<(Arc<Source>, Object)> {
        let source = self.source(address)?;
        if source.state() != SourceState::Live {
            return None;
        }
        let key = KeyRef {
            namespace: &address.namespace,
            name: &address.name,
        };
        let object = source.snapshot().get(key)?.clone();
        Some((source, object))
    }

    /// The UID of the object at `address`, if its source is live.
    pub(crate) fn uid(&self, address: &KubeAddress) -> Option<Box<str>> {
        Some(self.stored(address)?.1.uid().into())
    }

    /// The version of the object at `address`, if its source is live.
    pub(crate) fn version(&self, address: &KubeAddress) -> Option<Box<str>> {
        Some(self.stored(address)?.1.version().as_str().into())
    }
}
