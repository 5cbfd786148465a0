//! Entries of `exclude` that leave nothing out: what `informant check` and the log say of them.

use super::program::{Program, transcript};
use super::world::World;

fn config(exclude: &str) -> String {
    format!("[informer.all]\nresource = \"*\"\nexclude = [{exclude}]\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn check_names_each_entry_of_exclude_that_leaves_nothing_out_with_what_comes_close() {
    let world = World::start().await;
    world.configure(&config("\"v1/secret\", \"v1/configmaps\", \"zzz.example.com/v1/*\""));
    let said = transcript(&world, &["check", "--cluster"]).await;
    assert!(said.starts_with("exit 0\n"), "{said}");
    let (_, problems) = said.split_once("--\n").unwrap();
    insta::assert_snapshot!(problems, @"
    warning: config.toml:5:12: [informer.all] `exclude`: of `*`, `v1/secret` leaves out nothing that is served; did you mean `v1/secrets`
      help: write what is meant, or leave the entry out
    warning: config.toml:5:42: [informer.all] `exclude`: of `*`, `zzz.example.com/v1/*` leaves out nothing that is served; `kubectl api-resources` lists what there is
      help: write what is meant, or leave the entry out
    ");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_that_leaves_something_out_in_one_cluster_is_good_in_all() {
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
    let said = transcript(&world, &["check"]).await;
    let nowhere = "`shop.example.com/v1/order` leaves out nothing that is served";
    assert!(said.contains(nowhere), "{said}");
    assert!(
        !said.contains("`shop.example.com/v1/orders` leaves out nothing"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_names_an_entry_of_exclude_that_leaves_nothing_out() {
    let world = World::start().await;
    let program = Program::run(&world, &config("\"v1/secret\", \"v1/configmaps\"")).await;
    let line = program.logged("leaves out nothing").await;
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["fields"]["informer"], "all");
    assert_eq!(
        line["fields"]["message"],
        "`exclude`: of `*`, `v1/secret` leaves out nothing that is served; did you mean `v1/secrets`"
    );
}
