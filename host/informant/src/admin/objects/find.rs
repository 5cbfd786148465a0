//! Resolves a requested resource to the sources that answer: those of the informer, in its clusters, whose first lists
//! are complete. The others are named.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use informant_cache::{Source, SourceState};
use informant_config::Resources;
use informant_informer::Discovered;
use informant_object::SourceId;
use informant_spec::{GroupVersionResource, ResourceName};
use serde::{Deserialize, Serialize};

use super::super::access::Right;
use super::super::error::{AdminError, Code, ResourceRight};
use super::super::sources;
use crate::daemon::{InformerEntry, InformerPhase, InformerStatus, InformerStatuses, RunningInformer, StatusRegistry};
use crate::escape;

pub(super) struct ResolvedInformer<'a> {
    pub(super) informer: Arc<InformerEntry>,
    /// Set if only one of the informer's several resources is requested.
    only: Option<&'a str>,
}

/// The informer named `resource`, or else the only one that watches it. An informer that watches nothing else takes
/// precedence over those that do.
pub(super) fn informer<'a>(registry: &StatusRegistry, resource: &'a str) -> Result<ResolvedInformer<'a>, AdminError> {
    if let Some(informer) = registry.informer(resource) {
        return Ok(ResolvedInformer { informer, only: None });
    }
    let informers = registry.informers();
    let named: Vec<_> = informers.iter().filter(|entry| watches(entry, resource)).collect();
    let (watching, only) = if named.is_empty() {
        let among = informers.iter().filter(|entry| watches_among_others(entry, resource));
        (among.collect(), Some(resource))
    } else {
        (named, None)
    };
    match watching[..] {
        [entry] => Ok(ResolvedInformer {
            informer: Arc::clone(entry),
            only,
        }),
        [] => {
            let names: Vec<_> = informers.iter().map(|entry| entry.name.as_str()).collect();
            let help = informant_spec::suggest::did_you_mean(resource, &names, "informers");
            let message = format!("no informer named \"{resource}\" and none that watches it; {help}");
            Err(AdminError::new(Code::UnknownInformer, message))
        }
        _ => {
            let names: Vec<_> = watching.iter().map(|entry| format!("`{}`", entry.name)).collect();
            let message = format!(
                "several informers watch \"{resource}\": name one of {}",
                names.join(", ")
            );
            Err(AdminError::new(Code::Ambiguous, message))
        }
    }
}

/// Whether `resource` is the informer's resource as configured, its plural or its kind.
fn watches(entry: &InformerEntry, resource: &str) -> bool {
    entry.by_cluster().values().any(|status| {
        status.section.resource.value.text() == resource
            || matches!(&status.phase, InformerPhase::Running(running)
                if running.discovered.as_ref().is_some_and(|discovered| matches_resource(discovered, resource)))
    })
}

fn watches_among_others(entry: &InformerEntry, resource: &str) -> bool {
    entry.by_cluster().values().any(|status| {
        matches!(&status.phase, InformerPhase::Running(running)
            if !sources_of(running, resource).is_empty())
    })
}

/// The sources of one of an informer's several resources.
fn sources_of(running: &RunningInformer, resource: &str) -> Vec<SourceId> {
    let resources = running.shared.spec().resources.unwrap_or_default();
    let meant: Vec<_> = resources
        .values()
        .filter(|found| matches_resource(found, resource))
        .collect();
    let sources = running.shared.sources();
    let matching = sources
        .iter()
        .filter(|source| meant.iter().any(|found| found.gvr == source.spec().resource));
    matching.map(|source| source.source()).collect()
}

fn matches_resource(discovered: &Discovered, resource: &str) -> bool {
    ResourceName::parse(resource).is_ok_and(|name| discovered.is_meant_by(&name))
}

pub(super) struct QueryScope<'q> {
    /// Empty: all of the informer's.
    pub(super) clusters: &'q BTreeSet<String>,
    /// `None`: all.
    pub(super) namespace: Option<&'q str>,
    /// Whether a source that is not synced is an error.
    pub(super) requires_all: bool,
}

/// The sources that answer a query, and those that should but cannot.
pub(super) struct AnsweringSources {
    /// The synced ones, sorted by cluster, namespace and resource.
    pub(super) synced: Vec<Arc<Source>>,
    pub(super) missing: Vec<MissingSource>,
}

/// The longest reason in a [`MissingSource`]: a header names all of them.
const REASON_BYTES_MAX: usize = 200;

/// A source whose objects are not in an answer, because its first list is not complete; or an informer in a cluster
/// where it has no source yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MissingSource {
    /// Empty for a single unnamed cluster.
    pub(crate) cluster: String,
    /// As configured; for a pattern, the source's own resource.
    pub(crate) resource: String,
    /// `None`: all namespaces, or a cluster-scoped resource.
    pub(crate) namespace: Option<String>,
    /// A source's state, or `Discovering`, `Refused`.
    pub(crate) state: String,
    /// Why, in at most [`REASON_BYTES_MAX`] bytes.
    pub(crate) reason: String,
}

