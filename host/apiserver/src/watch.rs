//! Watches: opening them, and the registry of open ones, through which faults control them.
//!
//! ```text
//!  writes ──▶ history ◀──reads from its own version on── stream (one per watch)
//!                                                          ▲
//!  faults ──▶ registry ──commands──▶ control ──────────────┘
//! ```
//!
//! A watch has no queue of its own: it reads the common history when its client reads, so that slow watches cost
//! nothing. One that falls too far behind is closed. Follows apiserver `pkg/storage/cacher`.

mod line;
mod stream;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::Response;
use tokio::sync::Notify;

use self::stream::{Start, WatchStream};
use crate::body::{self, Body};
use crate::faults::{Attributes, Ending, Filter, Injection};
use crate::kinds::Served;
use crate::query::{ListOptions, VersionParam};
use crate::replica::ReplicaCache;
use crate::representation::Representation;
use crate::selection::Selection;
use crate::server::Inner;
use crate::status::Status;
use crate::store::Store;

/// What a fault does to an open watch.
#[derive(Debug, Clone)]
pub(crate) enum WatchCommand {
    End(Ending),
    Inject(Injection),
    Freeze,
    Thaw,
}

/// The control of an open watch by faults.
#[derive(Debug)]
struct Control {
    attributes: Attributes,
    commands: Mutex<VecDeque<WatchCommand>>,
    poked: Notify,
}

impl Control {
    fn commands(&self) -> MutexGuard<'_, VecDeque<WatchCommand>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open watches, in the order in which they were opened.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    open: BTreeMap<u64, Arc<Control>>,
    pub(crate) opened_total: u64,
    pub(crate) closed_slow_total: u64,
}

impl Watches {
    pub(crate) fn count(&self) -> usize {
        self.open.len()
    }

    /// Sends `command` to the watches that match. Returns how many.
    pub(crate) fn command(&self, filter: &Filter, command: &WatchCommand) -> usize {
        let met = self.open.values().filter(|control| filter.matches(&control.attributes));
        met.inspect(|control| {
            control.commands().push_back(command.clone());
            control.poked.notify_one();
        })
        .count()
    }

    fn add(&mut self, attributes: Attributes) -> (u64, Arc<Control>) {
        let control = Arc::new(Control {
            attributes,
            commands: Mutex::default(),
            poked: Notify::new(),
        });
        self.opened_total += 1;
        self.open.insert(self.opened_total, Arc::clone(&control));
        (self.opened_total, control)
    }

    fn remove(&mut self, id: u64) {
        self.open.remove(&id);
    }
}

/// A watch request.
pub(crate) struct Request {
    pub(crate) served: Served,
    pub(crate) selection: Selection,
    pub(crate) options: ListOptions,
    pub(crate) representation: Representation,
    pub(crate) attributes: Attributes,
    /// Silent from the start.
    pub(crate) frozen: bool,
}

/// Opens a watch.
pub(crate) fn open(inner: &Arc<Inner>, cache: &Arc<ReplicaCache>, request: Request) -> Result<Response<Body>, Status> {
    if request.options.send_initial_events.is_some() && !inner.options.watch_list {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        return Err(Status::forbidden_list_option("sendInitialEvents", why));
    }
    let start = start(&inner.store(), cache, &request);
    let body = match start {
        Ok(start) => {
            let stream = WatchStream::new(Arc::clone(inner), Arc::clone(cache), request, start);
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
