//! Handling a stuck plugin: resume it, or requeue its dead letters.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::program::transcript;
use super::world::{Running, World, http_post, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

fn config(rest: &str) -> String {
    format!(
        "{PODS}[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\non-reload = \"continue\"\n{rest}\n"
    )
}

async fn post(daemon: &Running, path: &str, body: &Value) -> (u16, Value) {
    let (status, body) = http_post(daemon.address(), path, &body.to_string()).await;
    (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
}

const REQUEUE: &str = "/api/v1/plugins/recorder/requeue";
const TRIGGER: &str = "/api/v1/plugins/recorder/trigger";

#[tokio::test(flavor = "multi_thread")]
async fn requeue_redelivers_the_current_state_or_the_last_delete() {
    let world = World::start().await;
    for name in ["stays", "goes", "fine"] {
        world.create_pod(name, "nginx");
    }
    world.install("guest-recorder", "recorder.wasm");
    // The instance fails on everything but `fine`, until another config creates another instance.
    let failing = "config = { rules = [{ name = \"fine\", do = \"ok\" }, { do = \"permanent\" }] }";
    let daemon = world.daemon(&config(failing)).await;
    let letters = |wanted| daemon.wait_for_metric("informant_dead_letters", &["plugin=\"recorder\""], wanted);
    letters(2.0).await;
    world.server.delete("v1/pods", "default", "goes").unwrap();
    daemon
        .wait_for_metric(
            "informant_handler_events_total",
            &["event=\"delete\"", "result=\"permanent\""],
            1.0,
        )
        .await;
    world.configure(&config(""));
    daemon
        .wait_for_metric("informant_config_reloads_total", &["result=\"ok\""], 1.0)
        .await;

    assert_eq!(
        post(&daemon, REQUEUE, &json!({})).await,
        (200, json!({ "queued": 2, "waiting": 0 }))
    );
    letters(0.0).await;
    let delivered = |event: &'static str, wanted| daemon.wait_for_events("recorder", event, wanted);
    delivered("delete", 1.0).await;
    // `fine` and, by the requeue, `stays`.
    delivered("add", 2.0).await;
    // An object that never failed.
    let fine = json!({ "key": "default/fine" });
    assert_eq!(post(&daemon, REQUEUE, &fine).await.0, 200);
    delivered("add", 3.0).await;
    assert_eq!(
        post(&daemon, REQUEUE, &json!({})).await,
        (200, json!({ "queued": 0, "waiting": 0 }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn quarantined_plugin_is_resumed() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world
        .daemon(&config(
            "on-failure = \"quarantine\"\nconfig = { rules = [{ attempts = 1, do = \"trap\" }] }",
        ))
        .await;
    let state = |state: &'static str| {
        let daemon = &daemon;
        async move {
            daemon
                .wait_for_metric("informant_plugin_state", &["plugin=\"recorder\"", state], 1.0)
                .await;
        }
    };
    state("state=\"quarantined\"").await;
    assert_eq!(
        post(&daemon, "/api/v1/plugins/recorder/resume", &json!({})).await,
        (200, json!({ "resumed": true }))
    );
    daemon.wait_for_events("recorder", "add", 1.0).await;
    state("state=\"running\"").await;
    assert_eq!(
        post(&daemon, "/api/v1/plugins/recorder/resume", &json!({})).await,
        (200, json!({ "resumed": false }))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_plugin_is_ready_and_not_called_until_resumed() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon(&config("paused = true\nrequired = true")).await;
    daemon
        .wait_for_metric(
            "informant_plugin_state",
            &["plugin=\"recorder\"", "state=\"paused\""],
            1.0,
        )
        .await;
    daemon.wait_until_ready().await;
    let (_, checks) = daemon.get("/readyz?verbose").await;
    let check = checks.lines().find(|line| line.contains("plugin/recorder"));
    assert_eq!(check, Some("[+]plugin/recorder ok: paused, 0 pending, 0 dead letters"));
    assert_eq!(
        post(&daemon, "/api/v1/plugins/recorder/pause", &json!({})).await,
        (200, json!({ "paused": false }))
    );
    let resume = "/api/v1/plugins/recorder/resume";
    assert_eq!(
        post(&daemon, resume, &json!({})).await,
        (200, json!({ "resumed": true }))
    );
    daemon.wait_for_events("recorder", "add", 1.0).await;
    assert_eq!(
        post(&daemon, "/api/v1/plugins/recorder/pause", &json!({})).await,
        (200, json!({ "paused": true }))
    );
    world.create_pod("web-1", "nginx");
    daemon
        .wait_for_metric("informant_listener_pending", &["plugin=\"recorder\""], 1.0)
        .await;
    // A change of the key in the section overrides the command.
    world.configure(&config("paused = false"));
    daemon.wait_for_events("recorder", "add", 2.0).await;
    let address = daemon.address().to_string();
    for (verb, answer) in [
        ("pause", "plugin/recorder paused"),
        ("pause", "plugin/recorder is paused already"),
        ("resume", "plugin/recorder resumed"),
        (
            "resume",
            "plugin/recorder is neither paused nor in quarantine, and no call is spaced; nothing to resume",
        ),
    ] {
        let shown = transcript(&world, &["plugin", verb, "recorder", "--admin", &address]).await;
        assert_eq!(shown, format!("exit 0\n{answer}\n--"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_under_retry_are_listed_with_their_last_error() {
    let world = World::start().await;
    for name in ["bad-0", "bad-1", "bad-2", "bad-3", "fine"] {
        world.create_pod(name, "nginx");
    }
    world.install("guest-recorder", "recorder.wasm");
    let failing = "retry = { initial = \"1h\", max = \"2h\" }\n\
        config = { rules = [{ name = \"bad-*\", do = \"retryable\" }] }";
    let daemon = world.daemon(&config(failing)).await;
    daemon
        .wait_for_metric("informant_listener_failing", &["plugin=\"recorder\""], 4.0)
        .await;
    let retries = daemon.json("/api/v1/retries?plugin=recorder").await;
    assert_eq!(
        (&retries["total"], retries["items"].as_array().unwrap().len()),
        (&json!(4), 4)
    );
    let mut first = retries["items"][0].clone();
    assert!(first["nextMs"].as_u64().unwrap() > 3_000_000, "{first}");
    for changing in ["ageMs", "nextMs", "source", "name"] {
        first[changing] = Value::Null;
    }
    insta::assert_snapshot!(first, @r#"{"ageMs":null,"attempts":1,"cluster":"","error":"asked to fail","event":"add","informer":"pods","name":null,"namespace":"default","nextMs":null,"plugin":"recorder","reason":"initial","resource":"v1/pods","result":"retryable","source":null}"#);
    for (path, total) in [
        ("namespace=default&resource=pods", 4),
        ("resource=nodes", 0),
        ("namespace=web", 0),
    ] {
        let retries = daemon.json(&format!("/api/v1/retries?{path}")).await;
        assert_eq!(retries["total"], total, "{path}");
    }
    assert_eq!(daemon.get("/api/v1/retries?plugin=other").await.0, 404);
    let address = daemon.address().to_string();
    let shown = transcript(&world, &["status", "--admin", &address]).await;
    let lines: Vec<_> = shown
        .lines()
        .filter(|line| line.contains("retrying") || line.contains("bad-"))
        .collect();
    assert_eq!(
        lines[0],
        "recorder failed on 4 objects and is retrying (`informant plugin retries recorder` lists all) (informant explain \
         events-stuck)"
    );
    assert_eq!(lines.len(), 4, "{shown}");
    assert!(lines[1].contains(": asked to fail"), "{shown}");
    daemon
        .wait_for_metric(
            "informant_handler_events_total",
            &["result=\"ok\"", "event=\"sync\""],
            1.0,
        )
        .await;
    let oldest = daemon
        .metric("informant_listener_oldest_pending_seconds", &["plugin=\"recorder\""])
        .await;
    assert!(oldest > 0.0);
    // Informant calls it again at once; its instance is kept.
    world.configure(&config(&failing.replace("2h", "1s").replace("1h", "10ms")));
    until("more attempts", async || {
        let retries = daemon.json("/api/v1/retries").await;
        let attempts = retries["items"][0]["attempts"].as_u64();
        if attempts > Some(2) {
            Ok(())
        } else {
            Err(retries.to_string())
        }
    })
    .await;
    // Keys in back-off do not hold up a stop.
    let before = std::time::Instant::now();
    daemon.stop().await;
    assert!(
        before.elapsed() < std::time::Duration::from_secs(8),
        "{:?}",
        before.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn index_of_a_quarantined_plugin_reports_how_to_resume_it() {
    let world = World::start().await;
    for number in 0..40 {
        world.create_pod(&format!("trap-{number}"), "nginx");
    }
    world.install("guest-index", "index.wasm");
    let index = "[plugin.by-app]\ncomponent = \"index.wasm\"\ninformers = [\"pods\"]\non-failure = \"quarantine\"\n";
    let daemon = world.daemon(&format!("{PODS}{index}")).await;
    daemon
        .wait_for_metric(
            "informant_plugin_state",
            &["plugin=\"by-app\"", "state=\"quarantined\""],
            1.0,
        )
        .await;
    // Before that, the answer is about the informer.
    daemon
        .wait_for_metric("informant_informer_synced", &["informer=\"pods\""], 1.0)
        .await;
    let (status, answer) = daemon.get("/api/v1/get/pods?index=app&value=web").await;
    assert_eq!(status, 503, "{answer}");
    let message = serde_json::from_str::<Value>(&answer).unwrap()["message"].to_string();
    insta::assert_snapshot!(message, @r#""index app is not ready: plugin by-app, which computes it, is in quarantine; `informant plugin list` shows why, `informant plugin resume by-app` ends it""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_report_why() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let broken = "[plugin.broken]\ncomponent = \"broken.wasm\"\ninformers = [\"pods\"]\n";
    let daemon = world.daemon(&format!("{}{broken}", config(""))).await;
    daemon.wait_for_events("recorder", "sync", 1.0).await;
    daemon
        .wait_for_metric("informant_plugin_refused", &["plugin=\"broken\""], 1.0)
        .await;
    let mut answers = String::new();
    for (path, body) in [
        (REQUEUE, json!({ "key": "default/missing" })),
        (REQUEUE, json!({ "key": "a/b/c" })),
        (REQUEUE, json!({ "keys": "x" })),
        ("/api/v1/plugins/recodrer/resume", json!({})),
        ("/api/v1/plugins/broken/requeue", json!({})),
        (TRIGGER, json!({})),
        (TRIGGER, json!({ "key": "a/b/c" })),
        (TRIGGER, json!({ "al": true })),
    ] {
        let (status, answer) = post(&daemon, path, &body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let message = message.replace(&world.path("").display().to_string(), "");
        writeln!(answers, "{status} {} {message}", answer["code"]).unwrap();
    }
    insta::assert_snapshot!(answers, @r#"
    404 "not-found" plugin recorder does not watch default/missing and has no dead letter for it
    400 "invalid" key "a/b/c": "a/b/c" is not a key: more than one slash; write "namespace/name", or "name" for a cluster-scoped object
    400 "invalid" Failed to deserialize the JSON body into the target type: keys: unknown field `keys`, expected one of `key`, `cluster`, `resource`, `namespace` at line 1 column 7
    404 "unknown-plugin" no plugin named "recodrer"; did you mean `recorder`?
    503 "not-ready" plugin broken is refused: plugin "broken": broken.wasm: cannot be read: No such file or directory (os error 2)
    400 "invalid" select objects (cluster, resource, informer, namespace, labelSelector, key), set all, or name a timer
    400 "invalid" key: "a/b/c" is not a key: more than one slash; write "namespace/name", or "name" for a cluster-scoped object
    400 "invalid" Failed to deserialize the JSON body into the target type: al: unknown field `al`, expected one of `all`, `cluster`, `resource`, `informer`, `namespace`, `labelSelector`, `key`, `timer` at line 1 column 5
    "#);
    // A request that a web page could send on its own.
    let (status, _) = super::world::http_get(daemon.address(), REQUEUE).await;
    assert_eq!(status, 405);
}
