//! `GET /api/v1/get/RESOURCE`: objects out of the cache, one JSON document a line.
//!
//! Reads snapshots and holds nobody up; an answer is never built whole: a client that reads slowly holds a snapshot and
//! [`CHUNK_BYTES`]. At most [`STREAMS_MAX`] answers are read at a time.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use informant_cache::{Cursor, IndexError, Snapshot, Source, SourceState};
use informant_object::{LabelSelector, Object};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;

use super::AdminState;
use super::error::{ApiError, Code};
use crate::daemon::{Board, InformerEntry, InformerPhase};

/// How many answers with objects are read at a time. Each holds a snapshot, and with it what changed since; one more is
/// answered 429 `busy`.
pub const STREAMS_MAX: usize = 16;

/// How much is handed to the socket at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// How many objects are looked at before other tasks get their turn.
const STRETCH_OBJECTS: usize = 1_000;

/// The header that says which version the answer is the state of; several sources are separated by commas.
pub(crate) const FRESH_AS_OF: &str = "informant-fresh-as-of";
/// The header that says how the informer's sources fare.
pub(crate) const STATE: &str = "informant-state";

/// What is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Question {
    namespace: Option<String>,
    name: Option<String>,
    index: Option<String>,
    value: Option<String>,
    selector: Option<String>,
}

pub(super) async fn get(
    State(state): State<AdminState>,
    Path(resource): Path<String>,
    question: Result<Query<Question>, QueryRejection>,
) -> Result<Response, ApiError> {
    let Query(question) = question.map_err(|error| ApiError::new(Code::Invalid, error.body_text()))?;
    let wanted = Wanted::new(&question)?;
    let informer = find(&state.board, &resource)?;
    let sources = synced_sources(&state.board, &informer)?;
    let permit = Arc::clone(&state.streams).try_acquire_owned().map_err(|_| {
        let message = format!("{STREAMS_MAX} answers are being read already: ask again later");
        ApiError::new(Code::Busy, message)
    })?;
    let snapshots: Vec<_> = sources.iter().map(|source| source.snapshot()).collect();
    let walk = Walk::new(&snapshots, &question, wanted, permit)?;
    let objects = walk.begin(&informer.name).await?;
    let headers = [
        (CONTENT_TYPE.as_str(), "application/x-ndjson".to_owned()),
        (
            FRESH_AS_OF,
            join(
                snapshots
                    .iter()
                    .map(|snapshot| snapshot.version().map_or("", |version| version.as_str())),
            ),
        ),
        (STATE, join(sources.iter().map(|source| source.state().as_str()))),
    ];
    Ok((headers, objects).into_response())
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(",")
}

/// The informer that is called `resource`, or else the only one that watches it.
fn find(board: &Board, resource: &str) -> Result<Arc<InformerEntry>, ApiError> {
    if let Some(entry) = board.informer(resource) {
        return Ok(entry);
    }
    let informers = board.informers();
    let watching: Vec<_> = informers.iter().filter(|entry| watches(entry, resource)).collect();
    match watching[..] {
        [entry] => Ok(Arc::clone(entry)),
        [] => {
            let names: Vec<_> = informers.iter().map(|entry| entry.name.as_str()).collect();
            let help = crate::config::did_you_mean(resource, &names, "informers");
            let message = format!("no informer is called or watches \"{resource}\"; {help}");
            Err(ApiError::new(Code::UnknownInformer, message))
        }
        _ => {
            let names: Vec<_> = watching.iter().map(|entry| format!("`{}`", entry.name)).collect();
            let message = format!(
                "several informers watch \"{resource}\": name one of {}",
                names.join(", ")
            );
            Err(ApiError::new(Code::Ambiguous, message))
        }
    }
}

/// Whether `resource` is what the configuration calls it, its plural or its kind.
fn watches(entry: &InformerEntry, resource: &str) -> bool {
    if entry.section().resource.value.to_string() == resource {
        return true;
    }
    let InformerPhase::Running(running) = entry.phase() else {
        return false;
    };
    let (gvr, kind) = (&running.discovered.gvr, &running.discovered.kind);
    let lower = resource.to_ascii_lowercase();
    let (name, group) = lower.split_once('.').unwrap_or((&lower, &gvr.group));
    group == gvr.group && (name == gvr.plural || name == kind.to_ascii_lowercase()) || resource == gvr.to_string()
}

fn synced_sources(board: &Board, informer: &InformerEntry) -> Result<Vec<Arc<Source>>, ApiError> {
    let refuse = |why: &str| {
        Err(ApiError::new(
            Code::NotSynced,
            format!("informer {} is not synced: {why}", informer.name),
        ))
    };
    let sources = board.sources(&informer.name);
    match informer.phase() {
        InformerPhase::Discovering { trouble: None } => return refuse("it is starting"),
        InformerPhase::Discovering { trouble: Some(trouble) } => return refuse(&trouble),
        InformerPhase::Refused { reason } => return refuse(&reason),
        InformerPhase::Stopped => return refuse("it was stopped"),
        InformerPhase::Running(_) if sources.is_empty() => return refuse("it is starting"),
        InformerPhase::Running(_) => {}
    }
    match sources.iter().find(|source| !source.is_synced()) {
        None => Ok(sources),
        Some(source) => {
            let status = source.status();
            let listing = status.state == SourceState::Syncing && status.trouble.is_none();
            let why = if listing {
                "its first list is not complete yet"
            } else {
                status.state.as_str()
            };
            refuse(
                &status
                    .trouble
                    .map_or(why.to_owned(), |trouble| format!("{why}: {trouble}")),
            )
        }
    }
}

