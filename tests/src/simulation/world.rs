//! The world of a run: the server with a second replica, the informer on it, the history.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_apiserver::{ApiServer, Options, Replica};
use informant_cache::{Catalog, Environment, Snapshot};
use informant_informer::{
    GroupVersionResource, InformerMetrics, InformerOptions, ReflectorOptions, SharedInformer, SourceSpec,
    TokioEnvironment,
};
use informant_object::{Object, Pointer};
use kube::client::Body;
use tower::ServiceExt;

use super::history::{Entry, History, ObjectVersion};

/// What the run watches.
pub(super) const RESOURCE: &str = "v1/configmaps";

/// The index every run has.
pub(super) const INDEX: &str = "value";

/// What a seed decides about a world before anything happens in it.
pub(super) struct Setting {
    pub(super) history_events_max: usize,
    pub(super) paging_at_zero: bool,
    /// Whether the informer asks for its state by WatchList first.
    pub(super) by_watch_list: bool,
    /// Whether the server gives it.
    pub(super) server_knows_watch_list: bool,
}

pub(super) struct World {
    pub(super) server: ApiServer,
    pub(super) replica: Replica,
    /// Whether the informer's requests go to the second replica.
    pub(super) on_replica: Arc<AtomicBool>,
    pub(super) environment: Arc<TokioEnvironment>,
    pub(super) informer: SharedInformer,
    /// Whether handlers may fail.
    pub(super) trouble: AtomicBool,
    history: Mutex<History>,
}

impl World {
    /// A server and an informer on it. Must run on the runtime of the run.
    pub(super) fn new(seed: u64, setting: &Setting) -> Arc<Self> {
        let options = Options {
            seed,
            history_events_max: setting.history_events_max,
            paging_at_zero: setting.paging_at_zero,
            watch_list: setting.server_knows_watch_list,
            ..Options::default()
        };
        let server = ApiServer::new(options);
        let replica = server.replica();
        let on_replica = Arc::new(AtomicBool::new(false));
        let environment = Arc::new(TokioEnvironment::current(seed));
        let informer = SharedInformer::start_with(
            spec(),
            client(&server, &replica, on_replica.clone()),
            environment.clone(),
            Catalog::new(),
            &InformerMetrics::register(&mut Default::default()),
            InformerOptions {
                reflector: ReflectorOptions {
                    watch_list: setting.by_watch_list,
                    ..ReflectorOptions::default()
                },
                ..InformerOptions::default()
            },
        )
        .expect("the specification is sound");
        Arc::new(Self {
            server,
            replica,
            on_replica,
            environment,
            informer,
            trouble: AtomicBool::new(true),
            history: Mutex::default(),
        })
    }

    pub(super) fn record(&self, entry: Entry) {
        let now = self.environment.now().as_nanos();
        self.history().entries.push((now, entry));
    }

    pub(super) fn take_history(&self) -> History {
        std::mem::take(&mut self.history())
    }

    /// What the API server holds, sorted by key.
    pub(super) fn cluster(&self) -> Vec<ObjectVersion> {
        let objects = self.server.list(RESOURCE).expect("config maps are built in");
        let mut versions: Vec<_> = objects.iter().map(version_of).collect();
        versions.sort();
        versions
    }

    /// What the store holds, sorted by key.
    pub(super) fn stored(&self) -> Vec<ObjectVersion> {
        let mut versions: Vec<_> = self.informer.snapshot().iter().map(version_of_object).collect();
        versions.sort();
        versions
    }

    pub(super) fn is_troubled(&self) -> bool {
        self.trouble.load(Ordering::Relaxed)
    }

    /// The index, and what a scan makes of it.
    pub(super) fn index_and_scan(&self) -> [Vec<(String, Vec<String>)>; 2] {
        let snapshot = self.informer.snapshot();
        [index_of(&snapshot), scan_of(&snapshot)]
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spec() -> SourceSpec {
    let mut spec = SourceSpec::new("maps", GroupVersionResource::new("", "v1", "configmaps"), "ConfigMap");
    spec.indexes = vec![(INDEX.to_owned(), Pointer::parse("/data/value").expect("a pointer"))];
    spec
}

/// A client whose requests go to the one or the other replica.
fn client(server: &ApiServer, replica: &Replica, on_replica: Arc<AtomicBool>) -> kube::Client {
    let (first, second) = (server.service(), replica.service());
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

fn index_of(snapshot: &Snapshot) -> Vec<(String, Vec<String>)> {
    let values = snapshot.index_values(INDEX).expect("the index exists");
    let keys = |value: &str| {
        let keys = snapshot.index_keys(INDEX, value).expect("the index exists");
        keys.map(|key| key.to_string()).collect::<Vec<_>>()
    };
    values.iter().map(|value| (value.to_string(), keys(value))).collect()
}

fn scan_of(snapshot: &Snapshot) -> Vec<(String, Vec<String>)> {
    let mut found = std::collections::BTreeMap::<String, Vec<String>>::new();
    for object in snapshot.iter() {
        let value: serde_json::Value = serde_json::from_slice(object.json()).expect("the server sends JSON");
        if let Some(value) = value.pointer("/data/value").and_then(serde_json::Value::as_str) {
            found
                .entry(value.to_owned())
                .or_default()
                .push(object.key().to_string());
        }
    }
    found.into_iter().collect()
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
