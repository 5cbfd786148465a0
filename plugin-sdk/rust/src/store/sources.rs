//! Sources of informers, and which of them a query reads.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::bindings::imports::informant::plugin::store as contract;
use crate::event::SourceId;
use crate::host_error::{ErrorCode, HostError};
use crate::{call, host};

pub use contract::SourceState;

/// A source of objects: one resource in one cluster, in one namespace or all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceInfo {
    /// Everything but `state` is constant for an ID.
    pub id: SourceId,
    /// What Informant knew of the source when the current call first asked for it.
    pub state: SourceState,
    /// The plugin's name for the informer, as in `informers` of its section.
    pub informer: String,
    /// Empty if config.toml has a single, unnamed cluster.
    pub cluster: String,
    /// `v1`, `apps/v1`
    pub api_version: String,
    /// `Pod`
    pub kind: String,
    /// As [`kube`](crate::kube) wants it: `v1/pods`, `apps/v1/deployments`.
    pub resource: String,
    /// The only namespace that is read. `None`: all, or the resource has no namespaces.
    pub namespace: Option<String>,
    /// Whether the objects of the resource have namespaces.
    pub namespaced: bool,
    /// Whether the source may lack objects that exist: a selector or a shard leaves some out. An object that is not
    /// found may exist then.
    pub partial: bool,
}

impl From<contract::SourceInfo> for SourceInfo {
    fn from(info: contract::SourceInfo) -> Self {
        Self {
            id: SourceId(info.id),
            state: info.state,
            informer: info.informer,
            cluster: info.cluster,
            api_version: info.api_version,
            kind: info.kind,
            resource: info.resource,
            namespace: info.namespace,
            namespaced: info.namespaced,
            partial: info.partial,
        }
    }
}

thread_local! {
    /// For what is constant for a source. IDs are never reused.
    static CONSTANT: RefCell<BTreeMap<SourceId, Rc<SourceInfo>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The details of a source. Requested from Informant once in each call.
///
/// # Errors
/// [`ErrorCode::NotFound`] if the source does not exist, or no longer exists; [`ErrorCode::Denied`].
pub fn source(id: SourceId) -> Result<Rc<SourceInfo>, HostError> {
    call::source_info(id, || {
        let info = Rc::new(SourceInfo::from(host::source(id.0)?));
        CONSTANT.with_borrow_mut(|known| known.insert(id, Rc::clone(&info)));
        Ok(info)
    })
}

/// As [`source`], but requested from Informant once. `state` is that of any earlier time.
pub(crate) fn constant(id: SourceId) -> Result<Rc<SourceInfo>, HostError> {
    let known = CONSTANT.with_borrow(|known| known.get(&id).cloned());
    known.map_or_else(|| source(id), Ok)
}

/// Clears the cached details, because the next test has other sources.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn forget() {
    CONSTANT.take();
}

/// The sources of an informer: one for each kind, cluster and namespace it covers. Kinds of a pattern (`*`,
/// `apps/v1/*`) that cannot be read are among them. Requested from Informant once in each call.
///
/// # Errors
/// [`ErrorCode::UnknownInformer`], [`ErrorCode::Denied`].
pub fn sources(informer: &str) -> Result<Vec<SourceInfo>, HostError> {
    Ok(all(informer)?.to_vec())
}

fn all(informer: &str) -> Result<Rc<[SourceInfo]>, HostError> {
    call::sources(informer, || {
        Ok(host::sources(informer)?.into_iter().map(SourceInfo::from).collect())
    })
}

/// The clusters that a query reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Clusters {
    /// That of the source that the current call is about; in a call about none, the only one.
    #[default]
    OfTheCall,
    All,
    Named(String),
}

impl Clusters {
    /// The sources of the informer in these clusters, as the contract wants them: an empty list means all.
    pub(super) fn sources_of(&self, informer: &str) -> Result<Vec<u32>, HostError> {
        match self {
            Self::All => Ok(Vec::new()),
            Self::Named(cluster) => in_cluster(informer, cluster),
            Self::OfTheCall => match call::source() {
                Some(source) => match constant(source)?.cluster.as_str() {
                    // There is only this one.
                    "" => Ok(Vec::new()),
                    cluster => in_cluster(informer, cluster),
                },
                None => in_the_only_cluster(informer),
            },
        }
    }
}

fn in_cluster(informer: &str, cluster: &str) -> Result<Vec<u32>, HostError> {
    let sources = all(informer)?;
    let here = sources.iter().filter(|source| source.cluster == cluster);
    let here: Vec<u32> = here.map(|source| source.id.0).collect();
    if here.is_empty() {
        // A pattern has its sources only once its cluster was asked for its kinds. So a retry can succeed.
        return Err(HostError {
            code: ErrorCode::NotReady,
            message: format!(
                "informer {informer:?} has no source in cluster {cluster:?}; it has sources in {}; \
                 add the cluster to `clusters` of the informer, or use in_cluster(name) or all_clusters()",
                names(&sources)
            ),
        });
    }
    // The usual case, where an empty list is shorter.
    Ok(if here.len() == sources.len() { Vec::new() } else { here })
}

fn in_the_only_cluster(informer: &str) -> Result<Vec<u32>, HostError> {
    let sources = all(informer)?;
    if sources.iter().all(|source| source.cluster == sources[0].cluster) {
        return Ok(Vec::new());
    }
    Err(HostError {
        code: ErrorCode::Invalid,
        message: format!(
            "informer {informer:?} has sources in {}, and this call is about no object: use all_clusters() or \
             in_cluster(name)",
            names(&sources)
        ),
    })
}

fn names(sources: &[SourceInfo]) -> String {
    let names: BTreeSet<&str> = sources.iter().map(|source| source.cluster.as_str()).collect();
    let names: Vec<String> = names.into_iter().map(|name| format!("{name:?}")).collect();
    match names.as_slice() {
        [] => "no cluster".to_owned(),
        names => names.join(", "),
    }
}
