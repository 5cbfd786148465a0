//! A restart onto a lagging replica, which still serves the past.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use informant_apiserver::{ApiServer, Options};
use informant_cache::listener::{DeliveryOutcome, ListenerOptions, NextDelivery, Notification};
use informant_cache::{Catalog, Environment};
use informant_informer::{InformerMetrics, NamedInformer, TokioEnvironment};
use kube::Client;
use serde_json::json;

use super::*;

/// How long something may take to happen.
const WITHIN: Duration = Duration::from_secs(30);

fn put(server: &ApiServer, name: &str) -> String {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    let written = server.put("v1/pods", "default", pod).unwrap();
    written["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// A process with one informer and one handler, which records `add NAME UID`.
struct Process {
    durable_state: DurableState,
    informer: NamedInformer,
    listener: ListenerHandle,
    received: Vec<String>,
    environment: Arc<TokioEnvironment>,
}

impl Process {
    async fn start(path: &Path, client: Client) -> Self {
        let config = config(&(durable("a") + "[plugin.greeter]\ncomponent = \"greeter.wasm\"\ninformers = [\"a\"]\n"));
        let durable_state = durable_state(path);
        durable_state.open_if_needed(&config).await.unwrap();
        let section = Arc::new(config.informers["a"].clone());
        let mut spec = spec("a", &[]);
        spec.durable = durable_state.persistence(&section, URL, &spec).await.unwrap();
        let environment = Arc::new(TokioEnvironment::current(3));
        let (catalog, metrics) = (Catalog::new(), InformerMetrics::default());
        let informer = NamedInformer::start(spec, client, environment.clone(), catalog, &metrics).unwrap();
        let listener = ListenerHandle::new(ListenerOptions::default());
        durable_state.name(&listener, "greeter", ReplayPolicy::Continue);
        informer.add_listener(listener.clone()).unwrap();
        Self {
            durable_state,
            informer,
            listener,
            received: Vec::new(),
            environment,
        }
    }

    /// Handles deliveries until `done` is true of what was received.
    async fn handle_until(&mut self, done: impl Fn(&[String]) -> bool) {
        let until = Instant::now() + WITHIN;
        while !done(&self.received) {
            assert!(Instant::now() < until, "received so far: {:?}", self.received);
            let NextDelivery::Deliver(delivery) = self.listener.consumer().next(self.environment.now()) else {
                self.environment.sleep(Duration::from_millis(5)).await;
                continue;
            };
            self.received.push(match &delivery.notification {
                Notification::Add(object) => format!("add {} {}", object.name(), object.uid()),
                Notification::Update { new, .. } => format!("update {} {}", new.name(), new.uid()),
                Notification::Delete { key, last, .. } => {
                    let uid = last.as_ref().map_or("", |last| last.uid());
                    format!("delete {} {uid}", key.name())
                }
                Notification::Synced | Notification::Tick(_) => "synced".to_owned(),
            });
            self.listener
                .consumer()
                .done(delivery.token, DeliveryOutcome::Ok, self.environment.now());
        }
    }

    /// The file as `kill -9` would leave it once everything handled is persisted.
    async fn crash(&self, to: &Path) {
        let until = Instant::now() + WITHIN;
        let open = || self.durable_state.0.metrics.open_keys_of("a", "", "greeter");
        while open() != Some(0) {
            assert!(Instant::now() < until, "{:?} are open", open());
            self.environment.sleep(Duration::from_millis(20)).await;
        }
        // Between two transactions.
        self.durable_state.close();
        std::fs::copy(&self.durable_state.0.path, to).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn restart_onto_a_lagging_replica_delivers_no_earlier_incarnation() {
    let folder = tempfile::tempdir().unwrap();
    let (path, crashed) = (folder.path().join("state.redb"), folder.path().join("crashed"));
    let server = ApiServer::new(Options::default());
    let first = put(&server, "x");
    let replica = server.replica();
    replica.freeze();
    let client = Client::new(server.service(), "default");
    let mut process = Process::start(&path, client).await;
    process.handle_until(|received| received.len() == 2).await;
    server.delete("v1/pods", "default", "x").unwrap();
    let second = put(&server, "x");
    process.handle_until(|received| received.len() == 4).await;
    let all = [
        format!("add x {first}"),
        "synced".to_owned(),
        format!("delete x {first}"),
        format!("add x {second}"),
    ];
    assert_eq!(process.received, all);
    process.crash(&crashed).await;
    drop(process);

    // The next process queries the replica first, where the first `x` is alive and the second does not exist.
    let (lagging, current) = (replica.service(), server.service());
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let first = counted.fetch_add(1, Ordering::Relaxed) < 2;
        tower::ServiceExt::oneshot(if first { lagging.clone() } else { current.clone() }, request)
    });
    let mut next = Process::start(&crashed, Client::new(service, "default")).await;
    next.handle_until(|received| received.contains(&"synced".to_owned()))
        .await;
    assert!(
        asked.load(Ordering::Relaxed) > 2,
        "the replica was queried, and its list rejected"
    );
    put(&server, "y");
    next.handle_until(|received| received.iter().any(|received| received.starts_with("add y")))
        .await;
    assert_eq!(
        next.received.len(),
        2,
        "neither the first x nor the end of the second: {:?}",
        next.received
    );
    assert!(next.informer.has_synced());
}
