//! `GET /api/v1/sources`: the status of each source; `GET /api/v1/sources/ID[?at-least=VERSION]`: of one source, once
//! it has seen a version.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use informant_cache::{Snapshot, Source, SourceState};
use informant_config::Resources;
use informant_informer::{ReflectorStatus, SharedInformer, WatchListUse};
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::{AdminError, Code};
use super::freshness::FreshnessQuery;
use crate::daemon::{InformerPhase, InformerStatus, StatusRegistry};
use crate::runbooks;

/// How many of the objects that an index lacks are named.
pub(crate) const FAILED_NAMED_MAX: usize = 16;

/// How many namespaces of a source are named, those whose objects take the most memory.
pub(crate) const LARGEST_NAMED_MAX: usize = 3;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Sources {
    /// One item per source, and one per informer without a source.
    pub items: Vec<SourceView>,
}

/// One source; or an informer that has none yet, without an id.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct SourceView {
    /// Its number in this process.
    pub id: Option<u32>,
    pub informer: String,
    /// Empty for a single unnamed cluster.
    pub cluster: String,
    /// As configured; for a pattern, the source's own resource.
    pub resource: String,
    /// From discovery.
    pub api_version: Option<String>,
    /// From discovery.
    pub kind: Option<String>,
    /// Null: all namespaces, or a cluster-scoped resource.
    pub namespace: Option<String>,
    /// A source's state, or `Discovering`, `Refused`.
    pub state: String,
    /// Whether its first list is in the cache.
    pub synced: bool,
    /// Objects in the cache.
    pub objects: usize,
    /// Memory of these objects.
    pub bytes: usize,
    /// The namespaces whose objects take the most, at most [`LARGEST_NAMED_MAX`]; "" for a cluster-scoped resource.
    pub largest_namespaces: Vec<NamespaceView>,
    /// Objects of which the cache has only the head, because its budget was reached.
    pub heads: usize,
    /// The namespaces whose new objects are kept as heads, the largest first, at most [`LARGEST_NAMED_MAX`], with the
    /// bytes that their objects would add.
    pub shed_namespaces: Vec<NamespaceView>,
    /// The cache is complete up to this version.
    pub resource_version: Option<String>,
    /// How often the versions went back in time, as after a restored backup.
    pub epoch: u64,
    /// How long ago the watch last sent an event or a bookmark.
    pub last_event_age_ms: Option<u64>,
    /// How long ago the last bookmark arrived.
    pub bookmark_age_ms: Option<u64>,
    /// Successful lists after the first.
    pub relists: u64,
    pub watches: u64,
    /// The last error; the source may have recovered since.
    pub last_error: Option<AgedText>,
    /// Whether WatchList is used: `in-use`, `refused`, `off` or `untried`.
    pub watch_list: Option<String>,
    /// Why WatchList is not used although it is enabled.
    pub watch_list_refused: Option<String>,
    /// Set while a changed section is not in effect yet: its error, or that its first list is in progress.
    pub reconfiguring: Option<String>,
    pub indexes: Vec<String>,
    /// The indexes that lack objects because their functions failed on them.
    pub index_failures: Vec<IndexFailuresView>,
    /// The current problem, if any.
    pub trouble: Option<String>,
    /// The runbook for it, or for a state other than `Live`: `informant explain CODE`.
    pub code: Option<String>,
    /// The replica that it is in; absent if only one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
}

/// The objects that one index lacks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IndexFailuresView {
    pub index: String,
    /// The number of objects that it lacks because its function failed on them.
    pub failures: usize,
    /// At most [`FAILED_NAMED_MAX`] of them.
    pub failed: Vec<FailedView>,
}

/// How much memory the objects of one namespace take.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NamespaceView {
    pub namespace: String,
    pub bytes: usize,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FailedView {
    /// `namespace/name`, or the name of a cluster-scoped object.
    pub key: String,
    /// The error of the index function, or the host's for it.
    pub message: String,
}

