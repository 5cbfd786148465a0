//! The environment of a run: the server with a second replica, the informers on it, the history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use informant_apiserver::{ApiServer, Options, Replica, ServerSnapshot, ServiceError};
use informant_cache::{CacheBudget, Catalog, Environment, Snapshot};
use informant_informer::{InformerMetrics, TokioEnvironment};
use informant_object::{Object, Projection};
use kube::client::Body;
use tower::ServiceExt;

use super::history::{Entry, History, ObjectVersion, Selection};
use super::tap::WatchTap;
use super::watched::Watched;

/// The resource that the run watches.
pub(super) const RESOURCE: &str = "v1/configmaps";

/// The label by which informers select.
pub(super) const GROUP: &str = "group";

/// The label in which a handler stores the value that it saw.
pub(super) const SEEN: &str = "seen";

/// The padding of an object where the caches have a budget.
const PADDING_BYTES: usize = 1_500;

/// How many versions one step writes at most: a delete and a create.
const WRITES_AT_ONCE: u64 = 2;

/// How long a server that was replaced stays away: longer than any run.
const FOREVER: Duration = Duration::from_secs(365 * 86_400);

/// The parameters of a world, drawn from the seed at the start.
pub(super) struct Setting {
    pub(super) history_events_max: usize,
    pub(super) paging_at_zero: bool,
    /// Whether the server supports WatchList.
    pub(super) server_knows_watch_list: bool,
    /// How far a watch may lag before the server closes it.
    pub(super) watch_backlog_events_max: usize,
    /// The budget of all caches. With one, objects are so large that shedding them saves bytes.
    pub(super) cache_bytes_max: Option<usize>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            history_events_max: 10_000,
            paging_at_zero: false,
            server_knows_watch_list: true,
            watch_backlog_events_max: 4_096,
            cache_bytes_max: None,
        }
    }
}

pub(super) struct World {
    /// The server and its second replica. A restored server takes their place.
    servers: Mutex<(ApiServer, Replica)>,
    options: Options,
    /// Whether requests go to the second replica.
    pub(super) on_replica: Arc<AtomicBool>,
    pub(super) environment: Arc<TokioEnvironment>,
    pub(super) catalog: Catalog,
    pub(super) metrics: InformerMetrics,
    /// Whether handlers may fail.
    pub(super) trouble: AtomicBool,
    pub(super) informers: Mutex<Vec<Arc<Watched>>>,
    /// The informers to which the scripted index was added.
    pub(super) indexed: Mutex<BTreeSet<u32>>,
    /// The number of informers so far.
    pub(super) informers_ever: AtomicU32,
    /// Every written state, as the server answered it.
    pub(super) past: Mutex<Vec<serde_json::Value>>,
    history: Mutex<History>,
}

impl World {
    /// A server without watchers. Must run on the runtime of the run.
    pub(super) fn new(seed: u64, setting: &Setting) -> Arc<Self> {
        let options = Options {
            seed,
            history_events_max: setting.history_events_max,
            paging_at_zero: setting.paging_at_zero,
            watch_list: setting.server_knows_watch_list,
            watch_backlog_events_max: setting.watch_backlog_events_max,
            ..Options::default()
        };
        let server = ApiServer::new(options.clone());
        Arc::new(Self {
            servers: Mutex::new((server.clone(), server.replica())),
            options,
            on_replica: Arc::default(),
            environment: Arc::new(TokioEnvironment::current(seed)),
            catalog: Catalog::with_budget(CacheBudget::new(setting.cache_bytes_max)),
            metrics: InformerMetrics::register(&mut Default::default()),
            trouble: AtomicBool::new(true),
            informers: Mutex::default(),
            indexed: Mutex::default(),
            informers_ever: AtomicU32::new(0),
            past: Mutex::default(),
            history: Mutex::default(),
        })
    }

    pub(super) fn server(&self) -> ApiServer {
        locked(&self.servers).0.clone()
    }

    pub(super) fn replica(&self) -> Replica {
        locked(&self.servers).1.clone()
    }

    pub(super) fn record(&self, entry: Entry) {
        let now = self.environment.now().as_nanos();
        locked(&self.history).entries.push((now, entry));
    }

    /// Records a fault or another change.
    pub(super) fn note(&self, what: impl Into<String>) {
        self.record(Entry::Fault { name: what.into() });
    }

    /// The history so far.
    pub(super) fn history_so_far(&self) -> History {
        locked(&self.history).clone()
    }

