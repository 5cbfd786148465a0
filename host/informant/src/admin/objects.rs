//! `GET /api/v1/get/RESOURCE`: objects from the cache, one JSON document per line.
//!
//! Reads snapshots, so it never blocks writers. A response is streamed: a slow client holds snapshots and one chunk. At
//! most [`STREAMS_MAX`] responses are read at a time. Headers show how fresh each source is.

mod absent;
mod find;
mod stream;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use informant_cache::{IndexError, Snapshot, Source};
use informant_object::LabelSelector;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::access::Caller;
use super::error::{AdminError, Code};
use super::freshness::{AtLeast, FreshnessQuery};
use super::shards::{AnswerPart, RequestedObjects};
use super::{replicas, secrets, sources};
use crate::daemon::{InformerStatuses, StatusRegistry};
use crate::escape;
use crate::logging::AUDIT_TARGET;
pub(crate) use absent::AbsentFields;
pub(crate) use find::MissingSource;
use find::{AnsweringSources, QueryScope, SourcesInScope};
use stream::{ObjectFilter, ObjectStream, SourceObjects};

/// How many responses with objects may be read at a time. Each holds snapshots, which keep replaced objects in memory;
/// one more gets 429 `busy`.
pub(crate) const STREAMS_MAX: usize = 16;

/// The header with the version of the response; several sources are separated by commas.
pub(crate) const FRESH_AS_OF: &str = "informant-fresh-as-of";
/// The header with the states of the informer's sources, in the same order.
pub(crate) const STATE: &str = "informant-state";
/// The header with all of that and more, a JSON list of [`Freshness`].
pub(crate) const SOURCES: &str = "informant-sources";

/// The header with the sources that are not in the answer because they are not synced, a JSON list of
/// [`MissingSource`]; absent if there is none.
pub(crate) const MISSING_SOURCES: &str = "informant-missing-sources";

/// The header with what the informer removes from its objects, [`AbsentFields`] as JSON; absent if it removes nothing.
pub(crate) const ABSENT_FIELDS: &str = "informant-absent-fields";

/// The header with the number of objects that the queried index lacks because its function failed on them; absent if it
/// lacks none.
pub(crate) const INDEX_FAILURES: &str = "informant-index-failures";

