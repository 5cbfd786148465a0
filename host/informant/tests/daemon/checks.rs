//! The program before anything runs: what `informant check` accepts and refuses, and embedded API servers.

use std::process::Stdio;

use serde_json::Value;

use super::program::{informant, transcript};
use super::world::{World, http_get, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

/// Checks a configuration, and asserts the exit code and the `parts` of the output.
async fn check(world: &World, config: &str, exit: u8, parts: &[&str]) {
    world.configure(config);
    let text = transcript(world, &["check"]).await;
    assert!(text.starts_with(&format!("exit {exit}\n")), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_kubeconfig_is_an_error_with_its_position() {
    let world = World::start().await;
    let east = "[cluster.east]\nkubeconfig = \"eeast.kubeconfig\"\n";
    let west = "[cluster.west]\nkubeconfig = \"kubeconfig\"\n";
    let expected = ["error: config.toml:3:", "cannot check cluster east", "eeast.kubeconfig"];
    check(&world, &format!("{east}{west}{PODS}"), 3, &expected).await;
    let one = "[cluster]\nkubeconfig = \"nowhere\"\n";
    check(
        &world,
        &format!("{one}{PODS}"),
        3,
        &["error: config.toml:3:", "kubeconfig ./nowhere:"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_kubeconfig_of_the_environment_is_an_error_unless_offline() {
    let world = World::start().await;
    world.configure(PODS);
    let run_check = async |args: &[&str]| {
        let mut command = informant(&world, args);
        let output = command.env("KUBECONFIG", "/nowhere").output().await.unwrap();
        output.status.code()
    };
    assert_eq!(run_check(&["check"]).await, Some(3));
    assert_eq!(run_check(&["check", "--offline"]).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn unserved_resource_is_an_error_if_required() {
    let world = World::start().await;
    let widgets = "[informer.widgets]\nresource = \"example.com/v1/widgets\"\n";
    check(&world, widgets, 3, &["error: config.toml:4:", "[informer.widgets]"]).await;
    let not_required = format!("{widgets}required = false\n");
    let expected = ["warning: config.toml:4:", "[informer.widgets]", "config.toml is valid"];
    check(&world, &not_required, 0, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_embedded_servers_have_different_uids() {
    let world = World::unreachable().await;
    let mut uids = Vec::new();
    for name in ["east", "west"] {
        let args = [
            "apiserver",
            "--listen=127.0.0.1:0",
            "--kubeconfig-out",
            name,
            "--context-name",
            name,
        ];
        let _server = informant(&world, &args).stderr(Stdio::null()).spawn().unwrap();
        let config = until("the kubeconfig", async || {
            kube::config::Kubeconfig::read_from(world.path(name)).map_err(|error| error.to_string())
        })
        .await;
        assert_eq!(config.current_context.as_deref(), Some(name));
        let url = config.clusters[0].cluster.as_ref().unwrap().server.clone().unwrap();
        let address = url.strip_prefix("http://").unwrap().parse().unwrap();
        let (code, namespace) = http_get(address, "/api/v1/namespaces/default").await;
        assert_eq!(code, 200, "{namespace}");
        let namespace: Value = serde_json::from_str(&namespace).unwrap();
        uids.push(namespace["metadata"]["uid"].as_str().unwrap().to_owned());
    }
    assert_ne!(uids[0], uids[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn unsupported_field_selector_is_found_by_check_and_run() {
    let world = World::start().await;
    world.create_pod("web", "nginx");
    let config = format!(
        "{PODS}[informer.images]\nresource = \"v1/pods\"\nrequired = false\nfield-selector = \"spec.image=nginx\"\n"
    );
    let expected = [
        "error: config.toml:6:",
        "[informer.images] `field-selector` is not supported",
        "field label not supported: spec.image",
    ];
    check(&world, &config, 3, &expected).await;
    let daemon = world.daemon(&config).await;
    until("the source to be refused", async || {
        let sources = daemon.json("/api/v1/sources?informer=images").await;
        let source = &sources["items"][0];
        let error = source["lastError"]["message"].as_str().unwrap_or_default();
        match source["state"] == "Refused" && error.contains("field label not supported: spec.image") {
            true => Ok(()),
            false => Err(sources.to_string()),
        }
    })
    .await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grant_of_a_resource_not_served_is_a_warning() {
    let world = World::start().await;
    world.install("guest-kube", "plugin.wasm");
    let granted = |resource: &str| {
        format!(
            "{PODS}[plugin.tried]\ncomponent = \"plugin.wasm\"\ninformers = [\"pods\"]\n\
             allow.kube = [{{ verbs = [\"patch\"], resource = \"{resource}\" }}]\n"
        )
    };
    let why = "[plugin.tried] grants access to nothing: the API server serves no resource `v1/podz`";
    let expected = ["warning: config.toml:8:", why, "config.toml is valid"];
    check(&world, &granted("v1/podz"), 0, &expected).await;
    world.configure(&granted("v1/pods"));
    let text = transcript(&world, &["check"]).await;
    assert!(!text.contains("grants access to nothing"), "{text}");
}
