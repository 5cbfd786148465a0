//! Grants for what an informer watches: in a running daemon, in `informant check` and in `informant rbac`.

use informant_apiserver::Filter;
use serde_json::{Value, json};

use super::program::transcript;
use super::world::{World, until};

const ORDERS: &str = "shop.example.com/v1/orders";
const BILLS: &str = "shop.example.com/v1/bills";

/// A plugin that labels each object of `informer`, with `exclude` of its grant.
fn config(informer: &str, exclude: &str) -> String {
    format!(
        "[informer.shop]\n{informer}\n[plugin.mark]\ncomponent = \"kube.wasm\"\ninformers = [\"shop\"]\n\
         allow.kube = [{{ verbs = [\"patch\"], informer = \"shop\", exclude = [{exclude}] }}]\n\
         config = {{ calls = [{{ verb = \"merge\", document = {{ metadata = {{ labels = {{ is = \"marked\" }} }} }} }}] }}\n"
    )
}

async fn world() -> World {
    let world = World::start().await;
    world.install("guest-kube", "kube.wasm");
    world
}

fn define(world: &World, plural: &str, kind: &str) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.shop.example.com")},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let definitions = "apiextensions.k8s.io/v1/customresourcedefinitions";
    world.server.create(definitions, "", definition).unwrap();
}

fn create(world: &World, resource: &str, kind: &str, name: &str) {
    let object = json!({"apiVersion": "shop.example.com/v1", "kind": kind, "metadata": {"name": name}});
    world.server.create(resource, "default", object).unwrap();
}

fn is_marked(world: &World, resource: &str) -> bool {
    let objects = world.server.list(resource).unwrap();
    objects
        .iter()
        .any(|object: &Value| object["metadata"]["labels"]["is"] == "marked")
}

#[tokio::test(flavor = "multi_thread")]
async fn informer_grant_covers_a_kind_that_appears_later() {
    let world = world().await;
    define(&world, "bills", "Bill");
    create(&world, BILLS, "Bill", "first");
    let informer = "resource = \"shop.example.com/v1/*\"";
    let daemon = world.daemon(&config(informer, &format!("{BILLS:?}"))).await;
    define(&world, "orders", "Order");
    create(&world, ORDERS, "Order", "first");
    until("the order to be marked", async || match is_marked(&world, ORDERS) {
        true => Ok(()),
        false => Err("it is not".to_owned()),
    })
    .await;
    assert!(!is_marked(&world, BILLS), "the grant excludes them");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rbac_lists_what_an_informer_grant_covers() {
    let world = world().await;
    for (plural, kind) in [("bills", "Bill"), ("orders", "Order")] {
        define(&world, plural, kind);
    }
    let informer = "resource = \"shop.example.com/v1/*\"\nnamespaces = [\"web\"]";
    world.configure(&config(informer, &format!("{BILLS:?}")));
    let output = transcript(&world, &["rbac"]).await;
    let rules = output.lines().filter(|line| {
        let shown = ["kind:", "# [", "  resources:", "  verbs:"];
        shown.iter().any(|shown| line.starts_with(shown))
    });
    let rules: Vec<&str> = rules.collect();
    insta::assert_snapshot!(rules.join("\n"), @r#"
    kind: ServiceAccount
    kind: Role
    # [informer.shop]
      resources: ["bills"]
      verbs: ["list", "watch"]
    # [informer.shop], [plugin.mark]
      resources: ["orders"]
      verbs: ["list", "watch", "patch"]
    kind: RoleBinding
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_asks_for_the_rights_of_an_informer_grant() {
    let world = world().await;
    define(&world, "bills", "Bill");
    define(&world, "orders", "Order");
    let informer = "resource = \"shop.example.com/v1/*\"";
    world.configure(&config(informer, "\"shop.example.com/v1/bill\""));
    let shown = async || {
        let output = transcript(&world, &["check", "--cluster"]).await;
        let lines = output
            .lines()
            .filter(|line| line.contains("plugin") || line.contains("help:"));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(shown().await, @r#"
    plugin mark: guest-kube 0.1.0, event-handler, index-funcs, SIZE sha256 DIGEST
    plugin mark: all grants are permitted on the cluster
    warning: config.toml:8:66: [plugin.mark] `exclude` entry `shop.example.com/v1/bill` matches nothing that [informer.shop] watches
      help: did you mean `shop.example.com/v1/bills`?
    "#);
    world.configure(&config(informer, "\"shop.example.com/v1/*\""));
    insta::assert_snapshot!(shown().await, @r#"
    plugin mark: guest-kube 0.1.0, event-handler, index-funcs, SIZE sha256 DIGEST
    warning: config.toml:8:47: [plugin.mark] grants access to nothing: `exclude` has all that [informer.shop] watches
    "#);
    world.configure(&config(informer, &format!("{BILLS:?}")));
    world
        .server
        .faults()
        .forbid(Filter::any().verb("patch").resource("orders"));
    insta::assert_snapshot!(shown().await, @r#"
    plugin mark: guest-kube 0.1.0, event-handler, index-funcs, SIZE sha256 DIGEST
    error: config.toml:8:47: [plugin.mark] has grants that Informant itself has no permission for: patch shop.example.com/v1/orders
      help: apply the RBAC that `informant rbac` prints, or narrow the grant, for example with `exclude`
    "#);
}
