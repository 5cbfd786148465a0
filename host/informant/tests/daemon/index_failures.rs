//! Objects for which an index function failed.

use serde_json::{Value, json};

use crate::program::{Program, transcript};
use crate::world::{World, until};

const CONFIG: &str = "[informer.pods]\nresource = \"v1/pods\"\nindex = { node = \"/spec/nodeName\" }\n\
    [plugin.index]\ncomponent = \"index.wasm\"\ninformers = [\"pods\"]\n";

#[tokio::test(flavor = "multi_thread")]
async fn objects_missing_from_an_index_are_listed_and_warned_of() {
    let world = World::start().await;
    for name in ["fail-0", "web-0"] {
        world.create_pod(name, "nginx");
    }
    world.install("guest-index", "index.wasm");
    let daemon = world.daemon(CONFIG).await;
    daemon.wait_until_ready().await;
    daemon
        .wait_for_metric("informant_index_attached", &["index=\"app\""], 1.0)
        .await;
    let failures = async || {
        let (_, body) = daemon.get("/api/v1/sources").await;
        let sources: Value = serde_json::from_str(&body).unwrap();
        sources["items"][0]["indexFailures"].clone()
    };
    assert_eq!(
        failures().await,
        json!([{
            "index": "app", "failures": 1,
            "failed": [{ "key": "default/fail-0", "message": "asked to fail" }],
        }])
    );
    let address = daemon.address().to_string();
    let informant = async |args: &str| {
        let args: Vec<&str> = args.split(' ').chain(["--admin", &address]).collect();
        transcript(&world, &args).await
    };
    let asked = informant("get pods --index app=web -o name").await;
    assert_eq!(
        asked,
        "exit 0\npod/web-0\n--\n\
         warning: index app is missing 1 object, because its function failed on it; see `informant status`"
    );
    let other = informant("get pods --index node=node-1 -o name").await;
    assert_eq!(other, "exit 0\npod/fail-0\npod/web-0\n--", "the other index has all");
    let status = informant("status").await;
    let said = "index app of pods is missing 1 object: default/fail-0: asked to fail";
    assert!(status.contains(said), "{status}");

    world.server.delete("v1/pods", "default", "fail-0").unwrap();
    until("nothing is absent", async || match failures().await {
        found if found == json!([]) => Ok(()),
        found => Err(found.to_string()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_index_failure_is_logged_at_once() {
    let world = World::start().await;
    world.create_pod("fail-0", "nginx");
    world.install("guest-index", "index.wasm");
    let program = Program::run(&world, CONFIG).await;
    let line = program.logged("index function failed").await;
    let message = line["fields"]["message"].as_str().unwrap();
    assert!(
        line["fields"]["key"] == "default/fail-0"
            && line["fields"]["index"] == "app"
            && line["fields"]["error"] == "asked to fail",
        "{message}"
    );
    assert_eq!(line["level"], "WARN");
}
