//! The events on which plugins failed: dead letters, and those under retry.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use informant_cache::Moment;
use informant_cache::listener::{DeadLetter, RetriedKey};
use informant_object::{KeyRef, SourceId};
use informant_plugin_host::Plugin;
use serde::{Deserialize, Serialize};

use super::scope::ObjectScope;
use super::{age_ms, known};
use crate::admin::AdminState;
use crate::admin::error::{AdminError, Code};
use crate::admin::sources::millis;
use crate::daemon::{PluginPhase, StatusRegistry};

/// How many keys under retry `/api/v1/retries` lists. Their number is always exact.
pub(crate) const RETRIES_LISTED_MAX: usize = 1_000;

/// Which plugin and which objects; none for all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct FailuresQuery {
    plugin: Option<String>,
    /// Names, separated by commas.
    cluster: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
}

impl FailuresQuery {
    fn parse(query: Result<Query<Self>, QueryRejection>) -> Result<Self, AdminError> {
        let Query(query) = query.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
        Ok(query)
    }

    fn scope(&self) -> ObjectScope<'_> {
        ObjectScope {
            clusters: self.cluster.as_deref(),
            resource: self.resource.as_deref(),
            namespace: self.namespace.as_deref(),
        }
    }

    /// Whether a failure is requested. What is not about one object is, unless a namespace is.
    ///
    /// Sources are looked up now, so that the function can be called under a lock.
    fn selection(&self, registry: &StatusRegistry) -> impl Fn(SourceId, Option<KeyRef<'_>>) -> bool {
        let scope = self.scope();
        let sources = registry.catalog().all().into_iter();
        let sources: BTreeMap<SourceId, bool> = sources
            .map(|source| (source.id(), scope.may_be_in(source.info())))
            .collect();
        move |source, key| {
            // A removed source has no cluster and no resource.
            let is_requested = sources.get(&source).copied().unwrap_or(scope.is_everything());
            is_requested && key.map_or(scope.namespace.is_none(), |key| scope.has_key(key))
        }
    }
}

/// The loaded ones among the requested plugins, with their names.
fn requested(registry: &StatusRegistry, query: &FailuresQuery) -> Result<Vec<(String, Plugin)>, AdminError> {
    if let Some(name) = &query.plugin {
        known(registry, name)?;
    }
    let mut entries = registry.plugins();
    entries.retain(|entry| query.plugin.as_ref().is_none_or(|plugin| *plugin == entry.name));
    let loaded = entries.iter().filter_map(|entry| match entry.phase() {
        PluginPhase::Running(plugin) => Some((entry.name.clone(), plugin)),
        _ => None,
    });
    Ok(loaded.collect())
}

/// An event on which a plugin failed: a dead letter, or one under retry.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FailedEventView {
    pub plugin: String,
    pub source: u32,
    /// Null, like the next two, if the source is gone.
    pub informer: Option<String>,
    /// Empty for the only one.
    pub cluster: Option<String>,
    pub resource: Option<String>,
    /// Null for a sync notification, like the name.
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub event: String,
    pub reason: String,
    pub result: String,
    pub attempts: u32,
    pub error: String,
    pub age_ms: u64,
    /// When the next call is due. Dead letters have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_ms: Option<u64>,
    /// The replica that has it; absent if only one was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DeadLettersView {
    pub items: Vec<FailedEventView>,
}

/// Dead letters, oldest first.
pub(in crate::admin) async fn dead_letters(
    State(state): State<AdminState>,
    query: Result<Query<FailuresQuery>, QueryRejection>,
) -> Result<Json<DeadLettersView>, AdminError> {
    let query = FailuresQuery::parse(query)?;
    let (now, selects) = (state.environment.now(), query.selection(&state.registry));
    let mut items = Vec::new();
    for (name, plugin) in requested(&state.registry, &query)? {
        let letters = plugin.listener().ledger().dead_letters().into_iter();
        let letters = letters.filter(|letter| selects(letter.source, Some(letter.key.as_ref())));
        items.extend(letters.map(|letter| dead_letter_item(&state.registry, &name, letter, now)));
    }
    Ok(Json(DeadLettersView { items }))
}

fn dead_letter_item(registry: &StatusRegistry, plugin: &str, letter: DeadLetter, now: Moment) -> FailedEventView {
    let [informer, cluster, resource] = origin(registry, letter.source);
    FailedEventView {
        plugin: plugin.to_owned(),
        source: letter.source.0,
        informer,
        cluster,
        resource,
        namespace: Some(letter.key.namespace().to_owned()),
        name: Some(letter.key.name().to_owned()),
        event: letter.event.to_owned(),
        reason: letter.reason.as_str().to_owned(),
        result: letter.result.to_owned(),
        attempts: letter.attempts,
        age_ms: millis(letter.age(now)),
        error: letter.error,
        next_ms: None,
        replica: None,
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RetriesView {
    /// How many there are, listed or not.
    pub total: usize,
    /// At most [`RETRIES_LISTED_MAX`].
    pub items: Vec<FailedEventView>,
}

/// Keys under retry: those of each plugin that failed first, oldest first.
pub(in crate::admin) async fn retries(
    State(state): State<AdminState>,
    query: Result<Query<FailuresQuery>, QueryRejection>,
) -> Result<Json<RetriesView>, AdminError> {
    let query = FailuresQuery::parse(query)?;
    let (now, selects) = (state.environment.now(), query.selection(&state.registry));
    let (mut total, mut items) = (0, Vec::new());
    for (name, plugin) in requested(&state.registry, &query)? {
        let left = RETRIES_LISTED_MAX - items.len();
        let (number, oldest) = plugin.listener().ledger().retried_keys_of(left, &selects);
        total += number;
        items.extend(
            oldest
                .into_iter()
                .map(|key| retry_item(&state.registry, &name, key, now)),
        );
    }
    Ok(Json(RetriesView { total, items }))
}

fn retry_item(registry: &StatusRegistry, plugin: &str, key: RetriedKey, now: Moment) -> FailedEventView {
    let [informer, cluster, resource] = origin(registry, key.source);
    FailedEventView {
        plugin: plugin.to_owned(),
        source: key.source.0,
        informer,
        cluster,
        resource,
        namespace: key.key.as_ref().map(|key| key.namespace().to_owned()),
        name: key.key.as_ref().map(|key| key.name().to_owned()),
        event: key.event.to_owned(),
        reason: key.reason.as_str().to_owned(),
        result: key.result.to_owned(),
        attempts: key.attempts,
        error: key.error,
        age_ms: age_ms(now, key.since),
        next_ms: Some(millis(key.next - now)),
        replica: None,
    }
}

/// The informer, the cluster and the resource of a source that is not removed.
fn origin(registry: &StatusRegistry, source: SourceId) -> [Option<String>; 3] {
    match registry.catalog().info(source) {
        Some(info) => [Some(info.informer), Some(info.cluster), Some(info.resource)],
        None => [None, None, None],
    }
}
