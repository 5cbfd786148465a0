//! Components change while the daemon runs.

use super::world::{World, until};

fn config(on_reload: &str) -> String {
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n\
         [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\nrequired = true\non-reload = \"{on_reload}\"\n"
    )
}

const RELOADS: &str = "informant_plugin_reloads_total";

#[tokio::test(flavor = "multi_thread")]
async fn changed_component_is_reloaded_and_continues() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&config("continue")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    let before = daemon.json("/api/v1/plugins").await["items"][0]["sha256"].clone();

    world.install("guest-recorder-v2", "recorder.wasm");
    daemon.wait_for_metric(RELOADS, &["result=\"ok\""], 1.0).await;
    let plugin = daemon.json("/api/v1/plugins").await["items"][0].clone();
    assert_ne!(plugin["sha256"], before);
    assert_eq!(plugin["previousSha256"], before);
    world.create_pod("web-1", "nginx");
    daemon.wait_for_events("recorder", "add", 2.0).await;
    assert_eq!(daemon.stop().await.undelivered, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_with_replay_redelivers_the_cache() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&config("replay")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;

    world.install("guest-recorder-v2", "recorder.wasm");
    daemon.wait_for_events("recorder", "sync", 2.0).await;
    daemon.wait_for_events("recorder", "add", 2.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_component_leaves_the_previous_one_running() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&config("continue")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;

    world.write("recorder.wasm", b"\0asm\x0d\0\x01\0 and then something else");
    daemon.wait_for_metric(RELOADS, &["result=\"refused\""], 1.0).await;
    world.create_pod("web-0", "nginx");
    daemon.wait_for_events("recorder", "add", 1.0).await;
    let plugin = daemon.json("/api/v1/plugins").await["items"][0].clone();
    assert_eq!(plugin["state"], "running");
    let error = plugin["lastError"]["message"].as_str().unwrap();
    assert!(error.contains("recorder.wasm"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn component_behind_a_config_map_symlink_is_reloaded() {
    let world = World::start().await;
    for (folder, guest) in [("v1", "guest-recorder"), ("v2", "guest-recorder-v2")] {
        std::fs::create_dir(world.path(folder)).unwrap();
        world.install(guest, &format!("{folder}/recorder.wasm"));
    }
    std::os::unix::fs::symlink("v1", world.path("..data")).unwrap();
    std::os::unix::fs::symlink("..data/recorder.wasm", world.path("recorder.wasm")).unwrap();
    let daemon = world.daemon(&config("continue")).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;

    for (number, folder) in [(1.0, "v2"), (2.0, "v1")] {
        std::os::unix::fs::symlink(folder, world.path("..data_tmp")).unwrap();
        std::fs::rename(world.path("..data_tmp"), world.path("..data")).unwrap();
        daemon.wait_for_metric(RELOADS, &["result=\"ok\""], number).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_exchanges_the_indexes_of_a_plugin() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "plugin.wasm");
    let text =
        "[informer.pods]\nresource = \"v1/pods\"\n[plugin.p]\ncomponent = \"plugin.wasm\"\ninformers = [\"pods\"]\n";
    let daemon = world.daemon(text).await;
    daemon.wait_for_events("p", "sync", 1.0).await;
    let (status, _) = daemon.get("/api/v1/get/pods?index=image&value=nginx").await;
    assert_eq!(status, 404);

    world.install("who-runs", "plugin.wasm");
    daemon.wait_for_metric(RELOADS, &["result=\"ok\""], 1.0).await;
    daemon
        .wait_for_metric("informant_index_attached", &["index=\"image\""], 1.0)
        .await;
    assert_eq!(
        daemon.names("/api/v1/get/pods?index=image&value=nginx").await,
        ["web-0"]
    );

    world.install("guest-recorder", "plugin.wasm");
    daemon.wait_for_metric(RELOADS, &["result=\"ok\""], 2.0).await;
    world.create_pod("web-1", "nginx");
    // It received a replay of the cache when it came back.
    daemon
        .wait_for_metric("informant_listener_pending", &["plugin=\"p\""], 0.0)
        .await;
    until("the index to be gone", async || {
        match daemon.get("/api/v1/get/pods?index=image&value=nginx").await {
            (404, _) => Ok(()),
            (status, body) => Err(format!("{status}: {body}")),
        }
    })
    .await;
}
