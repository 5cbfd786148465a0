use std::time::Duration;

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
    /// The label selector for pods.
    #[serde(default)]
    label: String,
}

impl Plugin for Logger {
    fn describe(describe: Describe) -> Result<Manifest> {
        assert!(store::sources("pods").is_err(), "describe is denied the store");
        let Config { label, .. } = describe.config()?;
        Ok(Manifest::new()
            .events(
                Events::of("v1", "Pod")
                    .label_selector(label)
                    .fields(["/spec"])
                    .with_old()
                    .changed_only(),
            )
            .events(Events::of("apps/v1", "*"))
            .events(Events::of("v1", "ConfigMap").namespaces(["web"]).payload_none())
            .index("other")
            .index("node")
            .indexed(Objects::of("v1", "Pod").fields(["/spec/nodeName"])))
    }

    fn init(init: Init) -> Result<Self> {
        assert!(store::sources("pods").is_err(), "init is denied the store");
        let Config { greeting, .. } = init.config()?;
        Ok(Self { greeting })
    }
}

impl EventHandler for Logger {
    fn on_add(&mut self, event: &Event, object: Value) -> Result<Action> {
        info!("{}add {event} {} {}", self.greeting, event.reason, object);
        Ok(again(event))
    }

    fn on_update(&mut self, event: &Event, old: Option<Value>, object: Value) -> Result<Action> {
        info!("update {event} from {} to {}", old.unwrap_or_default(), object);
        Ok(again(event))
    }

    fn on_delete(&mut self, event: &Event, object: Deleted<Value>) -> Result<Action> {
        info!(
            "delete {event} last {} unknown {}",
            object.last.unwrap_or_default(),
            object.final_state_unknown
        );
        Ok(again(event))
    }
}

/// Objects named `again` are asked for again after a change.
fn again(event: &Event) -> Action {
    if event.name == "again" && event.reason == Reason::Watch {
        return Action::requeue_after(Duration::from_secs(60));
    }
    Action::done()
}

impl SyncHandler for Logger {
    fn on_synced(&mut self, synced: &Synced) -> Result {
        let (pods, source) = (store::list("pods").objects::<Value>().count(), synced.source);
        info!("synced {source} with {pods} pods");
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

crate::export!(Logger: events, sync, index);

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
fn objects_that_start_or_stop_matching_are_added_or_deleted() {
    let mut driver = Driver::<Logger>::start(json!({ "label": "app=a" })).expect("the plugin starts");
    let mut put = |app: &str, number: u32| {
        let mut pod = pod("1", json!({ "x": number }));
        pod["metadata"]["labels"] = json!({ "app": app });
        driver.put(pod).expect("the plugin accepts it");
        driver.take_log().concat()
    };
    let shape = |number: u32| format!(r#"{{"apiVersion":"v1","kind":"Pod","spec":{{"x":{number}}}}}"#);
    assert_eq!(put("b", 1), "");
    assert_eq!(put("a", 1), format!("info: add web/a watch {}", shape(1)));
    assert_eq!(
        put("b", 2),
        format!("info: delete web/a last {} unknown false", shape(1))
    );
    assert_eq!(put("b", 3), "");
}

#[test]
fn on_synced_reads_the_cluster_of_its_source() {
    let mut driver = driver();
    let sources = ["east", "west"].map(|cluster| driver.cache().source_in_cluster(cluster, "pods", "v1", "Pod"));
    driver
        .put_in_cluster("west", pod("1", json!({})))
        .expect("the plugin accepts it");
    driver.take_log();
    for source in sources {
        driver.synced(source).expect("the plugin accepts it");
    }
    assert_eq!(
        driver.take_log(),
        ["info: synced 0 with 0 pods", "info: synced 1 with 1 pods"]
    );
}

#[test]
fn without_a_payload_the_document_is_empty() {
    let mut driver = driver();
    for namespace in ["web", "db"] {
        let map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "namespace": namespace, "name": "a" } });
        driver.put(map).expect("the plugin accepts it");
    }
    assert_eq!(driver.take_log(), ["info: add web/a watch null"]);
}

