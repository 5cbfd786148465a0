//! `GET /api/v1/get/RESOURCE`: objects out of the cache, one JSON document a line.
//!
//! Reads snapshots and holds nobody up; an answer is never built whole: a client that reads slowly holds snapshots and
//! one chunk. At most [`STREAMS_MAX`] answers are read at a time. Headers say what the answer is the state of, source
//! by source.

mod find;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use informant_cache::{IndexError, Snapshot, Source};
use informant_object::LabelSelector;
use serde::{Deserialize, Serialize};

use super::AdminState;
use super::error::{ApiError, Code};
use super::freshness::{Asked, AtLeast};
use super::sources;
use crate::daemon::{Board, Places};
use walk::{Stock, Walk, Wanted};

/// How many answers with objects are read at a time. Each holds snapshots, and with them what changed since; one more
/// is answered 429 `busy`.
pub const STREAMS_MAX: usize = 16;

/// The header that says which version the answer is the state of; several sources are separated by commas.
pub(crate) const FRESH_AS_OF: &str = "informant-fresh-as-of";
/// The header that says how the informer's sources fare, in the same order.
pub(crate) const STATE: &str = "informant-state";
/// The header with all of that and more, a JSON list of [`Freshness`].
pub(crate) const SOURCES: &str = "informant-sources";

/// The header that says how many objects of these sources the index that was asked lacks, because its function failed
/// on them; absent when it lacks none.
pub(crate) const INDEX_FAILURES: &str = "informant-index-failures";

/// What is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Question {
    namespace: Option<String>,
    name: Option<String>,
    index: Option<String>,
    value: Option<String>,
    selector: Option<String>,
    /// Names, separated by commas.
    cluster: Option<String>,
    /// Whether each line says where its object is from.
    envelope: Option<bool>,
    /// The answer is to wait until the cache has seen everything up to this version.
    at_least: Option<String>,
    /// Of which epoch that version is.
    epoch: Option<u64>,
    /// How long to wait.
    timeout_ms: Option<u64>,
}

/// Which state of a source an answer is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Freshness {
    /// The source's number in the daemon.
    pub(crate) id: u32,
    /// Empty for the only one.
    pub(crate) cluster: String,
    /// As the configuration names it; of several which one.
    pub(crate) resource: String,
    /// None: all, or none for what lives outside of namespaces.
    pub(crate) namespace: Option<String>,
    /// How the source fares.
    pub(crate) state: String,
    /// The answer has everything up to it.
    pub(crate) version: Option<String>,
    /// How long ago the watch last gave a sign of life, an event or a bookmark. None: not since the first list.
    pub(crate) age_ms: Option<u64>,
}

pub(super) async fn get(
    State(state): State<AdminState>,
    Path(resource): Path<String>,
    question: Result<Query<Question>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(question) = question.map_err(|error| ApiError::new(Code::Invalid, error.body_text()))?;
    let (wanted, at_least) = (question.wanted()?, question.freshness().judge()?);
    let asked = find::informer(&state.board, &resource)?;
    let sources = find::synced_sources(&state.board, &asked, &question.clusters()?)?;
    let informer = asked.informer;
    let snapshots = match &at_least {
        None => sources.iter().map(|source| source.snapshot()).collect(),
        Some(at_least) => fresh_snapshots(&state, &informer.places(), &sources, &question, at_least).await?,
    };
    let permit = state.stream()?;
    for snapshot in &snapshots {
        wanted
            .judge_index(snapshot)
            .map_err(|error| index_error(&state.board, &informer.name, &error))?;
    }
    let headers = headers(&informer.places(), &sources, &snapshots);
    let index_failures = wanted.index_failures(&snapshots);
    let with_envelope = question.envelope.unwrap_or(false);
    let stocks = sources.iter().zip(snapshots).map(|(source, snapshot)| Stock {
        snapshot,
        frame: if with_envelope {
            envelope(source)
        } else {
            Default::default()
        },
    });
    let walk = Walk::new(wanted, stocks.collect(), permit);
    let body = match (walk.into_body().await, &question.name) {
        (Some(body), _) => body,
        (None, None) => Body::empty(),
        (None, Some(name)) => return Err(question.not_found(&informer.name, name)),
    };
    let mut answer = (headers, body).into_response();
    if index_failures > 0 {
        answer.headers_mut().insert(INDEX_FAILURES, index_failures.into());
    }
    Ok(answer)
}

