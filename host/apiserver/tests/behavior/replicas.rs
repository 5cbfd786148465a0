//! Two replicas of one server, one of which lags.

use informant_apiserver::Fault;
use serde_json::json;

use crate::support::{Client, PODS, pod, server};

#[tokio::test(start_paused = true)]
async fn a_lagging_replica_shows_the_past_where_clients_allow_it() {
    let server = server();
    let replica = server.replica();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    replica.freeze();
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    let client = Client(replica.service());
    assert_eq!(client.get(&format!("{PODS}?resourceVersion=0")).await.names(), ["a"]);
    assert_eq!(
        client.get(&format!("{PODS}?resourceVersion=5")).await.json()["metadata"]["resourceVersion"],
        "5"
    );
    assert_eq!(
        client.get(PODS).await.names(),
        ["a", "b"],
        "a consistent read goes to the common store"
    );
    assert_eq!(client.get(&format!("{PODS}?resourceVersion=6")).await.code, 504);
    assert_eq!(client.get(&format!("{PODS}/b?resourceVersion=0")).await.code, 404);
    assert_eq!(client.get(&format!("{PODS}/b")).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn watches_on_a_lagging_replica_catch_up_with_it() {
    let server = server();
    let replica = server.replica();
    replica.freeze();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let client = Client(replica.service());
    let mut watch = client.watch(&format!("{PODS}?watch=true&resourceVersion=4")).await;
    let mut ahead = client.watch(&format!("{PODS}?watch=true&resourceVersion=5")).await;
    watch.is_silent().await;
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    watch.is_silent().await;
    assert_eq!(replica.revision(), 4);
    replica.thaw();
    assert_eq!(watch.shorts(2).await, ["ADDED a@5", "ADDED b@6"]);
    assert_eq!(ahead.short().await, "ADDED b@6");
}

#[tokio::test(start_paused = true)]
async fn writes_through_a_lagging_replica_are_seen_by_the_others() {
    let server = server();
    let replica = server.replica();
    replica.freeze();
    Client(replica.service()).post(PODS, pod("a", json!({}))).await;
    assert_eq!(
        Client::of(&server)
            .get(&format!("{PODS}?resourceVersion=0"))
            .await
            .names(),
        ["a"]
    );
}

#[tokio::test(start_paused = true)]
async fn faults_make_replicas_lag_and_catch_up() {
    let server = server();
    let replica = server.replica();
    assert_eq!(server.faults().apply(Fault::FreezeReplicas {}), 1);
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let first = Client::of(&server);
    let second = Client(replica.service());
    let cached = format!("{PODS}?resourceVersion=0");
    assert_eq!(first.get(&cached).await.names(), ["a"], "the first one never lags");
    assert_eq!(second.get(&cached).await.names(), Vec::<String>::new());
    server.faults().apply(Fault::ThawReplicas {});
    assert_eq!(second.get(&cached).await.names(), ["a"]);
    server.faults().apply(Fault::FreezeReplicas {});
    server.delete("v1/pods", "default", "a").unwrap();
    assert_eq!(second.get(&cached).await.names(), ["a"]);
    server.faults().apply(Fault::Clear);
    assert_eq!(second.get(&cached).await.names(), Vec::<String>::new());
}