#[test]
fn a_requeue_calls_once_unless_another_call_comes_first() {
    let mut driver = driver();
    let mut object = pod("1", json!({ "x": 1 }));
    object["metadata"]["name"] = json!("again");
    let asked = driver.put(object.clone()).expect("the plugin accepts it");
    assert_eq!(asked, Action::requeue_after(Duration::from_secs(60)));
    object["spec"]["x"] = json!(2);
    driver.put(object.clone()).expect("the plugin accepts it");
    driver.take_log();
    let waiting: Vec<_> = driver
        .requeues()
        .iter()
        .map(|(key, after)| (key.to_string(), *after))
        .collect();
    assert_eq!(waiting, [("web/again".to_owned(), Duration::from_secs(60))]);
    assert_eq!(driver.run_requeues(), Ok(1));
    let shape = r#"{"apiVersion":"v1","kind":"Pod","spec":{"x":2}}"#;
    assert_eq!(
        driver.take_log(),
        [format!("info: update web/again from null to {shape}")]
    );
    object["spec"]["x"] = json!(3);
    driver.put(object.clone()).expect("the plugin accepts it");
    driver.set_reason(Reason::Relist);
    object["spec"]["x"] = json!(2);
    driver.put(object).expect("the plugin accepts it");
    assert!(driver.requeues().is_empty(), "the next call cancels it");
    driver.set_reason(Reason::Watch);
    driver
        .delete(SourceId(0), "web", "again")
        .expect("the plugin accepts it");
    driver.take_log();
    assert_eq!((driver.run_requeues(), driver.run_requeues()), (Ok(1), Ok(0)));
    assert_eq!(
        driver.take_log(),
        [format!("info: delete web/again last {shape} unknown false")]
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
    assert_eq!(
        driver.index(&stray),
        Err(Failure::permanent("the manifest does not declare the index \"zone\""))
    );
}

/// The exports of a component, called as Informant does.
#[test]
fn the_exports_follow_the_contract() {
    use crate::bindings::events::exports::informant::plugin::event_handler::Guest as Events;
    use crate::bindings::imports::informant::plugin::types::{Call, ObjectRef};
    use crate::bindings::index::exports::informant::plugin::index_funcs::Guest as Index;
    use crate::bindings::lifecycle::exports::informant::plugin::lifecycle::Guest as Lifecycle;
    type Exports = crate::exports::Exports<Logger>;

    let cache = Cache::new();
    cache.refuse(Some(crate::HostError {
        code: crate::ErrorCode::NotHere,
        message: "denied".to_owned(),
    }));
    let describe = |context: &str| <Exports as Lifecycle>::describe(context.as_bytes().to_vec());
    let refused = describe(r#"{ "config": { "wrong": 1 } }"#).expect_err("the config is refused");
    assert_eq!(refused, "config: unknown field `wrong`, expected `greeting` or `label`");
    let manifest: Value = serde_json::from_slice(&describe("{}").expect("a manifest")).expect("it is JSON");
    assert_eq!(manifest["indexes"]["names"], json!(["other", "node"]));

    let about = |name: &str| ObjectRef {
        source: 0,
        namespace: "web".to_owned(),
        name: name.to_owned(),
        uid: "1".to_owned(),
        resource_version: "1".to_owned(),
    };
    let object = || pod("1", json!({ "nodeName": "n1" })).to_string().into_bytes();
    <Exports as Lifecycle>::init(br#"{ "role": "index" }"#.to_vec()).expect("the plugin starts");
    let values = <Exports as Index>::index(about("a"), object());
    assert_eq!(values, Ok(vec![vec![], vec!["n1".to_owned()]]));
    let refused = <Exports as Index>::index(about("stray"), object());
    assert_eq!(
        refused,
        Err("the manifest does not declare the index \"zone\"".to_owned())
    );

    let call = || Call {
        reason: Reason::Watch,
        attempt: 0,
    };
    assert_eq!(<Exports as Events>::on_add(about("a"), call(), object()), Ok(None));
    assert_eq!(
        <Exports as Events>::on_add(about("again"), call(), object()),
        Ok(Some(60_000))
    );
    cache.take_log();
    assert_eq!(<Exports as Events>::on_delete(about("a"), call(), None, true), Ok(None));
    assert_eq!(cache.take_log(), ["info: delete web/a last null unknown true"]);
}

#[test]
fn a_test_chooses_the_context() {
    struct Starter(Init);
    impl Plugin for Starter {
        fn init(init: Init) -> Result<Self> {
            Ok(Self(init))
        }
    }
    let context = json!({ "because": "swap", "previous": { "version": "1" }, "instances": 2 });
    let driver = Driver::<Starter>::start_with(context).expect("the plugin starts");
    let Starter(init) = driver.plugin();
    assert_eq!((&init.because, init.instances), (&crate::Because::Swap, 2));
    assert_eq!(
        init.previous.as_ref().map(|previous| previous.version.as_str()),
        Some("1")
    );
    assert_eq!(
        (init.contract.as_str(), &init.role),
        (crate::CONTRACT, &crate::Role::Events)
    );
}

#[test]
fn a_manifest_that_contradicts_itself_does_not_start() {
    #[derive(Debug)]
    struct Contradicting;
    impl Plugin for Contradicting {
        fn describe(_: Describe) -> Result<Manifest> {
            Ok(Manifest::new().events(Events::all().payload_none().changed_only()))
        }
        fn init(_: Init) -> Result<Self> {
            Ok(Self)
        }
    }
    assert!(matches!(
        Driver::<Contradicting>::start(json!({})),
        Err(Failure::Permanent(_))
    ));
}

#[test]
fn an_invalid_config_is_rejected_by_field_name() {
    let failure = Driver::<Logger>::start(json!({ "greetings": "hello" }))
        .err()
        .expect("it is refused");
    assert_eq!(
        failure,
        Failure::permanent("config: unknown field `greetings`, expected `greeting` or `label`")
    );
}

#[test]
#[should_panic(expected = "create a testing::Driver or a testing::Cache first")]
fn the_store_without_a_cache_explains_what_to_do() {
    let _ = store::sources("pods");
}

#[test]
fn logging_without_a_cache_does_not_panic() {
    cache::log(crate::log::Level::Info, "to stderr", &[]);
}

/// Labels each pod with deferred writes, and deletes the map of the same name.
struct Defers;

impl Plugin for Defers {
    fn init(_: Init) -> Result<Self> {
        Ok(Self)
    }
}

impl EventHandler<Value> for Defers {
    fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
        let seen = json!({ "metadata": { "labels": { "seen": "yes" } } });
        if pod["metadata"]["labels"]["seen"] != "yes" {
            kube::defer_patch(&kube::of(event)).merge(&seen)?;
        }
        if event.name == "fails" {
            return Err(Failure::retryable("not yet"));
        }
        if event.name == "rival" {
            let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "rival" } });
            let maps = kube::collection("v1/configmaps", &event.namespace);
            kube::defer_create(&maps).object(&map)?;
            kube::defer_create(&maps).object(&map)?;
            kube::defer_delete(&kube::of(event)).send()?;
        }
        Ok(Action::done())
    }

    fn on_delete(&mut self, event: &Event, _: Deleted<Value>) -> Result<Action> {
        let map = kube::object("v1/configmaps", &event.namespace, &event.name);
        kube::delete(&map).if_uid("gone").defer().send()?;
        Ok(Action::done())
    }
}