/// The header with the number of objects of which the cache has only the metadata, because its budget is reached;
/// absent if there is none. A response for one name has the whole object.
pub(crate) const HEADS: &str = "informant-heads";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ObjectsQuery {
    namespace: Option<String>,
    name: Option<String>,
    index: Option<String>,
    value: Option<String>,
    selector: Option<String>,
    /// Names, separated by commas.
    cluster: Option<String>,
    /// Whether each line includes the source of its object.
    envelope: Option<bool>,
    /// Whether the data of Secrets is in the answer, instead of its keys and sizes.
    show_secrets: Option<bool>,
    /// Whether a source that is not synced is an error, instead of missing in the answer.
    require_all: Option<bool>,
    /// Wait until the cache has seen everything up to this version.
    at_least: Option<String>,
    /// The epoch of that version.
    epoch: Option<u64>,
    timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Freshness {
    /// The source's number in the daemon.
    pub(crate) id: u32,
    /// Empty for a single unnamed cluster.
    pub(crate) cluster: String,
    /// As configured; for a pattern, the source's own resource.
    pub(crate) resource: String,
    /// `None`: all namespaces, or a cluster-scoped resource.
    pub(crate) namespace: Option<String>,
    pub(crate) state: String,
    /// The objects are complete up to this version.
    pub(crate) version: Option<String>,
    /// How long ago the watch last sent an event or a bookmark. `None`: not since the first list.
    pub(crate) age_ms: Option<u64>,
}

pub(super) async fn get(
    State(state): State<AdminState>,
    Extension(caller): Extension<Caller>,
    Path(resource): Path<String>,
    query: Result<Query<ObjectsQuery>, QueryRejection>,
    request_headers: HeaderMap,
) -> Result<Response, AdminError> {
    let if_none_match = request_headers.get(IF_NONE_MATCH).cloned();
    let Query(query) = query.map_err(|error| AdminError::new(Code::Invalid, error.body_text()))?;
    let (filter, at_least) = (query.filter()?, query.freshness().parse()?);
    let asked = find::informer(&state.registry, &resource)?;
    let clusters = query.clusters()?;
    let scope = QueryScope {
        clusters: &clusters,
        namespace: query.namespace.as_deref(),
        // A version that a missing source may have to show cannot have been seen.
        requires_all: query.require_all.unwrap_or(false) || at_least.is_some(),
    };
    let mut in_scope = find::in_scope(&state.registry, &asked, &scope)?;
    query.authorize(&state, &caller, &mut in_scope, &scope).await?;
    let informer = asked.informer;
    let AnsweringSources {
        synced: sources,
        missing,
    } = in_scope.answering(&state.registry, &informer.name, &scope)?;
    query.check_index_of_secrets(&caller, &sources)?;
    let snapshots = match &at_least {
        None => sources.iter().map(|source| source.snapshot()).collect(),
        Some(at_least) => fresh_snapshots(&state, &informer.by_cluster(), &sources, &scope, at_least).await?,
    };
    let permit = state.stream()?;
    for snapshot in &snapshots {
        filter
            .check_index(snapshot)
            .map_err(|error| index_error(&state.registry, &informer.name, &error))?;
    }
    let headers = headers(&informer.by_cluster(), &sources, &snapshots);
    let tag = entity_tag(&sources, &snapshots);
    let part = query.part(&state, &informer.by_cluster(), &sources, &snapshots, &scope);
    if if_none_match.as_ref() == Some(&tag) {
        let unchanged = (StatusCode::NOT_MODIFIED, [(ETAG, tag)]).into_response();
        return Ok(with_part(unchanged, part));
    }
    // Of one object the body is read.
    let heads: usize = snapshots
        .iter()
        .filter(|_| query.name.is_none())
        .map(Snapshot::heads)
        .sum();
    let index_failures = filter.index_failures(&snapshots);
    let with_envelope = query.envelope.unwrap_or(false);
    let show_secrets = query.show_secrets.unwrap_or(false);
    let objects = sources.iter().zip(snapshots).map(|(source, snapshot)| SourceObjects {
        snapshot,
        source: Some(Arc::clone(source)),
        namespaced: is_namespaced(&informer.by_cluster(), source),
        redacted: secrets::are_secrets(source.info()) && !show_secrets,
        frame: if with_envelope {
            envelope(source)
        } else {
            Default::default()
        },
    });
    let shows_secrets = show_secrets && sources.iter().any(|source| secrets::are_secrets(source.info()));
    let memory = state.metrics.daemon.answer_bytes();
    let stream = ObjectStream::new(filter, objects.collect(), permit, memory);
    let body = match (stream.into_body().await, &query.name) {
        (Some(body), name) => {
            if shows_secrets {
                let (user, namespace) = (caller.name(), query.namespace.as_deref());
                let name = name.as_deref();
                tracing::info!(target: AUDIT_TARGET, informer = informer.name, user, namespace, name, "data of Secrets read");
            }
            body
        }
        (None, None) => Body::empty(),
        // The object may be in a source that is missing.
        (None, Some(_)) if !missing.is_empty() => {
            return Err(find::not_synced(&state.registry, &informer.name, &missing, true));
        }
        // Another replica may have it.
        (None, Some(name)) => return Ok(with_part(query.not_found(&informer.name, name).into_response(), part)),
    };
    let mut answer = (headers, [(ETAG, tag)], body).into_response();
    let absent = AbsentFields::of(&informer.by_cluster());
    add_remarks(answer.headers_mut(), heads, index_failures, &missing, absent);
    Ok(with_part(answer, part))
}

fn with_part(mut answer: Response, part: Option<AnswerPart>) -> Response {
    if let Some(part) = part {
        part.add_to(answer.headers_mut());
    }
    answer
}

/// Adds to `headers` what a reader has to know about the objects of an answer. Nothing to know, no header.
fn add_remarks(
    headers: &mut HeaderMap,
    heads: usize,
    index_failures: usize,
    missing: &[MissingSource],
    absent: Option<AbsentFields>,
) {
    if heads > 0 {
        headers.insert(HEADS, heads.into());
    }
    if index_failures > 0 {
        headers.insert(INDEX_FAILURES, index_failures.into());
    }
    if !missing.is_empty() {
        headers.insert(MISSING_SOURCES, json_header(&missing));
    }
    if let Some(absent) = absent {
        headers.insert(ABSENT_FIELDS, json_header(&absent));
    }
}

/// A snapshot of each source; those that may hold a requested object have reached the requested version.
async fn fresh_snapshots(
    state: &AdminState,
    places: &InformerStatuses,
    sources: &[Arc<Source>],
    scope: &QueryScope<'_>,
    at_least: &AtLeast,
) -> Result<Vec<Snapshot>, AdminError> {
    let of_first = sources.first().map(|source| &source.info().cluster);
    if sources.iter().any(|source| Some(&source.info().cluster) != of_first) {
        let message = "a version belongs to one cluster, but several were requested: select one with `cluster`";
        return Err(AdminError::new(Code::Invalid, message));
    }
    let waiting = sources.iter().filter(|source| scope.may_hold(source)).map(|source| {
        let place = places.get(&source.info().cluster);
        let running = place.and_then(|place| sources::running(place, source));
        running.ok_or_else(|| AdminError::new(Code::NotReady, "a source is being replaced; try again"))
    });
    let waiting = waiting.collect::<Result<Vec<_>, _>>()?;
    let seen = at_least.seen_by(&waiting, state).await?;
    let mut seen = seen.into_iter();
    let snapshots = sources.iter().map(|source| match scope.may_hold(source) {
        true => seen.next().unwrap_or_else(|| source.snapshot()),
        false => source.snapshot(),
    });
    Ok(snapshots.collect())
}

/// What changes with every change of the objects, for clients that ask again.
fn entity_tag(sources: &[Arc<Source>], snapshots: &[Snapshot]) -> HeaderValue {
    let of_each = sources.iter().zip(snapshots);
    let parts: Vec<_> = of_each
        .map(|(source, snapshot)| format!("{}.{}", source.id().0, snapshot.generation()))
        .collect();
    plain_header(&format!("\"{}\"", parts.join("-")))
}

/// Whether the objects of a source have a namespace; also if that is not known.
fn is_namespaced(places: &InformerStatuses, source: &Source) -> bool {
    let place = places.get(&source.info().cluster);
    let running = place.and_then(|place| sources::running(place, source));
    running.is_none_or(|running| running.spec().namespaced)
}

/// The beginning and end of a line that includes the source of its object.
fn envelope(source: &Source) -> (String, &'static str) {
    let cluster = serde_json::Value::from(source.info().cluster.as_str());
    (
        format!(r#"{{"cluster":{cluster},"source":{},"object":"#, source.id().0),
        "}",
    )
}

fn headers(
    places: &InformerStatuses,
    sources: &[Arc<Source>],
    snapshots: &[Snapshot],
) -> [(&'static str, HeaderValue); 4] {
    let fresh: Vec<_> = sources
        .iter()
        .zip(snapshots)
        .map(|(source, snapshot)| freshness(places, source, snapshot))
        .collect();
    let states = join(fresh.iter().map(|fresh| fresh.state.as_str()));
    [
        (CONTENT_TYPE.as_str(), HeaderValue::from_static("application/x-ndjson")),
        (FRESH_AS_OF, plain_header(&join(fresh.iter().map(listed_version)))),
        (STATE, plain_header(&states)),
        (SOURCES, json_header(&fresh)),
    ]
}

/// A version in a list that is separated by commas: empty if it does not fit into one, as versions are opaque. The JSON
/// header has it anyway.
fn listed_version(fresh: &Freshness) -> &str {
    let version = fresh.version.as_deref().unwrap_or_default();
    let fits = version.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if fits { version } else { "" }
}

/// A header of plain ASCII.
fn plain_header(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// A header with a JSON document, in ASCII.
fn json_header(document: &impl Serialize) -> HeaderValue {
    let json = serde_json::to_string(document).unwrap_or_default();
    plain_header(&escape::ascii_json(&json))
}

fn freshness(places: &InformerStatuses, source: &Source, snapshot: &Snapshot) -> Freshness {
    let info = source.info();
    let place = places.get(&info.cluster);
    let reflector = place.and_then(|place| sources::of_reflector(place, source));
    Freshness {
        id: source.id().0,
        cluster: info.cluster.clone(),
        resource: place.map_or_else(String::new, |place| sources::resource_or_section(place, source)),
        namespace: info.namespace.clone(),
        state: source.state().as_str().to_owned(),
        version: snapshot.version().map(|version| version.as_str().to_owned()),
        age_ms: reflector.and_then(|status| status.last_event_age).map(sources::millis),
    }
}

fn join<'w>(words: impl Iterator<Item = &'w str>) -> String {
    words.collect::<Vec<_>>().join(",")
}

impl ObjectsQuery {
    /// # Errors
    /// If the caller may not read the requested objects; if the data of Secrets is requested by somebody unknown.
    async fn authorize(
        &self,
        state: &AdminState,
        caller: &Caller,
        sources: &mut SourcesInScope,
        scope: &QueryScope<'_>,
    ) -> Result<(), AdminError> {
        if self.show_secrets == Some(true) && !caller.is_authenticated() {
            let message = "the data of Secrets is shown to authenticated callers only: set `tls` in [admin], and send \
                a token of somebody who may read them";
            return Err(AdminError::new(Code::Unauthenticated, message));
        }
        let Some(reviewing) = state.reviewing_cluster() else {
            return Ok(());
        };
        // An index tells which objects have a value, which is more than one object says about itself.
        let name = self.name.as_deref().filter(|_| self.index.is_none());
        for right in sources.rights(scope, name, reviewing)? {
            state.authorize(caller, &right).await?;
        }
        Ok(())
    }

    /// # Errors
    /// If an unauthenticated caller queries an index of Secrets: the answer would show whether a guess is right.
    fn check_index_of_secrets(&self, caller: &Caller, sources: &[Arc<Source>]) -> Result<(), AdminError> {
        let are_secrets = || sources.iter().any(|source| secrets::are_secrets(source.info()));
        if self.index.is_none() || caller.is_authenticated() || !are_secrets() {
            return Ok(());
        }
        let message = "an index of Secrets answers authenticated callers only, because it may be computed from their \
            data: set `tls` in [admin], and send a token of somebody who may read them";
        Err(AdminError::new(Code::Unauthenticated, message))
    }

    /// The shards whose objects `snapshots` have. None if no other replica has any of the requested objects.
    fn part(
        &self,
        state: &AdminState,
        places: &InformerStatuses,
        sources: &[Arc<Source>],
        snapshots: &[Snapshot],
        scope: &QueryScope<'_>,
    ) -> Option<AnswerPart> {
        let of_each = sources.iter().zip(snapshots);
        let requested = of_each.filter(|(source, _)| scope.may_hold(source));
        let requested = requested.filter_map(|(source, snapshot)| {
            let namespace = self.namespace.as_deref().or(source.info().namespace.as_deref());
            Some(RequestedObjects {
                filter: snapshot.shards()?,
                namespace: match is_namespaced(places, source) {
                    true => namespace,
                    false => Some(""),
                },
                name: self.name.as_deref(),
            })
        });
        AnswerPart::of_objects(&replicas::own_name(state).unwrap_or_default(), requested)
    }

    fn filter(&self) -> Result<ObjectFilter, AdminError> {
        if self.index.is_some() != self.value.is_some() {
            return Err(AdminError::new(
                Code::Invalid,
                "`index` and `value` must be given together",
            ));
        }
        let selector = self.selector.as_deref().unwrap_or_default();
        let selector = LabelSelector::parse(selector)
            .map_err(|error| AdminError::new(Code::Invalid, format!("selector \"{selector}\": {error}")))?;
        Ok(ObjectFilter {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            index: self.index.clone().zip(self.value.clone()),
            selector,
        })
    }

    fn freshness(&self) -> FreshnessQuery {
        FreshnessQuery {
            at_least: self.at_least.clone(),
            epoch: self.epoch,
            timeout_ms: self.timeout_ms,
        }
    }

    /// The requested clusters; empty: all of the informer's.
    fn clusters(&self) -> Result<BTreeSet<String>, AdminError> {
        let Some(clusters) = &self.cluster else {
            return Ok(BTreeSet::new());
        };
        if clusters.split(',').any(str::is_empty) {
            let message = "`cluster` must be one name, or several separated by commas; omit it for all clusters";
            return Err(AdminError::new(Code::Invalid, message));
        }
        Ok(clusters.split(',').map(str::to_owned).collect())
    }

    fn not_found(&self, informer: &str, name: &str) -> AdminError {
        let of = |what: &str, name: &Option<String>| match name {
            Some(name) => format!(" in {what} {name}"),
            None => String::new(),
        };
        let (namespace, cluster) = (of("namespace", &self.namespace), of("cluster", &self.cluster));
        let message = format!("informer {informer} has no object \"{name}\"{namespace}{cluster}");
        AdminError::new(Code::NotFound, message)
    }
}

fn index_error(registry: &StatusRegistry, informer: &str, error: &IndexError) -> AdminError {
    match error {
        IndexError::UnknownIndex { name, .. } => match super::plugins::loading_behind(registry, informer) {
            // Only its component tells which indexes it computes.
            Some(plugin) => AdminError::new(
                Code::NotReady,
                format!(
                    "informer {informer} has no index {name} so far, but plugin {plugin} is being loaded and may have one; try again"
                ),
            ),
            None => AdminError::new(Code::UnknownIndex, error.to_string()),
        },
        IndexError::NotReady { name } => AdminError::new(Code::NotReady, not_ready(registry, informer, name, error)),
    }
}

/// Why an index is not ready; waiting does not help if its plugin is in quarantine.
fn not_ready(registry: &StatusRegistry, informer: &str, index: &str, error: &IndexError) -> String {
    match super::plugins::quarantined_behind(registry, informer, index) {
        Some(plugin) => format!(
            "index {index} is not ready: plugin {plugin}, which computes it, is in quarantine; `informant plugin list` shows why, `informant plugin resume {plugin}` ends it"
        ),
        None => error.to_string(),
    }
}
