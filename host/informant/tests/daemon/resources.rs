//! `resource = "*"`: everything the API server serves, as kinds are added and removed.

use std::time::{Duration, Instant};

use informant_apiserver::{Answer, Filter};
use serde_json::{Value, json};

use super::program::transcript;
use super::world::{Running, World, until};

/// The resources of the synced sources.
async fn resources(daemon: &Running) -> Vec<String> {
    let answer = daemon.json("/api/v1/sources").await;
    let items = answer["items"].as_array().unwrap();
    let synced = items.iter().filter(|item| item["synced"] == true);
    synced
        .map(|item| item["resource"].as_str().unwrap().to_owned())
        .collect()
}

async fn wait_for_resource(daemon: &Running, resource: &str, there: bool) {
    until(&format!("{resource} watched: {there}"), async || {
        let resources = resources(daemon).await;
        let found = resources.iter().any(|other| other == resource);
        if found == there {
            Ok(())
        } else {
            Err(resources.join(" "))
        }
    })
    .await;
}

fn definition() -> Value {
    json!({
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
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wildcard_follows_added_removed_and_excluded_resources() {
    let world = World::start().await;
    world.create_pod("web", "nginx");
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}});
    world.server.create("v1/configmaps", "default", config_map).unwrap();
    let section = "[informer.all]\nresource = \"*\"\n";
    let daemon = world.daemon(&format!("{section}exclude = [\"v1/secrets\"]\n")).await;
    daemon.wait_until_ready().await;
    let at_first = resources(&daemon).await;
    assert!(at_first.contains(&"v1/pods".to_owned()) && at_first.contains(&"apps/v1/deployments".to_owned()));
    assert!(!at_first.contains(&"v1/secrets".to_owned()), "{at_first:?}");

    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web"]);
    assert_eq!(
        daemon.names("/api/v1/get/v1/configmaps?name=settings").await,
        ["settings"]
    );
    let all = daemon.names("/api/v1/get/all").await;
    assert!(all.contains(&"web".to_owned()) && all.contains(&"settings".to_owned()));
    let shown = transcript(&world, &["get", "all", "--admin", &daemon.address().to_string()]).await;
    let rows: Vec<_> = shown
        .lines()
        .map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect();
    for row in ["NAMESPACE NAME", "default pod/web", "default configmap/settings"] {
        assert!(rows.iter().any(|shown| shown == row), "{row}: {shown}");
    }

    let definitions = "apiextensions.k8s.io/v1/customresourcedefinitions";
    world.server.create(definitions, "", definition()).unwrap();
    wait_for_resource(&daemon, "shop.example.com/v1/orders", true).await;
    let order = json!({"apiVersion": "shop.example.com/v1", "kind": "Order", "metadata": {"name": "first"}});
    world
        .server
        .create("shop.example.com/v1/orders", "default", order)
        .unwrap();
    until("the order to be found", async || {
        let names = daemon.names("/api/v1/get/orders").await;
        if names == ["first"] {
            Ok(())
        } else {
            Err(names.join(" "))
        }
    })
    .await;

    // An API server that has just started and knows no resources yet. The new section starts discovery at once.
    let lagging = Answer::Raw {
        code: 200,
        content_type: "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList".to_owned(),
        body: r#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":[]}"#
            .to_owned(),
    };
    world.server.faults().answer(Filter::any().verb("get"), 2, lagging);
    world.configure(&format!("{section}exclude = [\"v1/secrets\", \"v1/configmaps\"]\n"));
    wait_for_resource(&daemon, "v1/configmaps", false).await;
    until("the responses of the lagging API server", async || {
        let rules = world.server.faults().rules();
        if rules.is_empty() {
            Ok(())
        } else {
            Err(format!("{rules:?}"))
        }
    })
    .await;
    wait_for_resource(&daemon, "shop.example.com/v1/orders", true).await;
    assert_eq!(daemon.names("/api/v1/get/orders").await, ["first"]);
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web"]);

    world.server.delete(definitions, "", "orders.shop.example.com").unwrap();
    wait_for_resource(&daemon, "shop.example.com/v1/orders", false).await;
    let (status, _) = daemon.get("/api/v1/get/orders").await;
    assert_eq!(status, 404);
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web"]);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn named_informer_finds_a_late_definition_within_12_seconds() {
    let world = World::start().await;
    let daemon = world
        .daemon("[informer.orders]\nresource = \"shop.example.com/v1/orders\"\nrequired = false\n")
        .await;
    // Long enough for the pauses between attempts to have grown to their longest.
    tokio::time::sleep(Duration::from_secs(16)).await;
    let definitions = "apiextensions.k8s.io/v1/customresourcedefinitions";
    world.server.create(definitions, "", definition()).unwrap();
    let created = Instant::now();
    wait_for_resource(&daemon, "shop.example.com/v1/orders", true).await;
    // 10 s and a fifth; the rest is for a busy machine.
    assert!(created.elapsed() < Duration::from_secs(18), "{:?}", created.elapsed());
    daemon.stop().await;
}

