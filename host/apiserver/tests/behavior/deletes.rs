//! Deletes: what delays them, and what is deleted with them.

use serde_json::{Value, json};

use crate::support::{Client, PODS, pod, server};

#[tokio::test(start_paused = true)]
async fn a_delete_returns_the_object_and_takes_a_revision() {
    let server = server();
    let client = Client::of(&server);
    let map = json!({ "metadata": { "name": "m" } });
    server.create("v1/configmaps", "default", map).unwrap();
    let uri = "/api/v1/namespaces/default/configmaps/m";
    let deleted = client.delete(uri, Value::Null).await;
    insta::assert_snapshot!(deleted.text, @r#"{"apiVersion":"v1","details":{"kind":"configmaps","name":"m","uid":"05582d37-111a-4529-9254-741f599dc6f7"},"kind":"Status","metadata":{},"status":"Success"}"#);
    assert_eq!(server.revision(), 6);
    assert_eq!(
        client.delete(uri, Value::Null).await.failure(),
        "404 NotFound: configmaps \"m\" not found"
    );
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let pod = client.delete(&format!("{PODS}/a"), Value::Null).await.json();
    assert_eq!(
        (&pod["kind"], &pod["metadata"]["resourceVersion"]),
        (&json!("Pod"), &json!("8"))
    );
}

#[tokio::test(start_paused = true)]
async fn preconditions_guard_deletes() {
    let server = server();
    let client = Client::of(&server);
    let created = server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let bound_to = |uid: &str| json!({ "preconditions": { "uid": uid, "resourceVersion": "5" } });
    let refused = client.delete(&format!("{PODS}/a"), bound_to("other")).await;
    insta::assert_snapshot!(refused.failure(), @r#"409 Conflict: Operation cannot be fulfilled on pods "a": the UID in the precondition (other) does not match the UID in record (05582d37-111a-4529-9254-741f599dc6f7). The object might have been deleted and then recreated"#);
    let uid = created["metadata"]["uid"].as_str().unwrap();
    assert_eq!(client.delete(&format!("{PODS}/a"), bound_to(uid)).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_by_selector() {
    let server = server();
    let client = Client::of(&server);
    for name in ["a", "b", "c"] {
        server
            .create("v1/pods", "default", pod(name, json!({ "app": name })))
            .unwrap();
    }
    server
        .create("v1/pods", "kube-system", pod("a", json!({ "app": "a" })))
        .unwrap();
    let deleted = client
        .delete(&format!("{PODS}?labelSelector=app!=b"), Value::Null)
        .await;
    assert_eq!(deleted.names(), ["a", "c"]);
    assert_eq!(client.get("/api/v1/pods").await.names(), ["b", "a"]);
    assert_eq!(client.delete("/api/v1/pods", Value::Null).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn finalizers_hold_a_delete_back_until_they_are_gone() {
    let server = server();
    let client = Client::of(&server);
    let mut object = pod("a", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    server.create("v1/pods", "default", object).unwrap();
    let marked = client.delete(&format!("{PODS}/a"), Value::Null).await.json();
    assert_eq!(
        (&marked["kind"], &marked["metadata"]["deletionTimestamp"]),
        (&json!("Pod"), &json!("2026-01-01T00:00:00Z"))
    );
    client.delete(&format!("{PODS}/a"), Value::Null).await;
    assert_eq!(server.revision(), 6, "a second delete changes nothing");
    client
        .patch(
            &format!("{PODS}/a"),
            "application/merge-patch+json",
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
    assert_eq!(client.get(&format!("{PODS}/a")).await.code, 404);
    let kinds: Vec<_> = server
        .writes_after("v1/pods", 4)
        .unwrap()
        .into_iter()
        .map(|write| write.kind)
        .collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_takes_its_content_with_it() {
    let server = server();
    let client = Client::of(&server);
    let namespace = json!({ "metadata": { "name": "team" } });
    let created = client.post("/api/v1/namespaces", namespace).await.json();
    assert_eq!(created["status"]["phase"], "Active");
    assert_eq!(
        created["metadata"]["labels"],
        json!({ "kubernetes.io/metadata.name": "team" })
    );
    server.create("v1/pods", "team", pod("a", json!({}))).unwrap();
    server
        .create("v1/configmaps", "team", json!({ "metadata": { "name": "m" } }))
        .unwrap();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    assert_eq!(client.delete("/api/v1/namespaces/team", Value::Null).await.code, 200);
    assert_eq!(client.get("/api/v1/namespaces/team").await.code, 404);
    assert_eq!(server.list("v1/pods").unwrap().len(), 1);
    assert_eq!(server.list("v1/configmaps").unwrap().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_waits_for_finalizers_and_refuses_new_content() {
    let server = server();
    let client = Client::of(&server);
    server
        .create("v1/namespaces", "", json!({ "metadata": { "name": "team" } }))
        .unwrap();
    let mut object = pod("a", json!({}));
    object["metadata"]["finalizers"] = json!(["example.com/wait"]);
    server.create("v1/pods", "team", object).unwrap();
    let waiting = client.delete("/api/v1/namespaces/team", Value::Null).await.json();
    assert_eq!(waiting["status"]["phase"], "Terminating");
    let refused = client.post("/api/v1/namespaces/team/pods", pod("b", json!({}))).await;
    insta::assert_snapshot!(refused.failure(), @r#"403 Forbidden: pods "b" is forbidden: unable to create new content in namespace team because it is being terminated"#);
    server
        .patch("v1/pods", "team", "a", json!({ "metadata": { "finalizers": null } }))
        .unwrap();
    assert_eq!(client.get("/api/v1/namespaces/team").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn the_namespaces_of_the_cluster_itself_stay() {
    let answer = Client::of(&server())
        .delete("/api/v1/namespaces/default", Value::Null)
        .await;
    assert_eq!(
        answer.failure(),
        "403 Forbidden: namespaces \"default\" is forbidden: this namespace may not be deleted"
    );
}
