//! The UIDs that deferred writes are made with: a write for an object does not change the next one of its name.

use informant_spec::PluginSpec;
use serde_json::{Value, json};

use crate::world::{World, idle};
use crate::writes::{Api, run};

fn reads_pods(spec: &mut PluginSpec) {
    spec.informers = vec![("pods".into(), "pods".into())];
}

/// A deferred write to the pod `name`; empty: the one that the call is about.
fn write(verb: &str, name: &str, document: Value) -> Value {
    let resource = if name.is_empty() { "" } else { "v1/pods" };
    json!({ "verb": verb, "resource": resource, "namespace": "default", "name": name, "defers": true,
        "document": document })
}

fn labeled() -> Value {
    json!({ "metadata": { "labels": { "a": "b" } } })
}

#[tokio::test]
async fn writes_have_the_uid_of_the_object_that_is_known() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let cached = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "other" } });
    let absent = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "absent" } });
    let calls = json!([
        write("merge", "", labeled()),
        write("json", "", json!([])),
        write("update", "", json!({ "metadata": { "uid": "of-the-plugin" } })),
        write("apply", "other", cached),
        write("apply", "absent", absent.clone()),
        write("create", "", absent),
    ]);
    let (plugin, mut pods) = run(&world, json!({ "calls": calls }), reads_pods).await;
    pods.apply("other");
    idle(&world, &plugin).await;
    let before = api.uids().len();
    pods.apply("web-0");
    idle(&world, &plugin).await;
    assert_eq!(api.uids()[before..], ["uid-web-0", "uid-web-0", "", "uid-other", ""]);
}

#[tokio::test]
async fn an_object_that_is_unknown_or_deleted_has_no_uid() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let mut delete = write("delete", "other", Value::Null);
    delete["uid"] = json!("uid-other");
    let calls = json!([
        delete,
        write(
            "apply",
            "other",
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "other" } })
        ),
        write("merge", "elsewhere", labeled()),
    ]);
    let (plugin, mut pods) = run(&world, json!({ "calls": calls }), reads_pods).await;
    pods.apply("other");
    idle(&world, &plugin).await;
    assert_eq!(
        api.uids(),
        ["", "", ""],
        "what is applied after its delete is the next one"
    );
}

#[tokio::test]
async fn an_unchanged_apply_with_a_uid_is_left_out() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let document = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "a" } });
    let config = json!({ "calls": [write("apply", "", document)], "on-updates": true });
    let (plugin, mut pods) = run(&world, config, reads_pods).await;
    // What the cache gets next.
    api.number_from(3);
    pods.apply("a");
    idle(&world, &plugin).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    assert_eq!(api.uids(), ["uid-a"]);
    let counted = world.metrics("informant_plugin_writes_total");
    assert!(counted.contains(r#"result="unchanged"} 1"#), "{counted}");
}
