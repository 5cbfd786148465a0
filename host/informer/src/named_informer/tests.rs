//! Several namespaces under one name, and their changes, on the embedded API server.

mod budget;
mod durable;
mod random;
mod resources;
mod returns;
mod rolled_back;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_apiserver::{ApiServer, Filter};
use informant_cache::listener::{ListenerOptions, Notification, Pause};
use informant_cache::{Catalog, ListenerHandle, Source};
use informant_object::{LabelSelector, Pointer};
use kube::Client;
use serde_json::json;

use super::{InformerSpec, NamedInformer};
use crate::testing::{Deliveries, HangingServer, api_server, pass, pods, settle};
use crate::{InformerMetrics, ReconfigureError, TokioEnvironment};

/// An informer of some namespaces, and a handler that records its calls.
struct World {
    informer: NamedInformer,
    catalog: Catalog,
    listener: ListenerHandle,
    lines: Arc<Mutex<Vec<String>>>,
    /// The handler waits for a permit before it acknowledges.
    open: Arc<tokio::sync::Semaphore>,
}

/// The objects that lookups find under the informer's name.
fn found_in(catalog: &Catalog) -> Vec<String> {
    let keys = |source: Arc<Source>| {
        let snapshot = source.snapshot();
        snapshot
            .iter()
            .map(|object| object.key().to_string())
            .collect::<Vec<_>>()
    };
    let mut found: Vec<_> = catalog.sources_of("pods").into_iter().flat_map(keys).collect();
    found.sort();
    found
}

/// An API server with some namespaces.
fn cluster() -> ApiServer {
    let server = api_server();
    put_namespaces(&server);
    server
}

fn put_namespaces(server: &ApiServer) {
    for name in ["a", "b", "c"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server
            .put("v1/namespaces", "", namespace)
            .expect("the namespace is written");
    }
}

fn spec(namespaces: &[&str]) -> InformerSpec {
    let namespaces: BTreeSet<String> = namespaces.iter().map(|name| (*name).to_owned()).collect();
    InformerSpec {
        namespaces,
        ..InformerSpec::of(pods())
    }
}

fn put(server: &ApiServer, path: &str, revision: u64) {
    let (namespace, name) = path.split_once('/').unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"revision": revision.to_string()}},
        "spec": {"nodeName": format!("node-{revision}")},
    });
    server.put("v1/pods", namespace, pod).expect("the pod is written");
}

impl World {
    fn start(server: &ApiServer, namespaces: &[&str]) -> Self {
        Self::start_as(server, spec(namespaces))
    }

    fn start_as(server: &ApiServer, spec: InformerSpec) -> Self {
        Self::start_counted(server, spec, &InformerMetrics::default())
    }

    fn start_counted(server: &ApiServer, spec: InformerSpec, metrics: &InformerMetrics) -> Self {
        Self::start_with(Client::new(server.service(), "default"), spec, metrics)
    }

    fn start_with(client: Client, spec: InformerSpec, metrics: &InformerMetrics) -> Self {
        let environment = Arc::new(TokioEnvironment::current(3));
        let catalog = Catalog::new();
        let informer = NamedInformer::start(spec, client, environment.clone(), catalog.clone(), metrics).unwrap();
        let listener = ListenerHandle::new(ListenerOptions::default());
        let (lines, open) = (Arc::default(), Arc::new(tokio::sync::Semaphore::new(1)));
        tokio::spawn(drive(
            listener.clone(),
            environment,
            Arc::clone(&lines),
            Arc::clone(&open),
        ));
        informer.add_listener(listener.clone()).unwrap();
        Self {
            informer,
            catalog,
            listener,
            lines,
            open,
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap())
    }

    async fn change(&self, namespaces: &[&str]) {
        self.informer.reconfigure(spec(namespaces)).await.unwrap();
    }

    /// The objects that lookups find under the informer's name.
    fn found(&self) -> Vec<String> {
        found_in(&self.catalog)
    }

    fn namespaces(&self) -> Vec<Option<String>> {
        let sources = self.catalog.sources_of("pods");
        let mut namespaces: Vec<_> = sources.iter().map(|source| source.info().namespace.clone()).collect();
        namespaces.sort();
        namespaces
    }
}

