//! The program before anything runs: what `informant check` refuses and what it lets pass, and servers to try things
//! out on.

use std::process::Stdio;

use serde_json::Value;

use super::program::{informant, transcript};
use super::world::{World, http_get, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

/// Judged with this exit code, and each of `parts` is said.
async fn says(world: &World, config: &str, exit: u8, parts: &[&str]) {
    world.configure(config);
    let text = transcript(world, &["check"]).await;
    assert!(text.starts_with(&format!("exit {exit}\n")), "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_is_missing_is_an_error_where_it_is_named() {
    let world = World::start().await;
    let east = "[cluster.east]\nkubeconfig = \"eeast.kubeconfig\"\n";
    let west = "[cluster.west]\nkubeconfig = \"kubeconfig\"\n";
    let said = [
        "error: config.toml:3:",
        "cluster east could not be asked",
        "eeast.kubeconfig",
    ];
    says(&world, &format!("{east}{west}{PODS}"), 3, &said).await;
    let one = "[cluster]\nkubeconfig = \"nowhere\"\n";
    says(
        &world,
        &format!("{one}{PODS}"),
        3,
        &["error: config.toml:3:", "kubeconfig ./nowhere:"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kubeconfig_that_the_environment_names_and_is_missing_is_an_error_unless_the_cluster_is_left_out() {
    let world = World::start().await;
    world.configure(PODS);
    let check = async |args: &[&str]| {
        let mut command = informant(&world, args);
        let output = command.env("KUBECONFIG", "/nowhere").output().await.unwrap();
        output.status.code()
    };
    assert_eq!(check(&["check"]).await, Some(3));
    assert_eq!(check(&["check", "--offline"]).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_that_is_not_served_yet_is_an_error_unless_it_is_not_required() {
    let world = World::start().await;
    let widgets = "[informer.widgets]\nresource = \"example.com/v1/widgets\"\n";
    says(&world, widgets, 3, &["error: config.toml:4:", "[informer.widgets]"]).await;
    let not_required = format!("{widgets}required = false\n");
    let said = ["warning: config.toml:4:", "[informer.widgets]", "config.toml is good"];
    says(&world, &not_required, 0, &said).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_are_two_clusters() {
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