/// A message and its age.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgedText {
    pub message: String,
    pub age_ms: u64,
}

pub(super) async fn list(State(state): State<AdminState>) -> Json<Sources> {
    let mut items = Vec::new();
    for entry in state.registry.informers() {
        let mut sources = state.registry.sources(&entry.name);
        for (cluster, status) in entry.by_cluster() {
            let there = |source: &Arc<Source>| source.info().cluster == cluster;
            if !sources.iter().any(there) {
                items.push(without_source(&entry.name, &cluster, &status));
            }
            items.extend(
                sources
                    .iter()
                    .filter(|source| there(source))
                    .map(|source| of_source(&status, source)),
            );
            sources.retain(|source| !there(source));
        }
    }
    Json(Sources { items })
}

pub(super) async fn get(
    State(state): State<AdminState>,
    id: Result<Path<u32>, PathRejection>,
    query: Result<Query<FreshnessQuery>, QueryRejection>,
) -> Result<Json<SourceView>, AdminError> {
    let Path(id) = id.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let Query(query) = query.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let at_least = query.parse()?;
    let (status, shared) = find_source(&state.registry, id)?;
    let sources = [shared];
    if let Some(at_least) = at_least {
        at_least.seen_by(&sources, &state).await?;
    }
    let source = state.registry.catalog().source(sources[0].source());
    let source = source.ok_or_else(|| unknown_source(id))?;
    Ok(Json(of_source(&status, &source)))
}

/// The source with that number, and its informer in its cluster.
fn find_source(registry: &StatusRegistry, id: u32) -> Result<(InformerStatus, Arc<SharedInformer>), AdminError> {
    for entry in registry.informers() {
        for status in entry.by_cluster().into_values() {
            let running = running_in(&status);
            if let Some(found) = running.into_iter().find(|source| source.source().0 == id) {
                return Ok((status, found));
            }
        }
    }
    Err(unknown_source(id))
}

fn unknown_source(id: u32) -> AdminError {
    let message = format!(
        "there is no source {id}: /api/v1/sources lists them; a recreated source, for example after a change of its section, has a new number"
    );
    AdminError::new(Code::UnknownSource, message)
}

fn without_source(informer: &str, cluster: &str, status: &InformerStatus) -> SourceView {
    let (state, trouble, runbook) = match &status.phase {
        InformerPhase::Discovering { last_error } => {
            let trouble = last_error.as_ref().map(ToString::to_string);
            ("Discovering", trouble, Some(runbooks::WATCH_NOT_LIVE))
        }
        InformerPhase::Refused { reason } => ("Refused", Some(reason.to_string()), Some(runbooks::WATCH_NOT_LIVE)),
        InformerPhase::Running(_) => ("Syncing", None, Some(runbooks::NOT_SYNCED)),
        InformerPhase::Stopped => ("Stopped", None, None),
    };
    let section = &status.section;
    SourceView {
        informer: informer.to_owned(),
        cluster: cluster.to_owned(),
        resource: section.resource.value.text(),
        namespace: (!section.namespaces.is_empty()).then(|| section.namespaces.join(",")),
        state: state.to_owned(),
        trouble,
        code: runbook.map(|runbook| runbook.code.to_owned()),
        ..SourceView::default()
    }
}

