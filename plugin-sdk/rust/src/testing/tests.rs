use serde_json::{Value, json};

use super::*;
use crate::prelude::*;
use crate::testing::cache;

/// Logs the events that it receives.
struct Logger {
    greeting: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    greeting: String,
}

impl Plugin for Logger {
    fn describe() -> Manifest {
        assert!(store::sources("pods").is_err(), "describe is denied the store");
        Manifest::new()
            .events(Events::of("v1", "Pod").fields(["/spec"]).with_old().changed_only())
            .events(Events::of("apps/v1", "*"))
            .index("node")
            .indexed(Objects::of("v1", "Pod").fields(["/spec/nodeName"]))
    }

    fn init(init: Init) -> Result<Self> {
        let Config { greeting } = init.config()?;
        Ok(Self { greeting })
    }
}

impl EventHandler for Logger {
    type Object = Value;

    fn on_add(&mut self, event: &Event, object: Value) -> Result {
        info!("{}add {event} {} {}", self.greeting, event.reason, object);
        Ok(())
    }

    fn on_update(&mut self, event: &Event, old: Option<Value>, object: Value) -> Result {
        info!("update {event} from {} to {}", old.unwrap_or_default(), object);
        Ok(())
    }

    fn on_delete(&mut self, event: &Event, object: Deleted<Value>) -> Result {
        info!(
            "delete {event} last {} unknown {}",
            object.last.unwrap_or_default(),
            object.final_state_unknown
        );
        Ok(())
    }
}

impl IndexFuncs for Logger {
    type Object = Value;

    fn index(&mut self, of: &ObjectRef, object: Value) -> Result<IndexValues> {
        let index = if of.name == "stray" { "zone" } else { "node" };
        Ok(IndexValues::new().with(index, object["spec"]["nodeName"].as_str()))
    }
}

crate::export!(Logger: events, index);

fn pod(uid: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "web", "name": "a", "uid": uid },
        "spec": spec,
        "status": { "phase": "Running" },
    })
}

fn driver() -> Driver<Logger> {
    Driver::start(json!({})).expect("the plugin starts")
}

#[test]
fn objects_arrive_as_the_manifest_asks() {
    let mut driver = driver();
    driver.put(pod("1", json!({ "x": 1 }))).expect("the plugin accepts it");
    driver.put(pod("1", json!({ "x": 2 }))).expect("the plugin accepts it");
    assert_eq!(
        driver.take_log(),
        [
            r#"info: add web/a watch {"apiVersion":"v1","kind":"Pod","spec":{"x":1}}"#,
            r#"info: update web/a from {"apiVersion":"v1","kind":"Pod","spec":{"x":1}} to {"apiVersion":"v1","kind":"Pod","spec":{"x":2}}"#,
        ]
    );
}

#[test]
fn unchanged_payloads_and_other_kinds_are_not_delivered() {
    let mut driver = driver();
    driver.put(pod("1", json!({}))).expect("the plugin accepts it");
    driver.take_log();
    let mut other = pod("1", json!({}));
    other["status"]["phase"] = json!("Failed");
    driver.put(other).expect("the manifest excludes it");
    driver
        .put(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } }))
        .expect("the manifest excludes it");
    assert!(driver.take_log().is_empty());
    driver
        .put(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" } }))
        .expect("the plugin accepts it");
    assert_eq!(driver.take_log().len(), 1);
}

#[test]
fn another_uid_is_a_delete_and_an_add() {
    let mut driver = driver();
    driver.set_reason(Reason::Initial);
    driver.put(pod("1", json!({}))).expect("the plugin accepts it");
    driver.put(pod("2", json!({}))).expect("the plugin accepts it");
    driver.vanish(SourceId(0), "web", "a").expect("the plugin accepts it");
    let shape = r#"{"apiVersion":"v1","kind":"Pod","spec":{}}"#;
    assert_eq!(
        driver.take_log(),
        [
            format!("info: add web/a initial {shape}"),
            format!("info: delete web/a last {shape} unknown false"),
            format!("info: add web/a initial {shape}"),
            format!("info: delete web/a last {shape} unknown true"),
        ]
    );
}

#[test]
fn index_functions_see_their_fields_and_are_denied_the_store() {
    let mut driver = Driver::<Logger>::start_index(json!({})).expect("the plugin starts");
    let values = driver
        .index(&pod("1", json!({ "nodeName": "n1" })))
        .expect("it has values");
    assert_eq!(values.values("node"), ["n1"]);
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } });
    assert_eq!(driver.index(&node).expect("it has none").names().count(), 0);
    let mut stray = pod("1", json!({ "nodeName": "n1" }));
    stray["metadata"]["name"] = json!("stray");
    assert!(driver.index(&stray).is_err());
}

#[test]
fn an_invalid_config_is_rejected_by_field_name() {
    let failure = Driver::<Logger>::start(json!({ "greetings": "hello" }))
        .err()
        .expect("it is refused");
    assert_eq!(
        failure,
        Failure::permanent("config: unknown field `greetings`, expected `greeting`")
    );
}

#[test]
#[should_panic(expected = "create a testing::Driver or a testing::Cache first")]
fn the_store_without_a_cache_explains_what_to_do() {
    let _ = store::sources("pods");
}

#[test]
fn logging_without_a_cache_does_not_panic() {
    cache::log(crate::log::Level::Info, "to stderr");
}
