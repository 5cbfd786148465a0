//! `informant check` runs `init` of plugins, so that an invalid `config` is found before they run.

use crate::program::transcript;
use crate::world::World;

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

/// The output of `check --offline` for one plugin with these additional keys.
async fn check(guest: &str, keys: &str) -> String {
    let world = World::unreachable().await;
    world.install(guest, "plugin.wasm");
    world.configure(&format!(
        "{PODS}[plugin.tried]\ncomponent = \"plugin.wasm\"\ninformers = [\"pods\"]\n{keys}"
    ));
    let text = transcript(&world, &["check", "--offline"]).await;
    // The guest's own log lines are not findings.
    let findings = text.lines().filter(|line| !line.contains("stream=log"));
    findings.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_an_invalid_plugin_config() {
    let text = check("crash-loop", "config = { min-restarts = \"five\" }\n").await;
    insta::assert_snapshot!(text, @r#"
    exit 3
    plugin tried: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    --
    error: config.toml:8:10: [plugin.tried] ./plugin.wasm: init for the role events failed: config: invalid type: string "five", expected u32; check the plugin's `config` in config.toml
    config.toml is invalid
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_missing_grants() {
    insta::assert_snapshot!(check("image-mark", "").await, @r#"
    exit 3
    plugin tried: image-mark 0.1.0, event-handler, SIZE sha256 DIGEST
    --
    error: config.toml:5:9: [plugin.tried] ./plugin.wasm: requires access that is not granted; in config.toml, set in [plugin.tried]: allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]
    config.toml is invalid
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_denies_calls_in_init_as_the_daemon_does() {
    let call = "{ verb = \"get\", resource = \"v1/pods\", namespace = \"default\", name = \"a\" }";
    let text = check("guest-kube", &format!("config = {{ at-init = {call} }}\n")).await;
    insta::assert_snapshot!(text, @"
    exit 3
    plugin tried: guest-kube 0.1.0, event-handler, index-funcs, SIZE sha256 DIGEST
    --
    error: config.toml:8:10: [plugin.tried] ./plugin.wasm: init for the role events failed: in init, only log and kv can be called: read the cache from on-synced on, and act on the cluster in a handler; check the plugin's `config` in config.toml
    config.toml is invalid
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_warns_if_init_asks_to_be_retried() {
    let text = check("guest-recorder", "config = { init = \"retryable\" }\n").await;
    insta::assert_snapshot!(text, @"
    exit 0
    plugin tried: guest-recorder 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    config.toml is valid
    --
    warning: config.toml:8:10: [plugin.tried] ./plugin.wasm: init for the role events failed and will be tried again: asked to fail
      help: Informant tries until it succeeds
    ");
}
