//! The identity of objects and clusters: invalid labels and owner references, and uids.

use informant_apiserver::{ApiServer, Options};
use serde_json::{Value, json};

use crate::support::{Client, PODS, pod, server};

#[tokio::test(start_paused = true)]
async fn every_write_refuses_labels_that_kubernetes_refuses() {
    let server = server();
    let client = Client::of(&server);
    assert_eq!(client.post(PODS, pod("a", json!({ "app": "web" }))).await.code, 201);
    let uri = format!("{PODS}/a");
    let bad = json!({ "app": "x y" });
    let merge = json!({ "metadata": { "labels": bad } });
    let mut changed = client.get(&uri).await.json();
    changed["metadata"]["labels"] = json!({ "-tier": "front", "app": "web_" });
    let refused = [
        client.post(PODS, pod("b", bad.clone())).await.failure(),
        client
            .patch(&uri, "application/merge-patch+json", merge)
            .await
            .failure(),
        client.put(&uri, changed).await.failure(),
    ];
    insta::assert_snapshot!(refused.join("\n"), @r#"
    422 Invalid: Pod "b" is invalid: metadata.labels: Invalid value: "x y": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    422 Invalid: Pod "a" is invalid: metadata.labels: Invalid value: "x y": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
    422 Invalid: Pod "a" is invalid: [metadata.labels: Invalid value: "-tier": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'), metadata.labels: Invalid value: "web_": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]
    "#);
    assert_eq!(
        client.get(&uri).await.json()["metadata"]["labels"],
        json!({ "app": "web" })
    );
    assert_eq!(server.list("v1/pods").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn every_write_refuses_owner_references_that_kubernetes_refuses() {
    let server = server();
    let client = Client::of(&server);
    let owned = |owners: &Value| {
        let mut pod = pod("b", json!({}));
        pod["metadata"]["ownerReferences"] = owners.clone();
        pod
    };
    let controller = |name: &str, uid: &str| {
        let mut owner = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "controller": true });
        if !uid.is_empty() {
            owner["uid"] = json!(uid);
        }
        owner
    };
    let uri = format!("{PODS}/a");
    let mut valid = pod("a", json!({}));
    valid["metadata"]["ownerReferences"] = json!([controller("a", "u1")]);
    assert_eq!(client.post(PODS, valid).await.code, 201);
    let refused = client.post(PODS, owned(&json!([controller("a", "")]))).await;
    let causes = refused.json()["details"]["causes"].clone();
    let cause = json!({
        "reason": "FieldValueInvalid",
        "message": "Invalid value: \"\": must not be empty",
        "field": "metadata.ownerReferences.uid",
    });
    assert_eq!(causes, json!([cause]));
    let merge = json!({ "metadata": { "ownerReferences": [{ "apiVersion": "a/b/c" }] } });
    let mut changed = client.get(&uri).await.json();
    changed["metadata"]["ownerReferences"] = json!([controller("a", "u1"), controller("b", "u2")]);
    let event = json!([{ "apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u1" }]);
    let failures = [
        refused.failure(),
        client
            .patch(&uri, "application/merge-patch+json", merge)
            .await
            .failure(),
        client.put(&uri, changed).await.failure(),
        client.post(PODS, owned(&event)).await.failure(),
    ];
    insta::assert_snapshot!(failures.join("\n"), @r#"
    422 Invalid: Pod "b" is invalid: metadata.ownerReferences.uid: Invalid value: "": must not be empty
    422 Invalid: Pod "a" is invalid: [metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty, metadata.ownerReferences.kind: Invalid value: "": must not be empty, metadata.ownerReferences.name: Invalid value: "": must not be empty, metadata.ownerReferences.uid: Invalid value: "": must not be empty]
    422 Invalid: Pod "a" is invalid: metadata.ownerReferences: Invalid value: [{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"a","uid":"u1","controller":true},{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"b","uid":"u2","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for ReplicaSet/a and ReplicaSet/b
    422 Invalid: Pod "b" is invalid: metadata.ownerReferences: Invalid value: {"apiVersion":"v1","kind":"Event","name":"e","uid":"u1"}: /v1, Kind=Event is disallowed from being an owner
    "#);
    assert_eq!(server.list("v1/pods").unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn servers_of_different_seeds_give_out_different_uids() {
    let uid = async |seed: u64| {
        let server = ApiServer::new(Options {
            seed,
            ..Options::default()
        });
        let created = Client::of(&server).post(PODS, pod("web", json!({}))).await.json();
        created["metadata"]["uid"].as_str().unwrap().to_owned()
    };
    assert_eq!(uid(1).await, uid(1).await);
    assert_ne!(uid(1).await, uid(2).await);
}