    pub(super) fn take_history(&self) -> History {
        std::mem::take(&mut locked(&self.history))
    }

    pub(super) fn informers(&self) -> Vec<Arc<Watched>> {
        locked(&self.informers).clone()
    }

    /// The API server's objects in `selection`, sorted by key.
    pub(super) fn cluster(&self, selection: &Selection) -> Vec<ObjectVersion> {
        let mut versions: Vec<_> = self.cluster_objects(selection).iter().map(version_of).collect();
        versions.sort();
        versions
    }

    /// The API server's objects in `selection`.
    pub(super) fn cluster_objects(&self, selection: &Selection) -> Vec<serde_json::Value> {
        let mut objects = self.server().list(RESOURCE).expect("config maps are built in");
        objects.retain(|object| {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            selection.selects(namespace, group_of(object))
        });
        objects
    }

    pub(super) fn faults_active(&self) -> bool {
        self.trouble.load(Ordering::Relaxed)
    }

    /// A client of an informer, whose requests go to the selected replica.
    pub(super) fn client(self: &Arc<Self>, informer: u32) -> kube::Client {
        let world = Arc::downgrade(self);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let world = world.upgrade();
            async move {
                let Some(world) = world else {
                    return Err(ServiceError::Refused);
                };
                let mut tap = WatchTap::of(&world, informer, request.uri());
                let service = if world.on_replica.load(Ordering::Relaxed) {
                    world.replica().service()
                } else {
                    world.server().service()
                };
                drop(world);
                let response = service.oneshot(request).await?;
                Ok(response.map(|body| {
                    body.map_frame(move |frame| {
                        if let (Some(tap), Some(bytes)) = (&mut tap, frame.data_ref()) {
                            tap.read(bytes);
                        }
                        frame
                    })
                }))
            }
        });
        kube::Client::new(service, "default")
    }

    /// Records what the caches take, and what they keep, if they have a budget.
    fn record_cache(&self) {
        let budget = self.catalog.budget();
        let Some(max_bytes) = budget.max_bytes() else { return };
        let sources = self.catalog.all();
        let snapshots: Vec<_> = sources.iter().map(|source| source.snapshot()).collect();
        let bytes = |snapshot: &Snapshot| snapshot.bytes() + snapshot.index_bytes() + snapshot.held_bytes();
        let shed = snapshots.iter().flat_map(Snapshot::shed_namespaces);
        self.record(Entry::CacheAtRest {
            max_bytes,
            used_bytes: budget.used_bytes(),
            bytes: snapshots.iter().map(bytes).sum(),
            whole: snapshots
                .iter()
                .flat_map(Snapshot::iter)
                .filter(|object| is_reducible(object))
                .count(),
            least_shed_bytes: shed.map(|(_, bytes)| bytes).min(),
        });
    }

    /// Records that everything is at rest, for each informer.
    pub(super) fn record_rest(&self) {
        self.record_cache();
        for watched in self.informers() {
            watched.check_index(self);
            self.record(Entry::AtRest {
                informer: watched.id,
                cluster: watched.wanted(self),
                store: watched.stored(),
            });
        }
    }

    /// Ends all faults: rules are removed, and handlers no longer fail.
    pub(super) fn end_faults(&self) {
        self.replica().thaw();
        self.on_replica.store(false, Ordering::Relaxed);
        self.server().faults().clear();
        self.trouble.store(false, Ordering::Relaxed);
        self.note("all faults end");
    }
}

/// Whether the head of an object takes less than the object. That of a Secret without data does not.
fn is_reducible(object: &Object) -> bool {
    !object.is_head() && object.to_head(&Projection::of_head(&[])).size_bytes() < object.size_bytes()
}

/// Restores from a backup.
impl World {
    /// The server's database goes back to `backup`. All connections end, and the history is empty.
    pub(super) fn restore(&self, backup: &ServerSnapshot, seed: u64) {
        let version = backup.revision();
        let mut file = Vec::new();
        backup.write(&mut file).expect("memory can be written");
        let server = ApiServer::restore(self.options.clone(), &*with_random(&file, seed)).expect("it was just written");
        let (before, _) = std::mem::replace(&mut *locked(&self.servers), (server.clone(), server.replica()));
        before.faults().restart(FOREVER, true);
        locked(&self.past).retain(|state| version_of(state).version <= version);
        self.on_replica.store(false, Ordering::Relaxed);
        self.record(Entry::Restored {
            version,
            objects: self.cluster(&Selection::default()),
        });
    }