crate::export!(Defers: events);

fn named(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": name } })
}

#[test]
fn deferred_writes_are_made_after_a_success_only() {
    let mut driver = Driver::<Defers>::start(json!({})).unwrap();
    driver.put(named("a")).unwrap();
    let writes = driver.cache().take_writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(writes[0].object, "web/a");
    assert_eq!(driver.settle().unwrap(), 1, "the second call finds nothing to do");
    driver.put(named("fails")).unwrap_err();
    assert!(driver.cache().take_writes().is_empty());
    let source = driver.cache().put(named("a"));
    driver.delete(source, "web", "a").unwrap();
    assert!(driver.cache().take_writes().is_empty(), "it was gone");
}

#[test]
fn the_first_deferred_write_that_fails_ends_the_rest() {
    let mut driver = Driver::<Defers>::start(json!({})).unwrap();
    let failure = driver.put(named("rival")).unwrap_err();
    assert!(failure.to_string().contains("already exists"), "{failure}");
    let verbs: Vec<&str> = driver.cache().take_writes().iter().map(|write| write.verb).collect();
    assert_eq!(verbs, ["patch", "create"]);
}

#[test]
fn deferred_writes_that_repeat_badly_are_invalid() {
    let cache = super::Cache::new();
    let pods = kube::collection("v1/pods", "web");
    let generated = json!({ "metadata": { "generateName": "a-" } });
    let error = kube::defer_create(&pods).object(&generated).unwrap_err();
    assert!(error.message.contains("metadata.name"), "{error}");
    let pod = kube::object("v1/pods", "web", "a");
    let error = kube::defer_delete(&pod).send().unwrap_err();
    assert!(error.message.contains("preconditions.uid"), "{error}");
    for _ in 0..100 {
        kube::defer_patch(&pod).merge(&json!({})).unwrap();
    }
    let error = kube::defer_patch(&pod).merge(&json!({})).unwrap_err();
    assert_eq!(error.code, kube::ErrorCode::TooLarge);
    assert!(cache.make_deferred().unwrap_err().is_not_found());
}

#[test]
fn the_address_names_what_is_applied() {
    let cache = super::Cache::new();
    let maps = cache.source("maps", "v1", "ConfigMap");
    let map = kube::object("v1/configmaps", "web", "a");
    for value in ["x", "y"] {
        let document = json!({ "apiVersion": "v1", "kind": "ConfigMap", "data": { "k": value } });
        kube::defer_patch(&map).apply(&document).unwrap();
        cache.make_deferred().unwrap();
    }
    assert_eq!(cache.object(maps, "web", "a").unwrap()["data"]["k"], "y");
}

