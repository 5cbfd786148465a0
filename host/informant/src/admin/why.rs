//! `/api/v1/why/RESOURCE` and `/api/v1/plugins/NAME/why`: what plugins did to an object, or what one plugin did, and
//! because of what.
//!
//! ```text
//! GET /api/v1/why/RESOURCE?name=NAME[&namespace=NAMESPACE&cluster=NAME&from=NUMBER]
//! GET /api/v1/plugins/NAME/why[?from=NUMBER]
//! ```
//!
//! The first needs the right to get the object. What led to an effect is shown as far as the caller may get objects of
//! that resource and namespace, too.

pub(super) mod metrics;

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::{Extension, Json};
use informant_plugin_host::{CauseObject, CauseSubject, EffectKind};
use informant_spec::GroupVersionResource;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::access::Caller;
use super::error::{AdminError, Code};
use super::one_object::{OneObject, OneObjectQuery, rights_to_get};
use super::plugins;
use super::replicas::{self, OtherReplica};
use crate::effect_log::{EffectRecord, Selected};

/// Effects in one answer: 1,000, the newest.
const EFFECTS_MAX: usize = 1_000;

/// Effects of one message of a stream: 100, the newest.
const STREAMED_MAX: usize = 100;

/// Kinds of causes (cluster, resource and namespace) for which an answer asks whether the caller may get them: 32.
/// Those of further kinds are not shown.
const CAUSES_REVIEWED_MAX: usize = 32;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PluginQuery {
    #[serde(default)]
    from: u64,
}

/// What was done.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyView {
    /// The number of the effect that follows: `from` of the next request.
    pub next: u64,
    /// Effects, of whatever plugin, that the record no longer has.
    pub dropped: u64,
    /// Whether there are more than these, which are the newest.
    pub more: bool,
    /// The replica that answers; absent without `[ha]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
    /// The other live replicas: each knows what it did itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherReplica>,
    /// Oldest first.
    pub items: Vec<WhyItem>,
}

/// An effect of a plugin, and its cause.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyItem {
    /// In RFC 3339, to the millisecond.
    pub time: String,
    pub plugin: String,
    /// `kube`, `http` or `event`.
    pub kind: String,
    /// `patch`, `POST`; of a Kubernetes Event its type and reason.
    pub verb: String,
    /// What was written, or what an Event is about.
    pub object: Option<WhyObject>,
    /// The subresource that was written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The URL of an HTTP request, without its query.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// `ok`, or the code of the error.
    pub result: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The line of config.toml that allowed it.
    pub grant: String,
    /// The user that it was made as; null: Informant's own.
    pub identity: Option<String>,
    /// The call that had it; null if no call of a handler had.
    pub cause: Option<WhyCause>,
    /// The replica that recorded it; absent if only one was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<String>,
}

/// A call of a handler.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyCause {
    /// The version of the plugin that was called, and the digest of its component or script.
    pub version: String,
    pub sha256: String,
    /// `add`, `update`, `delete`, `sync` or `timer`.
    pub event: String,
    /// `watch`, `resync`, …
    pub reason: String,
    /// 0 for the first call for the event.
    pub attempt: u32,
    /// The object, or without a name its source; null for a timer, and if the caller may not get it.
    pub object: Option<WhyObject>,
    /// The timer that was due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<String>,
    /// The related object whose change led to the call of a reconciler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related: Option<WhyObject>,
    /// What happened to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related_event: Option<String>,
    /// Whether an object is not shown because the caller may not get it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WhyObject {
    /// The informer that it came from; absent for what was written.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub informer: String,
    /// Empty for a single unnamed cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// `apps/v1/deployments`
    pub resource: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Of the state that led to the call, or after the write.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
}

/// What plugins did to one object.
pub(super) async fn of_object(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(resource): Path<String>,
    query: Result<Query<OneObjectQuery>, QueryRejection>,
) -> Result<Json<WhyView>, AdminError> {
    let (object, from) = OneObject::of(&state.registry, &resource, query)?;
    let is_meant = |record: &EffectRecord| {
        let target = record.object.as_ref();
        target.is_some_and(|target| object.is(&record.cluster, &target.resource, &target.namespace, &target.name))
    };
    let selected = state.registry.effects().select(None, (from, EFFECTS_MAX), is_meant);
    let of_records = selected
        .records
        .iter()
        .filter_map(|record| Some((record.cluster.clone(), resource_of(record)?)));
    object.authorize(&state, &caller, of_records).await?;
    let shown = causes_shown(&state, &caller, &selected).await?;
    Ok(Json(view(&state, &selected, |place| shown.contains(&place))))
}

/// What one plugin did. It may have been removed since.
pub(super) async fn of_plugin(
    State(state): State<AdminState>,
    Path(name): Path<String>,
    query: Result<Query<PluginQuery>, QueryRejection>,
) -> Result<Json<WhyView>, AdminError> {
    let Query(query) = query.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let effects = state.registry.effects();
    let selected = effects.select(Some(&name), (query.from, EFFECTS_MAX), |_| true);
    if selected.records.is_empty() {
        plugins::known(&state.registry, &name)?;
    }
    Ok(Json(view(&state, &selected, |_| true)))
}

