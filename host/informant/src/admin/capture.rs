//! `POST /api/v1/plugins/NAME/capture`: calls a plugin's handler for one object, and answers with a scenario of that
//! call.
//!
//! ```text
//! key ──▶ source ──▶ Plugin::capture, then requeue (a dead letter) or trigger ──▶ Captured ──▶ scenario, redacted
//! ```
//!
//! Nothing is recorded before the request, and nothing after its answer. What leaves the daemon has passed [`redact`].

mod redact;
mod scenario;
mod sections;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use informant_cache::Source;
use informant_cache::listener::RequeueResult;
use informant_object::{Key, SourceId};
use informant_plugin_host::{Capture, CaptureError, Captured, Plugin, PluginState, Record, Role};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::scenario::Builder;
use self::sections::Sections;
use super::AdminState;
use super::access::Caller;
use super::error::{AdminError, Code};
use super::plugins::commands::{key_hint, objects_of};
use super::plugins::scope::{ObjectScope, handles};
use super::plugins::{known, loaded, without_object};
use super::secrets;
use crate::logging::AUDIT_TARGET;

/// How long a capture waits for the end of the call: 25 s, less than clients wait for a response.
pub(crate) const CAPTURE_WAIT_MAX: Duration = Duration::from_secs(25);

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CaptureRequest {
    /// The object `namespace/name`, or the name of a cluster-scoped object.
    pub key: String,
    /// Required if objects of several resources have the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Required if objects of several clusters have the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
}

/// A captured call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CapturedView {
    /// The digest of the component or script that was called.
    pub digest: String,
    /// The contract version of the daemon.
    pub contract: String,
    /// The scenario that replays the call.
    pub scenario: Value,
    /// Where values were redacted.
    pub redacted: Vec<String>,
    /// What the scenario does not replay as it was.
    pub inexact: Vec<String>,
}

pub(super) async fn capture(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    request: Result<Json<CaptureRequest>, JsonRejection>,
) -> Result<Json<CapturedView>, AdminError> {
    let Json(request) = request.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let plugin = loaded(&state.registry, &name)?;
    check_is_called(&plugin)?;
    let (source, key) = target(&state, &plugin, &request)?;
    refuse_secret(&source, &key)?;
    let sections = Sections::read(&state.registry, &*known(&state.registry, &name)?).await?;
    let (resource, user) = (&source.info().resource, caller.name());
    let recording = record(&state, &plugin, source.id(), &key)?;
    // Logged before it has ended: the call is made, whether somebody waits for it or not.
    tracing::info!(target: AUDIT_TARGET, plugin = %name, user, resource, key = %key, "call captured");
    let captured = ended(&state, &name, &key, recording).await?;
    refuse_secrets(&state, &name, &captured)?;
    let began = began(&state, &captured);
    let built = Builder::new(state.registry.catalog(), &source, sections).build(&captured, began);
    Ok(Json(CapturedView {
        digest: captured.digest.to_string(),
        contract: crate::CONTRACT.to_owned(),
        scenario: built.scenario,
        redacted: built.redacted,
        inexact: built.inexact,
    }))
}

/// # Errors
/// Why the plugin's handler would not be called.
fn check_is_called(plugin: &Plugin) -> Result<(), AdminError> {
    let name = plugin.name();
    if !plugin.roles().has(Role::EventHandler) {
        let message = format!("plugin {name} has no event handler to call");
        return Err(AdminError::new(Code::Invalid, message));
    }
    let status = plugin.status();
    if status.paused || status.state == PluginState::Quarantined {
        let state = match status.paused {
            true => "paused",
            false => "quarantined",
        };
        let message =
            format!("plugin {name} is {state}, so it is not called: `informant plugin resume {name}` ends that");
        return Err(AdminError::new(Code::NotReady, message));
    }
    Ok(())
}

/// The only object that a request selects.
fn target(state: &AdminState, plugin: &Plugin, request: &CaptureRequest) -> Result<(Arc<Source>, Key), AdminError> {
    let (name, key) = (plugin.name(), &request.key);
    let scope = ObjectScope {
        clusters: request.cluster.as_deref(),
        resource: request.resource.as_deref(),
        namespace: None,
    };
    let mut sources = state.registry.catalog().all();
    sources.retain(|source| plugin.listener().feed().is_attached(source.id()) && scope.may_be_in(source.info()));
    let letters = plugin.listener().ledger().dead_letters();
    let objects = objects_of(plugin, key, &sources)?;
    let is_there = |(source, (id, key)): &(&Arc<Source>, (SourceId, Key))| {
        let snapshot = source.snapshot();
        let object = snapshot.get(key.as_ref());
        object.is_some_and(|object| handles(plugin, source.info(), object))
            || letters.iter().any(|letter| letter.source == *id && letter.key == *key)
    };
    let found: Vec<_> = sources.iter().zip(objects).filter(is_there).collect();
    match &found[..] {
        [(source, (_, key))] => Ok((Arc::clone(source), key.clone())),
        [] => {
            let (named, hint) = (scope.named(), key_hint(key, &sources));
            let message = format!("plugin {name} handles no object {key}{named} and has no dead letter for it{hint}");
            let not_found = AdminError::new(Code::NotFound, message);
            Err(without_object(&state.registry, name, !sources.is_empty(), not_found))
        }
        [_, _, ..] => {
            let clusters: Vec<&str> = found.iter().map(|(source, _)| &*source.info().cluster).collect();
            let message = format!(
                "objects of several clusters have the key {key}: choose one with `cluster` (--cluster): {}",
                clusters.join(", ")
            );
            Err(AdminError::new(Code::Ambiguous, message))
        }
    }
}

