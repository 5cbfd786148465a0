//! Read-your-writes, and the freshness of sources.

use informant_apiserver::{Ending, Filter};
use serde_json::Value;

use super::world::{Running, World, until};

const PODS: &str = "[informer.pods]\nresource = \"v1/pods\"\n";

/// Status, code and document of an error response.
async fn refusal(daemon: &Running, path: &str) -> (u16, String, Value) {
    let (status, text) = daemon.get(path).await;
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {status} {text}"));
    let code = document["code"].as_str().unwrap_or_else(|| panic!("{path}: {text}"));
    (status, code.to_owned(), document)
}

async fn only_source(daemon: &Running) -> u64 {
    let sources = daemon.json("/api/v1/sources").await;
    sources["items"][0]["id"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn write_is_visible_after_waiting_for_its_version() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    let id = only_source(&daemon).await;
    for name in ["a", "b", "c"] {
        world.create_pod(name, "nginx:1.27");
        let version = world.server.revision();
        let path = format!("/api/v1/sources/{id}?at-least={version}&epoch=0&timeout-ms=60000");
        let source = daemon.json(&path).await;
        let seen: u64 = source["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(seen >= version, "{source}");
        let found = daemon.names(&format!("/api/v1/get/pods?name={name}")).await;
        assert_eq!(found, [name]);
    }
    for name in ["d", "e", "f"] {
        world.create_pod(name, "nginx:1.27");
        let version = world.server.revision();
        let path = format!("/api/v1/get/pods?name={name}&at-least={version}&timeout-ms=60000");
        assert_eq!(daemon.names(&path).await, [name]);
    }
    assert_eq!(daemon.stop().await.undelivered, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn version_that_is_not_reached_reports_the_present_one() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx:1.27");
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    let id = only_source(&daemon).await;
    for (path, status, code) in [
        (format!("sources/{id}?at-least=999999&timeout-ms=10"), 504, "timeout"),
        ("get/pods?at-least=999999&timeout-ms=10".to_owned(), 504, "timeout"),
        (format!("sources/{id}?at-least=1&epoch=7"), 409, "stale"),
        ("get/pods?at-least=1&epoch=7".to_owned(), 409, "stale"),
        (format!("sources/{id}?at-least=abc"), 400, "unsupported"),
        (format!("sources/{id}?at-least=1&timeout-ms=999999999"), 400, "invalid"),
        (format!("sources/{id}?timeout-ms=1"), 400, "invalid"),
        ("get/pods?epoch=1".to_owned(), 400, "invalid"),
        (format!("sources/{id}?atleast=1"), 400, "invalid"),
        ("sources/one".to_owned(), 400, "invalid"),
        ("sources/77".to_owned(), 404, "unknown-source"),
    ] {
        let (got, word, document) = refusal(&daemon, &format!("/api/v1/{path}")).await;
        assert_eq!((got, word.as_str()), (status, code), "{path}: {document}");
        let seen = &document["freshAsOf"];
        match code {
            "timeout" | "stale" => {
                assert_eq!(seen["source"], id, "{path}: {document}");
                assert_eq!((&seen["state"], &seen["epoch"]), (&"Live".into(), &0.into()));
                assert!(seen["resourceVersion"].is_string(), "{path}: {document}");
            }
            "unsupported" => {}
            _ => assert!(seen.is_null(), "{path}: {document}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_ends_with_its_source() {
    let world = World::start().await;
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    let id = only_source(&daemon).await;
    let path = format!("/api/v1/sources/{id}?at-least=999999&timeout-ms=120000");
    let (waited, ()) = tokio::join!(refusal(&daemon, &path), async {
        world.configure("[informer.maps]\nresource = \"v1/configmaps\"\n");
    });
    let (status, code, document) = waited;
    assert_eq!((status, code.as_str()), (404, "unknown-source"), "{document}");
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_shows_last_event_relists_and_last_error() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx:1.27");
    let daemon = world.daemon(PODS).await;
    daemon.wait_until_ready().await;
    let filter = Filter::any().verb("watch").resource("pods");
    world.server.faults().drop_watches(&filter, Ending::Expired);
    let line = until("a relist to show", async || {
        let (_, text) = daemon.get("/readyz?verbose").await;
        let line = text.lines().find(|line| line.contains("informer/pods"));
        let line = line.ok_or_else(|| text.clone())?.to_owned();
        if line.contains("ok: Live, 1 objects, version ") && line.contains(", 1 relist, last error ") {
            Ok(line)
        } else {
            Err(line)
        }
    })
    .await;
    assert!(line.contains(", last event "), "{line}");
    world.create_pod("web-1", "nginx:1.27");
    let version = world.server.revision();
    daemon
        .json(&format!(
            "/api/v1/sources/{}?at-least={version}",
            only_source(&daemon).await
        ))
        .await;
    let (_, metrics) = daemon.get("/metrics").await;
    for name in ["event", "bookmark"] {
        let series = format!("informant_source_{name}_age_seconds{{informer=\"pods\",cluster=\"\"}} ");
        let age = metrics.lines().find_map(|line| line.strip_prefix(&series));
        let age: f64 = age.unwrap_or_else(|| panic!("{metrics}")).parse().unwrap();
        assert!((0.0..60.0).contains(&age), "{name}: {age}");
    }
}
