//! `informant check`.

use super::{PODS, transcript};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn check_covers_file_components_and_cluster() {
    let world = World::start().await;
    world.install("crash-loop", "crash-loop.wasm");
    world.install("who-runs", "who-runs.wasm");
    let good = format!(
        "{PODS}\
         [plugin.crash-loop]\ncomponent = \"crash-loop.wasm\"\ninformers = [\"pods\"]\n\
         [plugin.who-runs]\ncomponent = \"who-runs.wasm\"\ninformers = {{ main = \"pods\" }}\n"
    );
    world.configure(&good);
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"
    exit 0
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin who-runs: who-runs 0.1.0, index-funcs, SIZE sha256 DIGEST
    informer pods: v1/pods (Pod), all namespaces, list and watch allowed
    config.toml is valid
    --
    ");
    insta::assert_snapshot!(transcript(&world, &["check", "--offline", "-c", "config.toml"]).await, @"
    exit 0
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin who-runs: who-runs 0.1.0, index-funcs, SIZE sha256 DIGEST
    config.toml is valid
    --
    ");

    world.write("broken.wasm", b"not at all");
    world.configure(&format!(
        "{good}\
         [informer.widgets]\nresource = \"v1/pdos\"\n\
         [informer.nodes]\nresource = \"v1/nodes\"\nnamespaces = [\"default\"]\n\
         [plugin.broken]\ncomponent = \"broken.wasm\"\ninformers = [\"pods\"]\n\
         [plugin.pinned]\ncomponent = \"crash-loop.wasm\"\ninformers = [\"nodes\"]\nsha256 = \"{:064}\"\n\
         [plugin.who-runs-too]\ncomponent = \"who-runs.wasm\"\ninformers = [\"pods\"]\n",
        0
    ));
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @r#"
    exit 3
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin pinned: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    plugin who-runs: who-runs 0.1.0, index-funcs, SIZE sha256 DIGEST
    plugin who-runs-too: who-runs 0.1.0, index-funcs, SIZE sha256 DIGEST
    informer pods: v1/pods (Pod), all namespaces, list and watch allowed
    --
    error: config.toml:13:12: [informer.widgets] the API server serves no resource `v1/pdos`; did you mean `v1/pods`?
    error: config.toml:14:11: [informer.nodes] names namespace "default", but v1/nodes is cluster-scoped
      help: remove `namespaces`
    error: config.toml:18:13: [plugin.broken] ./broken.wasm: not WebAssembly: it starts with the text "not at all"; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    error: config.toml:21:13: [plugin.pinned] pins sha256 0000000000000000000000000000000000000000000000000000000000000000, but its component has DIGEST
      help: update `sha256` if the new file is the intended one
    warning: config.toml:22:14: [plugin.pinned] has no rule for v1 Node, so informer "nodes" delivers nothing to it
      help: `informant plugin inspect` shows its rules; remove the informer, or use another
    error: config.toml:25:13: [plugin.who-runs-too] defines the index "image", which [plugin.who-runs] already defines
      help: remove one of them: index names are unique per informer
    error: config.toml:25:13: [plugin.who-runs-too] defines the index "image-repository", which [plugin.who-runs] already defines
      help: remove one of them: index names are unique per informer
    config.toml is invalid
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_that_a_plugin_only_reads_is_a_note() {
    let world = World::start().await;
    world.install("crash-loop", "crash-loop.wasm");
    world.configure(&format!(
        "{PODS}[informer.nodes]\nresource = \"v1/nodes\"\n\
         [plugin.crash-loop]\ncomponent = \"crash-loop.wasm\"\ninformers = [\"pods\", \"nodes\"]\n"
    ));
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @r#"
    exit 0
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    informer nodes: v1/nodes (Node), all namespaces, list and watch allowed
    informer pods: v1/pods (Pod), all namespaces, list and watch allowed
    config.toml is valid
    --
    note: config.toml:10:22: [plugin.crash-loop] has no rule for v1 Node: it can read informer "nodes", but is not called for its objects
    "#);
    insta::assert_snapshot!(transcript(&world, &["check", "--offline"]).await, @r#"
    exit 0
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    config.toml is valid
    --
    note: config.toml:10:22: [plugin.crash-loop] has no rule for v1 Node: it can read informer "nodes", but is not called for its objects
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn informers_without_a_rule_are_found_offline() {
    let world = World::unreachable().await;
    world.install("crash-loop", "crash-loop.wasm");
    let config = |resource: &str| {
        format!(
            "[informer.others]\nresource = \"{resource}\"\n\
             [plugin.crash-loop]\ncomponent = \"crash-loop.wasm\"\ninformers = [\"others\"]\n"
        )
    };
    world.configure(&config("no"));
    insta::assert_snapshot!(transcript(&world, &["check", "--offline"]).await, @r#"
    exit 0
    plugin crash-loop: crash-loop 0.1.0, event-handler, sync-handler, SIZE sha256 DIGEST
    config.toml is valid
    --
    warning: config.toml:7:14: [plugin.crash-loop] has no rule for v1 Node, so informer "others" delivers nothing to it
      help: `informant plugin inspect` shows its rules; remove the informer, or use another
    "#);
    // The kind of a custom resource is known to a cluster only.
    world.configure(&config("example.com/v1/widgets"));
    let text = transcript(&world, &["check", "--offline"]).await;
    assert!(!text.contains("has no rule"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_missing_permissions() {
    let world = World::start().await;
    world.configure(PODS);
    world
        .server
        .faults()
        .forbid(informant_apiserver::Filter::any().resource("pods").verb("watch"));
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @"
    exit 3
    --
    error: config.toml:4:12: [informer.pods] has no permission to watch (forbidden by a fault rule) v1/pods in all namespaces
      help: grant `list` and `watch` on it to the identity that Informant runs as, or set `namespaces`
    config.toml is valid, but cannot run as it is in this cluster
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_an_invalid_or_missing_file() {
    let world = World::start().await;
    world.configure("[informer.pods]\nresuorce = \"v1/pods\"\n");
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @r#"
    exit 3
    --
    error: config.toml:3:11: [informer.pods] lacks `resource`
      help: set what to watch: resource = "v1/pods"
    error: config.toml:4:1: unknown key `resuorce` in [informer.pods]
      help: did you mean `resource`?
    "#);
    insta::assert_snapshot!(transcript(&world, &["check", "-c", "nowhere.toml"]).await, @"
    exit 3
    --
    error: nowhere.toml: failed to read: No such file or directory (os error 2)
      help: name the configuration with -c FILE; the default is config.toml in the current folder
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn check_reports_an_unreachable_cluster() {
    let world = World::unreachable().await;
    world.configure(PODS);
    insta::assert_snapshot!(transcript(&world, &["check"]).await, @r"
    exit 0
    config.toml is valid
    --
    warning: config.toml: cannot check the cluster: http://ADDRESS: the API server cannot be reached: client error (Connect): tcp connect error: Connection refused (os error 111); check its address and that it is running
      help: resources and permissions were not checked; --offline skips this check
    ");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster"]).await, @r"
    exit 3
    --
    error: config.toml: cannot check the cluster: http://ADDRESS: the API server cannot be reached: client error (Connect): tcp connect error: Connection refused (os error 111); check its address and that it is running
    config.toml is valid, but cannot run as it is in this cluster
    ");
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--context", "other"]).await, @r#"
    exit 3
    --
    error: config.toml: cannot check the cluster: there is no context "other" in the default kubeconfig ($KUBECONFIG, ~/.kube/config); contexts: `test`
    config.toml is valid, but cannot run as it is in this cluster
    "#);
    insta::assert_snapshot!(transcript(&world, &["check", "--cluster", "--kubeconfig", "nowhere"]).await, @r#"
    exit 3
    --
    error: config.toml: cannot check the cluster: cannot use kubeconfig nowhere: failed to read kubeconfig from '"nowhere"': No such file or directory (os error 2)
    config.toml is valid, but cannot run as it is in this cluster
    "#);
}
