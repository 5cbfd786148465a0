//! The identity of objects and clusters: invalid labels, and uids.

use informant_apiserver::{ApiServer, Options};
use serde_json::json;

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