/// Handles one call after the other: `add a/x (initial)`.
async fn drive(
    listener: ListenerHandle,
    environment: Arc<TokioEnvironment>,
    lines: Arc<Mutex<Vec<String>>>,
    open: Arc<tokio::sync::Semaphore>,
) {
    let deliveries = Deliveries::of(listener, environment);
    while let Some(delivery) = deliveries.next().await {
        let _permit = open.acquire().await.unwrap();
        let what = match &delivery.notification {
            Notification::Add(object) => format!("add {}", object.key()),
            Notification::Update { new, .. } => format!("update {}", new.key()),
            Notification::Delete {
                key,
                last,
                final_state_unknown,
            } => {
                assert!(last.is_some() && !final_state_unknown, "{key}");
                format!("delete {key}")
            }
            Notification::Synced | Notification::Tick(_) => "synced".to_owned(),
        };
        lines.lock().unwrap().push(format!("{what} ({})", delivery.reason));
        deliveries.done(&delivery);
    }
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

fn filled() -> ApiServer {
    let server = cluster();
    for path in ["a/one", "b/one", "c/one"] {
        put(&server, path, 1);
    }
    server
}

/// An informer of some of three namespaces, whose handler has received the initial objects.
async fn world_of(namespaces: &[&str]) -> (ApiServer, World) {
    let server = filled();
    let world = World::start(&server, namespaces);
    settle().await;
    world.take();
    (server, world)
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_shows_whether_others_are_answered() {
    let hanging = HangingServer::new(&cluster());
    let world = World::start_with(
        hanging.client().client().clone(),
        spec(&["a"]),
        &InformerMetrics::default(),
    );
    settle().await;
    assert!(!world.informer.is_api_server_away().await);
    hanging.stop();
    assert!(world.informer.is_api_server_away().await);
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_read_as_a_union_and_synced_together() {
    let server = filled();
    let in_b = Filter::any().namespace("b");
    server.faults().forbid(in_b.clone());
    let world = World::start(&server, &["a", "b"]);
    settle().await;
    assert!(!world.informer.has_synced());
    assert_eq!(world.found(), ["a/one"]);
    assert_eq!(world.take(), ["add a/one (initial)", "synced (initial)"]);
    server.faults().allow(&in_b);
    world.informer.synced().await.unwrap();
    assert_eq!(world.found(), ["a/one", "b/one"]);
    settle().await;
    assert_eq!(world.take(), ["add b/one (initial)", "synced (initial)"]);
    put(&server, "c/two", 1);
    put(&server, "b/two", 1);
    settle().await;
    assert_eq!(world.take(), ["add b/two (watch)"]);
    assert_eq!(world.namespaces(), [Some("a".to_owned()), Some("b".to_owned())]);
    assert_eq!(world.informer.statuses().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_removed_namespace_is_delivered_as_deletes() {
    let (server, world) = world_of(&["a", "b"]).await;
    let a = world.informer.sources()[0].source();
    let watches = server.stats().watches_opened;
    world.change(&["a", "c"]).await;
    settle().await;
    assert_eq!(
        sorted(world.take()),
        ["add c/one (initial)", "delete b/one (reconfigured)", "synced (initial)"]
    );
    assert_eq!(world.found(), ["a/one", "c/one"]);
    assert_eq!(world.informer.sources()[0].source(), a);
    assert_eq!(server.stats().watches_opened, watches + 1);
    pass(5).await;
    assert_eq!(server.stats().watches_open, 2);
    // Removed sources are gone for good.
    assert_eq!(world.catalog.all().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn undelivered_deletes_of_removed_source_are_dropped_after_fifteen_minutes() {
    let (_server, world) = world_of(&["a", "b"]).await;
    for pause in [Pause::Operator, Pause::Quarantine] {
        world.listener.control().pause(pause);
    }
    world.change(&["a"]).await;
    pass(890).await;
    let stats = world.listener.control().stats();
    assert_eq!(
        (stats.pending, stats.counters.deletes_discarded, stats.sources),
        (1, 0, 2)
    );
    pass(20).await;
    let stats = world.listener.control().stats();
    assert_eq!(
        (stats.pending, stats.counters.deletes_discarded, stats.sources),
        (0, 1, 1)
    );
    assert_eq!(world.take(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn narrowing_to_some_namespaces_delivers_only_deletes() {
    let (server, world) = world_of(&[]).await;
    world.change(&["a", "b"]).await;
    pass(5).await;
    assert_eq!(world.take(), ["delete c/one (reconfigured)"]);
    assert_eq!(world.found(), ["a/one", "b/one"]);
    put(&server, "a/one", 2);
    put(&server, "c/one", 2);
    settle().await;
    assert_eq!(world.take(), ["update a/one (watch)"]);
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn widening_to_all_namespaces_delivers_only_new_objects() {
    let (server, world) = world_of(&["a", "b"]).await;
    world.change(&[]).await;
    pass(5).await;
    assert_eq!(world.take(), ["add c/one (reconfigured)"]);
    assert_eq!(world.found(), ["a/one", "b/one", "c/one"]);
    put(&server, "b/one", 2);
    server.delete("v1/pods", "a", "one").unwrap();
    settle().await;
    assert_eq!(world.take(), ["update b/one (watch)", "delete a/one (watch)"]);
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (1, 1));
    // The handler counts as synced with the new source.
    let source = world.informer.sources()[0].source();
    assert!(world.listener.feed().has_synced(source));
}

#[tokio::test(start_paused = true)]
async fn the_old_source_continues_while_a_new_namespace_is_forbidden() {
    let (server, world) = world_of(&[]).await;
    let in_b = Filter::any().namespace("b");
    server.faults().forbid(in_b.clone());
    world.change(&["a", "b"]).await;
    pass(100).await;
    put(&server, "c/two", 1);
    settle().await;
    assert_eq!(world.take(), ["add c/two (watch)"]);
    assert_eq!(world.found(), ["a/one", "b/one", "c/one", "c/two"]);
    assert_eq!(world.namespaces(), [None]);
    server.faults().allow(&in_b);
    pass(100).await;
    assert_eq!(
        sorted(world.take()),
        ["delete c/one (reconfigured)", "delete c/two (reconfigured)"]
    );
    assert_eq!(world.namespaces(), [Some("a".to_owned()), Some("b".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_pending_change_that_is_reverted_changes_nothing() {
    let (server, world) = world_of(&[]).await;
    let in_b = Filter::any().namespace("b");
    server.faults().forbid(in_b.clone());
    world.change(&["a", "b"]).await;
    pass(5).await;
    world.change(&[]).await;
    server.faults().allow(&in_b);
    pass(100).await;
    assert!(world.take().is_empty());
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn queued_events_continue_under_the_new_source() {
    let (server, world) = world_of(&[]).await;
    let held = world.open.acquire().await.unwrap();
    for revision in 2..5 {
        put(&server, "a/one", revision);
        put(&server, "c/one", revision);
        settle().await;
    }
    put(&server, "a/new", 1);
    world.change(&["a"]).await;
    pass(5).await;
    put(&server, "a/one", 5);
    settle().await;
    assert!(world.take().is_empty());
    drop(held);
    pass(2).await;
    let calls = world.take();
    let of = |key: &str| {
        calls
            .iter()
            .filter(|line| line.contains(key))
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(of("a/one"), ["update a/one (watch)"; 4]);
    assert_eq!(of("a/new"), ["add a/new (watch)"]);
    assert_eq!(of("b/one"), ["delete b/one (reconfigured)"]);
    assert_eq!(of("c/one").last().unwrap(), "delete c/one (reconfigured)");
    assert_eq!(of("c/one").len(), 4);
    assert_eq!(world.found(), ["a/new", "a/one"]);
    pass(10).await;
    assert_eq!(world.catalog.all().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_unsynced_handler_receives_the_new_source_from_the_start() {
    let server = filled();
    let world = World::start(&server, &[]);
    let held = world.open.acquire().await.unwrap();
    settle().await;
    world.change(&["a", "b"]).await;
    pass(5).await;
    drop(held);
    pass(5).await;
    let calls = world.take();
    for key in ["a/one", "b/one"] {
        assert!(
            calls.iter().any(|line| line.starts_with(&format!("add {key}"))),
            "{calls:?}"
        );
        assert!(
            !calls.iter().any(|line| line.starts_with(&format!("delete {key}"))),
            "{calls:?}"
        );
    }
    assert!(
        calls.iter().filter(|line| line.contains("c/one")).count() != 1
            || !calls.contains(&"add c/one (initial)".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_change_in_every_remaining_source() {
    let (server, world) = world_of(&["a", "b"]).await;
    let mut other = spec(&["a", "b"]);
    other.source.label_selector = Some(LabelSelector::parse("revision=2").unwrap());
    other.source.indexes = vec![("node".to_owned(), Pointer::parse("/spec/nodeName").unwrap())];
    world.informer.reconfigure(other).await.unwrap();
    pass(2).await;
    assert_eq!(
        sorted(world.take()),
        ["delete a/one (reconfigured)", "delete b/one (reconfigured)"]
    );
    put(&server, "b/one", 2);
    settle().await;
    assert_eq!(world.take(), ["add b/one (watch)"]);
    let sources = world.catalog.sources_of("pods");
    let found = |source: &Arc<Source>| source.snapshot().by_index("node", "node-2").unwrap().count();
    assert_eq!(sources.iter().map(found).sum::<usize>(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_change_changes_nothing() {
    let server = filled();
    let world = World::start(&server, &["a"]);
    settle().await;
    world.take();
    let requests = server.requests().len();
    let mut other = spec(&["a", "b"]);
    other.source.drop = vec![Pointer::parse("/metadata/name").unwrap()];
    let error = world.informer.reconfigure(other).await;
    assert!(matches!(error, Err(ReconfigureError::Drop(_))), "{error:?}");
    let mut other = spec(&["a", "b"]);
    other.source.kind = "Secret".to_owned();
    let error = world.informer.reconfigure(other).await;
    assert!(
        matches!(error, Err(ReconfigureError::AnotherSource { .. })),
        "{error:?}"
    );
    let mut other = spec(&["a", "b"]);
    let index = ("x".to_owned(), Pointer::parse("/a").unwrap());
    other.source.indexes = vec![index.clone(), index];
    let error = world.informer.reconfigure(other).await;
    assert!(matches!(error, Err(ReconfigureError::Index(_))), "{error:?}");
    pass(5).await;
    assert_eq!((server.requests().len(), world.take().len()), (requests, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_delivers_no_deletes_and_frees_its_objects() {
    let (server, world) = world_of(&["a", "b"]).await;
    let object = world.informer.sources()[0].snapshot().iter().next().unwrap().clone();
    let report = world.informer.stop(Duration::from_secs(1)).await;
    assert!(report.is_clean(), "{report:?}");
    pass(1).await;
    assert!(world.take().is_empty());
    assert_eq!((world.catalog.all().len(), server.stats().watches_open), (0, 0));
    assert!(world.informer.add_listener(world.listener.clone()).is_err());
    assert!(world.informer.reconfigure(spec(&[])).await.is_err());
    drop(object);
}

#[tokio::test(start_paused = true)]
async fn a_rejected_change_leaves_an_accepted_one_in_progress() {
    let server = cluster();
    put(&server, "a/x", 1);
    put(&server, "b/y", 1);
    let world = World::start(&server, &[]);
    settle().await;
    let lists = Filter::any().verb("list").resource("pods");
    server.faults().delay(lists, 10, Duration::from_secs(20));
    world.change(&["a"]).await;
    let rejected = |index: &str, namespaces: &[&str]| {
        let mut spec = spec(namespaces);
        let pointer = Pointer::parse("/spec/nodeName").unwrap();
        spec.source.indexes = vec![(index.to_owned(), pointer)];
        spec
    };
    let error = world.informer.reconfigure(rejected("namespace", &["b"])).await;
    assert!(matches!(error, Err(ReconfigureError::Start(_))), "{error:?}");
    let error = world.informer.reconfigure(rejected("namespace", &[])).await;
    assert!(matches!(error, Err(ReconfigureError::Index(_))), "{error:?}");
    pass(60).await;
    assert_eq!(world.namespaces(), [Some("a".to_owned())]);
    assert_eq!(world.found(), ["a/x"]);
}
