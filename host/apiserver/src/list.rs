//! Lists: the state, the page, and the body that streams it.
//!
//! The meaning of versions follows apiserver `pkg/storage/cacher` and `pkg/storage/etcd3`:
//!
//! | `resourceVersion` | match | limit | state |
//! |---|---|---|---|
//! | unset | – | any | the newest |
//! | `0` | – | ignored | the replica's cache |
//! | N | NotOlderThan or unset | none | the replica's cache; 504 if it is older than N |
//! | N | NotOlderThan | set | the newest, in pages |
//! | N | Exact, or unset with a limit | any | that at N; 410 if it was forgotten |
//!
//! A continue token stays at the revision of its first page.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::body::Body;
use crate::history::Objects;
use crate::kinds::{Kind, Served};
use crate::query::{ListOptions, VersionMatch, VersionParam};
use crate::replica::ReplicaCache;
use crate::selection::Selection;
use crate::status::Status;
use crate::store::Store;
use crate::stored::Stored;

/// Approximate size of a frame of a streamed list.
const FRAME_BYTES: usize = 128 * 1024;

const EXPIRED: &str = "The resourceVersion for the provided list is too old.";

const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
     list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. \
     Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between \
     the time the first chunk was returned and now may show up in the list.";

/// The content of a continue token, in kube-apiserver's format.
#[derive(Debug, Serialize, Deserialize)]
struct ContinueToken {
    #[serde(rename = "v")]
    format: String,
    /// -1: the newest state, for the token that replaces an expired one.
    #[serde(rename = "rv")]
    revision: i64,
    /// The first key that may be on the next page.
    start: String,
}

const TOKEN_FORMAT: &str = "meta.k8s.io/v1";

impl ContinueToken {
    fn new(revision: i64, start: &str) -> Self {
        Self {
            format: TOKEN_FORMAT.to_owned(),
            revision,
            start: start.to_owned(),
        }
    }

    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let invalid =
            || Status::bad_request("invalid continue token: continue key is not valid: it was not made by this server");
        let bytes = URL_SAFE_NO_PAD
            .decode(text.trim_end_matches('='))
            .map_err(|_| invalid())?;
        let token: Self = serde_json::from_slice(&bytes).map_err(|_| invalid())?;
        if token.format == TOKEN_FORMAT && token.revision != 0 && token.revision >= -1 {
            Ok(token)
        } else {
            Err(invalid())
        }
    }
}

/// One page of a list.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) kind: Arc<Kind>,
    pub(crate) items: Vec<Arc<Stored>>,
    pub(crate) revision: u64,
    /// The token of the next page.
    pub(crate) next: Option<String>,
    /// How many objects follow this page. Unknown if there is a selector.
    pub(crate) remaining: Option<usize>,
}

/// Executes a list.
pub(crate) fn list(
    store: &Store,
    cache: &ReplicaCache,
    served: &Served,
    selection: &Selection,
    options: &ListOptions,
    paging_at_zero: bool,
) -> Result<Page, Status> {
    let (revision, objects, start) = state(store, cache, served.slot, options)?;
    let limit = match (options.limit, options.version) {
        (0, _) => usize::MAX,
        (_, VersionParam::Zero) if options.continue_token.is_empty() && !paging_at_zero => usize::MAX,
        (limit, _) => limit,
    };
    let kind = Arc::clone(&served.kind);
    // As in kube-apiserver, a page ends at its limit without checking whether anything after it matches the selector:
    // the last page of a selection may be empty.
    let mut rest = selection.range_from(&objects, &start);
    let mut items: Vec<Arc<Stored>> = Vec::new();
    while items.len() < limit
        && let Some(object) = rest.next()
    {
        if selection.matches(&kind, object) {
            items.push(Arc::clone(object));
        }
    }
    let left = rest.count();
    let remaining = (left > 0 && !selection.has_selectors()).then_some(left);
    let next = items.last().filter(|_| left > 0).map(|last| {
        let revision = i64::try_from(revision).unwrap_or(i64::MAX);
        ContinueToken::new(revision, &format!("{}\0", last.key())).encode()
    });
    Ok(Page {
        kind,
        items,
        revision,
        next,
        remaining,
    })
}

