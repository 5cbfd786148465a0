//! `#[handler]`, `#[derive(Projection)]` and handlers for several kinds.

use std::collections::BTreeMap;

use informant_plugin_sdk::prelude::*;
use informant_plugin_sdk::testing::Driver;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, Projection)]
#[projection(api_version = "v1", kind = "Pod")]
#[expect(dead_code, reason = "what the handlers do not read has pointers, too")]
struct Pod {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Deserialize, Projection)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "as in Pod")]
struct Metadata {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    owner_references: Vec<OwnerReference>,
}

#[derive(Deserialize, Projection, Default)]
#[serde(rename_all(deserialize = "camelCase"), default)]
struct PodSpec {
    node_name: Option<String>,
    containers: Vec<Container>,
    volumes: Vec<BTreeMap<String, Value>>,
    r#type: Kinds,
    #[serde(rename = "app.kubernetes.io/name~", skip_serializing_if = "Option::is_none")]
    app: Option<String>,
    #[serde(skip)]
    cached: Option<Vec<u8>>,
    #[serde(deserialize_with = "seconds")]
    deadline: Seconds,
    #[projection(whole)]
    affinity: Foreign,
}

#[derive(Deserialize, Projection)]
#[expect(dead_code, reason = "as in Pod")]
struct Container {
    image: Image,
    #[serde(default)]
    env: BTreeMap<String, Variable>,
}

#[derive(Deserialize, Projection)]
struct Image(String);

#[derive(Deserialize, Projection)]
#[expect(dead_code, reason = "as in Pod")]
struct Variable {
    value: String,
}

#[derive(Deserialize, Projection, Default)]
#[serde(rename_all = "lowercase")]
enum Kinds {
    #[default]
    Plain,
}

/// Has no serde code of its own.
#[derive(Default)]
struct Seconds;

fn seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Seconds, D::Error> {
    u64::deserialize(deserializer).map(|_| Seconds)
}

/// Stands for a type of another crate.
#[derive(Deserialize, Default)]
struct Foreign {}

#[test]
fn the_pointers_are_what_serde_reads() {
    let expected = [
        "/metadata/labels",
        "/metadata/ownerReferences",
        "/spec/nodeName",
        "/spec/containers/*/image",
        "/spec/containers/*/env/*/value",
        "/spec/volumes",
        "/spec/type",
        "/spec/app.kubernetes.io~1name~0",
        "/spec/deadline",
        "/spec/affinity",
    ];
    assert_eq!(Pod::pointers(), expected);
    let rule = Events::of("v1", "Pod").fields(expected);
    assert_eq!(Events::of_type::<Pod>(), rule);
}

#[informant::handler]
fn on_pod(event: &Event, pod: Pod) -> Result {
    let PodSpec {
        node_name, containers, ..
    } = pod.spec;
    let images: Vec<String> = containers.into_iter().map(|container| container.image.0).collect();
    info!("{event} runs {images:?} on {node_name:?}");
    Ok(())
}

fn pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": name },
        "spec": { "nodeName": node, "containers": [{ "image": "nginx", "args": ["not asked for"] }], "deadline": 3 },
    })
}

fn node() -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n1" } })
}

#[test]
fn a_handler_function_receives_adds_and_updates_of_its_kind() {
    let mut driver = Driver::<OnPod>::start(json!({})).expect("the plugin starts");
    driver.put(pod("a", "n1")).expect("the plugin accepts it");
    driver.put(pod("a", "n2")).expect("the plugin accepts it");
    driver.put(node()).expect("the manifest excludes it");
    driver.delete(SourceId(0), "web", "a").expect("the plugin accepts it");
    let lines = ["n1", "n2"].map(|node| format!(r#"info: web/a runs ["nginx"] on Some("{node}")"#));
    assert_eq!(driver.take_log(), lines);
}

mod with_options {
    use std::time::Duration;

    use super::*;

    #[informant::handler(
        api_version = "v1", kind = "Node", changed_only, label_selector = "watched=yes",
        needs = Need::kube([Verb::Patch], "v1/nodes")
    )]
    pub(super) fn on_node(event: &Event, node: Option<Value>) -> Result<Action> {
        match node {
            Some(_) => info!("{event} is there"),
            None => info!("{event} is gone"),
        }
        Ok(Action::requeue_after(Duration::from_secs(1)))
    }
}

#[test]
fn a_handler_function_with_an_option_receives_deletes() {
    let mut driver = Driver::<with_options::OnNode>::start(json!({})).expect("the plugin starts");
    let mut node = node();
    driver.put(node.clone()).expect("the selector excludes it");
    node["metadata"]["labels"] = json!({ "watched": "yes" });
    driver.put(node).expect("the plugin accepts it");
    assert_eq!(driver.requeues().len(), 1, "what the function returns is passed on");
    driver.delete(SourceId(0), "", "n1").expect("the plugin accepts it");
    assert_eq!(driver.take_log(), ["info: n1 is there", "info: n1 is gone"]);
}

mod several_kinds {
    use super::*;

    #[derive(Deserialize, Projection)]
    #[projection(api_version = "v1", kind = "Node")]
    pub(super) struct Node {
        #[serde(rename = "apiVersion")]
        _api_version: String,
    }

    pub(super) struct Watcher;

    impl Plugin for Watcher {
        fn describe(_: Describe) -> Result<Manifest> {
            Ok(Manifest::new()
                .events(Events::of_type::<Pod>())
                .events(Events::of_type::<Node>())
                .events(Events::of("v1", "Secret")))
        }

        fn init(_: Init) -> Result<Self> {
            Ok(Self)
        }
    }

    impl EventHandler<Pod> for Watcher {
        fn on_upsert(&mut self, event: &Event, pod: Pod) -> Result<Action> {
            info!("pod {event} on {:?}", pod.spec.node_name);
            Ok(Action::done())
        }
    }

    impl EventHandler<Node> for Watcher {
        fn on_upsert(&mut self, event: &Event, _: Node) -> Result<Action> {
            info!("node {event}");
            Ok(Action::done())
        }

        fn on_delete(&mut self, event: &Event, _: Deleted<Node>) -> Result<Action> {
            info!("node {event} is gone");
            Ok(Action::done())
        }
    }

    export!(Watcher: events(Pod, Node));
}

#[test]
fn each_kind_reaches_its_own_handler() {
    let mut driver = Driver::<several_kinds::Watcher>::start(json!({})).expect("the plugin starts");
    driver.put(node()).expect("the plugin accepts it");
    driver.put(pod("a", "n1")).expect("the plugin accepts it");
    driver.delete(SourceId(0), "", "n1").expect("the plugin accepts it");
    let lines = [
        "info: node n1",
        r#"info: pod web/a on Some("n1")"#,
        "info: node n1 is gone",
    ];
    assert_eq!(driver.take_log(), lines);
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "namespace": "web", "name": "s" } });
    let refused = driver.put(secret).expect_err("no handler takes it");
    assert!(refused.message().contains("no handler for v1 Secret"), "{refused}");
}

#[derive(Deserialize, Projection)]
#[expect(dead_code, reason = "only its pointers are used")]
struct Schema {
    r#type: String,
    properties: BTreeMap<String, Property>,
}

#[derive(Deserialize, Projection)]
#[expect(dead_code, reason = "as in Schema")]
struct Property {
    schema: Option<Box<Schema>>,
}

#[test]
#[should_panic(expected = "have no end, because it contains itself: add #[projection(whole)]")]
fn a_type_that_contains_itself_is_refused_with_a_reason() {
    Schema::pointers();
}
