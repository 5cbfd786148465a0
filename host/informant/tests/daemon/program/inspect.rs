//! `informant plugin inspect`.

use serde_json::{Value, json};

use super::{output, transcript};
use crate::world::{World, component};

#[tokio::test(flavor = "multi_thread")]
async fn inspect_describes_a_component() {
    let world = World::unreachable().await;
    world.install("crash-loop", "crash-loop.wasm");
    world.install("who-runs", "who-runs.wasm");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "crash-loop.wasm"]).await, @"
    exit 0
    plugin    crash-loop 0.1.0
    component crash-loop.wasm
    sha256    DIGEST
    size      SIZE
    contract  0.3.0
    sdk       rust 0.1.0
    roles     event-handler, sync-handler
    events    v1 Pod: fields /status/initContainerStatuses/*/name /status/initContainerStatuses/*/restartCount /status/initContainerStatuses/*/state/waiting/reason /status/initContainerStatuses/*/state/running/startedAt /status/initContainerStatuses/*/state/terminated/reason /status/initContainerStatuses/*/state/terminated/exitCode /status/initContainerStatuses/*/lastState/terminated/reason /status/initContainerStatuses/*/lastState/terminated/exitCode /status/containerStatuses/*/name /status/containerStatuses/*/restartCount /status/containerStatuses/*/state/waiting/reason /status/containerStatuses/*/state/running/startedAt /status/containerStatuses/*/state/terminated/reason /status/containerStatuses/*/state/terminated/exitCode /status/containerStatuses/*/lastState/terminated/reason /status/containerStatuses/*/lastState/terminated/exitCode, only if it changed
    imports   informant:plugin/types@0.3.0
              informant:plugin/log@0.3.0
              wasi:io/poll@0.2.12
              wasi:io/error@0.2.12
              wasi:io/streams@0.2.12
              wasi:cli/environment@0.2.6
              wasi:cli/exit@0.2.6
              wasi:cli/stdin@0.2.6
              wasi:cli/stdout@0.2.6
              wasi:cli/stderr@0.2.6
              wasi:cli/terminal-input@0.2.6
              wasi:cli/terminal-output@0.2.6
              wasi:cli/terminal-stdin@0.2.6
              wasi:cli/terminal-stdout@0.2.6
              wasi:cli/terminal-stderr@0.2.6
    needs     - (the manifest declares none; grants come from config.toml)
    --
    ");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "who-runs.wasm"]).await, @"
    exit 0
    plugin    who-runs 0.1.0
    component who-runs.wasm
    sha256    DIGEST
    size      SIZE
    contract  0.3.0
    sdk       rust 0.1.0
    roles     index-funcs
    indexes   image, image-repository of v1 Pod: fields /spec/containers/*/image /spec/initContainers/*/image /spec/ephemeralContainers/*/image
    imports   informant:plugin/types@0.3.0
              informant:plugin/log@0.3.0
              wasi:io/poll@0.2.12
              wasi:io/error@0.2.12
              wasi:io/streams@0.2.12
              wasi:cli/environment@0.2.6
              wasi:cli/exit@0.2.6
              wasi:cli/stdin@0.2.6
              wasi:cli/stdout@0.2.6
              wasi:cli/stderr@0.2.6
              wasi:cli/terminal-input@0.2.6
              wasi:cli/terminal-output@0.2.6
              wasi:cli/terminal-stdin@0.2.6
              wasi:cli/terminal-stdout@0.2.6
              wasi:cli/terminal-stderr@0.2.6
    needs     - (the manifest declares none; grants come from config.toml)
    --
    ");
    insta::assert_snapshot!(transcript(&world, &["plugin", "inspect", "kubeconfig"]).await, @r#"
    exit 1
    --
    error: kubeconfig: not WebAssembly: it starts with the text "{\"apiVersion\":\"v1\",\"clus"; use the .wasm file that the build produces (Rust: cargo build --target wasm32-wasip2 --release)
    "#);
    let json = output(&world, &["plugin", "inspect", "-o", "json", "crash-loop.wasm"])
        .await
        .stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["contract"], "0.3.0");
    assert_eq!(
        json["sdk"],
        json!({ "language": "rust", "sdk": env!("CARGO_PKG_VERSION"), "contract": "0.3.0" })
    );
    assert_eq!(json["parallel"], false);
    assert!(component("crash-loop").metadata().unwrap().len() == json["sizeBytes"].as_u64().unwrap());
}

/// What `inspect` shows of the rules of the component `starts.wasm`, or why it fails.
async fn rules(world: &World, args: &[&str]) -> String {
    let args = [&["plugin", "inspect", "starts.wasm"], args].concat();
    let text = transcript(world, &args).await;
    let shown = |line: &&str| {
        ["events", "indexes", "error", "exit"]
            .iter()
            .any(|head| line.starts_with(head))
    };
    text.lines().filter(shown).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn inspect_uses_the_configuration_that_it_is_given() {
    let world = World::unreachable().await;
    world.install("guest-starts", "starts.wasm");
    let plugin = |name: &str, kind: &str| {
        format!(
            "[plugin.{name}]\ncomponent = \"starts.wasm\"\ninformers = [\"pods\"]\nconfig = {{ kind = \"{kind}\" }}\n"
        )
    };
    let pods = "[informer.pods]\nresource = \"v1/pods\"\n";
    let mut texts = vec![rules(&world, &[]).await];
    world.configure(pods);
    texts.push(rules(&world, &["--config", "config.toml"]).await);
    world.configure(&format!("{pods}{}", plugin("nodes", "Node")));
    texts.push(rules(&world, &["--config", "config.toml"]).await);
    world.configure(&format!(
        "{pods}{}{}",
        plugin("nodes", "Node"),
        plugin("secrets", "Secret")
    ));
    texts.push(rules(&world, &["--config", "config.toml"]).await);
    texts.push(rules(&world, &["--config", "config.toml", "--plugin", "secrets"]).await);
    texts.push(rules(&world, &["--config", "config.toml", "--plugin", "absent"]).await);
    insta::assert_snapshot!(texts.join("\n"), @"
    exit 0
    events    v1 Pod: whole objects
    indexes   by-pod of v1 Pod: whole objects
    exit 1
    error: no plugin in config.toml has the component starts.wasm; name one with --plugin
    exit 0
    events    v1 Node: whole objects
    indexes   by-node of v1 Node: whole objects
    exit 1
    error: several plugins in config.toml have the component starts.wasm: choose one with --plugin (nodes, secrets)
    exit 0
    events    v1 Secret: whole objects
    indexes   by-secret of v1 Secret: whole objects
    exit 1
    error: config.toml has no [plugin.absent]
    ");
}
