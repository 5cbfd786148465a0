//! The first calls of a plugin wait for what it may read.

use informant_apiserver::Filter;
use serde_json::{Value, json};

use super::program::Program;
use super::world::{World, http_get, until};

const CONFIG: &str = r#"
[informer.pods]
resource = "v1/pods"

[informer.maps]
resource = "v1/configmaps"

[plugin.recorder]
component = "recorder.wasm"
informers = ["pods", "maps"]
"#;

/// A cluster with a pod, in which requests for config maps are held.
async fn held() -> World {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    world.server.faults().hold(Filter::any().resource("configmaps"), 10);
    world
}

/// State and reason of the recorder, as the admin API shows them.
async fn state(program: &Program) -> (String, String) {
    let (_, text) = http_get(program.address(), "/api/v1/plugins").await;
    let plugins: Value = serde_json::from_str(&text).unwrap();
    let member = |name: &str| plugins["items"][0][name].as_str().unwrap_or_default().to_owned();
    (member("state"), member("because"))
}

async fn wait_for_state(program: &Program, wanted: (&str, &str)) {
    until(&format!("the state {wanted:?}"), async || {
        let (state, because) = state(program).await;
        if (state.as_str(), because.as_str()) == wanted {
            Ok(())
        } else {
            Err(format!("{state} {because}"))
        }
    })
    .await;
}

const MISSING: (&str, &str) = ("not-ready", "maps (v1 ConfigMap) is Syncing");

/// How often the recorder was called for an object.
fn calls(program: &Program) -> usize {
    let lines = program.lines();
    let is_call = |line: &&Value| {
        let call = line["fields"]["message"].as_str();
        let call: Option<Value> = call.and_then(|text| serde_json::from_str(text).ok());
        call.is_some_and(|call| call["name"].is_string())
    };
    lines.iter().filter(is_call).count()
}

async fn called(program: &Program) {
    until(
        "a call",
        async || if calls(program) > 0 { Ok(()) } else { Err(String::new()) },
    )
    .await;
}

/// The messages of the lines that are worth an operator's look.
fn warnings(program: &Program) -> Vec<String> {
    let lines = program.lines();
    let is_warning = |line: &&Value| ["WARN", "ERROR"].contains(&line["level"].as_str().unwrap_or_default());
    let text = |line: &Value| format!("{} {}", line["fields"]["message"], line["fields"]["missing"]);
    lines.iter().filter(is_warning).map(text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn first_calls_wait_for_every_informer_of_the_plugin() {
    let world = held().await;
    let program = Program::run(&world, CONFIG).await;
    wait_for_state(&program, MISSING).await;
    program.logged("source synced").await;
    assert_eq!(calls(&program), 0);
    world.server.faults().release();
    called(&program).await;
    wait_for_state(&program, ("running", "")).await;
    assert!(warnings(&program).is_empty(), "{:?}", warnings(&program));
}

#[tokio::test(flavor = "multi_thread")]
async fn first_calls_begin_after_their_limit_with_one_warning() {
    let world = held().await;
    let program = Program::run(&world, &format!("{CONFIG}wait-for-max = \"1s\"\n")).await;
    called(&program).await;
    let expected = "\"not everything that the plugin may read is ready; calling it without\" \
        \"maps (v1 ConfigMap) is Syncing\"";
    assert_eq!(warnings(&program), [expected]);
    assert_eq!(state(&program).await, (MISSING.0.to_owned(), MISSING.1.to_owned()));
    world.server.faults().release();
    wait_for_state(&program, ("running", "")).await;
    assert_eq!(warnings(&program).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn first_calls_wait_for_their_own_source_only_if_asked() {
    let world = held().await;
    let program = Program::run(&world, &format!("{CONFIG}wait-for = \"own\"\n")).await;
    called(&program).await;
    assert_eq!(state(&program).await.0, "running");
    assert!(warnings(&program).is_empty(), "{:?}", warnings(&program));
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_cluster_holds_its_own_objects_only() {
    let (east, west) = (World::start().await, World::unreachable().await);
    east.create_pod("web-0", "nginx");
    east.install("guest-recorder", "recorder.wasm");
    let cluster = |name: &str, world: &World| format!("[cluster.{name}]\nkubeconfig = {:?}\n", world.kubeconfig());
    let config = format!("{}{}{CONFIG}", cluster("east", &east), cluster("west", &west));
    let program = Program::run(&east, &config).await;
    called(&program).await;
    assert_eq!(state(&program).await.0, "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn first_calls_wait_for_indexes_of_other_plugins() {
    let world = World::start().await;
    for number in 0..50 {
        world.create_pod(&format!("web-{number}"), "nginx");
    }
    world.install("guest-recorder", "recorder.wasm");
    world.install("guest-both", "both.wasm");
    let both = "[plugin.both]\ncomponent = \"both.wasm\"\ninformers = [\"pods\"]\n";
    let program = Program::run(&world, &format!("{CONFIG}{both}")).await;
    until("all calls", async || {
        let calls = calls(&program);
        if calls >= 50 { Ok(()) } else { Err(calls.to_string()) }
    })
    .await;
    let query = "/api/v1/get/pods?index=name&value=web-7";
    assert_eq!(http_get(program.address(), query).await.0, 200, "it was filled before");
    let map = json!({ "metadata": { "name": "map", "namespace": "default" } });
    world.server.create("v1/configmaps", "default", map).unwrap();
    assert!(warnings(&program).is_empty(), "{:?}", warnings(&program));
}
