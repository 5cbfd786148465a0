//! `/api/v1/plugins`, `/api/v1/dead-letters` and `/api/v1/retries`: the status of each plugin, and commands.
//!
//! ```text
//! GET  /api/v1/plugins
//! GET  /api/v1/dead-letters[?plugin=NAME]
//! GET  /api/v1/retries[?plugin=NAME]
//! POST /api/v1/plugins/NAME/pause
//! POST /api/v1/plugins/NAME/resume
//! POST /api/v1/plugins/NAME/requeue   {"key": "namespace/name", "cluster": "name"}, or {} for all dead letters
//! ```
//!
//! A POST has a JSON body, which a web page cannot send to a loopback address without a CORS preflight.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use informant_cache::listener::{DeadLetter, ListenerStats, RequeueResult, RetriedKey, SlowedKey};
use informant_cache::{Catalog, Environment, IndexFeedHandle, Moment, Source, SourceInfo};
use informant_object::{Key, SourceId};
use informant_plugin_host::{KvUsage, Plugin, PluginState, PluginStatus, StuckOn, WritingKey};
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::{AdminError, Code};
use super::sources::{AgedText, millis};
use crate::daemon::{PluginEntry, PluginPhase, StatusRegistry};

/// All plugins, by name.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plugins {
    /// One item per plugin.
    pub items: Vec<PluginView>,
}

/// The status of a plugin.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginView {
    /// Its name in the configuration.
    pub name: String,
    /// The file.
    pub component: String,
    /// The informers whose events it receives.
    pub informers: Vec<String>,
    /// A loaded plugin's state, or `loading`, `refused`, `stopped`.
    pub state: String,
    /// Why, if a reason is known.
    pub because: Option<String>,
    /// Only if loaded.
    #[serde(flatten)]
    pub loaded: Option<LoadedView>,
}

/// The status of a loaded plugin.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadedView {
    /// The name in the component's manifest.
    pub manifest_name: String,
    /// The version in the component's manifest.
    pub manifest_version: String,
    /// Its roles.
    pub roles: String,
    /// The digest of the running component.
    pub sha256: String,
    /// The digest of the previous component.
    pub previous_sha256: Option<String>,
    /// Linear memory of all instances.
    pub memory_bytes: usize,
    /// Live instances.
    pub instances: usize,
    /// Instances rebuilt.
    pub restarts: u64,
    /// Components swapped in.
    pub reloads: u64,
    /// The last attempt to swap in a component or to apply another section.
    pub last_reload: Option<ReloadView>,
    /// Pending events.
    pub pending: usize,
    /// How long ago the frame of the oldest pending event was read: the plugin's lag.
    pub oldest_pending_ms: Option<u64>,
    /// Events being handled.
    pub in_flight: usize,
    /// Objects on which it failed and that are delivered again.
    pub failing: usize,
    /// Those of them that failed first, at most [`RETRIES_SHOWN_MAX`].
    #[serde(default)]
    pub retries: Vec<RetryView>,
    /// Objects with events that wait for the end of `min-interval`.
    #[serde(default)]
    pub spaced: usize,
    /// Whether deliveries wait for `max-rate`.
    #[serde(default)]
    pub rate_held: bool,
    /// Objects for which it will be called again because its handler asked for that.
    #[serde(default)]
    pub requeues: usize,
    /// Those of them whose calls are spaced: the handler asks again and again, although the object does not change.
    #[serde(default)]
    pub slowed: usize,
    /// The first of these, at most [`SLOWED_SHOWN_MAX`].
    #[serde(default)]
    pub slowed_objects: Vec<SlowedView>,
    /// Its deferred writes that wait or are in flight.
    #[serde(default)]
    pub writes_waiting: usize,
    /// The events to which these belong: they are handled, apart from their writes.
    #[serde(default)]
    pub writes_waiting_events: usize,
    /// Keys whose calls are spaced because they write to one object again and again.
    #[serde(default)]
    pub writes_spaced: usize,
    /// The first of these, at most [`SLOWED_SHOWN_MAX`].
    #[serde(default)]
    pub writes_spaced_keys: Vec<WritingKeyView>,
    /// How long none of them is sent, because the API server asked for that.
    #[serde(default)]
    pub writes_paused_ms: Option<u64>,
    /// What its keys take; none if it has not used them since it was loaded.
    #[serde(default)]
    pub kv: Option<KvView>,
    /// Whether it is paused, whatever else its state is.
    #[serde(default)]
    pub paused: bool,
    /// Whether newer events are coalesced with pending ones of the same object.
    pub keyed: bool,
    /// The number of dead letters.
    pub dead_letters: usize,
    /// The most recent one.
    #[serde(default)]
    pub last_dead_letter: Option<DeadLetterView>,
    /// Calls made.
    pub delivered: u64,
    /// Events coalesced with others.
    pub coalesced: u64,
    /// The last error; the plugin may have recovered since.
    pub last_error: Option<AgedText>,
    /// The longest-running call.
    pub stuck_on: Option<StuckView>,
}

