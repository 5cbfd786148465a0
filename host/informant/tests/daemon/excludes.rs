//! `exclude` entries without effect: warnings of `informant check` and in the log.

use super::program::{Program, transcript};
use super::world::World;

fn config(exclude: &str) -> String {
    format!("[informer.all]\nresource = \"*\"\nexclude = [{exclude}]\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn check_warns_about_exclude_entries_without_effect() {
    let world = World::start().await;
    world.configure(&config("\"v1/secret\", \"v1/configmaps\", \"zzz.example.com/v1/*\""));
    let output = transcript(&world, &["check", "--cluster"]).await;
    assert!(output.starts_with("exit 0\n"), "{output}");
    let (_, problems) = output.split_once("--\n").unwrap();
    insta::assert_snapshot!(problems, @"
    warning: config.toml:5:12: [informer.all] `exclude` entry `v1/secret` matches no served resource; did you mean `v1/secrets`?
      help: correct the entry, or remove it
    warning: config.toml:5:42: [informer.all] `exclude` entry `zzz.example.com/v1/*` matches no served resource; `kubectl api-resources` lists the served resources
      help: correct the entry, or remove it
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn exclude_entry_with_effect_in_one_cluster_is_accepted() {
    let world = World::start().await;
    let other = World::start().await;
    let kubeconfigs = format!(
        "[cluster.east]\nkubeconfig = {:?}\n[cluster.west]\nkubeconfig = {:?}\n",
        world.kubeconfig(),
        other.kubeconfig(),
    );
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "orders.shop.example.com"},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": "orders", "singular": "order", "kind": "Order"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let definitions = "apiextensions.k8s.io/v1/customresourcedefinitions";
    other.server.create(definitions, "", definition).unwrap();
    let entries = config("\"shop.example.com/v1/orders\", \"shop.example.com/v1/order\"");
    world.configure(&format!("{kubeconfigs}{entries}"));
    let output = transcript(&world, &["check"]).await;
    let nowhere = "`shop.example.com/v1/order` matches no served resource";
    assert!(output.contains(nowhere), "{output}");
    assert!(
        !output.contains("`shop.example.com/v1/orders` matches no served resource"),
        "{output}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exclude_entry_without_effect_is_logged() {
    let world = World::start().await;
    let program = Program::run(&world, &config("\"v1/secret\", \"v1/configmaps\"")).await;
    let line = program.logged("exclude entry has no effect").await;
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["fields"]["informer"], "all");
    assert_eq!(line["fields"]["exclude"], "v1/secret");
    assert_eq!(
        line["fields"]["hint"],
        "matches no served resource; did you mean `v1/secrets`?"
    );
}