    /// Whether the server may be written to: a source that is ahead of a restored server has to notice it before the
    /// server has the same version again. Afterwards nothing would tell the two histories apart.
    pub(super) fn may_be_written(&self) -> bool {
        let revision = self.server().revision();
        let all = self.catalog.all().into_iter().map(|source| source.snapshot());
        // Replicas have their own.
        let all = all.chain(self.informers().into_iter().flat_map(|watched| watched.snapshots()));
        let mut versions = all.filter_map(|snapshot| snapshot.version()?.number());
        !versions.any(|version| version > revision && version <= revision + WRITES_AT_ONCE)
    }
}

/// The backup in `file`, with another state of the server's random numbers: uids are not drawn twice.
fn with_random(file: &[u8], seed: u64) -> Vec<u8> {
    let end = file
        .iter()
        .position(|byte| *byte == b'\n')
        .expect("the first line ends");
    let mut header: serde_json::Value = serde_json::from_slice(&file[..end]).expect("the first line is JSON");
    header["random"] = format!("{seed:016x}").into();
    [header.to_string().as_bytes(), &file[end..]].concat()
}

/// Writes.
impl World {
    /// What makes an object worth to be shed, if there is a budget.
    fn padding(&self) -> String {
        let bytes = self.catalog.budget().max_bytes().map_or(0, |_| PADDING_BYTES);
        "x".repeat(bytes)
    }

    /// Creates or replaces an object, and records it.
    pub(super) fn put(&self, namespace: &str, name: &str, value: &str, group: &str) -> ObjectVersion {
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {GROUP: group}},
            "data": {"value": value, "padding": self.padding()},
        });
        let written = self
            .server()
            .put(RESOURCE, namespace, object)
            .expect("the object is valid");
        let object = version_of(&written);
        locked(&self.past).push(written);
        self.record(Entry::Written {
            object: object.clone(),
            group: group.to_owned(),
        });
        object
    }

    /// Stores the value of an object in one of its labels, as a handler does that writes to what it watches; records
    /// it. Does nothing if the object is deleted or has the label already.
    pub(super) fn note_seen(&self, object: &Object) {
        // The value is not there.
        if object.is_head() {
            return;
        }
        let (namespace, name) = (object.namespace(), object.name());
        let object_json: serde_json::Value = serde_json::from_slice(object.json()).expect("the server sends JSON");
        let patch = serde_json::json!({"metadata": {"labels": {SEEN: object_json["data"]["value"]}}});
        let before = self.server().revision();
        let Ok(written) = self.server().patch(RESOURCE, namespace, name, patch) else {
            return;
        };
        if self.server().revision() == before {
            return self.note(format!("{namespace}/{name} is patched without a change"));
        }
        let group = group_of(&written).to_owned();
        let object = version_of(&written);
        self.record(Entry::Written { object, group });
    }

    pub(super) fn exists(&self, namespace: &str, name: &str) -> bool {
        let found = self.server().get(RESOURCE, namespace, name);
        found.expect("a built-in kind").is_some()
    }

    /// Deletes an object that is there, and records it.
    pub(super) fn delete(&self, namespace: &str, name: &str) -> ObjectVersion {
        let removed = self
            .server()
            .delete(RESOURCE, namespace, name)
            .expect("the object exists");
        // The answer to a delete does not contain the version of the removal; the log of writes does.
        let object = ObjectVersion {
            version: self.server().revision(),
            ..version_of(&removed)
        };
        self.record(Entry::Removed { object: object.clone() });
        object
    }
}

/// Keys by value: the contents of an index.
pub(super) fn sorted(values: BTreeMap<String, Vec<String>>) -> Vec<(String, Vec<String>)> {
    let sort = |(value, mut keys): (String, Vec<String>)| {
        keys.sort();
        (value, keys)
    };
    values.into_iter().map(sort).collect()
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The identity of a stored object.
pub(super) fn version_of_object(object: &Object) -> ObjectVersion {
    ObjectVersion {
        namespace: object.namespace().to_owned(),
        name: object.name().to_owned(),
        uid: object.uid().to_owned(),
        version: object.version().number().unwrap_or_default(),
    }
}

/// The identity of an object as the server answers it.
pub(super) fn version_of(object: &serde_json::Value) -> ObjectVersion {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    ObjectVersion {
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        version: text("resourceVersion").parse().unwrap_or_default(),
    }
}

fn group_of(object: &serde_json::Value) -> &str {
    object["metadata"]["labels"][GROUP].as_str().unwrap_or_default()
}
