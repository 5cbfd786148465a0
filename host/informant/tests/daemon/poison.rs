//! One user's object on which a handler loops, next to the objects of others.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::world::{Running, World, pod, until};

const CONFIG: &str = r#"
[informer.pods]
resource = "v1/pods"

[plugin.recorder]
component = "recorder.wasm"
informers = ["pods"]
limits = { cpu = "300ms" }
config = { quiet = true, rules = [{ name = "poison", do = "loop" }] }
"#;

/// Time for an event of another namespace: one call that loops, and a machine that does other work.
const LAG_MAX: Duration = Duration::from_secs(5);

async fn plugin(daemon: &Running) -> Value {
    daemon.json("/api/v1/plugins").await["items"][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_object_that_loops_stops_no_other() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(CONFIG).await;
    let team = json!({ "metadata": { "name": "team-a" } });
    world.server.create("v1/namespaces", "", team).unwrap();
    let mut poison = pod("poison", "nginx");
    poison["metadata"]["namespace"] = json!("team-a");
    world.server.put("v1/pods", "team-a", poison).unwrap();
    let mut longest = Duration::ZERO;
    for number in 1..=40 {
        let began = Instant::now();
        world.create_pod(&format!("web-{number}"), "nginx");
        let labels = ["event=\"add\"", "result=\"ok\""];
        daemon
            .wait_for_metric("informant_handler_events_total", &labels, f64::from(number))
            .await;
        longest = longest.max(began.elapsed());
    }
    assert!(longest < LAG_MAX, "{longest:?}");
    let view = until("the dead letter", async || {
        let view = plugin(&daemon).await;
        if view["deadLetters"] == 1 {
            Ok(view)
        } else {
            Err(view.to_string())
        }
    })
    .await;
    assert_eq!(
        (&view["state"], &view["restarts"]),
        (&json!("running"), &json!(3)),
        "{view}"
    );
    assert_eq!(
        (&view["suspects"], &view["suspectNamespaces"]),
        (&json!(1), &json!(["team-a"]))
    );
    assert!(
        view["lastDeadLetter"]["error"].as_str().unwrap().contains("limits.cpu"),
        "{view}"
    );
    daemon.stop().await;
}
