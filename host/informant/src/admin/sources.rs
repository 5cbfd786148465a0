//! `GET /api/v1/sources`: how each source fares.

use axum::Json;
use axum::extract::State;
use informant_cache::Source;
use informant_informer::WatchListUse;
use serde::Serialize;

use super::AdminState;
use crate::daemon::{InformerEntry, InformerPhase};

#[derive(Debug, Serialize)]
pub(super) struct Sources {
    items: Vec<SourceItem>,
}

/// One source; or an informer that has none yet, without an id.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceItem {
    id: Option<u32>,
    informer: String,
    cluster: String,
    /// As the configuration names it.
    resource: String,
    api_version: Option<String>,
    kind: Option<String>,
    /// Null: all, or none for what lives outside of namespaces.
    namespace: Option<String>,
    /// A source's state, or `Discovering`, `Refused`.
    state: &'static str,
    synced: bool,
    objects: usize,
    bytes: usize,
    /// The store has seen everything up to it.
    resource_version: Option<String>,
    epoch: u64,
    /// How its state is obtained: `in-use`, `refused`, `off` or `untried`.
    watch_list: Option<&'static str>,
    /// Why WatchList is not used although it was asked for.
    watch_list_refused: Option<String>,
    indexes: Vec<String>,
    /// What is wrong, if anything is.
    trouble: Option<String>,
}

pub(super) async fn list(State(state): State<AdminState>) -> Json<Sources> {
    let mut items = Vec::new();
    for entry in state.board.informers() {
        let entry = &entry;
        let sources = state.board.sources(&entry.name);
        if sources.is_empty() {
            items.push(without_source(entry));
        }
        items.extend(sources.iter().map(|source| of_source(entry, source)));
    }
    Json(Sources { items })
}

fn without_source(entry: &InformerEntry) -> SourceItem {
    let (state, trouble) = match entry.phase() {
        InformerPhase::Discovering { trouble } => ("Discovering", trouble.map(|trouble| trouble.to_string())),
        InformerPhase::Refused { reason } => ("Refused", Some(reason.to_string())),
        InformerPhase::Running(_) => ("Syncing", None),
        InformerPhase::Stopped => ("Stopped", None),
    };
    let section = entry.section();
    SourceItem {
        id: None,
        informer: entry.name.clone(),
        cluster: String::new(),
        resource: section.resource.value.text(),
        api_version: None,
        kind: None,
        namespace: section.namespace.clone(),
        state,
        synced: false,
        objects: 0,
        bytes: 0,
        resource_version: None,
        epoch: 0,
        watch_list: None,
        watch_list_refused: None,
        indexes: Vec::new(),
        trouble,
    }
}

fn of_source(entry: &InformerEntry, source: &Source) -> SourceItem {
    let (info, status) = (source.info(), source.status());
    let watch_list = watch_list_of(entry, source);
    SourceItem {
        id: Some(source.id().0),
        informer: info.informer.clone(),
        cluster: info.cluster.clone(),
        resource: entry.section().resource.value.text(),
        api_version: Some(info.api_version.clone()),
        kind: Some(info.kind.clone()),
        namespace: info.namespace.clone(),
        state: status.state.as_str(),
        synced: status.synced,
        objects: status.snapshot.len(),
        bytes: status.snapshot.bytes(),
        resource_version: status.snapshot.version().map(|version| version.as_str().to_owned()),
        epoch: status.snapshot.epoch(),
        watch_list: watch_list.as_ref().map(WatchListUse::as_str),
        watch_list_refused: watch_list.and_then(|usage| match usage {
            WatchListUse::Refused(why) => Some(why),
            _ => None,
        }),
        indexes: status.snapshot.index_names(),
        trouble: status.trouble.map(|trouble| trouble.to_string()),
    }
}

/// What the source's reflector knows of WatchLists.
fn watch_list_of(entry: &InformerEntry, source: &Source) -> Option<WatchListUse> {
    let InformerPhase::Running(running) = entry.phase() else {
        return None;
    };
    (running.shared.source() == source.id()).then(|| running.shared.status().watch_list)
}