/// Which objects are wanted.
struct Wanted {
    namespace: Option<String>,
    name: Option<String>,
    selector: LabelSelector,
}

impl Wanted {
    fn new(question: &Question) -> Result<Self, ApiError> {
        if question.index.is_some() != question.value.is_some() {
            return Err(ApiError::new(Code::Invalid, "`index` and `value` belong together"));
        }
        let selector = question.selector.as_deref().unwrap_or_default();
        let selector = LabelSelector::parse(selector)
            .map_err(|error| ApiError::new(Code::Invalid, format!("selector \"{selector}\": {error}")))?;
        Ok(Self {
            namespace: question.namespace.clone(),
            name: question.name.clone(),
            selector,
        })
    }

    fn takes(&self, object: &Object) -> bool {
        self.namespace
            .as_deref()
            .is_none_or(|namespace| namespace == object.namespace())
            && self.name.as_deref().is_none_or(|name| name == object.name())
            && (self.selector.is_everything() || self.selector.matches(object))
    }
}

/// The objects of some snapshots, one after the other.
enum Objects {
    All(Cursor),
    Picked(std::vec::IntoIter<Object>),
}

impl Objects {
    fn next(&mut self) -> Option<Object> {
        match self {
            Self::All(cursor) => cursor.next(),
            Self::Picked(objects) => objects.next(),
        }
    }
}

/// An answer while it is read.
struct Walk {
    wanted: Wanted,
    /// In reverse: the last one comes first.
    left: Vec<Objects>,
    chunk: Vec<u8>,
    /// Given back when the answer was read or its reader has gone.
    _permit: OwnedSemaphorePermit,
}

impl Walk {
    fn new(
        snapshots: &[Snapshot],
        question: &Question,
        wanted: Wanted,
        permit: OwnedSemaphorePermit,
    ) -> Result<Self, ApiError> {
        let mut left = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots.iter().rev() {
            left.push(match (&question.index, &question.value, &wanted.namespace) {
                (Some(index), Some(value), _) => {
                    let objects = snapshot.by_index(index, value).map_err(|error| index_error(&error))?;
                    Objects::Picked(objects.cloned().collect::<Vec<_>>().into_iter())
                }
                (_, _, Some(namespace)) => {
                    let objects = snapshot.list(Some(namespace), &wanted.selector).cloned();
                    Objects::Picked(objects.collect::<Vec<_>>().into_iter())
                }
                _ => Objects::All(snapshot.cursor()),
            });
        }
        Ok(Self {
            wanted,
            left,
            chunk: Vec::with_capacity(CHUNK_BYTES),
            _permit: permit,
        })
    }

    /// Looks for the first chunk, so that "not found" is an error and not an empty answer.
    async fn begin(mut self, informer: &str) -> Result<Body, ApiError> {
        let name = self.wanted.name.clone();
        let Some(first) = self.next_chunk().await else {
            return match name {
                None => Ok(Body::empty()),
                Some(name) => {
                    let place = self
                        .wanted
                        .namespace
                        .as_ref()
                        .map_or(String::new(), |ns| format!(" in namespace {ns}"));
                    let message = format!("informer {informer} has no object \"{name}\"{place}");
                    Err(ApiError::new(Code::NotFound, message))
                }
            };
        };
        let rest = futures::stream::unfold(self, |mut walk| async move { Some((walk.next_chunk().await?, walk)) });
        let all = futures::StreamExt::chain(futures::stream::iter([first]), rest);
        Ok(Body::from_stream(futures::StreamExt::map(
            all,
            Ok::<_, std::convert::Infallible>,
        )))
    }

    async fn next_chunk(&mut self) -> Option<Bytes> {
        let mut looked_at = 0;
        while self.chunk.len() < CHUNK_BYTES
            && let Some(objects) = self.left.last_mut()
        {
            match objects.next() {
                Some(object) if self.wanted.takes(&object) => push_line(&mut self.chunk, object.json()),
                Some(_) => {}
                None => drop(self.left.pop()),
            }
            looked_at += 1;
            if looked_at % STRETCH_OBJECTS == 0 {
                tokio::task::yield_now().await;
            }
        }
        if self.chunk.is_empty() {
            return None;
        }
        Some(Bytes::from(std::mem::replace(
            &mut self.chunk,
            Vec::with_capacity(CHUNK_BYTES),
        )))
    }
}

/// Appends a document as one line. What an API server sent may be broken into lines between its tokens.
fn push_line(out: &mut Vec<u8>, json: &[u8]) {
    let from = out.len();
    out.extend_from_slice(json);
    for byte in &mut out[from..] {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    out.push(b'\n');
}

fn index_error(error: &IndexError) -> ApiError {
    let code = match error {
        IndexError::UnknownIndex { .. } => Code::UnknownIndex,
        IndexError::NotReady { .. } => Code::NotReady,
    };
    ApiError::new(code, error.to_string())
}
