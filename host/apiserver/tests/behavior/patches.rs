//! The kinds of patch, as kubectl and controllers send them.

use serde_json::{Value, json};

use crate::support::{Client, PODS, server};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn with_pod() -> (informant_apiserver::ApiServer, Client) {
    let server = server();
    let containers = json!([{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }]);
    let pod = json!({ "metadata": { "name": "p", "labels": { "app": "web" } }, "spec": { "containers": containers } });
    server.create("v1/pods", "default", pod).unwrap();
    let client = Client::of(&server);
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn a_merge_patch_replaces_lists_and_removes_nulls() {
    let (_server, client) = with_pod().await;
    let patch =
        json!({ "metadata": { "labels": { "app": null, "tier": "x" } }, "spec": { "containers": [{ "name": "c" }] } });
    let patched = client.patch(&format!("{PODS}/p"), MERGE, patch).await.json();
    assert_eq!(patched["metadata"]["labels"], json!({ "tier": "x" }));
    assert_eq!(patched["spec"]["containers"], json!([{ "name": "c" }]));
}

#[tokio::test(start_paused = true)]
async fn a_strategic_patch_merges_containers_by_name() {
    let (_server, client) = with_pod().await;
    let patch = json!({ "spec": {
        "$setElementOrder/containers": [{ "name": "a" }, { "name": "b" }],
        "containers": [{ "name": "b", "image": "b:2" }],
    } });
    let patched = client.patch(&format!("{PODS}/p"), STRATEGIC, patch).await.json();
    assert_eq!(
        patched["spec"],
        json!({ "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:2" }] })
    );
}

#[tokio::test(start_paused = true)]
async fn a_json_patch_is_applied_or_refused_as_a_whole() {
    let (server, client) = with_pod().await;
    let patch = json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "a:2" }]);
    let patched = client.patch(&format!("{PODS}/p"), JSON, patch).await.json();
    assert_eq!(patched["spec"]["containers"][0]["image"], "a:2");
    let test = json!([{ "op": "add", "path": "/spec/x", "value": 1 }, { "op": "test", "path": "/spec/x", "value": 2 }]);
    assert_eq!(client.patch(&format!("{PODS}/p"), JSON, test).await.code, 422);
    assert_eq!(
        server.get("v1/pods", "default", "p").unwrap().unwrap()["spec"].get("x"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn an_apply_creates_then_merges_and_wants_a_manager() {
    let (_server, client) = with_pod().await;
    let pod = |image: &str| json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "q" }, "spec": { "containers": [{ "name": "a", "image": image }] } });
    let uri = format!("{PODS}/q?fieldManager=test");
    assert_eq!(client.patch(&uri, APPLY, pod("1")).await.code, 201);
    let again = client.patch(&uri, APPLY, pod("2")).await;
    assert_eq!(
        (again.code, &again.json()["spec"]["containers"][0]["image"]),
        (200, &json!("2"))
    );
    let refused = client.patch(&format!("{PODS}/q"), APPLY, pod("3")).await;
    insta::assert_snapshot!(refused.failure(), @r#"422 Invalid: PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch"#);
}

#[tokio::test(start_paused = true)]
async fn a_patch_with_an_old_version_conflicts() {
    let (_server, client) = with_pod().await;
    let patch = json!({ "metadata": { "resourceVersion": "1", "labels": { "a": "b" } } });
    assert_eq!(client.patch(&format!("{PODS}/p"), MERGE, patch).await.code, 409);
}

#[tokio::test(start_paused = true)]
async fn patches_cannot_rename_or_break_an_object() {
    let (server, client) = with_pod().await;
    for (patch, code) in [
        (json!({ "metadata": { "name": "q" } }), 400),
        (json!([1]), 400),
        (json!({ "metadata": 1 }), 422),
        (json!({ "metadata": { "labels": [] } }), 422),
        (json!({ "kind": "Node" }), 422),
    ] {
        let answer = client.patch(&format!("{PODS}/p"), MERGE, patch.clone()).await;
        assert_eq!(answer.code, code, "{patch}: {}", answer.text);
    }
    assert_eq!(server.revision(), 5);
}

#[tokio::test(start_paused = true)]
async fn patches_of_another_incarnation_are_refused_and_create_nothing() {
    let (_server, client) = with_pod().await;
    let other = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "uid": "other", "labels": { "a": "b" } } });
    let json = json!([{ "op": "replace", "path": "/metadata/uid", "value": "other" }]);
    let (there, absent) = (format!("{PODS}/p"), format!("{PODS}/absent?fieldManager=m"));
    let mut failures = Vec::new();
    for (url, kind, patch) in [
        (&there, "application/merge-patch+json", &other),
        (&there, JSON, &json),
        (&absent, "application/apply-patch+yaml", &other),
    ] {
        failures.push(client.patch(url, kind, patch.clone()).await.failure());
    }
    insta::assert_snapshot!(failures.join("\n"), @r#"
    422 Invalid: Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable
    422 Invalid: Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable
    409 Conflict: Operation cannot be fulfilled on pods "absent": uid mismatch: the provided object specified uid other, and no existing object was found
    "#);
}

#[tokio::test(start_paused = true)]
async fn patches_of_an_unknown_type_are_415() {
    let (_server, client) = with_pod().await;
    let answer = client.patch(&format!("{PODS}/p"), "text/plain", json!({})).await;
    insta::assert_snapshot!(answer.failure(), @"415 UnsupportedMediaType: the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml");
}

#[tokio::test(start_paused = true)]
async fn a_patch_of_what_is_absent_is_404() {
    let (_server, client) = with_pod().await;
    assert_eq!(client.patch(&format!("{PODS}/none"), MERGE, json!({})).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_status_patch_touches_status_alone() {
    let (_server, client) = with_pod().await;
    let patch = json!({ "status": { "phase": "Running" }, "metadata": { "labels": { "a": "b" } } });
    let patched = client.patch(&format!("{PODS}/p/status"), MERGE, patch).await.json();
    assert_eq!(
        (&patched["status"], &patched["metadata"]["labels"]),
        (&json!({ "phase": "Running" }), &json!({ "app": "web" }))
    );
    assert_eq!(patched["spec"].get("labels"), None::<&Value>);
}

#[tokio::test(start_paused = true)]
async fn patches_cannot_nest_objects_too_deep_to_read() {
    let (server, client) = with_pod().await;
    let deep = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({ "x": inner }));
    let patch = json!([{ "op": "add", "path": "/spec/x", "value": deep(80) }]);
    assert_eq!(client.patch(&format!("{PODS}/p"), JSON, patch).await.code, 200);
    let path = format!("/spec{}", "/x".repeat(81));
    let deeper = json!([{ "op": "add", "path": path, "value": deep(80) }]);
    insta::assert_snapshot!(client.patch(&format!("{PODS}/p"), JSON, deeper).await.failure(), @"422 Invalid: the server rejected our request due to an error in our request: the object is nested deeper than 100 levels");
    let yaml = format!("metadata: {{name: q}}\nspec: {}{}\n", "[".repeat(110), "]".repeat(110));
    let headers = [(http::header::CONTENT_TYPE, APPLY)];
    let applied = client
        .send(http::Method::PATCH, &format!("{PODS}/q?fieldManager=t"), &headers, yaml)
        .await;
    assert_eq!(applied.code, 400, "{}", applied.text);
    let names: Vec<_> = server
        .list("v1/pods")
        .unwrap()
        .iter()
        .map(|pod| pod["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["p"]);
}
