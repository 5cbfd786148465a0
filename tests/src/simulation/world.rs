//! The environment of a run: the server with a second replica, the informers on it, the history.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_apiserver::{ApiServer, Options, Replica};
use informant_cache::{Catalog, Environment};
use informant_informer::{InformerMetrics, TokioEnvironment};
use informant_object::Object;
use kube::client::Body;
use tower::ServiceExt;

use super::history::{Entry, History, ObjectVersion, Selection};
use super::watched::Watched;

/// The resource that the run watches.
pub(super) const RESOURCE: &str = "v1/configmaps";

/// The label by which informers select.
pub(super) const GROUP: &str = "group";

/// The label in which a handler stores the value that it saw.
pub(super) const SEEN: &str = "seen";

/// The parameters of a world, drawn from the seed at the start.
pub(super) struct Setting {
    pub(super) history_events_max: usize,
    pub(super) paging_at_zero: bool,
    /// Whether the server supports WatchList.
    pub(super) server_knows_watch_list: bool,
    /// How far a watch may lag before the server closes it.
    pub(super) watch_backlog_events_max: usize,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            history_events_max: 10_000,
            paging_at_zero: false,
            server_knows_watch_list: true,
            watch_backlog_events_max: 4_096,
        }
    }
}

pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) replica: Replica,
    /// Whether requests go to the second replica.
    pub(super) on_replica: Arc<AtomicBool>,
    pub(super) environment: Arc<TokioEnvironment>,
    pub(super) catalog: Catalog,
    pub(super) metrics: InformerMetrics,
    /// Whether handlers may fail.
    pub(super) trouble: AtomicBool,
    pub(super) informers: Mutex<Vec<Arc<Watched>>>,
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
        let server = ApiServer::new(options);
        Arc::new(Self {
            replica: server.replica(),
            server,
            on_replica: Arc::default(),
            environment: Arc::new(TokioEnvironment::current(seed)),
            catalog: Catalog::new(),
            metrics: InformerMetrics::register(&mut Default::default()),
            trouble: AtomicBool::new(true),
            informers: Mutex::default(),
            informers_ever: AtomicU32::new(0),
            past: Mutex::default(),
            history: Mutex::default(),
        })
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
        let objects = self.server.list(RESOURCE).expect("config maps are built in");
        let selected = objects.iter().filter(|object| {
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
            selection.selects(namespace, group_of(object))
        });
        let mut versions: Vec<_> = selected.map(version_of).collect();
        versions.sort();
        versions
    }

    pub(super) fn faults_active(&self) -> bool {
        self.trouble.load(Ordering::Relaxed)
    }

    /// A client whose requests go to the selected replica.
    pub(super) fn client(&self) -> kube::Client {
        let (first, second) = (self.server.service(), self.replica.service());
        let on_replica = Arc::clone(&self.on_replica);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let service = if on_replica.load(Ordering::Relaxed) {
                second.clone()
            } else {
                first.clone()
            };
            service.oneshot(request)
        });
        kube::Client::new(service, "default")
    }

    /// Records that everything is at rest, for each informer.
    pub(super) fn record_rest(&self) {
        for watched in self.informers() {
            watched.check_index(self);
            self.record(Entry::AtRest {
                informer: watched.id,
                cluster: self.cluster(&watched.selection()),
                store: watched.stored(),
            });
        }
    }

    /// Ends all faults: rules are removed, and handlers no longer fail.
    pub(super) fn end_faults(&self) {
        self.replica.thaw();
        self.on_replica.store(false, Ordering::Relaxed);
        self.server.faults().clear();
        self.trouble.store(false, Ordering::Relaxed);
        self.note("all faults end");
    }
}

/// Writes.
impl World {
    /// Creates or replaces an object, and records it.
    pub(super) fn put(&self, namespace: &str, name: &str, value: &str, group: &str) -> ObjectVersion {
        let object = serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "labels": {GROUP: group}},
            "data": {"value": value},
        });
        let written = self
            .server
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
        let (namespace, name) = (object.namespace(), object.name());
        let object_json: serde_json::Value = serde_json::from_slice(object.json()).expect("the server sends JSON");
        let patch = serde_json::json!({"metadata": {"labels": {SEEN: object_json["data"]["value"]}}});
        let before = self.server.revision();
        let Ok(written) = self.server.patch(RESOURCE, namespace, name, patch) else {
            return;
        };
        if self.server.revision() == before {
            return self.note(format!("{namespace}/{name} is patched without a change"));
        }
        let group = group_of(&written).to_owned();
        let object = version_of(&written);
        self.record(Entry::Written { object, group });
    }

    pub(super) fn exists(&self, namespace: &str, name: &str) -> bool {
        let found = self.server.get(RESOURCE, namespace, name);
        found.expect("a built-in kind").is_some()
    }

    /// Deletes an object that is there, and records it.
    pub(super) fn delete(&self, namespace: &str, name: &str) -> ObjectVersion {
        let removed = self
            .server
            .delete(RESOURCE, namespace, name)
            .expect("the object exists");
        // The answer to a delete does not contain the version of the removal; the log of writes does.
        let object = ObjectVersion {
            version: self.server.revision(),
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
