//! Deferred writes: made after the call has succeeded, whatever happens to its instance, and never after a failure.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_plugin_host::{KubeAction, KubeApi, KubeCall, KubeError, KubeErrorCode, KubeFuture, Plugin, PluginState};
use informant_spec::{OnFailure, PluginSpec, RetryPolicy};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::kube::grants;
use crate::world::{Pods, Reload, World, idle};

/// A cluster that answers as the test says, and `ok` otherwise. It may hold its answers.
pub(crate) struct Api {
    calls: Mutex<Vec<KubeCall>>,
    answers: Mutex<VecDeque<KubeError>>,
    holds: watch::Sender<bool>,
    /// The version of the next written object; 0: answers have none.
    version: AtomicU64,
}

impl Api {
    pub(crate) fn new() -> Arc<Api> {
        Arc::new(Api {
            calls: Mutex::default(),
            answers: Mutex::default(),
            holds: watch::Sender::new(false),
            version: AtomicU64::new(0),
        })
    }

    pub(crate) fn answer_next(&self, error: KubeError) {
        self.answers.lock().unwrap().push_back(error);
    }

    pub(crate) fn hold(&self, holds: bool) {
        self.holds.send_replace(holds);
    }

    /// Answers to writes have versions from `first` on.
    pub(crate) fn number_from(&self, first: u64) {
        self.version.store(first, Ordering::Relaxed);
    }

    /// The documents of all patches so far.
    pub(crate) fn patches(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let patches = calls.iter().filter_map(|call| match &call.action {
            KubeAction::Patch(_, document, _) => Some(String::from_utf8(document.clone()).unwrap()),
            _ => None,
        });
        patches.collect()
    }

    /// The UIDs that the objects of the calls so far must have.
    pub(crate) fn uids(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|call| call.uid.clone()).collect()
    }

    /// The Kubernetes Events that were created so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        let calls = self.calls.lock().unwrap();
        let events = calls.iter().filter(|call| call.is_event());
        events
            .filter_map(|call| match &call.action {
                KubeAction::Create(document, _) => serde_json::from_slice(document).ok(),
                _ => None,
            })
            .collect()
    }

    /// As whom the calls so far were made.
    pub(crate) fn identities(&self) -> Vec<Option<String>> {
        let calls = self.calls.lock().unwrap();
        let identities = calls.iter().map(|call| call.identity.as_deref().map(str::to_owned));
        identities.collect()
    }

    /// The names of the objects of all calls so far.
    pub(crate) fn sent(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().map(|call| call.address.name.clone()).collect()
    }
}

impl KubeApi for Api {
    fn call(&self, call: KubeCall) -> KubeFuture {
        self.calls.lock().unwrap().push(call);
        let answer = self.answers.lock().unwrap().pop_front();
        let mut holds = self.holds.subscribe();
        let version = match self.version.load(Ordering::Relaxed) {
            0 => None,
            _ => Some(self.version.fetch_add(1, Ordering::Relaxed).to_string()),
        };
        Box::pin(async move {
            // The sender lives as long as the test.
            let _ = holds.wait_for(|holds| !holds).await;
            match answer {
                Some(error) => Err(error),
                None => Ok(json!({ "metadata": { "resourceVersion": version } })
                    .to_string()
                    .into_bytes()),
            }
        })
    }

    fn cluster(&self, name: &str) -> Result<String, KubeError> {
        match name {
            "" => Ok(String::new()),
            other => Err(KubeError::new(
                KubeErrorCode::Invalid,
                format!("there is no cluster {other}"),
            )),
        }
    }
}

pub(crate) fn status(status: u16, code: KubeErrorCode, retry_after: Option<Duration>) -> KubeError {
    KubeError {
        status,
        is_from_kubernetes: true,
        retry_after,
        ..KubeError::new(code, "the API server refuses")
    }
}

pub(crate) fn merge(name: &str) -> Value {
    json!({ "verb": "merge", "resource": "v1/pods", "namespace": "web", "name": name, "defers": true,
        "document": { "metadata": { "labels": { "a": "b" } } } })
}

pub(crate) fn granted() -> Value {
    json!([{ "verbs": ["create", "update", "patch", "delete"], "resource": "v1/pods" }])
}

