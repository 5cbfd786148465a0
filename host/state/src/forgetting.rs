//! What is to be forgotten: which rows of the database are nobody's any more.

use std::collections::BTreeSet;

use crate::source::SourceIdentity;

/// What is to be forgotten.
#[derive(Clone, Debug)]
pub(crate) enum Forgetting {
    /// All of an informer in a cluster.
    InCluster(String, String),
    /// All of an informer in a cluster but these sources: those at another address, of another resource or in other
    /// namespaces.
    OthersInCluster(String, String, BTreeSet<SourceIdentity>),
    /// All but these informers, each in a cluster.
    AllBut(BTreeSet<(String, String)>),
    /// One source.
    Source(SourceIdentity),
}

impl Forgetting {
    /// Whether the source with this row is to be forgotten.
    pub(crate) fn covers(&self, row_key: &[u8]) -> bool {
        let is_in =
            |informer: &str, cluster: &str| row_key.starts_with(&SourceIdentity::cluster_prefix(informer, cluster));
        match self {
            Self::InCluster(informer, cluster) => is_in(informer, cluster),
            Self::OthersInCluster(informer, cluster, stay) => {
                is_in(informer, cluster) && !stay.iter().any(|identity| identity.row_key() == row_key)
            }
            Self::AllBut(stay) => !stay.iter().any(|(informer, cluster)| is_in(informer, cluster)),
            Self::Source(identity) => identity.row_key() == row_key,
        }
    }
}