/// A state of each source, those that could hold what is asked for at the version that is waited for.
async fn fresh_snapshots(
    state: &AdminState,
    places: &Places,
    sources: &[Arc<Source>],
    question: &Question,
    at_least: &AtLeast,
) -> Result<Vec<Snapshot>, ApiError> {
    let of_first = sources.first().map(|source| &source.info().cluster);
    if sources.iter().any(|source| Some(&source.info().cluster) != of_first) {
        let message = "a version is of one cluster, and several are asked: name one with `cluster`";
        return Err(ApiError::new(Code::Invalid, message));
    }
    let may_hold = |source: &Source| match (&source.info().namespace, &question.namespace) {
        (Some(has), Some(wanted)) => has == wanted,
        _ => true,
    };
    let waiting = sources.iter().filter(|source| may_hold(source)).map(|source| {
        let place = places.get(&source.info().cluster);
        let running = place.and_then(|place| sources::running(place, source));
        running.ok_or_else(|| ApiError::new(Code::NotReady, "a source is being replaced: ask again"))
    });
    let waiting = waiting.collect::<Result<Vec<_>, _>>()?;
    let seen = at_least.seen_by(&waiting, state).await?;
    let mut seen = seen.into_iter();
    let snapshots = sources.iter().map(|source| match may_hold(source) {
        true => seen.next().unwrap_or_else(|| source.snapshot()),
        false => source.snapshot(),
    });
    Ok(snapshots.collect())
}

/// What a line begins and ends with that says where its object is from.
fn envelope(source: &Source) -> (String, &'static str) {
    let cluster = serde_json::Value::from(source.info().cluster.as_str());
    (
        format!(r#"{{"cluster":{cluster},"source":{},"object":"#, source.id().0),
        "}",
    )
}

fn headers(places: &Places, sources: &[Arc<Source>], snapshots: &[Snapshot]) -> [(&'static str, String); 4] {
    let fresh: Vec<_> = sources
        .iter()
        .zip(snapshots)
        .map(|(source, snapshot)| freshness(places, source, snapshot))
        .collect();
    let version = |fresh: &Freshness| fresh.version.clone().unwrap_or_default();
    // Of names, numbers and versions, all plain ASCII.
    let all = serde_json::to_string(&fresh).unwrap_or_default();
    [
        (CONTENT_TYPE.as_str(), "application/x-ndjson".to_owned()),
        (FRESH_AS_OF, join(fresh.iter().map(version))),
        (STATE, join(fresh.iter().map(|fresh| fresh.state.clone()))),
        (SOURCES, all),
    ]
}

fn freshness(places: &Places, source: &Source, snapshot: &Snapshot) -> Freshness {
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

fn join(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(",")
}

impl Question {
    fn wanted(&self) -> Result<Wanted, ApiError> {
        if self.index.is_some() != self.value.is_some() {
            return Err(ApiError::new(Code::Invalid, "`index` and `value` belong together"));
        }
        let selector = self.selector.as_deref().unwrap_or_default();
        let selector = LabelSelector::parse(selector)
            .map_err(|error| ApiError::new(Code::Invalid, format!("selector \"{selector}\": {error}")))?;
        Ok(Wanted {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            index: self.index.clone().zip(self.value.clone()),
            selector,
        })
    }

    fn freshness(&self) -> Asked {
        Asked {
            at_least: self.at_least.clone(),
            epoch: self.epoch,
            timeout_ms: self.timeout_ms,
        }
    }

    /// The clusters to ask; none: all of the informer's.
    fn clusters(&self) -> Result<BTreeSet<String>, ApiError> {
        let Some(clusters) = &self.cluster else {
            return Ok(BTreeSet::new());
        };
        if clusters.split(',').any(str::is_empty) {
            let message = "`cluster` names one cluster, or several separated by commas; leave it out to ask all";
            return Err(ApiError::new(Code::Invalid, message));
        }
        Ok(clusters.split(',').map(str::to_owned).collect())
    }

    fn not_found(&self, informer: &str, name: &str) -> ApiError {
        let of = |what: &str, name: &Option<String>| match name {
            Some(name) => format!(" in {what} {name}"),
            None => String::new(),
        };
        let (namespace, cluster) = (of("namespace", &self.namespace), of("cluster", &self.cluster));
        let message = format!("informer {informer} has no object \"{name}\"{namespace}{cluster}");
        ApiError::new(Code::NotFound, message)
    }
}

fn index_error(board: &Board, informer: &str, error: &IndexError) -> ApiError {
    match error {
        IndexError::UnknownIndex { .. } => ApiError::new(Code::UnknownIndex, error.to_string()),
        IndexError::NotReady { name } => ApiError::new(Code::NotReady, not_ready(board, informer, name, error)),
    }
}

/// Why an index is not ready; of a plugin that is not called any more, that waiting does not help.
fn not_ready(board: &Board, informer: &str, index: &str, error: &IndexError) -> String {
    match super::plugins::quarantined_behind(board, informer, index) {
        Some(plugin) => format!(
            "index {index} is not ready: plugin {plugin}, which computes it, is in quarantine; `informant plugin list` says why, `informant plugin resume {plugin}` ends it"
        ),
        None => error.to_string(),
    }
}
