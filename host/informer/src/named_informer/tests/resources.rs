//! Several resources under one name: sources start and end with their kinds.

use std::collections::BTreeMap;

use informant_spec::GroupVersionResource;

use super::*;
use crate::Discovered;

/// The resources that match a pattern at one time.
fn served(plurals: &[&str]) -> BTreeMap<GroupVersionResource, Discovered> {
    let known = [
        ("pods", "Pod", true),
        ("configmaps", "ConfigMap", true),
        ("nodes", "Node", false),
    ];
    let wanted = known.iter().filter(|(plural, ..)| plurals.contains(plural));
    let found = wanted.map(|&(plural, kind, namespaced)| {
        let gvr = GroupVersionResource::new("", "v1", plural);
        let kind = kind.to_owned();
        let found = Discovered {
            gvr: gvr.clone(),
            kind,
            namespaced,
            other_names: Vec::new(),
        };
        (gvr, found)
    });
    found.collect()
}

fn of(plurals: &[&str], namespaces: &[&str]) -> InformerSpec {
    InformerSpec {
        resources: Some(served(plurals)),
        ..spec(namespaces)
    }
}

fn put_all(server: &ApiServer) {
    put(server, "a/one", 1);
    put(server, "b/one", 1);
    let metadata = json!({"namespace": "a", "name": "one"});
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    server.put("v1/configmaps", "a", config_map).unwrap();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    server.put("v1/nodes", "", node).unwrap();
}

fn resources(world: &World) -> Vec<String> {
    let sources = world.informer.sources();
    sources
        .iter()
        .map(|source| source.spec().resource.to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn sources_follow_the_resources_that_match_a_pattern() {
    let server = cluster();
    put_all(&server);
    let world = World::start_as(&server, of(&["pods"], &[]));
    settle().await;
    assert_eq!(
        sorted(world.take()),
        ["add a/one (initial)", "add b/one (initial)", "synced (initial)"]
    );
    let pods = world.informer.sources()[0].source();

    world
        .informer
        .reconfigure(of(&["pods", "configmaps", "nodes"], &[]))
        .await
        .unwrap();
    settle().await;
    assert_eq!(
        sorted(world.take()),
        [
            "add a/one (initial)",
            "add n (initial)",
            "synced (initial)",
            "synced (initial)"
        ]
    );
    assert_eq!(resources(&world), ["v1/configmaps", "v1/nodes", "v1/pods"]);
    assert_eq!(
        world.found(),
        ["a/one", "a/one", "b/one", "n"],
        "two kinds may share a name"
    );

    world.informer.reconfigure(of(&["pods", "nodes"], &[])).await.unwrap();
    settle().await;
    assert_eq!(world.take(), ["delete a/one (reconfigured)"]);
    assert_eq!(world.found(), ["a/one", "b/one", "n"]);
    assert!(
        world.informer.sources().iter().any(|source| source.source() == pods),
        "untouched"
    );
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_matching_resources_waits_for_one() {
    let server = cluster();
    put_all(&server);
    let world = World::start_as(&server, of(&[], &[]));
    settle().await;
    assert!(world.informer.has_synced());
    assert_eq!(world.take(), Vec::<String>::new());
    world.informer.reconfigure(of(&["nodes"], &[])).await.unwrap();
    settle().await;
    assert_eq!(world.take(), ["add n (initial)", "synced (initial)"]);
}

#[tokio::test(start_paused = true)]
async fn with_namespaces_cluster_scoped_resources_are_left_out() {
    let server = cluster();
    put_all(&server);
    let world = World::start_as(&server, of(&["pods", "configmaps", "nodes"], &["a"]));
    settle().await;
    assert_eq!(resources(&world), ["v1/configmaps", "v1/pods"]);
    assert_eq!(world.found(), ["a/one", "a/one"]);
}

#[tokio::test(start_paused = true)]
async fn each_resource_hands_off_to_its_own_new_source() {
    let server = cluster();
    put_all(&server);
    let world = World::start_as(&server, of(&["pods", "configmaps"], &["a"]));
    settle().await;
    world.take();
    world
        .informer
        .reconfigure(of(&["pods", "configmaps"], &[]))
        .await
        .unwrap();
    settle().await;
    assert_eq!(world.take(), ["add b/one (reconfigured)"]);
    world.informer.reconfigure(of(&["pods"], &["b"])).await.unwrap();
    settle().await;
    assert_eq!(
        sorted(world.take()),
        ["delete a/one (reconfigured)", "delete a/one (reconfigured)"]
    );
    assert_eq!(world.found(), ["b/one"]);
}

#[tokio::test(start_paused = true)]
async fn an_informer_of_one_resource_cannot_become_a_pattern() {
    let server = cluster();
    let world = World::start(&server, &[]);
    let refused = world.informer.reconfigure(of(&["pods"], &[])).await;
    assert!(matches!(
        refused,
        Err(ReconfigureError::AnotherSource { what: "the resource" })
    ));
}
