//! `GET /api/v1/calls/RESOURCE?name=NAME`: the calls of handlers about one object that failed or did something.
//!
//! A call that succeeded and did nothing that others may notice is not recorded: it would cost each event something.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use informant_plugin_host::{CallCause, CauseSubject};
use informant_spec::GroupVersionResource;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::access::{Caller, Right};
use super::error::AdminError;
use super::one_object::{OneObject, OneObjectQuery};
use crate::effect_log::{EffectRecord, FailedCallRecord};

/// Calls of one answer: 200, the newest.
const CALLS_MAX: usize = 200;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct CallsView {
    /// Oldest first.
    pub items: Vec<CallView>,
}

/// A call of a handler.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallView {
    /// When it failed, or when the last thing that it did had ended.
    pub time: String,
    pub plugin: String,
    /// `add`, `update` or `delete`.
    pub event: String,
    /// Why it was made; empty if it failed and the plugin has no rights to act.
    pub reason: String,
    /// 0 for the first one for the event.
    pub attempt: u32,
    /// `ok`, or how it failed: `retryable`, `requeued`, `permanent`, `trap` or `timeout`.
    pub outcome: String,
    /// Null also for callers who may not list dead letters.
    pub error: Option<String>,
    /// What it did that others may notice.
    pub effects: usize,
    /// The version of the plugin; empty as the reason is.
    pub version: String,
}

pub(super) async fn calls(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(resource): Path<String>,
    query: Result<Query<OneObjectQuery>, QueryRejection>,
) -> Result<Json<CallsView>, AdminError> {
    let (object, _) = OneObject::of(&state.registry, &resource, query)?;
    let log = state.registry.effects();
    let failed = log.failed(CALLS_MAX, |record| is_failed(&object, record));
    let effects = log
        .select(None, (0, CALLS_MAX), |record| is_cause(&object, record))
        .records;
    // Of sources that are gone, too.
    let of_failed = failed.iter().filter_map(|record| place_of_failed(record));
    let of_effects = effects.iter().filter_map(|record| place_of_cause(record));
    object.authorize(&state, &caller, of_failed.chain(of_effects)).await?;
    // An error may quote other objects than this one.
    let errors = Right::own("list", "deadletters", "");
    let shows_errors = state.authorize(&caller, &errors).await.is_ok();
    Ok(Json(CallsView {
        items: merged(&failed, &effects, shows_errors),
    }))
}

/// One entry for each call, also for one that had effects and then failed.
fn merged(failed: &[Arc<FailedCallRecord>], effects: &[Arc<EffectRecord>], shows_errors: bool) -> Vec<CallView> {
    let mut calls: Vec<(Timestamp, Option<&Arc<CallCause>>, CallView)> = failed
        .iter()
        .map(|record| (record.at, record.call.cause.as_ref(), failed_view(record, shows_errors)))
        .collect();
    for record in effects {
        let Some(cause) = &record.cause else { continue };
        let is_same = |known: &Option<&Arc<CallCause>>| known.is_some_and(|known| Arc::ptr_eq(known, cause));
        match calls.iter_mut().rev().find(|(_, known, _)| is_same(known)) {
            Some((at, _, call)) => {
                call.effects += 1;
                *at = record.at.max(*at);
            }
            None => calls.push((record.at, Some(cause), acting_view(record, cause))),
        }
    }
    calls.sort_by_key(|(at, ..)| *at);
    let timed = calls.into_iter().map(|(at, _, call)| CallView {
        time: format!("{at:.3}"),
        ..call
    });
    timed.collect()
}

fn is_failed(object: &OneObject, record: &FailedCallRecord) -> bool {
    let call = &record.call;
    let of_object = call.source.as_ref().zip(call.key.as_ref());
    of_object.is_some_and(|(source, key)| object.is(&source.cluster, &source.resource, key.namespace(), key.name()))
}

fn is_cause(object: &OneObject, record: &EffectRecord) -> bool {
    let Some(cause) = &record.cause else { return false };
    let CauseSubject::Object(subject) = &cause.subject else {
        return false;
    };
    object.is(&subject.cluster, &subject.resource, &subject.namespace, &subject.name)
}

/// The cluster and the resource of the object that a call was about.
fn place_of_failed(record: &FailedCallRecord) -> Option<(String, GroupVersionResource)> {
    let source = record.call.source.as_ref()?;
    Some((source.cluster.clone(), GroupVersionResource::parse(&source.resource)?))
}

fn place_of_cause(record: &EffectRecord) -> Option<(String, GroupVersionResource)> {
    match &record.cause.as_ref()?.subject {
        CauseSubject::Object(subject) => {
            Some((subject.cluster.clone(), GroupVersionResource::parse(&subject.resource)?))
        }
        CauseSubject::Source(_) | CauseSubject::Timer(_) => None,
    }
}

fn failed_view(record: &FailedCallRecord, shows_error: bool) -> CallView {
    let cause = record.call.cause.as_deref();
    CallView {
        plugin: record.plugin.to_string(),
        event: record.call.event.to_owned(),
        reason: cause.map_or_else(String::new, |cause| cause.reason.to_owned()),
        attempt: record.call.attempt,
        outcome: record.call.result.to_owned(),
        error: shows_error.then(|| record.call.error.clone()),
        version: cause.map_or_else(String::new, |cause| cause.version.clone()),
        ..CallView::default()
    }
}

fn acting_view(record: &EffectRecord, cause: &CallCause) -> CallView {
    CallView {
        plugin: record.plugin.to_string(),
        event: cause.event.to_owned(),
        reason: cause.reason.to_owned(),
        attempt: cause.attempt,
        outcome: "ok".to_owned(),
        error: None,
        effects: 1,
        version: cause.version.clone(),
        ..CallView::default()
    }
}

#[cfg(test)]
mod tests {
    use informant_plugin_host::{Effect, EffectKind, FailedCall};

    use super::*;
    use crate::effect_log::EffectLog;

    fn cause(attempt: u32) -> Option<Arc<CallCause>> {
        Some(Arc::new(CallCause {
            digest: informant_spec::Digest::of(b"writer"),
            version: "0.2.0".to_owned(),
            event: "update",
            source: informant_object::SourceId(0),
            subject: CauseSubject::Timer("any".to_owned()),
            reason: "watch",
            attempt,
            related: None,
        }))
    }

    #[test]
    fn call_that_acted_and_failed_is_listed_once() {
        let log = EffectLog::default();
        let recorder = log.recorder(None);
        let [first, second] = [cause(0), cause(1)];
        let effect = |cause: &Option<Arc<CallCause>>| Effect {
            cause: cause.clone(),
            ..Effect::new(EffectKind::Kube, "patch", "v1/pods default/web".to_owned())
        };
        recorder.had_effect("writer", &effect(&first), false);
        recorder.failed(
            "writer",
            &FailedCall {
                source: None,
                key: None,
                event: "update",
                attempt: 0,
                result: "retryable",
                error: "no answer".to_owned(),
                cause: first,
            },
        );
        recorder.had_effect("writer", &effect(&second), false);
        recorder.had_effect("writer", &effect(&second), false);
        let effects = log.select(None, (0, CALLS_MAX), |_| true).records;
        let calls = merged(&log.failed(CALLS_MAX, |_| true), &effects, true);
        let calls: Vec<_> = calls
            .iter()
            .map(|call| (&*call.outcome, &*call.reason, call.attempt, call.effects))
            .collect();
        assert_eq!(calls, [("retryable", "watch", 0, 1), ("ok", "watch", 1, 2)]);
    }
}
