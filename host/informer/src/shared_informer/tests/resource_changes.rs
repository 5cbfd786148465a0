//! A resource that is missing, appears, disappears, comes back in another version and is forbidden for a while, next to
//! one that stays.

use informant_apiserver::{ApiServer, Ending, Filter};
use informant_cache::SourceState;
use informant_spec::GroupVersionResource;
use serde_json::{Value, json};

use crate::SourceSpec;
use crate::testing::{Rig, RigOptions, api_server, delete, pass, put, settle};

const DEFINITIONS: &str = "apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "orders.shop.example.com";

fn definition(versions: &[&str]) -> Value {
    let version = |(place, name): (usize, &&str)| {
        json!({
            "name": name, "served": true, "storage": place == 0,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        })
    };
    let versions: Vec<_> = versions.iter().enumerate().map(version).collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "shop.example.com", "scope": "Namespaced", "versions": versions,
            "names": {"plural": "orders", "singular": "order", "kind": "Order"},
        },
    })
}

fn order(server: &ApiServer, version: &str, name: &str) {
    let api_version = format!("shop.example.com/{version}");
    let order = json!({"apiVersion": api_version, "kind": "Order", "metadata": {"name": name}});
    let created = server.create(&format!("{api_version}/orders"), "default", order);
    created.expect("it is served");
}

/// Waits until the source is in this state.
async fn until(rig: &Rig, state: SourceState) {
    for _ in 0..120 {
        if rig.informer.status().state == state {
            return settle().await;
        }
        pass(1).await;
    }
    panic!("not {state:?} after two minutes: {:?}", rig.informer.status());
}

#[tokio::test(start_paused = true)]
async fn a_changing_resource_does_not_affect_other_sources() {
    let server = api_server();
    let (orders, pods) = (orders(&server), Rig::start(&server));
    let (calls, pod_calls) = (orders.record(), pods.record());
    settle().await;
    let lists_of_pods = pods.informer.status().lists;
    let still_there = async |revision: u64| {
        put(&server, "pod", revision);
        settle().await;
        assert_eq!(pod_calls.take().len(), 1, "revision {revision}");
        let status = pods.informer.status();
        assert_eq!((status.state, status.lists), (SourceState::Live, lists_of_pods));
    };
    pod_calls.take();
    until(&orders, SourceState::WaitingForResource).await;
    still_there(1).await;

    server.create(DEFINITIONS, "", definition(&["v1"])).unwrap();
    order(&server, "v1", "first");
    until(&orders, SourceState::Live).await;
    assert_eq!(calls.take(), ["add first (initial)", "synced (initial)"]);
    still_there(2).await;

    server.delete(DEFINITIONS, "", DEFINITION).unwrap();
    until(&orders, SourceState::WaitingForResource).await;
    still_there(3).await;

    // Another version is another resource: the source keeps waiting, and its handler receives nothing.
    calls.take();
    server.create(DEFINITIONS, "", definition(&["v2"])).unwrap();
    order(&server, "v2", "second");
    pass(120).await;
    assert_eq!(orders.informer.status().state, SourceState::WaitingForResource);
    assert_eq!(calls.take(), [] as [&str; 0]);
    still_there(4).await;

    server.put(DEFINITIONS, "", definition(&["v2", "v1"])).unwrap();
    until(&orders, SourceState::Live).await;
    let names: Vec<_> = orders
        .informer
        .snapshot()
        .iter()
        .map(|order| order.name().to_owned())
        .collect();
    assert_eq!(names, ["second"]);
    assert!(calls.take().iter().any(|line| line.starts_with("add second")));

    let of_orders = Filter::any().resource("orders");
    server.faults().forbid(of_orders.clone());
    server.faults().drop_watches(&of_orders, Ending::Clean);
    until(&orders, SourceState::Forbidden).await;
    order(&server, "v1", "third");
    still_there(5).await;
    server.faults().allow(&of_orders);
    until(&orders, SourceState::Live).await;
    assert_eq!(calls.take(), ["add third (relist)"]);
    delete(&server, "pod");
    settle().await;
    assert_eq!(pod_calls.take(), ["delete pod"]);
}

fn orders(server: &ApiServer) -> Rig {
    let resource = GroupVersionResource::new("shop.example.com", "v1", "orders");
    let spec = SourceSpec::new("orders", resource, "Order");
    Rig::start_with(
        server,
        RigOptions {
            spec,
            ..RigOptions::default()
        },
    )
}