/// A key whose calls are spaced because they write to one object again and again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WritingKeyView {
    /// The object of the events.
    pub object: String,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// The object that is written to.
    pub target: String,
    /// How long its next call waits after the last one.
    pub wait_ms: u64,
}

/// What the keys of a plugin take.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct KvView {
    /// How many there are.
    pub keys: usize,
    /// Bytes of keys and values.
    pub bytes: usize,
}

/// An attempt to reload.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReloadView {
    /// `ok` or `refused`.
    pub result: String,
    /// Why it was refused.
    pub error: Option<String>,
    /// How long ago.
    pub age_ms: u64,
}

/// A dead letter.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetterView {
    /// The object.
    pub object: String,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `add`, `update` or `delete`.
    pub event: String,
    /// The plugin's error, or Informant's for it.
    pub error: String,
    /// How long ago it was given up.
    pub age_ms: u64,
}

/// An object on which a plugin failed and that is delivered again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetryView {
    /// The object; null for a sync notification.
    pub object: Option<String>,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `add`, `update`, `delete` or `sync`.
    pub event: String,
    /// Calls that failed since it last succeeded.
    pub attempts: u32,
    /// The error of the last one.
    pub error: String,
    /// How long it has been failing.
    pub age_ms: u64,
    /// When the next call is due; 0 while it is being made or waits for its turn.
    pub next_ms: u64,
}

/// An object for which a handler asks for another call again and again.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SlowedView {
    /// The object.
    pub object: String,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// Calls in a row, for the same state of the object, that asked for another one.
    pub requeues: u32,
    /// When the next call is due.
    pub next_ms: u64,
}

/// A running call.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StuckView {
    /// The object's source.
    pub source: u32,
    /// The object; null for a sync notification.
    pub object: Option<String>,
    /// Its cluster; empty for the only one.
    #[serde(default)]
    pub cluster: String,
    /// `add`, `update`, `delete`, `sync` or `index`.
    pub event: String,
    /// How long it has been running.
    pub for_ms: u64,
}

/// What to redeliver.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequeueRequest {
    /// `namespace/name`, or the name of a cluster-scoped object. Absent: every dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only objects in this cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

/// The result of a requeue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requeued {
    /// Events that were queued for redelivery.
    pub queued: usize,
    /// Objects whose events are pending or being handled already.
    pub waiting: usize,
}

/// The result of a resume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resumed {
    /// Whether it was paused or in quarantine, or calls were spaced.
    pub resumed: bool,
}

/// The result of a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    /// Whether it was not paused before.
    pub paused: bool,
}

/// How many keys under retry the status of a plugin shows.
pub const RETRIES_SHOWN_MAX: usize = 3;

/// How many slowed objects the status of a plugin lists.
pub const SLOWED_SHOWN_MAX: usize = 3;

/// How many keys under retry `/api/v1/retries` lists. Their number is always exact.
pub const RETRIES_LISTED_MAX: usize = 1_000;

pub(super) async fn list(State(state): State<AdminState>) -> Json<Plugins> {
    let entries = state.registry.plugins();
    let catalog = state.registry.catalog();
    let items = entries.iter().map(|entry| item(entry, catalog, &*state.environment));
    Json(Plugins { items: items.collect() })
}

pub(super) async fn resume(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    body: Result<Json<Empty>, JsonRejection>,
) -> Result<Json<Resumed>, AdminError> {
    let Json(Empty {}) = body.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    let resumed = plugin.resume().await;
    if resumed {
        tracing::info!(plugin = %name, "plugin resumed");
    }
    Ok(Json(Resumed { resumed }))
}

