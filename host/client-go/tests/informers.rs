//! Shared informers, their factory, and waiting, on the embedded API server under paused time.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_apiserver::{ApiServer, Ending, Filter, Options};
use informant_cache::SourceState;
use informant_client_go::{
    Catalog, EventHandlerFuncs, FactoryError, FilteringEventHandler, GroupVersionResource, InformerMetrics,
    LabelSelector, ListenerOptions, Object, Registration, SharedInformer, SharedInformerFactory, SourceSpec,
    TokioEnvironment, wait_for_cache_sync, wait_for_handler_sync,
};
use kube::Client;

type Lines = Arc<Mutex<Vec<String>>>;

fn api_server() -> ApiServer {
    ApiServer::new(Options::default())
}

fn put(server: &ApiServer, name: &str, revision: u32) {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "labels": {"revision": revision.to_string()}},
    });
    server.put("v1/pods", "default", pod).unwrap();
}

fn delete(server: &ApiServer, name: &str) {
    server.delete("v1/pods", "default", name).unwrap();
}

fn pods() -> SourceSpec {
    SourceSpec::new("pods", GroupVersionResource::new("", "v1", "pods"), "Pod")
}

fn start(server: &ApiServer) -> SharedInformer {
    let environment = Arc::new(TokioEnvironment::current(7));
    SharedInformer::start(
        pods(),
        client(server),
        environment,
        Catalog::new(),
        &InformerMetrics::default(),
    )
    .unwrap()
}

fn add_handler(informer: &SharedInformer) -> Registration {
    informer
        .add_handler(Box::new(EventHandlerFuncs::new()), ListenerOptions::default())
        .unwrap()
}

/// Lets everything happen that is due.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn client(server: &ApiServer) -> Client {
    Client::new(server.service(), "default")
}

fn factory(server: &ApiServer) -> (SharedInformerFactory, Catalog) {
    let catalog = Catalog::new();
    let environment = Arc::new(TokioEnvironment::current(3));
    (
        SharedInformerFactory::new(client(server), environment, catalog.clone(), InformerMetrics::default()),
        catalog,
    )
}

#[tokio::test(start_paused = true)]
async fn a_factory_creates_each_source_once_and_stops_all() {
    let (east, west) = (api_server(), api_server());
    put(&east, "a", 1);
    let (factory, catalog) = factory(&east);
    let factory = factory.with_cluster("west", client(&west));
    let first = factory.informer_for(pods()).unwrap();
    assert!(Arc::ptr_eq(&first, &factory.informer_for(pods()).unwrap()));
    let mut other = pods();
    other.cluster = "west".to_owned();
    factory.informer_for(other).unwrap();
    factory.wait_for_cache_sync(Duration::from_secs(5)).await.unwrap();
    assert_eq!(factory.informers("pods").len(), 2);
    assert_eq!(catalog.sources_of("pods").len(), 2);
    let mut unknown = pods();
    unknown.cluster = "north".to_owned();
    let error = factory.informer_for(unknown).unwrap_err();
    assert!(matches!(error, FactoryError::UnknownCluster { .. }));
    insta::assert_snapshot!(error, @r#"informer pods: unknown cluster "north"; known clusters: "west""#);
    assert!(factory.shutdown(Duration::from_secs(5)).await.is_clean());
    assert_eq!(catalog.all().len(), 0);
    // A stopped informer is created again as a new source.
    drop(first);
    let again = factory.informer_for(pods()).unwrap();
    factory.wait_for_cache_sync(Duration::from_secs(5)).await.unwrap();
    assert_eq!(again.snapshot().len(), 1);
    assert!(factory.remove("pods", Duration::from_secs(5)).await.is_clean());
    assert_eq!(factory.all().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_sync_reports_unsynced_sources_with_reasons() {
    let server = api_server();
    server.faults().forbid(Filter::any().resource("secrets"));
    let (factory, _) = factory(&server);
    factory.informer_for(pods()).unwrap();
    let mut secrets = pods();
    secrets.informer = "secrets".to_owned();
    secrets.resource.plural = "secrets".to_owned();
    secrets.kind = "Secret".to_owned();
    secrets.namespace = Some("default".to_owned());
    factory.informer_for(secrets).unwrap();
    let late = factory.wait_for_cache_sync(Duration::from_secs(40)).await.unwrap_err();
    assert_eq!(late.sources.len(), 1);
    assert_eq!(late.sources[0].state, SourceState::Forbidden);
    insta::assert_snapshot!(late, @r#"not synced in time: informer secrets (v1/secrets in default) is Forbidden (list: the API server responded with 403 Forbidden: secrets is forbidden: User "informant" cannot list resource "secrets" in API group "" in the namespace "default")"#);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_stopped_informer_ends() {
    let (running, stopped) = (start(&api_server()), start(&api_server()));
    assert!(stopped.stop(Duration::ZERO).await.still_running == 0);
    let environment = TokioEnvironment::current(1);
    let late = wait_for_cache_sync(&environment, [&running, &stopped], Duration::from_secs(60)).await;
    assert_eq!(late.unwrap_err().sources[0].state, SourceState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_handlers_reports_unsynced_ones_with_reasons() {
    let (up, down) = (api_server(), api_server());
    put(&up, "a", 1);
    down.faults().forbid(Filter::any().resource("pods"));
    let (informer, late) = (start(&up), start(&down));
    let synced = add_handler(&informer);
    let (waiting, removed) = (add_handler(&late), add_handler(&late));
    late.remove_handler(&removed);
    let environment = Arc::new(TokioEnvironment::current(1));
    wait_for_handler_sync(&*environment, [&synced], Duration::from_secs(5))
        .await
        .unwrap();
    let error = wait_for_handler_sync(&*environment, [&synced, &waiting, &removed], Duration::from_secs(5)).await;
    insta::assert_snapshot!(error.unwrap_err(), @"not synced in time: handler 1, of informer pods (v1/pods), is waiting for its first list; handler 2, of informer pods (v1/pods), was removed");
}

#[tokio::test(start_paused = true)]
async fn a_filtering_handler_stays_correct_across_relists() {
    let server = api_server();
    (0..4).for_each(|number| put(&server, &format!("pod-{number}"), number % 2));
    let lines = Lines::default();
    let (added, gone) = (Arc::clone(&lines), Arc::clone(&lines));
    let handler = EventHandlerFuncs::new()
        .on_add(move |object, _| {
            added.lock().unwrap().push(format!("add {}", object.name()));
            Ok(())
        })
        .on_delete(move |key, _, _, _| {
            gone.lock().unwrap().push(format!("delete {}", key.name));
            Ok(())
        });
    let odd = LabelSelector::parse("revision=1").unwrap();
    let filter = move |pod: &Object| odd.matches(pod);
    let filtering = FilteringEventHandler::new(filter, handler);
    let informer = start(&server);
    informer
        .add_handler(Box::new(filtering), ListenerOptions::default())
        .unwrap();
    settle().await;
    let calls = || std::mem::take(&mut *lines.lock().unwrap());
    assert_eq!(calls(), ["add pod-1", "add pod-3"]);
    put(&server, "pod-1", 2);
    put(&server, "pod-0", 1);
    settle().await;
    assert_eq!(calls(), ["delete pod-1", "add pod-0"]);
    // Deleted while the watch is down, after it stopped matching the filter.
    let any = Filter::any();
    server.faults().drop_watches(&any, Ending::Expired);
    put(&server, "pod-3", 2);
    delete(&server, "pod-3");
    delete(&server, "pod-1");
    pass(5).await;
    assert_eq!(calls(), ["delete pod-3"]);
}