impl fmt::Display for MissingSource {
    /// `v1/pods in web, cluster east (Forbidden: pods is forbidden)`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.resource)?;
        if let Some(namespace) = &self.namespace {
            write!(out, " in {namespace}")?;
        }
        if !self.cluster.is_empty() {
            write!(out, ", cluster {}", self.cluster)?;
        }
        write!(out, " ({}: {})", self.state, self.reason)
    }
}

pub(super) struct SourcesInScope {
    /// The informer's status in each of the requested clusters.
    statuses: InformerStatuses,
    found: Vec<Arc<Source>>,
}

/// The sources that a query is about.
/// Errors: `unknown-cluster`.
pub(super) fn in_scope(
    registry: &StatusRegistry,
    asked: &ResolvedInformer<'_>,
    scope: &QueryScope<'_>,
) -> Result<SourcesInScope, AdminError> {
    let informer = &asked.informer;
    let mut statuses = informer.by_cluster();
    check_clusters(informer, &statuses, scope.clusters)?;
    let in_scope = |cluster: &str| scope.clusters.is_empty() || scope.clusters.contains(cluster);
    statuses.retain(|cluster, _| in_scope(cluster));
    let mut found = registry.sources(&informer.name);
    if let Some(resource) = asked.only {
        let running = statuses.values().filter_map(|status| match &status.phase {
            InformerPhase::Running(running) => Some(running),
            _ => None,
        });
        let meant: BTreeSet<SourceId> = running.flat_map(|running| sources_of(running, resource)).collect();
        found.retain(|source| meant.contains(&source.id()));
    }
    found.retain(|source| statuses.contains_key(&source.info().cluster));
    Ok(SourcesInScope { statuses, found })
}

impl SourcesInScope {
    /// The rights that a caller needs for the query, if `reviewing` is the cluster that decides. `name` is set if the
    /// query is for one object. Drops the sources of other namespaces, which the headers of the answer would name.
    /// Errors: `not-ready` for a source that is being replaced.
    pub(super) fn rights(
        &mut self,
        scope: &QueryScope<'_>,
        name: Option<&str>,
        reviewing: &str,
    ) -> Result<BTreeSet<Right>, AdminError> {
        let mut rights = BTreeSet::new();
        self.found.retain(|source| scope.may_hold(source));
        for (cluster, status) in &self.statuses {
            if cluster != reviewing {
                rights.insert(Right::own("get", "clusters", cluster));
            }
            let found = self.found.iter().filter(|source| source.info().cluster == *cluster);
            let mut found = found.peekable();
            if found.peek().is_none() {
                rights.insert(without_any_source(status, scope.namespace, name));
            }
            for source in found {
                rights.insert(of_source(status, source, scope.namespace, name)?);
            }
        }
        Ok(rights)
    }

    /// Those that answer. One broken cluster, namespace or kind does not disable the others.
    ///
    /// # Errors
    /// `not-synced` if none of the sources that may hold a requested object is synced, or one of them is not although
    /// the query requires all.
    pub(super) fn answering(
        self,
        registry: &StatusRegistry,
        informer: &str,
        scope: &QueryScope<'_>,
    ) -> Result<AnsweringSources, AdminError> {
        let Self { statuses, mut found } = self;
        let mut missing = Vec::new();
        let mut some_answer = false;
        for (cluster, status) in &statuses {
            let in_cluster = || found.iter().filter(|source| source.info().cluster == *cluster);
            match without_source(cluster, status) {
                Some(whole) => missing.push(whole),
                None => {
                    let relevant: Vec<_> = in_cluster().filter(|source| scope.may_hold(source)).collect();
                    let late = relevant.iter().filter(|source| !source.is_synced());
                    missing.extend(late.map(|source| missing_source(status, source)));
                    some_answer |= relevant.iter().any(|source| source.is_synced());
                }
            }
        }
        let answers = missing.is_empty() || (some_answer && !scope.requires_all);
        if !answers {
            return Err(not_synced(registry, informer, &missing, some_answer));
        }
        found.retain(|source| source.is_synced());
        found.sort_by_cached_key(|source| sort_key(source));
        Ok(AnsweringSources { synced: found, missing })
    }
}

/// The right to read the objects of a source: `get` for one object, `list` otherwise, also for one name in all
/// namespaces.
fn of_source(
    status: &InformerStatus,
    source: &Source,
    namespace: Option<&str>,
    name: Option<&str>,
) -> Result<Right, AdminError> {
    let Some(running) = sources::running(status, source) else {
        return Err(AdminError::new(Code::NotReady, "a source is being replaced; try again"));
    };
    let spec = running.spec();
    let namespace = namespace
        .or(source.info().namespace.as_deref())
        .filter(|_| spec.namespaced);
    let name = name.filter(|_| !spec.namespaced || namespace.is_some());
    Ok(of_objects(&spec.resource, namespace, name))
}