pub(super) async fn pause(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    body: Result<Json<Empty>, JsonRejection>,
) -> Result<Json<Paused>, AdminError> {
    let Json(Empty {}) = body.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    let paused = plugin.pause().await;
    if paused {
        tracing::info!(plugin = %name, "plugin paused");
    }
    Ok(Json(Paused { paused }))
}

pub(super) async fn requeue(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    request: Result<Json<RequeueRequest>, JsonRejection>,
) -> Result<Json<Requeued>, AdminError> {
    let Json(request) = request.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    let listener = plugin.listener();
    let now = state.environment.now();
    let in_cluster = |info: &SourceInfo| request.cluster.as_ref().is_none_or(|wanted| *wanted == info.cluster);
    let catalog = state.registry.catalog();
    let mut sources = catalog.all();
    sources.retain(|source| listener.is_attached(source.id()) && in_cluster(source.info()));
    if let Some(cluster) = request.cluster.as_ref().filter(|_| sources.is_empty()) {
        let message = format!("plugin {name} receives no objects of cluster \"{cluster}\"; see `informant status`");
        return Err(AdminError::new(Code::NotFound, message));
    }
    let wanted: Vec<_> = match &request.key {
        None => {
            let mut letters = listener.dead_letters();
            // A removed source has no cluster.
            letters.retain(|letter| {
                catalog
                    .info(letter.source)
                    .as_ref()
                    .map_or(request.cluster.is_none(), in_cluster)
            });
            letters.into_iter().map(|letter| (letter.source, letter.key)).collect()
        }
        Some(text) => {
            let key =
                Key::parse(text).map_err(|error| AdminError::new(Code::Invalid, format!("key \"{text}\": {error}")))?;
            sources.iter().map(|source| (source.id(), key.clone())).collect()
        }
    };
    let mut done = Requeued::default();
    for (source, key) in wanted {
        match listener.requeue(source, key.as_ref(), now) {
            RequeueResult::Queued => done.queued += 1,
            RequeueResult::Waiting => done.waiting += 1,
            RequeueResult::Unknown | RequeueResult::Closed => {}
        }
    }
    if let Some(key) = request.key.filter(|_| done == Requeued::default()) {
        let hint = key_hint(&key, &sources);
        let message = format!("plugin {name} does not watch {key} and has no dead letter for it{hint}");
        return Err(AdminError::new(Code::NotFound, message));
    }
    tracing::info!(plugin = %name, queued = done.queued, waiting = done.waiting, "events requeued");
    Ok(Json(done))
}

/// For a key without a namespace that was not found in `sources`, some of which have namespaced objects.
pub(super) fn key_hint(key: &str, sources: &[Arc<Source>]) -> &'static str {
    let is_namespaced = |source: &Arc<Source>| {
        let snapshot = source.snapshot();
        let first = snapshot.after(None).next();
        source.info().namespace.is_some() || first.is_some_and(|object| !object.namespace().is_empty())
    };
    match !key.contains('/') && sources.iter().any(is_namespaced) {
        true => "; the key of a namespaced object is NAMESPACE/NAME",
        false => "",
    }
}

/// An empty request body.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Empty {}

/// The plugin named `name`, if it is loaded.
pub(super) fn loaded(registry: &StatusRegistry, name: &str) -> Result<Plugin, AdminError> {
    let Some(entry) = registry.plugin(name) else {
        let entries = registry.plugins();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        let help = crate::config::did_you_mean(name, &names, "plugins");
        return Err(AdminError::new(
            Code::UnknownPlugin,
            format!("no plugin named \"{name}\"; {help}"),
        ));
    };
    match entry.phase() {
        PluginPhase::Running(plugin) => Ok(plugin),
        PluginPhase::Loading => Err(AdminError::new(
            Code::NotReady,
            format!("plugin {name} is being loaded"),
        )),
        PluginPhase::Refused { reason } => Err(AdminError::new(
            Code::NotReady,
            format!("plugin {name} is refused: {reason}"),
        )),
        PluginPhase::Stopped => Err(AdminError::new(Code::NotReady, format!("plugin {name} was stopped"))),
    }
}

