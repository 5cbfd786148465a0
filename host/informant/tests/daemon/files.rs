//! Paths that lead to something else than a file, or to nothing.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::program::{Program, transcript};
use super::world::{Running, World, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";
const MAPS: &str = "[informer.maps]\nresource = \"v1/configmaps\"\n";
const RELOADS: &str = "informant_plugin_reloads_total";

/// Far above what a refusal takes, far below the next poll.
const SOON: Duration = Duration::from_secs(20);

fn plugin(name: &str, file: &str) -> String {
    format!("[plugin.{name}]\ncomponent = \"{file}\"\ninformers = [\"pods\"]\n")
}

/// Puts a named pipe without a writer in place of a file.
fn make_pipe(world: &World, name: &str) {
    let aside = world.path("aside");
    assert!(Command::new("mkfifo").arg(&aside).status().unwrap().success());
    std::fs::rename(aside, world.path(name)).unwrap();
}

async fn pending(daemon: &Running, section: &str, wanted: &str) {
    until(&format!("[{section}] to be pending: {wanted}"), async || {
        let configuration = daemon.json("/api/v1/configuration").await;
        let waiting: Vec<&Value> = configuration["waiting"].as_array().unwrap().iter().collect();
        let reason = waiting.iter().find(|waiting| waiting["section"] == section);
        match reason.and_then(|waiting| waiting["reason"].as_str()) {
            Some(reason) if reason.contains(wanted) => Ok(()),
            _ => Err(configuration.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pipe_as_component_is_refused_and_later_edits_apply() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let running = format!("{PODS}{}", plugin("running", "recorder.wasm"));
    let daemon = world.daemon(&running).await;
    daemon.wait_for_events("running", "sync", 1.0).await;

    // As the file of a running plugin, and of a new one.
    make_pipe(&world, "recorder.wasm");
    daemon.wait_for_metric(RELOADS, &["result=\"refused\""], 1.0).await;
    let item = daemon.json("/api/v1/plugins").await["items"][0].clone();
    assert_eq!(item["state"], "running");
    let error = item["lastError"]["message"].as_str().unwrap();
    assert!(
        error.contains("recorder.wasm: a named pipe, not a regular file"),
        "{error}"
    );
    make_pipe(&world, "pipe.wasm");
    let with_pipe = format!("{running}{}", plugin("pipe", "pipe.wasm"));
    world.configure(&with_pipe);
    pending(&daemon, "plugin.pipe", "a named pipe, not a regular file").await;

    let later = tokio::time::timeout(SOON, async {
        world.install("guest-recorder-v2", "good.wasm");
        world.configure(&format!("{with_pipe}{MAPS}{}", plugin("good", "good.wasm")));
        daemon.wait_for_events("good", "add", 1.0).await;
        until("the new informer", async || {
            match daemon.get("/api/v1/get/maps").await {
                (200, _) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        // The plugins come back with their files.
        world.install("guest-recorder-v2", "recorder.wasm");
        daemon.wait_for_metric(RELOADS, &["result=\"ok\""], 1.0).await;
        world.install("guest-recorder", "pipe.wasm");
        daemon.wait_for_events("pipe", "add", 1.0).await;
    });
    later.await.expect("later edits are applied at once");
    assert_eq!(daemon.json("/api/v1/configuration").await["state"], "applied");
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_the_running_plugin_file_clears_its_refusal() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world
        .daemon(&format!("{PODS}{}", plugin("running", "recorder.wasm")))
        .await;
    daemon.wait_for_events("running", "sync", 1.0).await;
    make_pipe(&world, "recorder.wasm");
    daemon.wait_for_metric(RELOADS, &["result=\"refused\""], 1.0).await;

    world.install("guest-recorder", "recorder.wasm");
    until("the refusal to be cleared", async || {
        let item = daemon.json("/api/v1/plugins").await["items"][0].clone();
        match item["lastReload"].is_null() && item["lastError"].is_null() {
            true => Ok(()),
            false => Err(item.to_string()),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_and_directories_are_refused_as_plugin_files() {
    let world = World::start().await;
    std::fs::create_dir(world.path("directory.js")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", world.path("zero.wasm")).unwrap();
    let text = format!(
        "{PODS}{}{}",
        plugin("zero", "zero.wasm"),
        plugin("directory", "directory.js").replace("component", "script")
    );
    let daemon = world.daemon(&text).await;
    pending(&daemon, "plugin.zero", "zero.wasm: a device, not a regular file").await;
    pending(
        &daemon,
        "plugin.directory",
        "directory.js: a directory, not a regular file",
    )
    .await;
    daemon.wait_until_ready().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn check_and_inspect_refuse_a_pipe_at_once() {
    let world = World::start().await;
    make_pipe(&world, "pipe.wasm");
    world.configure(&format!("{PODS}{}", plugin("pipe", "pipe.wasm")));
    for args in [
        &["plugin", "inspect", "pipe.wasm"][..],
        &["check", "--offline"],
        &["check", "--offline", "--config", "pipe.wasm"],
    ] {
        let text = tokio::time::timeout(SOON, transcript(&world, args)).await;
        let text = text.unwrap_or_else(|_| panic!("{args:?} waits for the pipe"));
        assert!(!text.starts_with("exit 0"), "{text}");
        assert!(text.contains("a named pipe, not a regular file"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_config_or_plugin_file_is_reported() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let config = format!("{PODS}{}required = true\n", plugin("running", "recorder.wasm"));
    let program = Program::run(&world, &config).await;
    program.logged("plugin loaded").await;

    std::fs::remove_file(world.path("recorder.wasm")).unwrap();
    let line = program.logged("plugin file missing; keeping the running version").await;
    assert_eq!(line["fields"]["plugin"], "running", "{line}");
    world.install("guest-recorder", "recorder.wasm");
    program.logged("plugin file readable again").await;

    std::fs::remove_file(world.path("config.toml")).unwrap();
    program
        .logged("configuration unreadable; keeping the previous configuration")
        .await;
    let status = transcript(&world, &["status", "--admin", &program.address().to_string()]).await;
    assert!(
        status.contains(
            "unreadable; the previous one stays active (informant explain config-not-applied)\n  failed to read: No such \
             file or directory"
        ),
        "{status}"
    );
    world.configure(&config);
    program.logged("configuration readable again").await;
    let status = transcript(&world, &["status", "--admin", &program.address().to_string()]).await;
    assert!(status.contains("config.toml: applied"), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn index_of_a_plugin_being_loaded_is_not_ready() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let endless = "limits = { cpu = \"30s\" }\nconfig = { init = \"loop\" }\n";
    let config = format!("{PODS}{}{endless}{MAPS}", plugin("slow", "recorder.wasm"));
    let daemon = world.daemon(&config).await;
    for informer in ["pods", "maps"] {
        until("the first list", async || {
            match daemon.get(&format!("/api/v1/get/{informer}")).await {
                (200, _) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    }
    let (status, text) = daemon.get("/api/v1/get/pods?index=image&value=nginx").await;
    assert!(
        status == 503 && text.contains("not-ready") && text.contains("plugin slow is being loaded and may have one"),
        "{status} {text}"
    );
    // The plugin does not name the other informer.
    let (status, text) = daemon.get("/api/v1/get/maps?index=image&value=nginx").await;
    assert!(status == 404 && text.contains("unknown-index"), "{status} {text}");
}
