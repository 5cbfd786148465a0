//! Lists the keys in an index.

use std::fmt;

use super::sources::Clusters;
use crate::event::{SourceId, fmt_key};
use crate::host;
use crate::host_error::HostError;

/// The key of an object in the cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The source that the object comes from.
    pub source: SourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_key(f, &self.namespace, &self.name)
    }
}

/// Which keys to read from an index. Calls Informant only when you call [`keys`](Self::keys).
#[derive(Debug, Clone)]
#[must_use = "does nothing until you call `keys`"]
pub struct IndexKeys<'a> {
    informer: &'a str,
    index: &'a str,
    value: &'a str,
    clusters: Clusters,
}

impl<'a> IndexKeys<'a> {
    pub(super) fn new(informer: &'a str, index: &'a str, value: &'a str) -> Self {
        Self {
            informer,
            index,
            value,
            clusters: Clusters::default(),
        }
    }

    /// Objects of all clusters. The default is the cluster of the object that the call is about.
    pub fn all_clusters(mut self) -> Self {
        self.clusters = Clusters::All;
        self
    }

    /// Objects of this cluster.
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.clusters = Clusters::Named(cluster.into());
        self
    }

    /// The keys.
    ///
    /// # Errors
    /// [`ErrorCode::UnknownIndex`]; [`ErrorCode::NotReady`] until the index is complete: it never returns a partial
    /// result; [`ErrorCode::Invalid`] in a call about no source, if there are several clusters.
    ///
    /// [`ErrorCode::UnknownIndex`]: crate::ErrorCode::UnknownIndex
    /// [`ErrorCode::NotReady`]: crate::ErrorCode::NotReady
    /// [`ErrorCode::Invalid`]: crate::ErrorCode::Invalid
    pub fn keys(self) -> Result<Vec<ObjectKey>, HostError> {
        let sources = self.clusters.sources_of(self.informer)?;
        let keys = host::index_keys(self.informer, &sources, self.index, self.value)?;
        let key = |key: super::contract::ObjectKey| ObjectKey {
            source: SourceId(key.source),
            namespace: key.namespace,
            name: key.name,
        };
        Ok(keys.into_iter().map(key).collect())
    }
}