/// The effects of a plugin from number `next` on, for a stream: the newest 100 at first. None if there are none.
pub(super) fn message(state: &AdminState, plugin: &str, next: &mut u64) -> Option<String> {
    let selected = state
        .registry
        .effects()
        .select(Some(plugin), (*next, STREAMED_MAX), |_| true);
    *next = selected.next;
    let items: Vec<WhyItem> = selected.records.iter().map(|record| item(record, &|_| true)).collect();
    (!items.is_empty()).then(|| serde_json::json!({ "items": items }).to_string())
}

fn resource_of(record: &EffectRecord) -> Option<GroupVersionResource> {
    GroupVersionResource::parse(&record.object.as_ref()?.resource)
}

/// Cluster, resource and namespace of a cause.
type Place = (String, String, String);

fn place_of(object: &CauseObject) -> Place {
    let CauseObject {
        cluster,
        resource,
        namespace,
        ..
    } = object;
    (cluster.clone(), resource.clone(), namespace.clone())
}

/// The causes that the caller may get.
async fn causes_shown(
    state: &AdminState,
    caller: &Caller,
    selected: &Selected<EffectRecord>,
) -> Result<BTreeSet<Place>, AdminError> {
    let mut shown = BTreeMap::new();
    for object in selected.records.iter().flat_map(|record| objects_of_cause(record)) {
        let place = place_of(object);
        if shown.contains_key(&place) || shown.len() >= CAUSES_REVIEWED_MAX {
            continue;
        }
        let may_get = may_get(state, caller, &place).await?;
        shown.insert(place, may_get);
    }
    Ok(shown
        .into_iter()
        .filter_map(|(place, may)| may.then_some(place))
        .collect())
}

async fn may_get(
    state: &AdminState,
    caller: &Caller,
    (cluster, resource, namespace): &Place,
) -> Result<bool, AdminError> {
    let Some(reviewing) = state.reviewing_cluster() else {
        return Ok(true);
    };
    // Of a source that is gone, nothing is known.
    let Some(resource) = GroupVersionResource::parse(resource) else {
        return Ok(false);
    };
    for right in rights_to_get(reviewing, cluster, &resource, namespace, "") {
        match state.authorize(caller, &right).await {
            Ok(()) => {}
            Err(error) if error.code == Code::Forbidden => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn objects_of_cause(record: &EffectRecord) -> Vec<&CauseObject> {
    let Some(cause) = &record.cause else { return Vec::new() };
    let subject = match &cause.subject {
        CauseSubject::Object(object) | CauseSubject::Source(object) => Some(object),
        CauseSubject::Timer(_) => None,
    };
    subject
        .into_iter()
        .chain(cause.related.as_ref().map(|(object, _)| object))
        .collect()
}

fn view(state: &AdminState, selected: &Selected<EffectRecord>, is_shown: impl Fn(Place) -> bool) -> WhyView {
    let (replica, others) = replicas::others(state).unzip();
    WhyView {
        replica,
        others: others.unwrap_or_default(),
        next: selected.next,
        dropped: state.registry.effects().usage().dropped,
        more: selected.has_more,
        items: selected.records.iter().map(|record| item(record, &is_shown)).collect(),
    }
}

fn item(record: &EffectRecord, is_shown: &impl Fn(Place) -> bool) -> WhyItem {
    let object = record.object.as_ref().map(|object| WhyObject {
        cluster: record.cluster.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        resource_version: object.version.clone(),
        ..WhyObject::default()
    });
    let subresource = record.object.as_ref().map(|object| object.subresource.clone());
    WhyItem {
        time: format!("{:.3}", record.at),
        plugin: record.plugin.to_string(),
        kind: record.kind.as_str().to_owned(),
        verb: record.verb.clone(),
        object: object.filter(|_| record.kind != EffectKind::Http),
        subresource: subresource.unwrap_or_default(),
        url: record.url.clone(),
        result: record.result.to_owned(),
        error: record.error.clone(),
        grant: record.grant.clone(),
        identity: record.identity.as_ref().map(ToString::to_string),
        cause: cause(record, is_shown),
        replica: None,
    }
}

fn cause(record: &EffectRecord, is_shown: &impl Fn(Place) -> bool) -> Option<WhyCause> {
    let cause = record.cause.as_ref()?;
    let mut hidden = false;
    let mut shown = |object: &CauseObject| {
        let may_be = is_shown(place_of(object));
        hidden |= !may_be;
        may_be.then(|| WhyObject {
            informer: object.informer.clone(),
            cluster: object.cluster.clone(),
            resource: object.resource.clone(),
            namespace: object.namespace.clone(),
            name: object.name.clone(),
            uid: object.uid.clone(),
            resource_version: object.version.clone(),
        })
    };
    let (object, timer) = match &cause.subject {
        CauseSubject::Object(object) | CauseSubject::Source(object) => (shown(object), None),
        CauseSubject::Timer(name) => (None, Some(name.clone())),
    };
    let related = cause.related.as_ref().and_then(|(object, _)| shown(object));
    Some(WhyCause {
        version: cause.version.clone(),
        sha256: cause.digest.to_string(),
        event: cause.event.to_owned(),
        reason: cause.reason.to_owned(),
        attempt: cause.attempt,
        object,
        timer,
        related,
        related_event: cause.related.as_ref().map(|(_, event)| (*event).to_owned()),
        hidden,
    })
}
