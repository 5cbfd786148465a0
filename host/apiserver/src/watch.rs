//! Watches: how they start, and the stream of each.
//!
//! ```text
//!  writes ──▶ history ◀──reads from its own version on── stream (one per watch)
//!                                                          ▲
//!  faults ──▶ watches ──commands──▶ control ───────────────┘
//! ```
//!
//! A watch has no queue of its own: it reads the common history when its client reads, so that slow watches cost
//! nothing. One that falls too far behind is closed. Follows apiserver `pkg/storage/cacher`.

mod line;
mod stream;

use std::sync::Arc;

use http::Response;

use self::stream::{Start, WatchStream};
use crate::body::{self, Body};
use crate::kinds::Served;
use crate::query::{ListOptions, VersionParam};
use crate::replica_cache::ReplicaCache;
use crate::representation::Representation;
use crate::routes::Attributes;
use crate::selection::Selection;
use crate::state::ServerState;
use crate::status::Status;
use crate::store::Store;

pub(crate) struct Request {
    pub(crate) served: Served,
    pub(crate) selection: Selection,
    pub(crate) options: ListOptions,
    pub(crate) representation: Representation,
    pub(crate) attributes: Attributes,
    /// Silent from the start.
    pub(crate) frozen: bool,
}

pub(crate) fn open(
    state: &Arc<ServerState>,
    cache: &Arc<ReplicaCache>,
    request: Request,
) -> Result<Response<Body>, Status> {
    if request.options.send_initial_events.is_some() && !state.options.watch_list {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return Err(Status::forbidden_list_option("sendInitialEvents", why));
    }
    let start = start(&state.store(), cache, &request);
    let body = match start {
        Ok(start) => {
            let stream = WatchStream::new(Arc::clone(state), Arc::clone(cache), request, start);
            Body::frames(stream.into_frames())
        }
        // The error is sent in the stream: the response head has already reported success.
        Err(status) => Body::whole(line::error(&status)),
    };
    Ok(body::with_type(200, "application/json", body))
}

/// The start of a watch: its initial objects and its version. The error goes into the stream.
fn start(store: &Store, cache: &ReplicaCache, request: &Request) -> Result<Start, Status> {
    let options = &request.options;
    let newest = cache.revision(store);
    let collection = store.collection(request.served.slot);
    if collection.retired {
        return Err(Status::no_such_resource());
    }
    let begins_with_state = match (options.send_initial_events, options.version) {
        (Some(true), VersionParam::At(version)) if version > newest => return Err(Status::too_large(version, newest)),
        // The newest state is requested, and this replica does not have it.
        (Some(true), VersionParam::Unset) if newest < store.revision() => {
            return Err(Status::too_large(store.revision(), newest));
        }
        (Some(initial), _) => initial,
        (None, version) => !matches!(version, VersionParam::At(_)),
    };
    let mut start = Start {
        initial: Vec::new(),
        cursor: newest,
        opened_at: store.revision(),
    };
    if begins_with_state {
        let objects = cache.objects(store, request.served.slot);
        let selected = request
            .selection
            .range(&objects)
            .filter(|object| request.selection.matches(&request.served.kind, object));
        start.initial = selected.cloned().collect();
    } else if let VersionParam::At(version) = options.version {
        if let Err(too_old) = collection.history.check(version) {
            return Err(Status::too_old(version, too_old.floor));
        }
        start.cursor = version;
    }
    Ok(start)
}
