//! Commands to plugins: pause, resume, requeue.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use informant_cache::listener::RequeueResult;
use informant_cache::{Source, SourceInfo};
use informant_object::Key;
use serde::{Deserialize, Serialize};

use super::loaded;
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
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
    if resumed {
        tracing::info!(target: AUDIT_TARGET, plugin = %name, user = caller.name(), "plugin resumed");
    }
    Ok(Json(Resumed { resumed }))
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
    let listener = plugin.listener();
    let now = state.environment.now();
    let in_cluster = |info: &SourceInfo| request.cluster.as_ref().is_none_or(|wanted| *wanted == info.cluster);
    let catalog = state.registry.catalog();
    let mut sources = catalog.all();
    sources.retain(|source| listener.feed().is_attached(source.id()) && in_cluster(source.info()));
    if let Some(cluster) = request.cluster.as_ref().filter(|_| sources.is_empty()) {
        let message = format!("plugin {name} receives no objects of cluster \"{cluster}\"; see `informant status`");
        return Err(AdminError::new(Code::NotFound, message));
    }
    let wanted: Vec<_> = match &request.key {
        None => {
            let mut letters = listener.ledger().dead_letters();
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
        match listener.control().requeue(source, key.as_ref(), now) {
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
    let Requeued { queued, waiting } = done;
    tracing::info!(target: AUDIT_TARGET, plugin = %name, user = caller.name(), queued, waiting, "events requeued");
    Ok(Json(done))
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
