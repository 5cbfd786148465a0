use serde_json::{Value, json};

use super::*;
use crate::prelude::*;
use crate::testing::cache;

/// Says what it is told.
struct Teller {
    greeting: String,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    greeting: String,
}

impl Plugin for Teller {
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

impl EventHandler for Teller {
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

impl IndexFuncs for Teller {
    type Object = Value;

    fn index(&mut self, of: &ObjectRef, object: Value) -> Result<IndexValues> {
        let index = if of.name == "stray" { "zone" } else { "node" };
        Ok(IndexValues::new().with(index, object["spec"]["nodeName"].as_str()))
    }
}

crate::export!(Teller: events, index);

fn pod(uid: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "web", "name": "a", "uid": uid },
        "spec": spec,
        "status": { "phase": "Running" },
    })
}

fn driver() -> Driver<Teller> {
    Driver::start(json!({})).expect("the plugin starts")
}

#[test]
fn objects_arrive_as_the_manifest_asks() {
    let mut driver = driver();
    driver.put(pod("1", json!({ "x": 1 }))).expect("it is told");
    driver.put(pod("1", json!({ "x": 2 }))).expect("it is told");
    assert_eq!(
        driver.take_log(),
        [
            r#"info: add web/a watch {"apiVersion":"v1","kind":"Pod","spec":{"x":1}}"#,
            r#"info: update web/a from {"apiVersion":"v1","kind":"Pod","spec":{"x":1}} to {"apiVersion":"v1","kind":"Pod","spec":{"x":2}}"#,
        ]
    );
}

#[test]
fn a_payload_that_did_not_change_and_a_kind_that_was_not_asked_for_are_not_told() {
    let mut driver = driver();
    driver.put(pod("1", json!({}))).expect("it is told");
    driver.take_log();
    let mut other = pod("1", json!({}));
    other["status"]["phase"] = json!("Failed");
    driver.put(other).expect("it is left out");
    driver
        .put(json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } }))
        .expect("it is left out");
    assert!(driver.take_log().is_empty());
    driver
        .put(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" } }))
        .expect("it is told");
    assert_eq!(driver.take_log().len(), 1);
}

#[test]
fn another_uid_is_a_delete_and_an_add() {
    let mut driver = driver();
    driver.set_reason(Reason::Initial);
    driver.put(pod("1", json!({}))).expect("it is told");
    driver.put(pod("2", json!({}))).expect("it is told");
    driver.vanish(SourceId(0), "web", "a").expect("it is told");
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
    let mut driver = Driver::<Teller>::start_index(json!({})).expect("the plugin starts");
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
fn a_config_that_does_not_fit_is_refused_by_name() {
    let failure = Driver::<Teller>::start(json!({ "greetings": "hello" }))
        .err()
        .expect("it is refused");
    assert_eq!(
        failure,
        Failure::permanent("config: unknown field `greetings`, expected `greeting`")
    );
}

#[test]
#[should_panic(expected = "make a testing::Driver or a testing::Cache in this test first")]
fn the_store_without_a_cache_says_what_to_do() {
    let _ = store::sources("pods");
}

#[test]
fn without_a_cache_a_line_is_no_panic() {
    cache::log(crate::log::Level::Info, "to stderr");
}
