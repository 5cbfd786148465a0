//! `GET /api/v1/sources`: how each source fares.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use informant_cache::{Snapshot, Source};
use informant_informer::{SharedInformer, SourceStatus, WatchListUse};
use serde::{Deserialize, Serialize};

use super::AdminState;
use crate::config::Resources;
use crate::daemon::{InformerPhase, Place};

/// Of the objects that an index lacks because its function failed on them, so many are named.
pub const FAILED_NAMED_MAX: usize = 16;

/// All sources, by informer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sources {
    /// One each; informers without a source too.
    pub items: Vec<SourceView>,
}

/// One source; or an informer that has none yet, without an id.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SourceView {
    /// Its number in this process.
    pub id: Option<u32>,
    /// The informer's name.
    pub informer: String,
    /// Empty for the only one.
    pub cluster: String,
    /// As the configuration names it.
    pub resource: String,
    /// What discovery says.
    pub api_version: Option<String>,
    /// What discovery says.
    pub kind: Option<String>,
    /// Null: all, or none for what lives outside of namespaces.
    pub namespace: Option<String>,
    /// A source's state, or `Discovering`, `Refused`.
    pub state: String,
    /// Whether its first list is in the cache.
    pub synced: bool,
    /// In the cache.
    pub objects: usize,
    /// In the cache.
    pub bytes: usize,
    /// The store has seen everything up to it.
    pub resource_version: Option<String>,
    /// How often it went back in time, as after a restored backup.
    pub epoch: u64,
    /// How long ago the watch last brought an event or a bookmark.
    pub last_event_age_ms: Option<u64>,
    /// How long ago the last bookmark came.
    pub bookmark_age_ms: Option<u64>,
    /// Lists after the first one that succeeded.
    pub relists: u64,
    /// Watches opened.
    pub watches: u64,
    /// What went wrong last, though it may be well again.
    pub last_error: Option<AgedText>,
    /// How its state is obtained: `in-use`, `refused`, `off` or `untried`.
    pub watch_list: Option<String>,
    /// Why WatchList is not used although it was asked for.
    pub watch_list_refused: Option<String>,
    /// Its section changed, and the new request has not taken the old one's place yet: why, or that it is under way.
    pub reconfiguring: Option<String>,
    /// Those it has, attached or not.
    pub indexes: Vec<String>,
    /// Those that lack objects because their functions failed on them.
    pub index_failures: Vec<IndexFailuresView>,
    /// What is wrong, if anything is.
    pub trouble: Option<String>,
}

/// The objects that one index lacks.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexFailuresView {
    /// The index's name.
    pub index: String,
    /// Objects that are not in it because its function failed on them.
    pub failures: usize,
    /// Which, at most [`FAILED_NAMED_MAX`] of them.
    pub failed: Vec<FailedView>,
}

/// An object that is not in an index.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedView {
    /// `namespace/name`, or the name of what lives outside of namespaces.
    pub key: String,
    /// What the index function said, or the host for it.
    pub message: String,
}

/// Something that was said, and how long ago.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgedText {
    /// What.
    pub message: String,
    /// How long ago.
    pub age_ms: u64,
}

pub(super) async fn list(State(state): State<AdminState>) -> Json<Sources> {
    let mut items = Vec::new();
    for entry in state.board.informers() {
        let mut sources = state.board.sources(&entry.name);
        for (cluster, place) in entry.places() {
            let there = |source: &Arc<Source>| source.info().cluster == cluster;
            if !sources.iter().any(there) {
                items.push(without_source(&entry.name, &cluster, &place));
            }
            items.extend(
                sources
                    .iter()
                    .filter(|source| there(source))
                    .map(|source| of_source(&place, source)),
            );
            sources.retain(|source| !there(source));
        }
    }
    Json(Sources { items })
}

fn without_source(informer: &str, cluster: &str, place: &Place) -> SourceView {
    let (state, trouble) = match &place.phase {
        InformerPhase::Discovering { trouble } => ("Discovering", trouble.as_ref().map(ToString::to_string)),
        InformerPhase::Refused { reason } => ("Refused", Some(reason.to_string())),
        InformerPhase::Running(_) => ("Syncing", None),
        InformerPhase::Stopped => ("Stopped", None),
    };
    let section = &place.section;
    SourceView {
        informer: informer.to_owned(),
        cluster: cluster.to_owned(),
        resource: section.resource.value.text(),
        namespace: (!section.namespaces.is_empty()).then(|| section.namespaces.join(",")),
        state: state.to_owned(),
        trouble,
        ..SourceView::default()
    }
}

pub(super) fn of_source(place: &Place, source: &Source) -> SourceView {
    let (info, status) = (source.info(), source.status());
    let view = SourceView {
        id: Some(source.id().0),
        informer: info.informer.clone(),
        cluster: info.cluster.clone(),
        resource: resource_or_section(place, source),
        api_version: Some(info.api_version.clone()),
        kind: Some(info.kind.clone()),
        namespace: info.namespace.clone(),
        state: status.state.as_str().to_owned(),
        synced: status.synced,
        objects: status.snapshot.len(),
        bytes: status.snapshot.bytes(),
        resource_version: status.snapshot.version().map(|version| version.as_str().to_owned()),
        epoch: status.snapshot.epoch(),
        indexes: status.snapshot.index_names(),
        index_failures: index_failures(&status.snapshot),
        trouble: status.trouble.map(|trouble| trouble.to_string()),
        ..SourceView::default()
    };
    match of_reflector(place, source) {
        Some(status) => with_reflector(view, status),
        None => view,
    }
}

/// Which objects the indexes of a state lack.
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

/// What the source's reflector says.
pub(super) fn of_reflector(place: &Place, source: &Source) -> Option<SourceStatus> {
    Some(running(place, source)?.status())
}

/// Which of an informer's several resources a source is of; of an only one the configuration says it.
pub(super) fn resource_of(place: &Place, source: &Source) -> Option<String> {
    match &place.section.resource.value {
        Resources::One(_) => None,
        Resources::Several(_) => Some(running(place, source)?.spec().resource.to_string()),
    }
}

/// The resource a source is of, or else the one its section names.
pub(super) fn resource_or_section(place: &Place, source: &Source) -> String {
    resource_of(place, source).unwrap_or_else(|| place.section.resource.value.text())
}

pub(super) fn running(place: &Place, source: &Source) -> Option<Arc<SharedInformer>> {
    let mut sources = running_in(place).into_iter();
    sources.find(|other| other.source() == source.id())
}

/// The sources of an informer in one cluster, if it runs there.
pub(crate) fn running_in(place: &Place) -> Vec<Arc<SharedInformer>> {
    match &place.phase {
        InformerPhase::Running(running) => running.shared.sources(),
        _ => Vec::new(),
    }
}

fn with_reflector(view: SourceView, status: SourceStatus) -> SourceView {
    SourceView {
        last_event_age_ms: status.last_event_age.map(millis),
        bookmark_age_ms: status.bookmark_age.map(millis),
        reconfiguring: status.reconfiguring.map(|change| {
            change
                .last_error
                .unwrap_or_else(|| "the new request's first list is under way".to_owned())
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

/// In whole milliseconds.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
