//! The events on which plugins failed: dead letters, and those under retry.

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use informant_cache::Moment;
use informant_cache::listener::{DeadLetter, RetriedKey};
use informant_object::SourceId;
use informant_plugin_host::Plugin;
use serde::{Deserialize, Serialize};

use super::age_ms;
use crate::admin::AdminState;
use crate::admin::error::{AdminError, Code};
use crate::admin::sources::millis;
use crate::daemon::{PluginPhase, StatusRegistry};

/// How many keys under retry `/api/v1/retries` lists. Their number is always exact.
pub(crate) const RETRIES_LISTED_MAX: usize = 1_000;

/// Which plugin; none for all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct PluginQuery {
    plugin: Option<String>,
}

/// The loaded ones among the requested plugins, with their names.
fn requested(
    registry: &StatusRegistry,
    query: Result<Query<PluginQuery>, QueryRejection>,
) -> Result<Vec<(String, Plugin)>, AdminError> {
    let Query(query) = query.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let mut entries = registry.plugins();
    entries.retain(|entry| query.plugin.as_ref().is_none_or(|plugin| *plugin == entry.name));
    let loaded = entries.iter().filter_map(|entry| match entry.phase() {
        PluginPhase::Running(plugin) => Some((entry.name.clone(), plugin)),
        _ => None,
    });
    Ok(loaded.collect())
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FailedEventItem {
    plugin: String,
    source: u32,
    /// Null, like the next two, if the source is gone.
    informer: Option<String>,
    /// Empty for the only one.
    cluster: Option<String>,
    resource: Option<String>,
    /// Null for a sync notification, like the name.
    namespace: Option<String>,
    name: Option<String>,
    event: &'static str,
    reason: &'static str,
    result: &'static str,
    attempts: u32,
    error: String,
    age_ms: u64,
    /// When the next call is due. Dead letters have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_ms: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(in crate::admin) struct DeadLettersView {
    items: Vec<FailedEventItem>,
}

/// Dead letters, oldest first.
pub(in crate::admin) async fn dead_letters(
    State(state): State<AdminState>,
    query: Result<Query<PluginQuery>, QueryRejection>,
) -> Result<Json<DeadLettersView>, AdminError> {
    let now = state.environment.now();
    let mut items = Vec::new();
    for (name, plugin) in requested(&state.registry, query)? {
        let letters = plugin.listener().ledger().dead_letters().into_iter();
        items.extend(letters.map(|letter| dead_letter_item(&state.registry, &name, letter, now)));
    }
    Ok(Json(DeadLettersView { items }))
}

fn dead_letter_item(registry: &StatusRegistry, plugin: &str, letter: DeadLetter, now: Moment) -> FailedEventItem {
    let [informer, cluster, resource] = origin(registry, letter.source);
    FailedEventItem {
        plugin: plugin.to_owned(),
        source: letter.source.0,
        informer,
        cluster,
        resource,
        namespace: Some(letter.key.namespace().to_owned()),
        name: Some(letter.key.name().to_owned()),
        event: letter.event,
        reason: letter.reason.as_str(),
        result: letter.result,
        attempts: letter.attempts,
        age_ms: millis(letter.age(now)),
        error: letter.error,
        next_ms: None,
    }
}

#[derive(Debug, Serialize)]
pub(in crate::admin) struct RetriesView {
    /// How many there are, listed or not.
    total: usize,
    /// At most [`RETRIES_LISTED_MAX`].
    items: Vec<FailedEventItem>,
}

/// Keys under retry: those of each plugin that failed first, oldest first.
pub(in crate::admin) async fn retries(
    State(state): State<AdminState>,
    query: Result<Query<PluginQuery>, QueryRejection>,
) -> Result<Json<RetriesView>, AdminError> {
    let now = state.environment.now();
    let (mut total, mut items) = (0, Vec::new());
    for (name, plugin) in requested(&state.registry, query)? {
        let (number, oldest) = plugin
            .listener()
            .ledger()
            .retried_keys(RETRIES_LISTED_MAX - items.len());
        total += number;
        let oldest = oldest.into_iter();
        items.extend(oldest.map(|key| retry_item(&state.registry, &name, key, now)));
    }
    Ok(Json(RetriesView { total, items }))
}

fn retry_item(registry: &StatusRegistry, plugin: &str, key: RetriedKey, now: Moment) -> FailedEventItem {
    let [informer, cluster, resource] = origin(registry, key.source);
    FailedEventItem {
        plugin: plugin.to_owned(),
        source: key.source.0,
        informer,
        cluster,
        resource,
        namespace: key.key.as_ref().map(|key| key.namespace().to_owned()),
        name: key.key.as_ref().map(|key| key.name().to_owned()),
        event: key.event,
        reason: key.reason.as_str(),
        result: key.result,
        attempts: key.attempts,
        error: key.error,
        age_ms: age_ms(now, key.since),
        next_ms: Some(millis(key.next - now)),
    }
}

/// The informer, the cluster and the resource of a source that is not removed.
fn origin(registry: &StatusRegistry, source: SourceId) -> [Option<String>; 3] {
    match registry.catalog().info(source) {
        Some(info) => [Some(info.informer), Some(info.cluster), Some(info.resource)],
        None => [None, None, None],
    }
}
