//! Lists: the state, and the page of it.
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
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::history::Objects;
use crate::kinds::Served;
use crate::page::Page;
use crate::query::{ListOptions, VersionMatch, VersionParam};
use crate::replica_cache::ReplicaCache;
use crate::selection::Selection;
use crate::status::Status;
use crate::store::Store;
use crate::stored::Stored;

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
        shards: selection.shards().map(|shards| shards.text().to_owned()),
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
