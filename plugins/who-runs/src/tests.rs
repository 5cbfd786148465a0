use informant_plugin_sdk::testing::Driver;
use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(spec: Value, images: &[&str], repositories: &[&str]) {
    let mut driver = Driver::<WhoRuns>::start_index(json!({})).expect("the plugin starts");
    let pod =
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": "a" }, "spec": spec });
    let values = driver.index(&pod).expect("every pod has values");
    assert_eq!(values.values("image"), images);
    assert_eq!(values.values("image-repository"), repositories);
}

#[test]
fn every_kind_of_container_counts_and_each_image_once() {
    check(
        json!({
            "initContainers": [{ "name": "init", "image": "busybox:1.37" }],
            "containers": [{ "name": "a", "image": "nginx:1.25" }, { "name": "b", "image": "docker.io/library/nginx:1.25" }],
            "ephemeralContainers": [{ "name": "debug", "image": "busybox:1.37" }],
        }),
        &["busybox:1.37", "docker.io/library/nginx:1.25", "nginx:1.25"],
        &["docker.io/library/busybox", "docker.io/library/nginx"],
    );
}

#[test]
fn a_container_without_an_image_has_no_value() {
    check(json!({ "containers": [{ "name": "a" }] }), &[], &[]);
    check(json!({}), &[], &[]);
}

#[test]
fn the_plugin_takes_no_config() {
    assert!(Driver::<WhoRuns>::start_index(json!({ "images": 1 })).is_err());
}

#[test]
fn other_kinds_have_no_values() {
    let mut driver = Driver::<WhoRuns>::start_index(json!({})).expect("the plugin starts");
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": {} });
    assert_eq!(driver.index(&node).expect("it has none").names().count(), 0);
}
