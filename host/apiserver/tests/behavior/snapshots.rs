//! The state that outlives a server.

use informant_apiserver::{ApiServer, Options, SnapshotError};
use serde_json::{Value, json};

use crate::support::{Client, PODS, pod, server};

const DEFINITIONS: &str = "apiextensions.k8s.io/v1/customresourcedefinitions";

fn written(server: &ApiServer) -> Vec<u8> {
    let mut out = Vec::new();
    server.snapshot().write(&mut out).unwrap();
    out
}

fn restored(snapshot: &[u8]) -> ApiServer {
    ApiServer::restore(Options::default(), snapshot).unwrap()
}

fn refusal(snapshot: &[u8]) -> String {
    let refused: Result<_, SnapshotError> = ApiServer::restore(Options::default(), snapshot);
    refused.unwrap_err().to_string()
}

/// A pod, and a custom resource that is stored in a version that is not served.
fn filled() -> ApiServer {
    let server = server();
    let version = |name: &str, served: bool| {
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        json!({ "name": name, "served": served, "storage": !served, "schema": schema })
    };
    let definition = json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": { "plural": "widgets", "kind": "Widget" },
            "versions": [version("v1", true), version("v2", false)],
        },
    });
    server
        .create("v1/pods", "default", pod("a", json!({ "app": "web" })))
        .unwrap();
    server.create(DEFINITIONS, "", definition).unwrap();
    let widget = json!({ "metadata": { "name": "w" }, "spec": { "size": 3 } });
    server.create("example.com/v1/widgets", "default", widget).unwrap();
    server
        .patch("v1/pods", "default", "a", json!({ "spec": { "x": 1 } }))
        .unwrap();
    server
}

#[tokio::test(start_paused = true)]
async fn a_restored_server_has_every_object_and_version() {
    let before = filled();
    let after = restored(&written(&before));
    assert_eq!(after.revision(), before.revision());
    for resource in ["v1/namespaces", "v1/pods", DEFINITIONS, "example.com/v1/widgets"] {
        assert_eq!(
            after.list(resource).unwrap(),
            before.list(resource).unwrap(),
            "{resource}"
        );
    }
    // Versions and uids continue; none is given twice.
    let created = after.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    let version: u64 = created["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(version, before.revision() + 1);
    let pods = after.list("v1/pods").unwrap();
    assert_ne!(pods[0]["metadata"]["uid"], pods[1]["metadata"]["uid"]);
    assert_eq!(written(&restored(&written(&before))), written(&before));
}

#[tokio::test(start_paused = true)]
async fn watches_resume_at_the_snapshots_version_and_older_ones_expire() {
    let before = filled();
    let after = restored(&written(&before));
    let client = Client::of(&after);
    let mut newest = client
        .watch(&format!("{PODS}?watch=true&resourceVersion={}", before.revision()))
        .await;
    after.delete("v1/pods", "default", "a").unwrap();
    assert!(newest.short().await.starts_with("DELETED a"));
    let mut old = client.watch(&format!("{PODS}?watch=true&resourceVersion=5")).await;
    assert_eq!(old.event().await["object"]["code"], json!(410));
}

#[tokio::test(start_paused = true)]
async fn a_truncated_snapshot_is_refused_wherever_it_was_cut() {
    let whole = written(&filled());
    let header_end = whole.iter().position(|byte| *byte == b'\n').unwrap();
    for cut in header_end..whole.len() - 1 {
        let message = refusal(&whole[..cut]);
        assert!(
            message.starts_with("the file is truncated: it has ") && message.contains(" of 7 objects"),
            "cut at {cut}: {message}"
        );
    }
    insta::assert_snapshot!(refusal(&whole[..whole.len() - 3]), @"the file is truncated: it has 7 of 7 objects and no end mark; it was cut off while it was written or copied. Use an older copy, or remove it to start with an empty server");
}

#[tokio::test(start_paused = true)]
async fn files_that_are_not_snapshots_are_refused() {
    let whole = String::from_utf8(written(&filled())).unwrap();
    assert!(refusal(b"").starts_with("not a snapshot of informant apiserver in format 1"));
    assert!(refusal(b"{\"kind\":\"Pod\"}\n").starts_with("not a snapshot"));
    let newer = whole.replacen("\"snapshot\":1", "\"snapshot\":2", 1);
    insta::assert_snapshot!(refusal(newer.as_bytes()), @"not a snapshot of informant apiserver in format 1: it is in format 2");
    let broken = whole.replacen("\"plural\":\"pods\"", "\"plural\":\"gods\"", 1);
    insta::assert_snapshot!(refusal(broken.as_bytes()), @"line 7: gods of v1 are not served by this version of Informant. Use an older copy, or remove it to start with an empty server");
    let nameless: Vec<Value> = vec![json!({ "group": "", "version": "v1", "plural": "pods", "object": {} })];
    let nameless = format!(
        "{{\"snapshot\":1,\"revision\":9,\"random\":\"0\",\"objects\":1}}\n{}\n{{\"end\":1}}\n",
        nameless[0]
    );
    insta::assert_snapshot!(refusal(nameless.as_bytes()), @"line 2: an object has no name or resourceVersion. Use an older copy, or remove it to start with an empty server");
}