/// A plugin with this configuration, and its informer.
pub(crate) async fn run(world: &World, config: Value, adjust: impl FnOnce(&mut PluginSpec)) -> (Plugin, Pods) {
    let plugin = world
        .run("guest_kube", config, |spec| {
            spec.allow_kube = grants(granted());
            spec.retry = RetryPolicy {
                initial: Duration::from_millis(10),
                ..RetryPolicy::default()
            };
            adjust(spec);
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    (plugin, pods)
}

/// Waits until the cluster has received `count` calls.
pub(crate) async fn until_sent(world: &World, api: &Api, count: usize) {
    world.until("that many calls", || api.sent().len() >= count).await;
}

#[tokio::test]
async fn an_event_is_handled_when_its_writes_have_ended() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("a"), merge("b")] });
    let (plugin, mut pods) = run(&world, config, |_| {}).await;
    api.hold(true);
    pods.apply("web-0");
    until_sent(&world, &api, 1).await;
    let stats = plugin.listener().control().stats();
    assert_eq!((stats.in_flight, stats.counters.ok), (1, 0));
    let writes = plugin.status().writes;
    assert_eq!((writes.waiting, writes.events, writes.in_flight), (2, 1, 1));
    api.hold(false);
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["a", "b"]);
    assert_eq!((plugin.status().writes.waiting, plugin.status().writes.events), (0, 0));
    let counted = world.metrics("informant_plugin_writes_total");
    assert_eq!(
        counted,
        r#"informant_plugin_writes_total{plugin="guest_kube",verb="patch",result="ok"} 2"#
    );
    let calls = world.metrics("informant_plugin_kube_calls_total");
    assert!(calls.contains(r#"verb="patch",result="ok"} 2"#), "{calls}");
}

#[tokio::test]
async fn a_call_that_fails_or_traps_writes_nothing() {
    for config in [json!({ "fails": 2 }), json!({ "traps": 2 })] {
        let api = Api::new();
        let world = World::with_cluster(api.clone());
        let mut config = config;
        config["calls"] = json!([merge("a")]);
        let (plugin, mut pods) = run(&world, config, |_| {}).await;
        pods.apply("web-0");
        idle(&world, &plugin).await;
        assert_eq!(plugin.listener().control().stats().counters.retried, 2);
        assert_eq!(api.sent(), ["a"], "once, after the third call");
    }
}

#[tokio::test]
async fn the_first_failed_write_ends_the_rest_and_calls_again() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("a"), merge("b"), merge("c")] });
    let (plugin, mut pods) = run(&world, config, |_| {}).await;
    api.answer_next(status(404, KubeErrorCode::NotFound, None));
    pods.apply("web-0");
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["a", "a", "b", "c"]);
    assert_eq!(plugin.listener().control().stats().counters.retried, 1);
}

#[tokio::test]
async fn a_write_that_fails_permanently_makes_a_dead_letter() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run(&world, json!({ "calls": [merge("a")] }), |_| {}).await;
    api.answer_next(status(422, KubeErrorCode::Invalid, None));
    pods.apply("web-0");
    idle(&world, &plugin).await;
    let letter = plugin.listener().ledger().last_dead_letters(1).pop().unwrap();
    assert_eq!(
        letter.error,
        r#"deferred patch v1/pods "a" in namespace "web": the API server refuses"#
    );
}

#[tokio::test]
async fn failed_writes_are_logged_with_object_and_message() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run(&world, json!({ "calls": [merge("$name")] }), |_| {}).await;
    for number in 0..15 {
        api.answer_next(status(422, KubeErrorCode::Invalid, None));
        pods.apply(&format!("web-{number}"));
        idle(&world, &plugin).await;
    }
    let lines = world.log.lines();
    let lines: Vec<_> = lines
        .iter()
        .filter(|line| line.message == "deferred write failed")
        .collect();
    assert_eq!(lines.len(), 10, "within a minute");
    assert_eq!(
        lines[0].fields,
        r#" plugin="guest_kube" verb="patch" resource=v1/pods namespace="web" name="web-0" key="default/web-0" result="permanent" error="deferred patch v1/pods \"web-0\" in namespace \"web\": the API server refuses""#
    );
}

#[tokio::test]
async fn a_permanent_failure_of_a_write_quarantines_if_configured() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("$name")] });
    let (plugin, mut pods) = run(&world, config, |spec| spec.on_failure = OnFailure::Quarantine).await;
    api.hold(true);
    pods.apply("web-0");
    until_sent(&world, &api, 1).await;
    pods.apply("web-1");
    until_sent(&world, &api, 2).await;
    api.answers.lock().unwrap().clear();
    let letter = || plugin.listener().ledger().last_dead_letters(1).pop();
    // Held calls have their answers; the third one gets this.
    api.answer_next(status(422, KubeErrorCode::Invalid, None));
    pods.apply("web-2");
    until_sent(&world, &api, 3).await;
    api.hold(false);
    world
        .until("its quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    assert_eq!(letter().unwrap().key.to_string(), "default/web-2");
}