/// The right to read the objects of an informer that has no source yet. Its state and last error are all that can be
/// shown, so if its resource is not known, the right to see those is enough.
fn without_any_source(status: &InformerStatus, namespace: Option<&str>, name: Option<&str>) -> Right {
    match &status.section.resource.value {
        Resources::One(ResourceName::Exact(resource)) => {
            of_objects(resource, namespace, name.filter(|_| namespace.is_some()))
        }
        _ => Right::own("list", "sources", ""),
    }
}

fn of_objects(resource: &GroupVersionResource, namespace: Option<&str>, name: Option<&str>) -> Right {
    Right::Resource(ResourceRight {
        verb: if name.is_some() { "get" } else { "list" }.to_owned(),
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        namespace: namespace.unwrap_or_default().to_owned(),
        name: name.unwrap_or_default().to_owned(),
        ..ResourceRight::default()
    })
}

impl QueryScope<'_> {
    /// Whether a source can hold an object of the requested namespace.
    pub(super) fn may_hold(&self, source: &Source) -> bool {
        match (&source.info().namespace, self.namespace) {
            (Some(has), Some(wanted)) => has == wanted,
            _ => true,
        }
    }
}

/// How many missing sources an error names.
const NAMED_MAX: usize = 8;

/// `informer pods is not synced: v1/pods, cluster west (Discovering: it is starting)`
pub(super) fn not_synced(
    registry: &StatusRegistry,
    informer: &str,
    missing: &[MissingSource],
    some_answer: bool,
) -> AdminError {
    let message = if registry.is_stopping() {
        format!("informer {informer} was stopped: Informant is shutting down")
    } else {
        let mut named: Vec<_> = missing.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        match missing.len().saturating_sub(NAMED_MAX) {
            0 => {}
            more => named.push(format!("{more} more")),
        }
        let partly = if some_answer { "partly " } else { "" };
        format!("informer {informer} is {partly}not synced: {}", named.join("; "))
    };
    AdminError::new(Code::NotSynced, message)
}

fn check_clusters(
    informer: &InformerEntry,
    statuses: &InformerStatuses,
    clusters: &BTreeSet<String>,
) -> Result<(), AdminError> {
    let Some(unknown) = clusters.iter().find(|cluster| !statuses.contains_key(*cluster)) else {
        return Ok(());
    };
    let name = &informer.name;
    let message = if statuses.contains_key("") {
        format!("informer {name} has one unnamed cluster: remove \"{unknown}\"")
    } else {
        let known: Vec<&str> = statuses.keys().map(String::as_str).collect();
        let help = informant_spec::suggest::did_you_mean(unknown, &known, "its clusters");
        format!("informer {name} has no cluster named \"{unknown}\"; {help}")
    };
    Err(AdminError::new(Code::UnknownCluster, message))
}

/// An informer that cannot answer in one cluster at all, because it has no source there.
fn without_source(cluster: &str, status: &InformerStatus) -> Option<MissingSource> {
    let starting = || "it is starting".to_owned();
    let (state, reason) = match &status.phase {
        InformerPhase::Discovering { last_error } => {
            let error = last_error.as_ref().map(ToString::to_string);
            ("Discovering", error.unwrap_or_else(starting))
        }
        InformerPhase::Refused { reason } => ("Refused", reason.to_string()),
        InformerPhase::Stopped => ("Stopped", "it was stopped".to_owned()),
        InformerPhase::Running(running) if running.discovered.is_some() && running.shared.sources().is_empty() => {
            (SourceState::Syncing.as_str(), starting())
        }
        InformerPhase::Running(_) => return None,
    };
    Some(MissingSource {
        cluster: cluster.to_owned(),
        resource: status.section.resource.value.text(),
        namespace: None,
        state: state.to_owned(),
        reason: escape::cut(&reason, REASON_BYTES_MAX).into_owned(),
    })
}

fn missing_source(informer: &InformerStatus, source: &Source) -> MissingSource {
    let status = source.status();
    let reason = match &status.last_error {
        Some(error) => escape::cut(error, REASON_BYTES_MAX).into_owned(),
        None => "its first list is not complete yet".to_owned(),
    };
    MissingSource {
        cluster: source.info().cluster.clone(),
        resource: sources::resource_or_section(informer, source),
        namespace: source.info().namespace.clone(),
        state: status.state.as_str().to_owned(),
        reason,
    }
}

/// Numbers of sources differ from replica to replica, and a client that merges their answers needs the same order in
/// each.
fn sort_key(source: &Source) -> (String, Option<String>, Option<GroupVersionResource>, SourceId) {
    let info = source.info();
    let resource = GroupVersionResource::parse(&info.resource);
    (info.cluster.clone(), info.namespace.clone(), resource, source.id())
}
