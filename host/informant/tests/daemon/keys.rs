//! What plugins remember, over processes that are killed.

use std::time::Duration;

use serde_json::{Value, json};

use super::program::{Program, transcript};
use super::world::{World, http_get, until};
use super::writes::patches;

const CONFIG: &str = "[state]\npath = \"state.redb\"\n[informer.pods]\nresource = \"v1/pods\"\ndurable = \"metadata\"\n\
    [plugin.counter]\ncomponent = \"kv.wasm\"\ninformers = [\"pods\"]\non-start = \"continue\"\nrequired = true\n";

/// The call for this object with this label.
async fn call(program: &Program, name: &str, round: Option<&str>) -> Value {
    until(&format!("the call for {name} {round:?}"), async || {
        let lines = program.lines();
        let call = |line: &Value| {
            let call: Value = serde_json::from_str(line["fields"]["message"].as_str()?).ok()?;
            (call["guest"] == "kv").then_some(call)
        };
        let calls: Vec<Value> = lines.iter().filter_map(call).collect();
        let is_it = |call: &&Value| call["name"] == name && call["round"].as_str() == round;
        calls.iter().find(is_it).cloned().ok_or_else(|| format!("{calls:?}"))
    })
    .await
}

/// Updates the pod `web-0`, once everything before was delivered. Returns the call.
async fn update(world: &World, program: &Program, round: &str) -> Value {
    program.wait_until_ready().await;
    let after = format!("after-{round}");
    world.create_pod(&after, "nginx");
    call(program, &after, None).await;
    let label = json!({ "metadata": { "labels": { "round": round } } });
    world.server.patch("v1/pods", "default", "web-0", label).unwrap();
    call(program, "web-0", Some(round)).await
}

/// Kills at several distances from the call: before, while and after its changes are stored.
#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_count_each_update_once() {
    let world = World::start().await;
    world.install("guest-kv", "kv.wasm");
    world.create_pod("web-0", "nginx");
    let mut program = Program::run(&world, CONFIG).await;
    assert_eq!(call(&program, "web-0", None).await["count"], 1);
    program.signal("-TERM").await;
    assert_eq!(program.exit_code().await, Some(0));
    for (round, delay_ms) in [("0", 0), ("1", 2), ("2", 20), ("3", 200)] {
        let mut program = Program::run(&world, CONFIG).await;
        update(&world, &program, round).await;
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        program.signal("-KILL").await;
        program.exit_code().await;
    }
    let program = Program::run(&world, CONFIG).await;
    let last = update(&world, &program, "last").await;
    assert_eq!(last["count"], 6, "one add and five updates: {last}");
    assert_eq!(last["starts"], 6);
    let (_, plugins) = http_get(program.address(), "/api/v1/plugins").await;
    let plugins: Value = serde_json::from_str(&plugins).unwrap();
    let kv = &plugins["items"][0]["kv"];
    assert!(kv["keys"].as_u64() > Some(6) && kv["bytes"].as_u64() > Some(60), "{kv}");
    let (_, metrics) = http_get(program.address(), "/metrics").await;
    assert!(
        metrics.contains("informant_plugin_kv_keys{plugin=\"counter\"}"),
        "{metrics}"
    );
}

/// A handler that remembers that it has marked an object, and marks it with a deferred write. It is killed after it has
/// succeeded, while the write is on its way and the database is written.
#[tokio::test(flavor = "multi_thread")]
async fn killed_before_a_write_the_next_process_makes_it() {
    let world = World::start().await;
    world.install("guest-kv", "kv.wasm");
    world.create_pod("web-0", "nginx");
    let config = format!("{CONFIG}allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\" }}]\n");
    let mut program = Program::run(&world, &config).await;
    call(&program, "web-0", None).await;
    world.server.faults().hold(patches(), u32::MAX);
    world.create_pod("marks-0", "nginx");
    call(&program, "marks-0", None).await;
    // The second of these calls comes after the transaction of the first, and that after the call above.
    for round in ["0", "1"] {
        update(&world, &program, round).await;
    }
    program.signal("-KILL").await;
    program.exit_code().await;
    world.server.faults().clear();
    let is_marked = || {
        let pod = world.server.get("v1/pods", "default", "marks-0").unwrap().unwrap();
        pod["metadata"]["labels"]["marked"] == "yes"
    };
    assert!(!is_marked(), "the write was held");
    let program = Program::run(&world, &config).await;
    let again = call(&program, "marks-0", None).await;
    assert_eq!(again["count"], 1, "it remembers nothing of the call before: {again}");
    until("the write", async || {
        is_marked().then_some(()).ok_or_else(|| "not yet".to_owned())
    })
    .await;
    // From then on it remembers.
    let label = json!({ "metadata": { "labels": { "round": "2" } } });
    world.server.patch("v1/pods", "default", "marks-0", label).unwrap();
    let later = call(&program, "marks-0", Some("2")).await;
    assert!(later["count"].as_u64() > Some(1), "{later}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_need_the_section_and_check_warns() {
    let world = World::start().await;
    world.install("guest-kv", "kv.wasm");
    let config = CONFIG
        .replace("[state]\npath = \"state.redb\"\n", "")
        .replace("durable = \"metadata\"\n", "");
    world.configure(&config);
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(
        checked.contains("uses kv, which is denied without a state database"),
        "{checked}"
    );
    assert!(checked.contains("add this line to config.toml: [state]"), "{checked}");
    world.configure(CONFIG);
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(!checked.contains("uses kv"), "{checked}");
}

/// The path of the database leads through a file: it cannot be opened until that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn unopened_database_is_reported_and_opened_once_repaired() {
    let world = World::start().await;
    world.write("volume", b"");
    let config = "[state]\npath = \"volume/state.redb\"\n[informer.pods]\nresource = \"v1/pods\"\n";
    let program = Program::run(&world, config).await;
    program.wait_until_ready().await;
    let line = program.logged("state database cannot be opened; retrying").await;
    assert_eq!(line["fields"]["code"], "state-failing", "{line}");
    let failing = async || {
        let (_, metrics) = http_get(program.address(), "/metrics").await;
        metrics.contains("\ninformant_state_failing 1\n")
    };
    assert!(failing().await);
    let status = transcript(&world, &["status", "--admin", &program.address().to_string()]).await;
    assert!(
        status.contains("The state database is failing: cannot open the state database")
            && status.contains("(informant explain state-failing)"),
        "{status}"
    );
    std::fs::remove_file(world.path("volume")).unwrap();
    until("the database to be open", async || {
        if failing().await {
            return Err("it fails".to_owned());
        }
        Ok(())
    })
    .await;
    assert!(world.path("volume/state.redb").is_file());
}
