//! Commands to plugins: pause, resume, restart, requeue.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use informant_cache::listener::RequeueResult;
use informant_cache::{Source, SourceInfo};
use informant_object::{Key, SourceId};
use informant_plugin_host::Plugin;
use serde::{Deserialize, Serialize};

use super::loaded;
use super::scope::{ObjectScope, check_one_resource, handles};
use crate::admin::AdminState;
use crate::admin::access::Caller;
use crate::admin::error::{AdminError, Code};
use crate::logging::AUDIT_TARGET;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequeueRequest {
    /// `namespace/name`, or the name of a cluster-scoped object. Absent: every dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Only objects of these clusters: names, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Only objects of this resource. Required if several objects have the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl RequeueRequest {
    fn scope(&self) -> ObjectScope<'_> {
        ObjectScope {
            clusters: self.cluster.as_deref(),
            resource: self.resource.as_deref(),
            namespace: self.namespace.as_deref(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Requeued {
    /// Events that were queued for redelivery.
    pub queued: usize,
    /// Objects whose events are pending or being handled already.
    pub waiting: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Resumed {
    /// Whether it was paused or in quarantine, or calls were spaced.
    pub resumed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Paused {
    /// Whether it was not paused before.
    pub paused: bool,
}

pub(in crate::admin) async fn resume(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    body: Result<Json<Empty>, JsonRejection>,
) -> Result<Json<Resumed>, AdminError> {
    let Json(Empty {}) = body.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    let resumed = plugin.resume().await;
    state.registry.keep_pause(&plugin, &*state.environment).await;
    if resumed {
        tracing::info!(target: AUDIT_TARGET, plugin = %name, user = caller.name(), "plugin resumed");
    }
    Ok(Json(Resumed { resumed }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Restarted {
    /// Whether it gets its new instance only when it is resumed.
    pub paused: bool,
}

pub(in crate::admin) async fn restart(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    body: Result<Json<Empty>, JsonRejection>,
) -> Result<Json<Restarted>, AdminError> {
    let Json(Empty {}) = body.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    plugin.restart().await;
    tracing::info!(target: AUDIT_TARGET, plugin = %name, user = caller.name(), "plugin restarted");
    let paused = plugin.status().paused;
    Ok(Json(Restarted { paused }))
}

pub(in crate::admin) async fn pause(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    body: Result<Json<Empty>, JsonRejection>,
) -> Result<Json<Paused>, AdminError> {
    let Json(Empty {}) = body.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    let paused = plugin.pause().await;
    state.registry.keep_pause(&plugin, &*state.environment).await;
    if paused {
        tracing::info!(target: AUDIT_TARGET, plugin = %name, user = caller.name(), "plugin paused");
    }
    Ok(Json(Paused { paused }))
}

pub(in crate::admin) async fn requeue(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Result<Json<RequeueRequest>, JsonRejection>,
) -> Result<Json<Requeued>, AdminError> {
    let Json(request) = request.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    let scope = request.scope();
    let mut sources = state.registry.catalog().all();
    sources.retain(|source| plugin.listener().feed().is_attached(source.id()) && scope.may_be_in(source.info()));
    if sources.is_empty() && !scope.is_everything() {
        let message = format!(
            "plugin {name} receives no objects{}; see `informant status`",
            scope.named()
        );
        return Err(AdminError::new(Code::NotFound, message));
    }
    let wanted = match &request.key {
        None => letters_in(&state, &plugin, &scope),
        Some(key) => objects_of(&plugin, key, &sources)?,
    };
    let (listener, now) = (plugin.listener(), state.environment.now());
    let mut done = Requeued::default();
    for (source, key) in wanted.iter().filter(|(_, key)| scope.has_key(key.as_ref())) {
        match listener.control().requeue(*source, key.as_ref(), now) {
            RequeueResult::Queued => done.queued += 1,
            RequeueResult::Waiting => done.waiting += 1,
            RequeueResult::Unknown | RequeueResult::Closed => {}
        }
    }
    if let Some(key) = request.key.as_ref().filter(|_| done == Requeued::default()) {
        let hint = key_hint(key, &sources);
        let message = format!("plugin {name} does not watch {key} and has no dead letter for it{hint}");
        return Err(AdminError::new(Code::NotFound, message));
    }
    let Requeued { queued, waiting } = done;
    tracing::info!(target: AUDIT_TARGET, plugin = %name, user = caller.name(), queued, waiting, "events requeued");
    Ok(Json(done))
}

/// The objects of the dead letters in `scope`, oldest first.
fn letters_in(state: &AdminState, plugin: &Plugin, scope: &ObjectScope<'_>) -> Vec<(SourceId, Key)> {
    let catalog = state.registry.catalog();
    let mut letters = plugin.listener().ledger().dead_letters();
    // A removed source has no cluster and no resource.
    let is_in = |info: Option<SourceInfo>| info.map_or(scope.is_everything(), |info| scope.may_be_in(&info));
    letters.retain(|letter| is_in(catalog.info(letter.source)));
    letters.into_iter().map(|letter| (letter.source, letter.key)).collect()
}

/// `text` as a key in each of `sources`.
///
/// # Errors
/// If it is not a key; `ambiguous` if objects of several resources that the plugin handles, or failed on, have it.
pub(in crate::admin) fn objects_of(
    plugin: &Plugin,
    text: &str,
    sources: &[Arc<Source>],
) -> Result<Vec<(SourceId, Key)>, AdminError> {
    let key = Key::parse(text).map_err(|error| AdminError::new(Code::Invalid, format!("key \"{text}\": {error}")))?;
    let letters = plugin.listener().ledger().dead_letters();
    let holds = |source: &&Source| {
        let snapshot = source.snapshot();
        let object = snapshot.get(key.as_ref());
        object.is_some_and(|object| handles(plugin, source.info(), object))
            || letters
                .iter()
                .any(|letter| letter.source == source.id() && letter.key == key)
    };
    check_one_resource(&key, sources.iter().map(|source| &**source).filter(holds))?;
    Ok(sources.iter().map(|source| (source.id(), key.clone())).collect())
}

/// For a key without a namespace that was not found in `sources`, some of which have namespaced objects.
pub(in crate::admin) fn key_hint(key: &str, sources: &[Arc<Source>]) -> &'static str {
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
pub(in crate::admin) struct Empty {}