#[test]
fn what_the_api_server_refuses_is_invalid() {
    let cache = super::Cache::new();
    cache.put(named("a"));
    let pod = kube::object("v1/pods", "web", "a");
    let labels = json!({ "metadata": { "labels": { "restarts": 3 } } });
    let number = kube::patch(&pod).merge(&labels).unwrap_err();
    let without_namespace = kube::get(&kube::object("v1/pods", "", "a")).unwrap_err();
    for (error, message) in [
        (
            number,
            "metadata.labels: the value of \"restarts\" must be a text, not 3: put it in quotes",
        ),
        (
            without_namespace,
            "v1/pods is namespaced, but the address has no `namespace`",
        ),
    ] {
        assert_eq!(
            (error.code, error.message.as_str()),
            (kube::ErrorCode::Invalid, message)
        );
    }
    assert!(kube::get(&kube::object("v1/nodes", "", "a")).unwrap().is_none());
}

/// Says what it receives, and fails as the config says.
struct Ticks {
    failure: Option<String>,
}

impl Plugin for Ticks {
    fn describe(_: Describe) -> Result<Manifest> {
        Ok(Manifest::new()
            .timer(Timer::every("poll", Duration::from_secs(10)))
            .timer(Timer::cron("report", "0 8 * * *")))
    }

    fn init(init: Init) -> Result<Self> {
        let config: Value = init.config()?;
        let failure = config["failure"].as_str().map(str::to_owned);
        Ok(Self { failure })
    }
}

impl TimerHandler for Ticks {
    fn on_timer(&mut self, tick: &Tick) -> Result {
        info!("{tick} {} {} {}", tick.scheduled, tick.missed, tick.attempt);
        recorder::event(&named("a"), "Ticked").record()?;
        kube::defer_patch(&kube::object("v1/pods", "web", "a")).merge(&json!({ "spec": { "ticked": true } }))?;
        match &self.failure {
            Some(message) => Err(Failure::retry_after(message, Duration::from_secs(3))),
            None => Ok(()),
        }
    }
}

crate::export!(Ticks: timers);

#[test]
fn a_timer_runs_by_its_name() {
    let mut driver = Driver::<Ticks>::start(json!({})).unwrap();
    driver.cache().put(named("a"));
    driver.tick("poll").unwrap();
    let run = Tick {
        name: "report".to_owned(),
        scheduled: "2026-01-05T08:00:00Z".to_owned(),
        missed: 2,
        attempt: 1,
    };
    driver.tick_with(run).unwrap();
    assert_eq!(
        driver.take_log(),
        [
            "info: poll 2026-01-01T00:00:00Z 0 0",
            "info: report 2026-01-05T08:00:00Z 2 1"
        ]
    );
    assert_eq!(driver.cache().take_events().len(), 2);
    assert_eq!(driver.cache().take_writes().len(), 2);
}

#[test]
fn a_run_that_fails_has_had_no_effects() {
    let mut driver = Driver::<Ticks>::start(json!({ "failure": "not yet" })).unwrap();
    driver.cache().put(named("a"));
    let failure = Failure::retry_after("not yet", Duration::from_secs(3));
    assert_eq!(driver.tick("poll"), Err(failure));
    assert!(driver.cache().take_events().is_empty());
    assert!(driver.cache().take_writes().is_empty());
}

#[test]
#[should_panic(expected = "the manifest has no timer \"nightly\"; it has poll, report")]
fn an_unknown_timer_panics_with_the_known_ones() {
    let _ = Driver::<Ticks>::start(json!({})).unwrap().tick("nightly");
}

#[test]
fn a_timer_runs_through_the_export() {
    use crate::bindings::imports::informant::plugin::types::{Failure, RetryLater};
    use crate::bindings::lifecycle::exports::informant::plugin::lifecycle::Guest as Lifecycle;
    use crate::bindings::timers::exports::informant::plugin::timer_handler::{Guest as Timers, Tick};
    type Exports = crate::exports::Exports<Ticks>;

    let cache = Cache::new();
    let run = || Tick {
        name: "poll".to_owned(),
        scheduled: "2026-01-01T00:00:10Z".to_owned(),
        missed: 3,
        attempt: 1,
    };
    <Exports as Lifecycle>::init(b"{}".to_vec()).expect("the plugin starts");
    assert!(<Exports as Timers>::on_timer(run()).is_ok());
    assert_eq!(cache.take_log(), ["info: poll 2026-01-01T00:00:10Z 3 1"]);
    <Exports as Lifecycle>::init(br#"{ "config": { "failure": "not yet" } }"#.to_vec()).expect("the plugin starts");
    let (message, after_ms) = ("not yet".to_owned(), 3_000);
    let later = Failure::RetryAfter(RetryLater { message, after_ms });
    assert_eq!(<Exports as Timers>::on_timer(run()), Err(later));
}
