//! Tables, as kubectl asks for them.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Client, PODS, pod, server};

const TABLE: &str =
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

fn columns(table: &Value) -> Vec<&str> {
    table["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| column["name"].as_str().unwrap())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn pods_are_shown_as_kubectl_prints_them() {
    let server = server();
    let client = Client::of(&server);
    client.get("/version").await;
    let mut object = pod("a", json!({}));
    object["spec"]["containers"] = json!([{ "name": "c" }, { "name": "d" }]);
    let crashed = json!({ "name": "c", "ready": false, "restartCount": 3, "state": { "waiting": { "reason": "CrashLoopBackOff" } } });
    object["status"] = json!({ "phase": "Running", "podIP": "10.0.0.7", "containerStatuses": [crashed, { "name": "d", "ready": true, "state": { "running": {} } }] });
    server.create("v1/pods", "default", object).unwrap();
    tokio::time::advance(Duration::from_secs(125)).await;
    let table = client.accepting(PODS, TABLE).await.json();
    assert_eq!(
        (&table["kind"], &table["apiVersion"]),
        (&json!("Table"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!(
        columns(&table),
        [
            "Name",
            "Ready",
            "Status",
            "Restarts",
            "Age",
            "IP",
            "Node",
            "Nominated Node",
            "Readiness Gates"
        ]
    );
    assert_eq!(
        table["rows"][0]["cells"],
        json!([
            "a",
            "1/2",
            "CrashLoopBackOff",
            "3",
            "2m5s",
            "10.0.0.7",
            "n1",
            "<none>",
            "<none>"
        ])
    );
    let row = &table["rows"][0]["object"];
    assert_eq!(
        (&row["kind"], &row["metadata"]["name"], row.get("spec")),
        (&json!("PartialObjectMetadata"), &json!("a"), None)
    );
    assert_eq!(table["metadata"]["resourceVersion"], "5");
}

#[tokio::test(start_paused = true)]
async fn every_kind_has_a_name_and_one_cell_per_column() {
    let server = server();
    let client = Client::of(&server);
    let groups = client.get("/apis").await.json();
    let mut paths = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().unwrap() {
        paths.push(format!(
            "/apis/{}",
            group["preferredVersion"]["groupVersion"].as_str().unwrap()
        ));
    }
    for path in paths {
        for resource in client.get(&path).await.json()["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if !name.contains('/') {
                let table = client.accepting(&format!("{path}/{name}"), TABLE).await.json();
                let columns = columns(&table);
                assert!(columns.contains(&"Name"), "{name}: {columns:?}");
                for row in table["rows"].as_array().unwrap() {
                    assert_eq!(row["cells"].as_array().unwrap().len(), columns.len(), "{name}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_names_its_columns_once() {
    let server = server();
    server
        .create(
            "v1/configmaps",
            "default",
            json!({ "metadata": { "name": "m" }, "data": { "a": "b" } }),
        )
        .unwrap();
    let uri = "/api/v1/namespaces/default/configmaps?watch=true";
    let mut watch = Client::of(&server).watch_accepting(uri, TABLE).await;
    let first = watch.event().await;
    assert_eq!(columns(&first["object"]), ["Name", "Data", "Age"]);
    assert_eq!(first["object"]["rows"][0]["cells"], json!(["m", 1, "0s"]));
    server.delete("v1/configmaps", "default", "m").unwrap();
    let second = watch.event().await;
    assert_eq!(
        (&second["type"], columns(&second["object"]).len()),
        (&json!("DELETED"), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_row_holds_what_was_asked_for() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let client = Client::of(&server);
    let object = client
        .accepting(&format!("{PODS}?includeObject=Object"), TABLE)
        .await
        .json();
    assert_eq!(object["rows"][0]["object"]["spec"], json!({ "nodeName": "n1" }));
    let nothing = client
        .accepting(&format!("{PODS}?includeObject=None"), TABLE)
        .await
        .json();
    assert_eq!(nothing["rows"][0].get("object"), None);
    assert_eq!(
        client
            .accepting(&format!("{PODS}?includeObject=Much"), TABLE)
            .await
            .code,
        400
    );
}