#[tokio::test]
async fn a_failed_write_quarantines_no_later_version() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("$name")] });
    let (plugin, mut pods) = run(&world, config, |spec| spec.on_failure = OnFailure::Quarantine).await;
    api.hold(true);
    api.answer_next(status(422, KubeErrorCode::Invalid, None));
    pods.apply("web-0");
    until_sent(&world, &api, 1).await;
    let spec = PluginSpec {
        config: json!({ "calls": [] }),
        ..plugin.spec()
    };
    assert!(plugin.reconfigure(spec).await.unwrap().is_some(), "a new instance");
    api.hold(false);
    let has_letter = || plugin.listener().ledger().last_dead_letters(1).pop().is_some();
    world.until("the failure of its event", has_letter).await;
    pods.apply("web-1");
    idle(&world, &plugin).await;
    assert_eq!(plugin.status().state, PluginState::Running);
    assert_eq!(plugin.listener().control().stats().counters.ok, 1);
}

#[tokio::test]
async fn a_throttled_write_is_sent_again_without_an_attempt() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("$name")] });
    let (plugin, mut pods) = run(&world, config, |_| {}).await;
    let pause = Duration::from_millis(300);
    api.answer_next(status(429, KubeErrorCode::TooManyRequests, Some(pause)));
    let began = tokio::time::Instant::now();
    pods.apply("web-0");
    world
        .until("the pause", || plugin.status().writes.paused_until.is_some())
        .await;
    pods.apply("web-1");
    idle(&world, &plugin).await;
    assert!(began.elapsed() >= pause);
    assert_eq!(api.sent(), ["web-0", "web-0", "web-1"]);
    assert_eq!(plugin.listener().control().stats().counters.retried, 0);
}

#[tokio::test]
async fn a_grant_is_checked_again_when_a_write_is_sent() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("a"), merge("b")] });
    let (plugin, mut pods) = run(&world, config, |_| {}).await;
    api.hold(true);
    pods.apply("web-0");
    until_sent(&world, &api, 1).await;
    let spec = PluginSpec {
        allow_kube: Vec::new(),
        ..plugin.spec()
    };
    assert!(plugin.reconfigure(spec).await.unwrap().is_none(), "no new instance");
    api.hold(false);
    world
        .until("the event's failure", || {
            plugin.listener().control().stats().counters.retried > 0
        })
        .await;
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["a"]);
    let counted = world.metrics("informant_plugin_writes_total");
    assert!(counted.contains(r#"verb="patch",result="retryable"} 1"#), "{counted}");
}

#[tokio::test]
async fn committed_writes_survive_quarantine_and_swap() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("$name"), merge("second")] });
    let one_at_a_time = |spec: &mut PluginSpec| spec.limits.writes_in_flight = 1;
    let (plugin, mut pods) = run(&world, config.clone(), one_at_a_time).await;
    api.hold(true);
    pods.apply_all(&["a", "b", "c"].map(str::to_owned));
    world.until("all calls", || plugin.status().writes.waiting == 6).await;
    // Another version, whose handler traps on everything.
    let spec = PluginSpec {
        config: json!({ "traps": 1, "calls": [] }),
        on_failure: OnFailure::Quarantine,
        ..plugin.spec()
    };
    assert!(plugin.reconfigure(spec).await.unwrap().is_some(), "a new instance");
    pods.apply("trap");
    world
        .until("its quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    assert_eq!(api.sent().len(), 1);
    api.hold(false);
    until_sent(&world, &api, 6).await;
    world.until("their end", || plugin.status().writes.waiting == 0).await;
    assert_eq!(plugin.listener().control().stats().counters.ok, 3);
}