fn item(entry: &PluginEntry, catalog: &Catalog, environment: &dyn Environment) -> PluginView {
    // A removed source no longer has a cluster.
    let cluster = |source| catalog.info(source).map_or_else(String::new, |info| info.cluster);
    let (state, because, loaded) = match entry.phase() {
        PluginPhase::Loading => ("loading", None, None),
        PluginPhase::Refused { reason } => ("refused", Some(reason.to_string()), None),
        PluginPhase::Stopped => ("stopped", None, None),
        PluginPhase::Running(plugin) => {
            let status = plugin.status();
            let (listener, now) = (plugin.listener(), environment.now());
            let mut loaded = of_plugin(&status, &listener.stats(), now);
            let last = listener.last_dead_letter();
            loaded.last_dead_letter = last.map(|letter| dead_letter(&letter, cluster(letter.source), now));
            let (_, oldest) = listener.retried_keys(RETRIES_SHOWN_MAX);
            loaded.retries = oldest.iter().map(|key| retry(key, cluster(key.source), now)).collect();
            let (_, slowed) = listener.slowed_keys(SLOWED_SHOWN_MAX);
            let slowed = slowed.iter().map(|key| slowed_object(key, cluster(key.source), now));
            loaded.slowed_objects = slowed.collect();
            let (spaced, keys) = plugin.spaced_keys(SLOWED_SHOWN_MAX);
            loaded.writes_spaced = spaced;
            let keys = keys.iter().map(|key| writing_key(key, cluster(key.source)));
            loaded.writes_spaced_keys = keys.collect();
            let stuck_on = status.stuck_on.as_ref();
            loaded.stuck_on = stuck_on.map(|call| stuck(call, cluster(call.source), now));
            (status.state.as_str(), status.because, Some(loaded))
        }
    };
    let section = entry.section();
    let informers = section.informers.iter().map(|(_, informer)| informer.value.clone());
    PluginView {
        name: entry.name.clone(),
        component: section.component.value.display().to_string(),
        informers: informers.collect(),
        state: state.to_owned(),
        because,
        loaded,
    }
}

fn of_plugin(status: &PluginStatus, listener: &ListenerStats, now: Moment) -> LoadedView {
    LoadedView {
        manifest_name: status.manifest.0.clone(),
        manifest_version: status.manifest.1.clone(),
        roles: status.roles.to_string(),
        sha256: status.digest.to_string(),
        previous_sha256: status.previous_digest.map(|digest| digest.to_string()),
        memory_bytes: status.memory_bytes,
        instances: status.instances,
        restarts: status.restarts,
        reloads: status.reloads,
        last_reload: status.last_reload.as_ref().map(|reload| ReloadView {
            result: if reload.refused.is_none() { "ok" } else { "refused" }.to_owned(),
            error: reload.refused.clone(),
            age_ms: age_ms(now, reload.at),
        }),
        pending: listener.pending,
        oldest_pending_ms: listener.oldest_pending.map(|read| age_ms(now, read)),
        in_flight: listener.in_flight,
        failing: listener.failing,
        retries: Vec::new(),
        spaced: listener.spaced,
        rate_held: listener.held_by_rate,
        requeues: listener.requeues,
        slowed: listener.slowed,
        slowed_objects: Vec::new(),
        writes_waiting: status.writes.waiting,
        writes_waiting_events: status.writes.events,
        writes_spaced: 0,
        writes_spaced_keys: Vec::new(),
        writes_paused_ms: status
            .writes
            .paused_until
            .filter(|until| *until > now)
            .map(|until| u64::try_from((until - now).as_millis()).unwrap_or(u64::MAX)),
        kv: status.kv.map(|KvUsage { keys, bytes }| KvView { keys, bytes }),
        paused: status.paused,
        keyed: listener.keyed,
        dead_letters: listener.dead_letters,
        last_dead_letter: None,
        delivered: listener.counters.delivered,
        coalesced: listener.counters.coalesced,
        last_error: status.last_error.as_ref().map(|(when, message)| AgedText {
            message: message.clone(),
            age_ms: age_ms(now, *when),
        }),
        stuck_on: None,
    }
}

fn writing_key(key: &WritingKey, cluster: String) -> WritingKeyView {
    WritingKeyView {
        object: key.key.to_string(),
        cluster,
        target: key.target.clone(),
        wait_ms: u64::try_from(key.wait.as_millis()).unwrap_or(u64::MAX),
    }
}