/// Waits until a line of readiness contains `with`. `/readyz` must be green all the time.
async fn wait_for_degraded(daemon: &Running, with: &str) {
    until(with, async || {
        let (status, text) = daemon.get("/readyz?verbose").await;
        assert_eq!(status, 200, "{text}");
        let found = text
            .lines()
            .any(|line| line.starts_with("[ ]informer/all degraded: ") && line.contains(with));
        if found { Ok(()) } else { Err(text) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_kinds_of_a_wildcard_affect_only_themselves() {
    let world = World::start().await;
    world.create_pod("web", "nginx");
    for resource in ["secrets", "orders"] {
        world.server.faults().forbid(Filter::any().resource(resource));
    }
    let daemon = world.daemon("[informer.all]\nresource = \"*\"\n").await;
    daemon.wait_until_ready().await;
    wait_for_degraded(&daemon, "v1/secrets: Forbidden").await;
    let degraded = async |resource: &str| {
        let labels = [
            &*format!("resource=\"{resource}\""),
            "state=\"Forbidden\"",
            "expected=\"true\"",
        ];
        daemon.metric("informant_source_degraded", &labels).await
    };
    assert_eq!((degraded("v1/secrets").await, degraded("v1/pods").await), (1.0, 0.0));

    // Queries answer from the other kinds, and name what is missing.
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web"]);
    assert!(daemon.names("/api/v1/get/all").await.contains(&"web".to_owned()));
    for refused in [
        "/api/v1/get/secrets",
        "/api/v1/get/all?require-all=true",
        "/api/v1/get/all?name=not-known",
    ] {
        let (status, body) = daemon.get(refused).await;
        assert!(
            status == 503 && body.contains("not-synced") && body.contains("v1/secrets (Forbidden: "),
            "{body}"
        );
    }
    let address = daemon.address().to_string();
    let shown = transcript(&world, &["get", "all", "--admin", &address]).await;
    let warning = "warning: not synced, and not in this answer: v1/secrets (Forbidden: ";
    assert!(shown.contains("pod/web") && shown.contains(warning), "{shown}");
    let shown = transcript(&world, &["get", "all", "--require-all", "--admin", &address]).await;
    assert!(
        shown.starts_with("exit 5\n--\nerror: informer all is partly not synced: "),
        "{shown}"
    );
    let shown = transcript(&world, &["status", "--admin", &address]).await;
    assert!(
        shown.contains("\nall (v1/secrets) is degraded (Forbidden): "),
        "{shown}"
    );

    // A kind that appears later does not count either, and neither does its end.
    let definitions = "apiextensions.k8s.io/v1/customresourcedefinitions";
    world.server.create(definitions, "", definition()).unwrap();
    wait_for_degraded(&daemon, "shop.example.com/v1/orders: Forbidden").await;
    world.server.faults().allow(&Filter::any().resource("orders"));
    wait_for_resource(&daemon, "shop.example.com/v1/orders", true).await;
    assert_eq!(degraded("shop.example.com/v1/orders").await, 0.0);
    world.server.delete(definitions, "", "orders.shop.example.com").unwrap();
    wait_for_resource(&daemon, "shop.example.com/v1/orders", false).await;
    wait_for_degraded(&daemon, "v1/secrets: Forbidden").await;
    assert_eq!(daemon.names("/api/v1/get/pods").await, ["web"]);
    daemon.stop().await;
}
