//! The server, with direct access for tests, which write without HTTP.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::definitions::UnknownFields;
use crate::faults::Faults;
use crate::history::ChangeType;
use crate::kinds::{Kind, Served};
use crate::list;
use crate::listen;
use crate::options::Options;
use crate::patch::Patch;
use crate::replica::Replica;
use crate::replica_cache::ReplicaCache;
use crate::service::ApiService;
use crate::state::{RequestRecord, ServerState, TokenOwner};
use crate::status::Status;
use crate::store::Store;
use crate::tls::Identity;
use crate::tree;
use crate::writes::{Deletion, Part, Preconditions, Write};

/// The namespaces that every cluster has.
const NAMESPACES: &[&str] = &["default", "kube-node-lease", "kube-public", "kube-system"];

/// Counts since the server was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Watches that are open now.
    pub watches_open: usize,
    /// All watches opened so far.
    pub watches_opened: u64,
    /// Watches that were closed because their client read too slowly.
    pub watches_closed_slow: u64,
}

/// One write, as a simulation's checker needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteRecord {
    pub revision: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub kind: &'static str,
    /// The state after it; for deletes the last one, stamped with the delete's revision.
    pub object: Value,
}

/// An embedded Kubernetes API server. Cheap to clone; all clones are one server.
///
/// Resources are named as in paths: `v1/pods`, `apps/v1/deployments`. The namespace of cluster-scoped objects is the
/// empty string.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) state: Arc<ServerState>,
    cache: Arc<ReplicaCache>,
}

impl ApiServer {
    /// A server with only the namespaces that every cluster has.
    pub fn new(options: Options) -> Self {
        let store = Store::new(&options);
        let server = Self::with_store(options, store);
        for namespace in NAMESPACES {
            let made = server.create("v1/namespaces", "", json!({ "metadata": { "name": namespace } }));
            made.expect("a new server takes its own namespaces");
        }
        server
    }

    pub(crate) fn with_store(options: Options, store: Store) -> Self {
        Self {
            state: Arc::new(ServerState::new(options, store)),
            cache: Arc::default(),
        }
    }

    /// The server as a service: for `kube::Client::new`, without its own sockets, tasks or clock.
    pub fn service(&self) -> ApiService {
        ApiService::new(Arc::clone(&self.state), Arc::clone(&self.cache))
    }

    /// Adds a replica with the same data, which can be made to lag.
    pub fn replica(&self) -> Replica {
        Replica::new(Arc::clone(&self.state))
    }

    /// Control of the server's faults.
    pub fn faults(&self) -> Faults {
        Faults::new(Arc::clone(&self.state))
    }

    /// Serves one more kind from now on, as applying a CustomResourceDefinition would.
    pub fn register(&self, kind: Kind) {
        self.state.store().register(kind);
    }

    /// The served kind with this apiVersion and this name, as objects have them.
    pub fn kind_of(&self, api_version: &str, kind: &str) -> Option<Kind> {
        self.find_kind(|served| served.kind == kind && served.api_version() == api_version)
    }

    /// The served kind of a resource: `v1/pods`, `apps/v1/deployments`.
    pub fn kind_at(&self, resource: &str) -> Option<Kind> {
        self.find_kind(|served| resource == format!("{}/{}", served.api_version(), served.plural))
    }

    /// All served kinds, sorted by group, version and plural.
    pub fn kinds(&self) -> Vec<Kind> {
        let store = self.state.store();
        store.registry().sorted().map(|kind| Kind::clone(kind)).collect()
    }

    fn find_kind(&self, is_it: impl Fn(&Kind) -> bool) -> Option<Kind> {
        self.kinds().into_iter().find(|kind| is_it(kind))
    }

    /// Creates an object as it is, status and uid included.
    ///
    /// # Errors
    /// As over HTTP: 404 for an unknown resource or namespace, 409 `AlreadyExists`, 422 for names.
    pub fn create(&self, resource: &str, namespace: &str, object: Value) -> Result<Value, Status> {
        self.write(resource, namespace, |write| write.create(object))
            .map(|written| written.object)
    }