/// The revision and state to list, and the key where the page begins.
fn state(
    store: &Store,
    cache: &ReplicaCache,
    slot: usize,
    options: &ListOptions,
) -> Result<(u64, Objects, String), Status> {
    let newest = || (store.revision(), store.collection(slot).objects.clone(), String::new());
    let cached = || (cache.revision(store), cache.objects(store, slot), String::new());
    if !options.continue_token.is_empty() {
        let token = ContinueToken::decode(&options.continue_token)?;
        let Ok(revision) = u64::try_from(token.revision) else {
            return Ok((store.revision(), store.collection(slot).objects.clone(), token.start));
        };
        let objects = at(store, slot, revision).map_err(|status| continue_expired(status, &token))?;
        return Ok((revision, objects, token.start));
    }
    let paged = options.limit > 0;
    match (options.version, options.version_match) {
        (VersionParam::Unset, _) => Ok(newest()),
        (VersionParam::Zero, _) => Ok(cached()),
        (VersionParam::At(revision), Some(VersionMatch::Exact)) => {
            Ok((revision, at(store, slot, revision)?, String::new()))
        }
        (VersionParam::At(revision), None) if paged => Ok((revision, at(store, slot, revision)?, String::new())),
        (VersionParam::At(revision), _) => {
            let state = if paged { newest() } else { cached() };
            if revision > state.0 {
                Err(Status::too_large(revision, state.0))
            } else {
                Ok(state)
            }
        }
    }
}

/// The objects of a kind at exactly `revision`.
pub(crate) fn at(store: &Store, slot: usize, revision: u64) -> Result<Objects, Status> {
    if revision > store.revision() {
        return Err(Status::too_large(revision, store.revision()));
    }
    let collection = store.collection(slot);
    let mut objects = collection.objects.clone();
    collection
        .history
        .rewind(&mut objects, revision)
        .map_err(|_| Status::expired(EXPIRED))?;
    Ok(objects)
}

fn continue_expired(status: Status, token: &ContinueToken) -> Status {
    if status.code != 410 {
        return status;
    }
    let mut expired = Status::expired(CONTINUE_EXPIRED);
    expired.continue_token = ContinueToken::new(-1, &token.start).encode();
    expired
}

impl Page {
    /// `metadata` of the list.
    pub(crate) fn metadata(&self) -> serde_json::Value {
        let mut metadata = json!({ "resourceVersion": self.revision.to_string() });
        if let Some(next) = &self.next {
            metadata["continue"] = json!(next);
        }
        if let Some(remaining) = self.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        metadata
    }

    /// The list as JSON; each item is written by `item`. Long lists are streamed in frames of about 128 KiB.
    pub(crate) fn into_body(
        self,
        list_kind: &str,
        api_version: &str,
        item: impl Fn(&Kind, &Stored, &mut Vec<u8>) + Send + 'static,
    ) -> Body {
        let head = format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{},\"items\":[",
            json!(list_kind),
            json!(api_version),
            self.metadata()
        );
        let mut frames = ListFrames {
            head: Some(head),
            items: self.items.into_iter(),
            kind: self.kind,
            first: true,
            item,
        };
        let first = frames.next().unwrap_or_default();
        if frames.is_done() {
            return Body::whole(first);
        }
        Body::frames(futures::stream::iter(std::iter::once(first).chain(frames).map(Ok)))
    }
}

/// Writes a list frame by frame, so that a list of 100 MB is never held as a whole.
struct ListFrames<F> {
    head: Option<String>,
    items: std::vec::IntoIter<Arc<Stored>>,
    kind: Arc<Kind>,
    first: bool,
    item: F,
}

impl<F> ListFrames<F> {
    fn is_done(&self) -> bool {
        self.head.is_none() && self.items.as_slice().is_empty()
    }
}

impl<F: Fn(&Kind, &Stored, &mut Vec<u8>)> Iterator for ListFrames<F> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        if self.is_done() {
            return None;
        }
        let mut frame = self.head.take().map_or_else(Vec::new, String::into_bytes);
        while frame.len() < FRAME_BYTES
            && let Some(object) = self.items.next()
        {
            if !std::mem::take(&mut self.first) {
                frame.push(b',');
            }
            (self.item)(&self.kind, &object, &mut frame);
        }
        if self.items.as_slice().is_empty() {
            frame.extend_from_slice(b"]}\n");
        }
        Some(Bytes::from(frame))
    }
}