/// # Errors
/// If the object is a Secret: what a handler is given of it would be in the scenario.
fn refuse_secret(source: &Source, key: &Key) -> Result<(), AdminError> {
    if !secrets::are_secrets(source.info()) {
        return Ok(());
    }
    let message = format!(
        "{key} is a Secret, and Secrets are never captured: write a scenario by hand, with made-up values \
         (docs/reference/scenarios.md)"
    );
    Err(AdminError::new(Code::Invalid, message))
}

/// # Errors
/// If the call has read or written a Secret. Its values may be anywhere in what the call did: in a line, a request, an
/// object that it wrote.
fn refuse_secrets(state: &AdminState, plugin: &str, captured: &Captured) -> Result<(), AdminError> {
    let catalog = state.registry.catalog();
    let has_secret = captured.records.iter().any(|record| match record {
        Record::Object(source, _) => {
            let info = catalog.info(*source);
            info.is_none_or(|info| secrets::are_secrets(&info))
        }
        Record::Kube(request, _) => secrets::is_of_secrets(&request.resource),
        _ => false,
    });
    if !has_secret {
        return Ok(());
    }
    let message = format!(
        "the call of plugin {plugin} has been made, but it used a Secret, and Secrets are never captured: write a \
         scenario by hand, with made-up values (docs/reference/scenarios.md)"
    );
    Err(AdminError::new(Code::Invalid, message))
}

/// Has the handler called, and its call recorded.
fn record(state: &AdminState, plugin: &Plugin, source: SourceId, key: &Key) -> Result<Capture, AdminError> {
    let capture = plugin
        .capture(source, key.clone())
        .map_err(|error| refused(plugin.name(), error))?;
    let (listener, now) = (plugin.listener(), state.environment.now());
    let letters = listener.ledger().dead_letters();
    let is_dead = letters
        .iter()
        .any(|letter| letter.source == source && letter.key == *key);
    // Only a requeue brings a delete back.
    let requeued = is_dead.then(|| listener.control().requeue(source, key.as_ref(), now));
    if !matches!(requeued, Some(RequeueResult::Queued | RequeueResult::Waiting)) {
        listener.control().trigger(source, std::slice::from_ref(key), now);
    }
    Ok(capture)
}

/// Waits for the end of the event.
async fn ended(state: &AdminState, name: &str, key: &Key, mut capture: Capture) -> Result<Captured, AdminError> {
    tokio::select! {
        biased;
        captured = capture.finished() => captured.map_err(|error| refused(name, error)),
        () = state.environment.sleep(CAPTURE_WAIT_MAX) => {
            let message = format!(
                "the call of plugin {name} for {key} has not ended within {} s: `informant status` says what it waits for, \
                 `informant plugin retries {name}` when an object under retry is due",
                CAPTURE_WAIT_MAX.as_secs()
            );
            Err(AdminError::new(Code::Timeout, message))
        }
    }
}

fn refused(plugin: &str, error: CaptureError) -> AdminError {
    let (code, help) = match error {
        CaptureError::Busy => (Code::Busy, "try again when it has ended"),
        CaptureError::TooLarge => (
            Code::Invalid,
            "capture an object for which it reads less, or write the scenario by hand",
        ),
        CaptureError::Stopped => (Code::NotReady, "try again when it runs"),
    };
    AdminError::new(code, format!("plugin {plugin}: {error}; {help}"))
}

/// What the plugin has first read from its clock, or else when the call began.
fn began(state: &AdminState, captured: &Captured) -> Timestamp {
    let now = Timestamp::now();
    let of_guest = captured.clock.and_then(|clock| SignedDuration::try_from(clock).ok());
    let of_guest = of_guest.and_then(|clock| Timestamp::from_duration(clock).ok());
    let ago = SignedDuration::try_from(state.environment.now() - captured.began).ok();
    let began = || now.checked_sub(ago?).ok();
    of_guest.or_else(began).unwrap_or(now)
}