    /// Replaces an object as it is, status included. A resourceVersion in it must be the stored one; without one the
    /// update is unconditional. An update that changes nothing takes no revision.
    ///
    /// # Errors
    /// 404, 409 `Conflict`.
    pub fn update(&self, resource: &str, namespace: &str, object: Value) -> Result<Value, Status> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.write(resource, namespace, |write| write.update(&name, object))
            .map(|written| written.object)
    }

    /// Creates or replaces an object.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`update`](Self::update).
    pub fn put(&self, resource: &str, namespace: &str, object: Value) -> Result<Value, Status> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let exists = self.get(resource, namespace, name)?.is_some();
        if exists {
            self.update(resource, namespace, object)
        } else {
            self.create(resource, namespace, object)
        }
    }

    /// Creates or replaces the object that `json` holds, of any depth: [`put`](Self::put) takes a tree.
    ///
    /// # Errors
    /// As [`put`](Self::put), and 400 if it is not JSON.
    pub fn put_json(&self, resource: &str, namespace: &str, json: &[u8]) -> Result<(), Status> {
        let object = tree::read(json).map_err(|error| Status::bad_request(error.to_string()))?;
        self.put(resource, namespace, object).map(drop)
    }

    /// Changes an object by a JSON merge patch, status included.
    ///
    /// # Errors
    /// 404, 409 `Conflict`.
    pub fn patch(&self, resource: &str, namespace: &str, name: &str, patch: Value) -> Result<Value, Status> {
        let patch = Patch::Merge(patch);
        self.write(resource, namespace, |write| write.patch(name, &patch))
            .map(|(written, _)| written.object)
    }

    /// Deletes an object and returns its last state, stamped with the delete's revision; one with finalizers is marked
    /// instead.
    ///
    /// # Errors
    /// 404.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let deletion = self.write(resource, namespace, |write| {
            write.delete(name, &Preconditions::default())
        })?;
        let (Deletion::Done(last) | Deletion::Waiting(last)) = deletion;
        Ok(last.value())
    }

    /// An object's newest state.
    ///
    /// # Errors
    /// 404 for an unknown resource.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
        let store = self.state.store();
        let served = served(&store, resource)?;
        let found = store.get(served.slot, namespace, name);
        Ok(found.map(|stored| stored.value_as(&served.kind)))
    }

    /// All objects of a resource, newest state, sorted by namespace and name.
    ///
    /// # Errors
    /// 404 for an unknown resource.
    pub fn list(&self, resource: &str) -> Result<Vec<Value>, Status> {
        let store = self.state.store();
        let served = served(&store, resource)?;
        let objects = store.collection(served.slot).objects.clone();
        drop(store);
        Ok(objects.values().map(|stored| stored.value_as(&served.kind)).collect())
    }

    /// All objects of a resource as they were at `revision`.
    ///
    /// # Errors
    /// 404 for an unknown resource, 410 if the history does not reach back that far.
    pub fn list_at(&self, resource: &str, revision: u64) -> Result<Vec<Value>, Status> {
        let store = self.state.store();
        let objects = list::at(&store, served(&store, resource)?.slot, revision)?;
        drop(store);
        Ok(objects.values().map(|stored| stored.value()).collect())
    }

    /// The remembered writes to a resource after `revision`, oldest first.
    ///
    /// # Errors
    /// 404 for an unknown resource, 410 if the history does not reach back that far.
    pub fn writes_after(&self, resource: &str, revision: u64) -> Result<Vec<WriteRecord>, Status> {
        let store = self.state.store();
        let history = &store.collection(served(&store, resource)?.slot).history;
        history
            .check(revision)
            .map_err(|too_old| Status::too_old(revision, too_old.floor))?;
        let record = |event: &crate::history::HistoryEvent| WriteRecord {
            revision: event.revision(),
            kind: match event.change {
                ChangeType::Added => "ADDED",
                ChangeType::Modified => "MODIFIED",
                ChangeType::Deleted => "DELETED",
            },
            object: event.object.value(),
        };
        Ok(history.after(revision).map(record).collect())
    }

    /// Makes token reviews accept a token. Requests to this server need none.
    pub fn add_token(&self, token: &str, owner: TokenOwner) {
        self.state.add_token(token, owner);
    }

    /// Makes token reviews refuse a token, as after its expiry.
    pub fn remove_token(&self, token: &str) {
        self.state.remove_token(token);
    }

    /// The revision of the newest write.
    pub fn revision(&self) -> u64 {
        self.state.store().revision()
    }

    /// The received requests, oldest first; at most `REQUESTS_KEPT_MAX`.
    pub fn requests(&self) -> Vec<RequestRecord> {
        self.state.requests()
    }

    pub fn stats(&self) -> Stats {
        let watches = self.state.watches();
        Stats {
            watches_open: watches.count(),
            watches_opened: watches.opened_total,
            watches_closed_slow: watches.closed_slow_total,
        }
    }

    /// Serves connections until `shutdown` completes; then ends watches, lets responses finish for up to 2 s and cuts
    /// the remaining connections.
    ///
    /// # Errors
    /// None at present: accepting connections is retried.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) -> io::Result<()> {
        listen::serve(&self.state, &self.service(), listener, None, shutdown).await
    }

    /// As [`serve`](Self::serve), over TLS.
    ///
    /// # Errors
    /// None at present.
    pub async fn serve_tls(
        &self,
        listener: TcpListener,
        identity: &Identity,
        shutdown: impl Future<Output = ()> + Send,
    ) -> io::Result<()> {
        listen::serve(&self.state, &self.service(), listener, Some(identity), shutdown).await
    }

    fn write<T>(
        &self,
        resource: &str,
        namespace: &str,
        write: impl FnOnce(&mut Write<'_>) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let now = self.state.now_rfc3339();
        let mut store = self.state.store();
        let Served { slot, kind } = served(&store, resource)?;
        write(&mut Write {
            store: &mut store,
            kind,
            slot,
            namespace,
            now: &now,
            part: Part::Whole,
            dry_run: false,
            unknown_fields: UnknownFields::Drop,
        })
    }
}

/// Finds `v1/pods` or `apps/v1/deployments`.
fn served(store: &Store, resource: &str) -> Result<Served, Status> {
    let mut parts = resource.rsplitn(3, '/');
    let (plural, version) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let group = parts.next().unwrap_or_default();
    store.served(group, version, plural).cloned().ok_or_else(|| {
        let message = format!("resource {resource:?} is not served; name it as \"v1/pods\" or \"apps/v1/deployments\"");
        Status::new(404, "NotFound", message)
    })
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer")
            .field("revision", &self.revision())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
