//! `GET /api/v1/calls/RESOURCE?name=NAME`: the calls of handlers about one object that failed or did something.
//!
//! A call that succeeded and did nothing that others may notice is not recorded: it would cost each event something.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use informant_plugin_host::{CallCause, CauseSubject};
use informant_spec::GroupVersionResource;
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
    /// Why it was made; empty if it failed.
    pub reason: String,
    /// 0 for the first one for the event.
    pub attempt: u32,
    /// `ok`, or how it failed: `retryable`, `requeued`, `permanent`, `trap` or `timeout`.
    pub outcome: String,
    /// Null also for callers who may not list dead letters.
    pub error: Option<String>,
    /// What it did that others may notice.
    pub effects: usize,
    /// The version of the plugin; empty if it failed.
    pub version: String,
}

pub(super) async fn calls(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(resource): Path<String>,
    query: Result<Query<OneObjectQuery>, QueryRejection>,
) -> Result<Json<CallsView>, AdminError> {
    let (object, _) = OneObject::of(&resource, query)?;
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
    let of_failed = |record: &FailedCallRecord| (record.at, failed_view(record, shows_errors));
    let mut calls: Vec<_> = failed.iter().map(|record| of_failed(record)).collect();
    let mut acting: Vec<(Arc<CallCause>, CallView)> = Vec::new();
    for record in &effects {
        let Some(cause) = &record.cause else { continue };
        let time = format!("{:.3}", record.at);
        match acting.iter_mut().rev().find(|(known, _)| Arc::ptr_eq(known, cause)) {
            Some((_, call)) => {
                call.effects += 1;
                call.time = time;
            }
            None => acting.push((Arc::clone(cause), acting_view(record, cause, time))),
        }
    }
    // A call whose deferred write failed is there as a failed one.
    let is_failed = |call: &CallView| {
        let same = |(_, failed): &(jiff::Timestamp, CallView)| {
            (&failed.plugin, &failed.event, failed.attempt, &failed.time)
                == (&call.plugin, &call.event, call.attempt, &call.time)
        };
        calls.iter().any(same)
    };
    let acting: Vec<CallView> = acting
        .into_iter()
        .map(|(_, call)| call)
        .filter(|call| !is_failed(call))
        .collect();
    calls.extend(
        acting
            .into_iter()
            .filter_map(|call| Some((call.time.parse().ok()?, call))),
    );
    calls.sort_by_key(|(at, _)| *at);
    let items = calls.into_iter().map(|(_, call)| call).collect();
    Ok(Json(CallsView { items }))
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
    CallView {
        time: format!("{:.3}", record.at),
        plugin: record.plugin.to_string(),
        event: record.call.event.to_owned(),
        attempt: record.call.attempt,
        outcome: record.call.result.to_owned(),
        error: shows_error.then(|| record.call.error.clone()),
        ..CallView::default()
    }
}

fn acting_view(record: &EffectRecord, cause: &CallCause, time: String) -> CallView {
    CallView {
        time,
        plugin: record.plugin.to_string(),
        event: cause.event.to_owned(),
        reason: cause.reason.to_owned(),
        attempt: cause.attempt,
        outcome: "ok".to_owned(),
        error: None,
        effects: 1,
        version: cause.version.clone(),
    }
}
