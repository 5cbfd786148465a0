//! Discovery, OpenAPI, health, reviews: what clients request before they start.

use http::header;
use informant_apiserver::{Filter, Kind};
use serde_json::{Value, json};

use crate::support::{Client, server};

#[tokio::test(start_paused = true)]
async fn classic_and_aggregated_discovery_name_the_same_resources() {
    let server = server();
    server.register(Kind::custom("example.com", "v1", "Widget", "widgets", true));
    let client = Client::of(&server);
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let mut aggregated = Vec::new();
    for path in ["/api", "/apis"] {
        let answer = client.accepting(path, accept).await;
        assert_eq!(
            answer.header(header::CONTENT_TYPE),
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        );
        for group in answer.json()["items"].as_array().unwrap() {
            for version in group["versions"].as_array().unwrap() {
                for resource in version["resources"].as_array().unwrap() {
                    let group = group["metadata"]["name"].as_str().unwrap_or("");
                    aggregated.push(format!(
                        "{group}/{} {}",
                        version["version"].as_str().unwrap(),
                        resource["resource"].as_str().unwrap()
                    ));
                }
            }
        }
    }
    let mut classic = Vec::new();
    let mut versions = vec![(String::new(), "v1".to_owned())];
    for group in client.get("/apis").await.json()["groups"].as_array().unwrap() {
        versions.push((
            group["name"].as_str().unwrap().to_owned(),
            group["versions"][0]["version"].as_str().unwrap().to_owned(),
        ));
    }
    for (group, version) in versions {
        let path = if group.is_empty() {
            format!("/api/{version}")
        } else {
            format!("/apis/{group}/{version}")
        };
        for resource in client.get(&path).await.json()["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            if !name.contains('/') {
                classic.push(format!("{group}/{version} {name}"));
            }
        }
    }
    assert_eq!(aggregated, classic);
    assert!(classic.contains(&"example.com/v1 widgets".to_owned()));
    assert!(classic.contains(&"/v1 pods".to_owned()) && classic.contains(&"apps/v1 deployments".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_what_a_resource_supports() {
    let resources = Client::of(&server()).get("/api/v1").await.json();
    let pods: Vec<&Value> = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["kind"] == "Pod")
        .collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&pods).unwrap(), @r#"
    [
      {
        "categories": [
          "all"
        ],
        "kind": "Pod",
        "name": "pods",
        "namespaced": true,
        "shortNames": [
          "po"
        ],
        "singularName": "pod",
        "verbs": [
          "create",
          "delete",
          "deletecollection",
          "get",
          "list",
          "patch",
          "update",
          "watch"
        ]
      },
      {
        "kind": "Pod",
        "name": "pods/status",
        "namespaced": true,
        "singularName": "",
        "verbs": [
          "get",
          "patch",
          "update"
        ]
      }
    ]
    "#);
}

#[tokio::test(start_paused = true)]
async fn openapi_declares_server_side_validation_to_kubectl() {
    let client = Client::of(&server());
    let root = client.get("/openapi/v3").await.json();
    let url = root["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let document = client.get(url).await.json();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({ "group": "apps", "version": "v1", "kind": "Deployment" })
    );
    assert!(
        patch["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .any(|it| it["name"] == "fieldValidation")
    );
    let schema = &document["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);
    assert!(
        client.get("/openapi/v2").await.json()["definitions"]
            .as_object()
            .unwrap()
            .len()
            > 20
    );
    assert_eq!(client.get("/openapi/v3/apis/none/v1").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn health_and_version_answer() {
    let client = Client::of(&server());
    for path in ["/healthz", "/livez", "/readyz", "/readyz/etcd"] {
        assert_eq!(client.get(path).await.text, "ok");
    }
    assert_eq!(client.get("/version").await.json()["minor"], "36");
}

#[tokio::test(start_paused = true)]
async fn access_reviews_allow_all_but_what_is_forbidden() {
    let server = server();
    let client = Client::of(&server);
    let ask = async |verb: &str| {
        let review =
            json!({ "spec": { "resourceAttributes": { "verb": verb, "resource": "pods", "namespace": "default" } } });
        client
            .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
            .await
            .json()["status"]["allowed"]
            .clone()
    };
    let forbidden = Filter::any().verb("list").resource("pods");
    server.faults().forbid(forbidden.clone());
    assert_eq!((ask("list").await, ask("watch").await), (json!(false), json!(true)));
    server.faults().allow(&forbidden);
    assert_eq!(ask("list").await, true);
}