fn dead_letter(letter: &DeadLetter, cluster: String, now: Moment) -> DeadLetterView {
    DeadLetterView {
        object: letter.key.to_string(),
        cluster,
        event: letter.event.to_owned(),
        error: letter.error.clone(),
        age_ms: millis(letter.age(now)),
    }
}

fn retry(key: &RetriedKey, cluster: String, now: Moment) -> RetryView {
    RetryView {
        object: key.key.as_ref().map(ToString::to_string),
        cluster,
        event: key.event.to_owned(),
        attempts: key.attempts,
        error: key.error.clone(),
        age_ms: age_ms(now, key.since),
        next_ms: millis(key.next - now),
    }
}

fn slowed_object(key: &SlowedKey, cluster: String, now: Moment) -> SlowedView {
    SlowedView {
        object: key.key.to_string(),
        cluster,
        requeues: key.requeues,
        next_ms: millis(key.next - now),
    }
}

fn stuck(call: &StuckOn, cluster: String, now: Moment) -> StuckView {
    StuckView {
        source: call.source.0,
        object: call.key.as_ref().map(ToString::to_string),
        cluster,
        event: call.event.to_owned(),
        for_ms: age_ms(now, call.since),
    }
}

/// Which plugin; none for all.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PluginQuery {
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

/// An event on which a plugin failed.
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
pub(super) struct DeadLettersView {
    items: Vec<FailedEventItem>,
}

/// Dead letters, oldest first.
pub(super) async fn dead_letters(
    State(state): State<AdminState>,
    query: Result<Query<PluginQuery>, QueryRejection>,
) -> Result<Json<DeadLettersView>, AdminError> {
    let now = state.environment.now();
    let mut items = Vec::new();
    for (name, plugin) in requested(&state.registry, query)? {
        let letters = plugin.listener().dead_letters().into_iter();
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
pub(super) struct RetriesView {
    /// How many there are, listed or not.
    total: usize,
    /// At most [`RETRIES_LISTED_MAX`].
    items: Vec<FailedEventItem>,
}

/// Keys under retry: those of each plugin that failed first, oldest first.
pub(super) async fn retries(
    State(state): State<AdminState>,
    query: Result<Query<PluginQuery>, QueryRejection>,
) -> Result<Json<RetriesView>, AdminError> {
    let now = state.environment.now();
    let (mut total, mut items) = (0, Vec::new());
    for (name, plugin) in requested(&state.registry, query)? {
        let (number, oldest) = plugin.listener().retried_keys(RETRIES_LISTED_MAX - items.len());
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

/// How long ago `when` was.
pub(super) fn age_ms(now: Moment, when: Moment) -> u64 {
    millis(now - when)
}

/// The plugin that computes an index of an informer, if it is in quarantine.
pub(super) fn quarantined_behind(registry: &StatusRegistry, informer: &str, index: &str) -> Option<String> {
    let entries = registry.plugins();
    let behind = entries.iter().find(|entry| {
        let PluginPhase::Running(plugin) = entry.phase() else {
            return false;
        };
        let computes = |feed: IndexFeedHandle| feed.names().iter().any(|name| **name == *index);
        entry.section().informers.iter().any(|(_, name)| name.value == informer)
            && plugin.status().state == PluginState::Quarantined
            && plugin.index_feed().is_some_and(computes)
    });
    behind.map(|entry| entry.name.clone())
}

/// A plugin that is being loaded and may compute an index of an informer.
pub(super) fn loading_behind(registry: &StatusRegistry, informer: &str) -> Option<String> {
    let entries = registry.plugins();
    let loading = entries.iter().find(|entry| {
        let names_it = entry.section().informers.iter().any(|(_, name)| name.value == informer);
        names_it && matches!(entry.phase(), PluginPhase::Loading)
    });
    loading.map(|entry| entry.name.clone())
}

/// Whether a loaded plugin is healthy, and its status line.
pub(super) fn health(plugin: &Plugin) -> (bool, String) {
    let status = plugin.status();
    // A paused plugin does what was asked of it.
    let good = matches!(
        status.state,
        PluginState::Loaded | PluginState::Running | PluginState::Paused
    );
    let because = status.because.map_or(String::new(), |because| format!(": {because}"));
    (
        good,
        format!(
            "{}{because}, {} pending, {} dead letters",
            status.state, status.pending, status.dead_letters
        ),
    )
}
