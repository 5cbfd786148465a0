//! Objects from the API server to handlers, indexes and queries.

use serde_json::json;

use super::world::{Running, World, pod, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n";

/// A world with a pod, and a daemon with a plugin that records its events.
async fn recorded() -> (World, Running) {
    let world = World::start().await;
    world.create_pod("web-0", "nginx:1.27");
    world.install("guest-recorder", "recorder.wasm");
    let recorder = "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\nrequired = true\n";
    let daemon = world.daemon(&format!("{PODS}{recorder}")).await;
    daemon.wait_until_ready().await;
    (world, daemon)
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_receives_present_objects_and_changes() {
    let (world, daemon) = recorded().await;
    daemon.wait_for_events("recorder", "add", 1.0).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;

    world.create_pod("web-1", "nginx:1.27");
    world
        .server
        .patch(
            "v1/pods",
            "default",
            "web-1",
            json!({ "metadata": { "labels": { "x": "y" } } }),
        )
        .unwrap();
    world.server.delete("v1/pods", "default", "web-0").unwrap();
    daemon.wait_for_events("recorder", "delete", 1.0).await;
    // Other keys may be handled before or after the delete. The patch may have arrived before the add was delivered,
    // and be coalesced into it.
    until("five events to be delivered or coalesced", async || {
        let delivered = daemon
            .metric(
                "informant_handler_events_total",
                &["plugin=\"recorder\"", "result=\"ok\""],
            )
            .await;
        let coalesced = daemon
            .metric("informant_listener_coalesced_total", &["plugin=\"recorder\""])
            .await;
        if delivered + coalesced == 5.0 {
            Ok(())
        } else {
            Err(format!("{delivered} delivered, {coalesced} coalesced"))
        }
    })
    .await;

    let plugins = daemon.json("/api/v1/plugins").await;
    assert_eq!(plugins["items"][0]["state"], "running");
    assert_eq!(plugins["items"][0]["manifestName"], "guest-recorder");
    assert_eq!(daemon.stop().await.undelivered, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cache_is_queried_by_name_namespace_selector_and_index() {
    let world = World::start().await;
    for (name, image) in [
        ("web-0", "nginx:1.27"),
        ("web-1", "nginx:1.28"),
        ("db-0", "postgres:18"),
    ] {
        world.create_pod(name, image);
    }
    let mut elsewhere = pod("web-0", "nginx:1.27");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    world.server.create("v1/pods", "kube-system", elsewhere).unwrap();
    world.install("who-runs", "images.wasm");
    let images = "[plugin.images]\ncomponent = \"images.wasm\"\ninformers = [\"pods\"]\n";
    let daemon = world.daemon(&format!("{PODS}{images}")).await;
    daemon.wait_until_ready().await;

    assert_eq!(
        daemon.names("/api/v1/get/pods").await,
        ["db-0", "web-0", "web-1", "web-0"]
    );
    for alias in ["v1/pods", "Pod", "pod"] {
        assert_eq!(
            daemon
                .names(&format!("/api/v1/get/{alias}?namespace=kube-system"))
                .await,
            ["web-0"]
        );
    }
    assert_eq!(daemon.names("/api/v1/get/pods?name=web-0").await, ["web-0", "web-0"]);
    assert_eq!(
        daemon
            .names("/api/v1/get/pods?namespace=default&selector=app%21%3Dweb")
            .await,
        ["db-0"]
    );
    assert_eq!(
        daemon
            .names("/api/v1/get/pods?index=node&value=node-1&namespace=kube-system")
            .await,
        ["web-0"]
    );
    assert_eq!(daemon.names("/api/v1/get/pods?index=node&value=node-2").await, [""; 0]);
    daemon
        .wait_for_metric("informant_index_attached", &["index=\"image\""], 1.0)
        .await;
    assert_eq!(
        daemon.names("/api/v1/get/pods?index=image&value=nginx:1.27").await,
        ["web-0", "web-0"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_unready_and_unknown_have_distinct_errors() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx:1.27");
    let missing = "[informer.widgets]\nresource = \"example.com/v1/widgets\"\nrequired = false\n";
    let twice = "[informer.nodes-a]\nresource = \"v1/nodes\"\n[informer.nodes-b]\nresource = \"v1/nodes\"\n";
    let daemon = world.daemon(&format!("{PODS}{missing}{twice}")).await;
    daemon.wait_until_ready().await;

    let refusal = async |path: &str| {
        let (status, body) = daemon.get(path).await;
        let error: serde_json::Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{status}: {body}"));
        format!(
            "{status} {}: {}",
            error["code"].as_str().unwrap(),
            error["message"].as_str().unwrap()
        )
    };
    insta::assert_snapshot!(refusal("/api/v1/get/pods?name=web-9").await, @r#"404 not-found: informer pods has no object "web-9""#);
    insta::assert_snapshot!(refusal("/api/v1/get/pods?name=web-0&namespace=other").await, @r#"404 not-found: informer pods has no object "web-0" in namespace other"#);
    insta::assert_snapshot!(refusal("/api/v1/get/pdos").await, @r#"404 unknown-informer: no informer named "pdos" and none that watches it; did you mean `pods`?"#);
    insta::assert_snapshot!(refusal("/api/v1/get/v1/nodes").await, @r#"409 ambiguous: several informers watch "v1/nodes": name one of `nodes-a`, `nodes-b`"#);
    insta::assert_snapshot!(refusal("/api/v1/get/pods?index=nodes&value=a").await, @"404 unknown-index: index with name nodes does not exist; available: namespace, node");
    insta::assert_snapshot!(refusal("/api/v1/get/pods?index=node").await, @"400 invalid: `index` and `value` must be given together");
    insta::assert_snapshot!(refusal("/api/v1/get/pods?selector=a+in+(").await, @r#"400 invalid: selector "a in (": label selector "a in (", byte 6: found the end, expected "," or ")""#);
    insta::assert_snapshot!(refusal("/api/v1/get/pods?color=red").await, @"400 invalid: Failed to deserialize query string: color: unknown field `color`, expected one of `namespace`, `name`, `index`, `value`, `selector`, `cluster`, `envelope`, `show-secrets`, `require-all`, `at-least`, `epoch`, `timeout-ms`");
    insta::assert_snapshot!(refusal("/api/v1/get/pods?cluster=east").await, @r#"404 unknown-cluster: informer pods has one unnamed cluster: remove "east""#);
    let waiting = refusal("/api/v1/get/widgets").await;
    assert!(
        waiting.starts_with("503 not-synced: informer widgets is not synced: "),
        "{waiting}"
    );
}