#[tokio::test]
async fn at_the_bound_of_writes_the_handler_is_not_called() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config =
        json!({ "calls": [{ "verb": "merge", "defers": true, "document": { "spec": { "x": 1 } }, "times": 100 }] });
    let (plugin, mut pods) = run(&world, config, |spec| {
        spec.informers = vec![("pods".into(), "pods".into())];
        spec.limits.writes_in_flight = 1_000;
        spec.limits.writes_per_second = 100_000;
    })
    .await;
    api.hold(true);
    let names: Vec<String> = (0..30).map(|number| format!("web-{number}")).collect();
    pods.apply_all(&names);
    world.until("the bound", || plugin.status().writes.is_full).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(plugin.status().writes.waiting, 1_000, "ten calls");
    api.hold(false);
    idle(&world, &plugin).await;
    assert_eq!(api.sent().len(), 3_000);
    let full = world.metrics("informant_plugin_writes_full_total");
    assert!(!full.ends_with(" 0"), "{full}");
}

#[tokio::test]
async fn a_stop_starts_no_write_in_its_last_second() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("$name")] });
    let (plugin, mut pods) = run(&world, config, |spec| spec.limits.writes_in_flight = 1).await;
    api.hold(true);
    pods.apply_all(&["a", "b", "c"].map(str::to_owned));
    world.until("all calls", || plugin.status().writes.waiting == 3).await;
    let stopping = tokio::spawn({
        let plugin = plugin.clone();
        async move { plugin.stop(Duration::from_millis(1_300)).await }
    });
    tokio::time::sleep(Duration::from_millis(600)).await;
    api.hold(false);
    let stopped = stopping.await.unwrap();
    assert_eq!(api.sent().len(), 1, "the one that was in flight");
    assert_eq!(stopped.undelivered, 2, "the others are not acknowledged");
    assert_eq!(plugin.listener().control().stats().counters.ok, 1);
}

#[tokio::test]
async fn a_stop_makes_the_writes_that_it_has_time_for() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("$name")] });
    let (plugin, mut pods) = run(&world, config, |_| {}).await;
    let names: Vec<String> = (0..50).map(|number| format!("web-{number}")).collect();
    pods.apply_all(&names);
    let stopped = plugin.stop(Duration::from_secs(20)).await;
    assert_eq!((stopped.undelivered, api.sent().len()), (0, 50));
}

#[tokio::test]
async fn unrepeatable_and_ungranted_writes_are_refused_at_once() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let of = |verb: &str, document: Value| json!({ "verb": verb, "resource": "v1/pods", "namespace": "web", "defers": true, "document": document });
    let with = |mut call: Value, member: &str, value: &str| {
        call[member] = json!(value);
        call
    };
    let calls = json!([
        of("create", json!({ "metadata": { "generateName": "a-" } })),
        with(of("delete", Value::Null), "name", "a"),
        with(merge("a"), "cluster", "mars"),
        with(merge("a"), "resource", "v1/secrets"),
        of("merge", json!({})),
    ]);
    let (plugin, mut pods) = run(&world, json!({ "calls": calls }), |_| {}).await;
    pods.apply("web-0");
    idle(&world, &plugin).await;
    let answers = world.recorded(5, |line| line["event"] == "add").await;
    let line = |answer: &Value| {
        let message = answer["message"].as_str().unwrap_or_default();
        format!("{}: {message}", answer["code"].as_str().unwrap())
    };
    let text: Vec<String> = answers.iter().map(line).collect();
    insta::assert_snapshot!(text.join("\n"), @r#"
    invalid: a deferred create needs metadata.name: with generateName, each attempt would create one more object; derive the name from the object that the call is about, or use the direct create
    invalid: a deferred delete needs preconditions.uid: the name may belong to another object by then; set the uid of the object to delete
    invalid: there is no cluster mars
    denied: patch v1/secrets "a" in namespace "web" is not granted; in config.toml, set in [plugin.guest_kube]: allow.kube = [{ verbs = ["create", "update", "patch", "delete"], resource = "v1/pods" }, { verbs = ["patch"], resource = "v1/secrets", namespaces = ["web"] }]
    invalid: patch needs the name of an object
    "#);
    assert_eq!(api.sent(), Vec::<String>::new());
}

#[tokio::test]
async fn a_delete_of_what_is_gone_succeeds() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let delete =
        json!({ "verb": "delete", "resource": "v1/pods", "namespace": "web", "name": "a", "uid": "u", "defers": true });
    let (plugin, mut pods) = run(&world, json!({ "calls": [delete] }), |_| {}).await;
    api.answer_next(status(404, KubeErrorCode::NotFound, None));
    pods.apply("web-0");
    idle(&world, &plugin).await;
    assert_eq!(plugin.listener().control().stats().counters.ok, 1);
    let counted = world.metrics("informant_plugin_writes_total");
    assert!(counted.contains(r#"verb="delete",result="gone"} 1"#), "{counted}");
}
