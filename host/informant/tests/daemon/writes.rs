//! Deferred writes over the API: lost replies, throttling, loops and ends of processes lead to the wanted state.

use std::time::Duration;

use informant_apiserver::{Action, Answer, Filter, Rule};
use serde_json::{Value, json};

use super::program::Program;
use super::world::{World, pod, until};

/// A plugin that copies the label `want` of each pod to its label `is`.
fn config(limits: &str) -> String {
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n[plugin.mark]\ncomponent = \"kube.wasm\"\ninformers = [\"pods\"]\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\" }}]\nretry = {{ initial = \"10ms\" }}\n\
         limits = {{ {limits} }}\nrequired = true\n\
         [plugin.mark.config]\non-updates = true\n\
         calls = [{{ verb = \"merge\", defers = true, document = {{ metadata = {{ labels = {{ is = \"$want\" }} }} }} }}]\n"
    )
}

async fn world(pods: usize) -> World {
    let world = World::start().await;
    world.install("guest-kube", "kube.wasm");
    for number in 0..pods {
        let mut pod = pod(&format!("web-{number}"), "nginx");
        pod["metadata"]["labels"]["want"] = json!("a");
        world.server.create("v1/pods", "default", pod).unwrap();
    }
    world
}

fn want(world: &World, name: &str, label: &str) {
    let patch = json!({ "metadata": { "labels": { "want": label } } });
    world.server.patch("v1/pods", "default", name, patch).unwrap();
}

fn label(pod: &Value, name: &str) -> String {
    pod["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned()
}

fn marked(world: &World) -> usize {
    let pods = world.server.list("v1/pods").unwrap();
    pods.iter().filter(|pod| label(pod, "is") == label(pod, "want")).count()
}

async fn wait_until_marked(world: &World, count: usize) {
    until("that many pods to have the wanted label", async || {
        match marked(world) {
            marked if marked >= count => Ok(()),
            marked => Err(format!("{marked} of {count}")),
        }
    })
    .await;
}

fn patches() -> Filter {
    Filter::any().verb("patch").resource("pods")
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_and_throttling_lead_to_the_wanted_labels() {
    let world = world(20).await;
    world.server.faults().rule(Rule {
        filter: patches(),
        times: Some(7),
        action: Action::LoseAnswer,
    });
    let throttled = Answer::too_many_requests(1);
    world.server.faults().answer(patches(), 3, throttled);
    let daemon = world.daemon(&config("writes = \"1000/s\"")).await;
    wait_until_marked(&world, 20).await;
    for label in ["b", "a", "b", "a"] {
        (0..20).for_each(|number| want(&world, &format!("web-{number}"), label));
    }
    wait_until_marked(&world, 20).await;
    until("the last event to be handled", async || {
        match daemon.metric("plugin_writes_waiting", &["plugin=\"mark\""]).await {
            0.0 => Ok(()),
            waiting => Err(waiting.to_string()),
        }
    })
    .await;
    assert_eq!(marked(&world), 20);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_and_the_next_mark_every_pod() {
    let world = world(300).await;
    let config = config("writes = \"200/s\"");
    let program = Program::run(&world, &config).await;
    wait_until_marked(&world, 120).await;
    program.signal("-KILL").await;
    drop(program);
    let before = marked(&world);
    assert!(before < 300, "it was killed in between");
    let _program = Program::run(&world, &config).await;
    wait_until_marked(&world, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_with_queued_writes_ends_and_loses_none() {
    let world = world(1_300).await;
    let config = config("writes = \"20/s\"");
    let mut program = Program::run(&world, &config).await;
    wait_until_marked(&world, 100).await;
    program.signal("-TERM").await;
    let code = tokio::time::timeout(Duration::from_secs(30), program.exit_code()).await;
    assert!(code.is_ok(), "it ends within its deadline");
    let marked_at_end = marked(&world);
    assert!(marked_at_end < 1_300, "{marked_at_end}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(marked(&world), marked_at_end, "nothing is written after the end");
    let faster = config.replace("20/s", "5000/s");
    let _program = Program::run(&world, &faster).await;
    wait_until_marked(&world, 1_300).await;
}
