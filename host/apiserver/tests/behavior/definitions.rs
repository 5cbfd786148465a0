//! CustomResourceDefinitions, as kubectl applies them, and the resources that they define.

use informant_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::support::{Answer, Client, server};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const OLD_WIDGETS: &str = "/apis/example.com/v1beta1/namespaces/default/widgets";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const MERGE: &str = "application/merge-patch+json";

fn schema() -> Value {
    json!({
        "type": "object", "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object", "required": ["size"],
                "properties": {
                    "size": { "type": "integer", "minimum": 1, "maximum": 10 },
                    "color": { "type": "string", "enum": ["red", "green"], "default": "red" },
                    "id": { "type": "string", "pattern": "^[a-z]+$", "maxLength": 5 },
                    "port": { "x-kubernetes-int-or-string": true },
                    "tags": { "type": "array", "maxItems": 2, "items": { "type": "string" } },
                    "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
                    "limits": { "type": "object", "additionalProperties": { "type": "integer" } },
                    "replicas": { "type": "integer" },
                },
            },
            "status": { "type": "object", "properties": { "replicas": { "type": "integer" }, "selector": { "type": "string" } } },
        },
    })
}

fn version(name: &str, storage: bool) -> Value {
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": { "openAPIV3Schema": schema() },
        "subresources": {
            "status": {},
            "scale": { "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" },
        },
        "selectableFields": [{ "jsonPath": ".spec.color" }],
        "additionalPrinterColumns": [
            { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
            { "name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1 },
            { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
        ],
    })
}

fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"] },
            "versions": [version("v1beta1", false), version("v1", true)],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

/// A server that serves widgets.
async fn with_widgets() -> (ApiServer, Client) {
    let server = server();
    let client = Client::of(&server);
    let made = client.post(DEFINITIONS, definition()).await;
    assert_eq!(made.code, 201, "{}", made.text);
    (server, client)
}

async fn refused(client: &Client, spec: Value) -> String {
    let answer = client.post(WIDGETS, widget("w", spec)).await;
    assert_eq!(answer.code, 422, "{}", answer.text);
    answer.failure()
}

fn made(answer: &Answer) -> Value {
    assert!(matches!(answer.code, 200 | 201), "{}", answer.text);
    answer.json()
}

#[tokio::test(start_paused = true)]
async fn an_applied_definition_is_established_and_served() {
    let (_server, client) = with_widgets().await;
    let definition = client.get(&format!("{DEFINITIONS}/widgets.example.com")).await.json();
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let states: Vec<_> = conditions
        .iter()
        .map(|it| (it["type"].as_str().unwrap(), it["status"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("NamesAccepted", "True"), ("Established", "True")]);
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    assert_eq!(definition["spec"]["names"]["singular"], "widget");
    let group = client.get("/apis/example.com").await.json();
    assert_eq!(group["preferredVersion"]["version"], "v1");
    assert_eq!(group["versions"].as_array().unwrap().len(), 2);
    let resources = client.get("/apis/example.com/v1").await.json();
    let names: Vec<_> = resources["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    let document = client.get("/openapi/v3/apis/example.com/v1").await.json();
    let described = &document["components"]["schemas"]["io.k8s.api.example.com.v1.Widget"];
    assert_eq!(described["properties"]["spec"]["properties"]["size"]["maximum"], 10);
    assert!(described["properties"]["metadata"]["allOf"][0]["$ref"].is_string());
}

#[tokio::test(start_paused = true)]
async fn objects_are_pruned_defaulted_and_counted() {
    let (_server, client) = with_widgets().await;
    let spec = json!({ "size": 3, "stranger": 1, "free": { "any": "thing" }, "limits": { "cpu": 1 }, "port": "http" });
    let widget = made(&client.post(WIDGETS, widget("w", spec)).await);
    let kept = json!({ "size": 3, "color": "red", "free": { "any": "thing" }, "limits": { "cpu": 1 }, "port": "http" });
    assert_eq!(widget["spec"], kept);
    assert_eq!(widget["metadata"]["generation"], 1);
    let patched = client
        .patch(&format!("{WIDGETS}/w"), MERGE, json!({ "spec": { "size": 4 } }))
        .await;
    assert_eq!(made(&patched)["metadata"]["generation"], 2);
    // kube-apiserver ignores the uid, too.
    let metadata = json!({ "uid": "other" });
    let status = json!({ "metadata": metadata, "status": { "replicas": 2, "stranger": true }, "spec": { "size": 9 } });
    let patched = made(&client.patch(&format!("{WIDGETS}/w/status"), MERGE, status).await);
    assert_eq!(
        (&patched["status"], &patched["spec"]["size"]),
        (&json!({ "replicas": 2 }), &json!(4))
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_refused_when_validation_is_strict() {
    let (_server, client) = with_widgets().await;
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let answer = client.post(&strict, widget("w", json!({ "size": 1, "sise": 2 }))).await;
    insta::assert_snapshot!(answer.failure(), @r#"400 BadRequest: Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.sise""#);
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "replica": 1 } });
    let uri = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict";
    insta::assert_snapshot!(client.post(uri, deployment).await.failure(), @r#"400 BadRequest: Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.replica""#);
}

#[tokio::test(start_paused = true)]
async fn schema_violations_are_refused_with_kubernetes_messages() {
    let (server, client) = with_widgets().await;
    let before = server.revision();
    insta::assert_snapshot!(refused(&client, json!({})).await, @r#"422 Invalid: Widget.example.com "w" is invalid: spec.size: Required value"#);
    insta::assert_snapshot!(refused(&client, json!({ "size": "big" })).await, @r#"422 Invalid: Widget.example.com "w" is invalid: spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#);
    insta::assert_snapshot!(refused(&client, json!({ "size": 0 })).await, @r#"422 Invalid: Widget.example.com "w" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"#);
    insta::assert_snapshot!(refused(&client, json!({ "size": 11, "color": "blue" })).await, @r#"422 Invalid: Widget.example.com "w" is invalid: [spec.color: Unsupported value: "blue": supported values: "red", "green", spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10]"#);
    insta::assert_snapshot!(refused(&client, json!({ "size": 1, "id": "A" })).await, @r#"422 Invalid: Widget.example.com "w" is invalid: spec.id: Invalid value: "A": spec.id in body should match '^[a-z]+$'"#);
    insta::assert_snapshot!(refused(&client, json!({ "size": 1, "id": "abcdef" })).await, @r#"422 Invalid: Widget.example.com "w" is invalid: spec.id: Too long: may not be more than 5 bytes"#);
    insta::assert_snapshot!(refused(&client, json!({ "size": 1, "tags": ["a", "b", "c"] })).await, @r#"422 Invalid: Widget.example.com "w" is invalid: spec.tags: Too many: 3: must have at most 2 items"#);
    insta::assert_snapshot!(refused(&client, json!({ "size": 1, "port": true })).await, @r#"422 Invalid: Widget.example.com "w" is invalid: spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#);
    assert_eq!(server.revision(), before);
}

#[tokio::test(start_paused = true)]
async fn versions_show_the_same_objects() {
    let (_server, client) = with_widgets().await;
    made(&client.post(WIDGETS, widget("w", json!({ "size": 3 }))).await);
    let old = client.get(&format!("{OLD_WIDGETS}/w")).await.json();
    assert_eq!(
        (&old["apiVersion"], &old["spec"]["size"]),
        (&json!("example.com/v1beta1"), &json!(3))
    );
    let list = client.get(OLD_WIDGETS).await.json();
    assert_eq!(
        (&list["apiVersion"], &list["items"][0]["apiVersion"]),
        (&json!("example.com/v1beta1"), &json!("example.com/v1beta1"))
    );
    let mut watch = client.watch(&format!("{OLD_WIDGETS}?watch=true")).await;
    assert_eq!(watch.event().await["object"]["apiVersion"], "example.com/v1beta1");
    let patched = client
        .patch(&format!("{OLD_WIDGETS}/w"), MERGE, json!({ "spec": { "size": 5 } }))
        .await;
    assert_eq!(made(&patched)["apiVersion"], "example.com/v1beta1");
    assert_eq!(
        client.get(&format!("{WIDGETS}/w")).await.json()["apiVersion"],
        "example.com/v1"
    );
}

#[tokio::test(start_paused = true)]
async fn tables_selectors_and_scales_are_those_of_the_definition() {
    let (_server, client) = with_widgets().await;
    made(
        &client
            .post(WIDGETS, widget("a", json!({ "size": 3, "replicas": 2 })))
            .await,
    );
    made(
        &client
            .post(WIDGETS, widget("b", json!({ "size": 4, "color": "green" })))
            .await,
    );
    let table = client.accepting(WIDGETS, TABLE).await.json();
    let columns: Vec<_> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(columns, ["Name", "Size", "Color", "Age"]);
    assert_eq!(table["rows"][1]["cells"], json!(["b", 4, "green", "0s"]));
    assert_eq!(
        client
            .get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dgreen"))
            .await
            .names(),
        ["b"]
    );
    let answer = client.get(&format!("{WIDGETS}?fieldSelector=spec.size%3D3")).await;
    insta::assert_snapshot!(answer.failure(), @"400 BadRequest: field label not supported: spec.size");
    let scale = client.get(&format!("{WIDGETS}/a/scale")).await.json();
    assert_eq!(scale["spec"]["replicas"], 2);
    made(
        &client
            .patch(
                &format!("{WIDGETS}/a/scale"),
                MERGE,
                json!({ "spec": { "replicas": 7 } }),
            )
            .await,
    );
    assert_eq!(client.get(&format!("{WIDGETS}/a")).await.json()["spec"]["replicas"], 7);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_and_ends_its_watches() {
    let (_server, client) = with_widgets().await;
    made(&client.post(WIDGETS, widget("w", json!({ "size": 3 }))).await);
    let mut watch = client.watch(&format!("{WIDGETS}?watch=true")).await;
    assert!(watch.short().await.starts_with("ADDED w"));
    made(
        &client
            .delete(&format!("{DEFINITIONS}/widgets.example.com"), Value::Null)
            .await,
    );
    assert!(watch.short().await.starts_with("DELETED w"));
    let deleted = tokio::time::Instant::now();
    watch.ends().await;
    assert_eq!(
        deleted.elapsed(),
        std::time::Duration::ZERO,
        "at once, not at its timeout"
    );
    assert_eq!(client.get(WIDGETS).await.code, 404);
    assert_eq!(client.get("/apis/example.com").await.code, 404);
    // The name is free again, and nothing of the old definition remains.
    made(&client.post(DEFINITIONS, definition()).await);
    assert_eq!(client.get(WIDGETS).await.names(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_waits_for_objects_that_finalizers_hold() {
    let (server, client) = with_widgets().await;
    let mut held = widget("w", json!({ "size": 3 }));
    held["metadata"]["finalizers"] = json!(["example.com/wait"]);
    made(&client.post(WIDGETS, held).await);
    let uri = format!("{DEFINITIONS}/widgets.example.com");
    made(&client.delete(&uri, Value::Null).await);
    assert!(client.get(&uri).await.json()["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(client.post(WIDGETS, widget("x", json!({ "size": 3 }))).await.code, 405);
    made(
        &client
            .patch(
                &format!("{WIDGETS}/w"),
                MERGE,
                json!({ "metadata": { "finalizers": null } }),
            )
            .await,
    );
    assert_eq!(
        (client.get(&uri).await.code, client.get(WIDGETS).await.code),
        (404, 404)
    );
    assert_eq!(
        server
            .list("apiextensions.k8s.io/v1/customresourcedefinitions")
            .unwrap(),
        Vec::<Value>::new()
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_can_change_under_its_objects() {
    let (_server, client) = with_widgets().await;
    made(&client.post(WIDGETS, widget("w", json!({ "size": 3 }))).await);
    let uri = format!("{DEFINITIONS}/widgets.example.com");
    let versions = json!({ "spec": { "versions": [version("v1", false), version("v2", true)] } });
    let changed = made(&client.patch(&uri, MERGE, versions).await);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(client.get(OLD_WIDGETS).await.code, 404);
    assert_eq!(client.get("/apis/example.com/v2/widgets").await.names(), ["w"]);
    let scope = client
        .patch(&uri, MERGE, json!({ "spec": { "scope": "Cluster" } }))
        .await;
    insta::assert_snapshot!(scope.failure(), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is invalid: spec.scope: Invalid value: "Cluster": field is immutable"#);
}

#[tokio::test(start_paused = true)]
async fn resources_without_namespaces_are_served_too() {
    let server = server();
    let client = Client::of(&server);
    let mut wide = definition();
    wide["spec"]["scope"] = json!("Cluster");
    made(&client.post(DEFINITIONS, wide).await);
    made(
        &client
            .post("/apis/example.com/v1/widgets", widget("w", json!({ "size": 1 })))
            .await,
    );
    assert_eq!(
        client.get("/apis/example.com/v1/widgets/w").await.json()["metadata"].get("namespace"),
        None
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_whose_names_are_taken_is_not_served() {
    let (_server, client) = with_widgets().await;
    let mut rival = definition();
    rival["metadata"]["name"] = json!("gadgets.example.com");
    rival["spec"]["names"] = json!({ "plural": "gadgets", "kind": "Widget" });
    let rival = made(&client.post(DEFINITIONS, rival).await);
    let names: Vec<_> = rival["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["status"].clone())
        .collect();
    assert_eq!(names, ["False", "False"]);
    assert_eq!(client.get("/apis/example.com/v1/gadgets").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn invalid_definitions_are_refused_with_all_problems() {
    let server = server();
    let client = Client::of(&server);
    let mut broken = definition();
    broken["metadata"]["name"] = json!("widgets");
    broken["spec"]["scope"] = json!("Galaxy");
    broken["spec"]["versions"] = json!([{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "thing", "pattern": "(" } } }]);
    insta::assert_snapshot!(client.post(DEFINITIONS, broken).await.failure(), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "widgets" is invalid: [spec.versions[0].schema.openAPIV3Schema.type: Unsupported value: "thing": supported values: "array", "boolean", "integer", "number", "object", "string", spec.versions[0].schema.openAPIV3Schema.pattern: Invalid value: "(": must be a valid regular expression, metadata.name: Invalid value: "widgets": must be spec.names.plural+"."+spec.group, spec.scope: Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"]"#);
    let mut webhook = definition();
    webhook["spec"]["conversion"] = json!({ "strategy": "Webhook" });
    insta::assert_snapshot!(client.post(DEFINITIONS, webhook).await.failure(), @r#"422 Invalid: CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is invalid: spec.conversion.strategy: Unsupported value: "Webhook": supported values: "None"; this server calls no conversion webhooks"#);
    assert_eq!(server.revision(), 4);
}
