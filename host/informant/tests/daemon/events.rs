//! Objects from the API server to handlers, indexes and queries.

use serde_json::json;

use super::world::{Running, World, pod};

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
    let delivered = daemon
        .metric(
            "informant_handler_events_total",
            &["plugin=\"recorder\"", "result=\"ok\""],
        )
        .await;
    // The patch may have arrived before the add was delivered, and be coalesced into it.
    let coalesced = daemon
        .metric("informant_listener_coalesced_total", &["plugin=\"recorder\""])
        .await;
    assert_eq!(delivered + coalesced, 5.0);

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
    insta::assert_snapshot!(refusal("/api/v1/get/pods?color=red").await, @"400 invalid: Failed to deserialize query string: color: unknown field `color`, expected one of `namespace`, `name`, `index`, `value`, `selector`, `cluster`, `envelope`, `require-all`, `at-least`, `epoch`, `timeout-ms`");
    insta::assert_snapshot!(refusal("/api/v1/get/pods?cluster=east").await, @r#"404 unknown-cluster: informer pods has one unnamed cluster: remove "east""#);
    let waiting = refusal("/api/v1/get/widgets").await;
    assert!(
        waiting.starts_with("503 not-synced: informer widgets is not synced: "),
        "{waiting}"
    );
}

/// The families of an OpenMetrics text with their types, sorted.
fn families(text: &str) -> Vec<&str> {
    assert!(text.ends_with("# EOF\n"));
    let mut families: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
    families.sort_unstable();
    let count = families.len();
    families.dedup();
    assert_eq!(families.len(), count, "a family is described twice");
    families
}

#[tokio::test(flavor = "multi_thread")]
async fn metric_families_are_stable() {
    let (_world, daemon) = recorded().await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    let (_, text) = daemon.get("/metrics").await;
    insta::assert_snapshot!(families(&text).join("\n"), @"
    informant_admin_busy counter
    informant_admin_rejected counter
    informant_build info
    informant_config_last_reload_successful gauge
    informant_config_pending_sections gauge
    informant_dead_letters gauge
    informant_dead_letters_evicted counter
    informant_delta_fifo_keys gauge
    informant_hand_over_waits counter
    informant_handler_events counter
    informant_handler_lag_seconds histogram
    informant_handler_seconds histogram
    informant_http_accept_errors counter
    informant_http_connections gauge
    informant_http_connections_closed counter
    informant_index_attached gauge
    informant_informer_discoveries counter
    informant_informer_discovering gauge
    informant_informer_synced gauge
    informant_listener_accepted counter
    informant_listener_bytes gauge
    informant_listener_coalesced counter
    informant_listener_deletes_cut counter
    informant_listener_deletes_discarded counter
    informant_listener_discarded counter
    informant_listener_failing gauge
    informant_listener_intervals_cut counter
    informant_listener_keyed gauge
    informant_listener_keys_spaced gauge
    informant_listener_late counter
    informant_listener_left_to_cursor counter
    informant_listener_oldest_pending_seconds gauge
    informant_listener_olds_dropped counter
    informant_listener_pending gauge
    informant_listener_rate_held gauge
    informant_listener_rate_holds counter
    informant_listener_refused counter
    informant_listener_requeues gauge
    informant_listener_requeues_dropped counter
    informant_listener_requeues_slowed gauge
    informant_listener_resync_ticks_skipped counter
    informant_listener_retries_limited counter
    informant_listener_shown counter
    informant_listener_skipped counter
    informant_listener_spaced counter
    informant_listener_unattached counter
    informant_listener_vanished counter
    informant_native_handler_panics counter
    informant_plugin_artefacts counter
    informant_plugin_compile_seconds histogram
    informant_plugin_index_objects counter
    informant_plugin_instances gauge
    informant_plugin_loads counter
    informant_plugin_log_dropped_bytes counter
    informant_plugin_memory_bytes gauge
    informant_plugin_refused gauge
    informant_plugin_state gauge
    informant_plugin_state_lost counter
    informant_plugin_writes_full counter
    informant_plugin_writes_spaced counter
    informant_plugin_writes_waiting gauge
    informant_plugin_writes_waiting_bytes gauge
    informant_reflector_channel_bytes gauge
    informant_reflector_watch_events counter
    informant_reflector_watch_lists counter
    informant_reflector_watches counter
    informant_source_bookmark_age_seconds gauge
    informant_source_degraded gauge
    informant_source_epochs counter
    informant_source_event_age_seconds gauge
    informant_source_guard_off gauge
    informant_source_outdated_keys gauge
    informant_source_state gauge
    informant_source_watch_list_refused gauge
    informant_state_commit_seconds counter
    informant_state_commits counter
    informant_state_errors counter
    informant_state_failing gauge
    informant_state_file_bytes gauge
    informant_state_open_waits counter
    informant_state_set_aside counter
    informant_state_unreadable counter
    informant_stop_undelivered counter
    informant_store_bytes gauge
    informant_store_objects gauge
    informant_store_resource_version gauge
    ");
}