pub(super) fn of_source(informer: &InformerStatus, source: &Source) -> SourceView {
    let (info, status) = (source.info(), source.status());
    let view = SourceView {
        id: Some(source.id().0),
        informer: info.informer.clone(),
        cluster: info.cluster.clone(),
        resource: resource_or_section(informer, source),
        api_version: Some(info.api_version.clone()),
        kind: Some(info.kind.clone()),
        namespace: info.namespace.clone(),
        state: status.state.as_str().to_owned(),
        synced: status.synced,
        objects: status.snapshot.len(),
        bytes: status.snapshot.bytes(),
        largest_namespaces: views(status.snapshot.largest_namespaces(LARGEST_NAMED_MAX)),
        heads: status.snapshot.heads(),
        shed_namespaces: views(
            status
                .snapshot
                .shed_namespaces()
                .into_iter()
                .rev()
                .take(LARGEST_NAMED_MAX),
        ),
        resource_version: status.snapshot.version().map(|version| version.as_str().to_owned()),
        epoch: status.snapshot.epoch(),
        indexes: status.snapshot.index_names(),
        index_failures: index_failures(&status.snapshot),
        // A watch that was cut off leaves an error behind, however soon another one is open.
        trouble: status
            .last_error
            .filter(|_| status.state != SourceState::Live)
            .map(|error| error.to_string()),
        code: runbooks::of_source(status.state).map(|runbook| runbook.code.to_owned()),
        ..SourceView::default()
    };
    match of_reflector(informer, source) {
        Some(status) => with_reflector(view, status),
        None => view,
    }
}

fn views(namespaces: impl IntoIterator<Item = (Box<str>, usize)>) -> Vec<NamespaceView> {
    let view = |(namespace, bytes): (Box<str>, usize)| NamespaceView {
        namespace: namespace.into(),
        bytes,
    };
    namespaces.into_iter().map(view).collect()
}

fn index_failures(snapshot: &Snapshot) -> Vec<IndexFailuresView> {
    let names = snapshot.index_names().into_iter();
    let failing = names.filter_map(|index| {
        let failures = snapshot.index_failures(&index)?;
        let listed = failures.listed().take(FAILED_NAMED_MAX);
        let failed = listed.map(|(key, message)| FailedView {
            key: key.to_string(),
            message: message.to_owned(),
        });
        Some(IndexFailuresView {
            failures: failures.absent(),
            failed: failed.collect(),
            index,
        })
    });
    failing.collect()
}

pub(super) fn of_reflector(status: &InformerStatus, source: &Source) -> Option<ReflectorStatus> {
    Some(running(status, source)?.status())
}

/// The source's own resource if its informer has a pattern; `None` if the configuration names the resource.
pub(super) fn resource_of(status: &InformerStatus, source: &Source) -> Option<String> {
    match &status.section.resource.value {
        Resources::One(_) => None,
        Resources::Several(_) => Some(running(status, source)?.spec().resource.to_string()),
    }
}

/// The source's own resource, or else the one in its section.
pub(crate) fn resource_or_section(status: &InformerStatus, source: &Source) -> String {
    resource_of(status, source).unwrap_or_else(|| status.section.resource.value.text())
}

pub(super) fn running(status: &InformerStatus, source: &Source) -> Option<Arc<SharedInformer>> {
    let mut sources = running_in(status).into_iter();
    sources.find(|other| other.source() == source.id())
}

/// The sources of an informer in one cluster, if it is running there.
pub(crate) fn running_in(status: &InformerStatus) -> Vec<Arc<SharedInformer>> {
    match &status.phase {
        InformerPhase::Running(running) => running.shared.sources(),
        _ => Vec::new(),
    }
}

fn with_reflector(view: SourceView, status: ReflectorStatus) -> SourceView {
    SourceView {
        last_event_age_ms: status.last_event_age.map(millis),
        bookmark_age_ms: status.bookmark_age.map(millis),
        reconfiguring: status.reconfiguring.map(|change| {
            change
                .last_error
                .unwrap_or_else(|| "the first list of the new request is in progress".to_owned())
        }),
        relists: status.relists,
        watches: status.watches,
        last_error: status.last_error.map(|(message, age)| AgedText {
            message,
            age_ms: millis(age),
        }),
        watch_list: Some(status.watch_list.as_str().to_owned()),
        watch_list_refused: match status.watch_list {
            WatchListUse::Refused(why) => Some(why),
            _ => None,
        },
        ..view
    }
}

/// Whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
