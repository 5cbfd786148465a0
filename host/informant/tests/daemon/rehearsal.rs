//! `informant check` lets plugins initialize, so that a `config` they refuse is known before they run.

use crate::program::transcript;
use crate::world::World;

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

/// What `check --offline` says of one plugin with these further keys.
async fn check(guest: &str, keys: &str) -> String {
    let world = World::unreachable().await;
    world.install(guest, "plugin.wasm");
    world.configure(&format!(
        "{PODS}[plugin.tried]\ncomponent = \"plugin.wasm\"\ninformers = [\"pods\"]\n{keys}"
    ));
    let said = transcript(&world, &["check", "--offline"]).await;
    // What the guest itself logs is no finding.
    let findings = said.lines().filter(|line| !line.contains("informant::guest"));
    findings.collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_where_a_plugin_refuses_its_config() {
    let said = check("crash-loop", "config = { min-restarts = \"five\" }\n").await;
    insta::assert_snapshot!(said, @r#"
    exit 3
    plugin tried: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    --
    error: config.toml:8:10: [plugin.tried] ./plugin.wasm: init for the role events failed: config: invalid type: string "five", expected u32; is the plugin's `config` in config.toml what it expects?
    config.toml is refused
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_what_a_plugin_needs_and_is_not_granted() {
    insta::assert_snapshot!(check("image-mark", "").await, @r#"
    exit 3
    plugin tried: image-mark 0.1.0, event-handler, SIZE sha256 DIGEST
    --
    error: config.toml:5:9: [plugin.tried] ./plugin.wasm: needs what is not granted; in config.toml, [plugin.tried]: allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]
    config.toml is refused
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_init_that_asks_the_cluster_is_not_judged_by_check() {
    let call = "{ verb = \"get\", resource = \"v1/pods\", namespace = \"default\", name = \"a\" }";
    let said = check("guest-kube", &format!("config = {{ at-init = {call} }}\n")).await;
    insta::assert_snapshot!(said, @"
    exit 0
    plugin tried: guest-kube 0.1.0, event-handler, index-funcs, SIZE sha256 DIGEST
    config.toml is good
    --
    warning: config.toml:8:10: [plugin.tried] could not be judged: ./plugin.wasm: init for the role events failed: init is only rehearsed, so no informer runs and no cluster is asked; is the plugin's `config` in config.toml what it expects?
      help: it asked for objects or the cluster, which are not there for `check`: it may do once Informant runs
    ");
}
