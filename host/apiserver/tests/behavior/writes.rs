//! Create and update: what is kept, counted and refused.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Client, PODS, pod, server};

#[tokio::test(start_paused = true)]
async fn a_created_object_gets_identity_time_and_version() {
    let server = server();
    let answer = Client::of(&server).post(PODS, pod("a", json!({}))).await;
    assert_eq!(answer.code, 201);
    insta::assert_snapshot!(answer.text.trim(), @r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"05582d37-111a-4529-9254-741f599dc6f7","resourceVersion":"5","generation":1,"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"n1"},"status":{"phase":"Pending"}}"#);
}

#[tokio::test(start_paused = true)]
async fn equal_seeds_give_equal_answers() {
    let transcript = async || {
        let server = server();
        let client = Client::of(&server);
        let generated = json!({ "metadata": { "generateName": "job-" } });
        let first = client.post(PODS, generated.clone()).await.text;
        first + &client.post(PODS, generated).await.text + &client.get("/api/v1/namespaces").await.text
    };
    assert_eq!(transcript().await, transcript().await);
}

#[tokio::test(start_paused = true)]
async fn generate_name_appends_five_letters() {
    let created = Client::of(&server())
        .post(PODS, json!({ "metadata": { "generateName": "job-" } }))
        .await
        .json();
    let name = created["metadata"]["name"].as_str().unwrap();
    assert_eq!((name.len(), &name[..4]), (9, "job-"));
}

#[tokio::test(start_paused = true)]
async fn invalid_creates_are_refused_with_kubernetes_messages() {
    let server = server();
    let client = Client::of(&server);
    client.post(PODS, pod("a", json!({}))).await;
    let mut seen = Vec::new();
    for (uri, object) in [
        (PODS, pod("a", json!({}))),
        (PODS, pod("Not_A_Name", json!({}))),
        (PODS, json!({ "metadata": {} })),
        (PODS, json!([1])),
        (
            PODS,
            json!({ "kind": "Secret", "apiVersion": "v1", "metadata": { "name": "s" } }),
        ),
        (
            PODS,
            json!({ "kind": "Pod", "apiVersion": "v2", "metadata": { "name": "s" } }),
        ),
        (PODS, json!({ "metadata": { "name": "s", "namespace": "other" } })),
        (PODS, json!({ "metadata": { "name": "s", "labels": { "a": 1 } } })),
        (PODS, json!({ "metadata": { "name": "s", "resourceVersion": "1" } })),
        ("/api/v1/namespaces/nowhere/pods", pod("a", json!({}))),
        ("/api/v1/pods", pod("a", json!({}))),
        (
            "/apis/apps/v1/namespaces/nowhere/deployments",
            json!({ "metadata": { "name": "d" } }),
        ),
    ] {
        seen.push(client.post(uri, object).await.failure());
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    409 AlreadyExists: pods "a" already exists
    422 Invalid: Pod "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    422 Invalid: Pod "" is invalid: metadata.name: Required value: name or generateName is required
    400 BadRequest: Pod in version "v1" cannot be handled as a Pod: the object is not a JSON object
    400 BadRequest: Secret in version "v1" cannot be handled as a Pod: unknown conversion
    400 BadRequest: Pod in version "v2" cannot be handled as a Pod: no kind "Pod" is registered for version "v2"
    400 BadRequest: the namespace of the provided object does not match the namespace sent on the request
    400 BadRequest: Pod in version "v1" cannot be handled as a Pod: metadata.labels is not a map of strings
    500 : resourceVersion should not be set on objects to be created
    404 NotFound: namespaces "nowhere" not found
    405 MethodNotAllowed: the server does not allow this method on the requested resource
    404 NotFound: namespaces "nowhere" not found
    "#);
}

#[tokio::test(start_paused = true)]
async fn invalid_or_too_large_bodies_are_refused() {
    let client = Client::of(&server());
    let broken = client.send(Method::POST, PODS, &[], "{".to_owned()).await;
    assert!(
        broken
            .failure()
            .starts_with("400 BadRequest: the object provided is unrecognized: couldn't get version/kind"),
        "{}",
        broken.text
    );
    let large = client
        .send(Method::POST, PODS, &[], "x".repeat(3 * 1024 * 1024 + 1))
        .await;
    assert_eq!(
        large.failure(),
        "413 RequestEntityTooLarge: Request entity too large: limit is 3145728"
    );
    let of_type = async |content_type: &str, body: &str| {
        let headers = [(http::header::CONTENT_TYPE, content_type)];
        client.send(Method::POST, PODS, &headers, body.to_owned()).await
    };
    assert_eq!(of_type("text/plain", "{}").await.code, 415);
    let yaml = "metadata:\n  name: read\nspec:\n  containers: [{name: c}]\n";
    let read = of_type("application/yaml", yaml).await;
    assert_eq!((read.code, &read.json()["metadata"]["name"]), (201, &json!("read")));
    assert_eq!(of_type("application/yaml", "a: [b").await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn absent_objects_and_paths_are_404() {
    let client = Client::of(&server());
    let pod = client.get(&format!("{PODS}/nope")).await;
    insta::assert_snapshot!(pod.text, @r#"{"apiVersion":"v1","code":404,"details":{"kind":"pods","name":"nope"},"kind":"Status","message":"pods \"nope\" not found","metadata":{},"reason":"NotFound","status":"Failure"}"#);
    assert_eq!(
        client
            .get("/apis/apps/v1/namespaces/default/deployments/d")
            .await
            .failure(),
        "404 NotFound: deployments.apps \"d\" not found"
    );
    for path in [
        "/api/v1/gadgets",
        "/api/v1/pods/a",
        "/api/v1/namespaces/default/nodes",
        &format!("{PODS}/a/nope"),
    ] {
        let answer = client.get(path).await;
        assert_eq!(
            answer.failure(),
            "404 NotFound: the server could not find the requested resource",
            "{path}"
        );
    }
    for path in ["/apis/example.com/v1/widgets", "/apis/example.com/v1", "/nothing"] {
        let answer = client.get(path).await;
        assert_eq!(
            (answer.code, answer.text.as_str()),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_with_an_old_version_conflicts() {
    let server = server();
    let client = Client::of(&server);
    let created = client.post(PODS, pod("a", json!({}))).await.json();
    let mut changed = created.clone();
    changed["spec"]["nodeName"] = json!("n2");
    let updated = client.put(&format!("{PODS}/a"), changed.clone()).await;
    assert_eq!(
        (updated.code, &updated.json()["metadata"]["resourceVersion"]),
        (200, &json!("6"))
    );
    changed["spec"]["nodeName"] = json!("n3");
    let conflict = client.put(&format!("{PODS}/a"), changed).await;
    insta::assert_snapshot!(conflict.text, @r#"{"apiVersion":"v1","code":409,"details":{"kind":"pods","name":"a"},"kind":"Status","message":"Operation cannot be fulfilled on pods \"a\": the object has been modified; please apply your changes to the latest version and try again","metadata":{},"reason":"Conflict","status":"Failure"}"#);
}

#[tokio::test(start_paused = true)]
async fn an_update_of_another_incarnation_or_name_is_refused() {
    let server = server();
    let client = Client::of(&server);
    let mut object = client.post(PODS, pod("a", json!({}))).await.json();
    object["metadata"]["resourceVersion"] = Value::Null;
    let name = client.put(&format!("{PODS}/b"), object.clone()).await.failure();
    object["metadata"]["uid"] = json!("other");
    let uid = client.put(&format!("{PODS}/a"), object).await.failure();
    insta::assert_snapshot!(format!("{name}\n{uid}"), @r#"
    400 BadRequest: the name of the object (a) does not match the name on the URL (b)
    409 Conflict: Operation cannot be fulfilled on pods "a": Precondition failed: UID in precondition: other, UID in object meta: 05582d37-111a-4529-9254-741f599dc6f7
    "#);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_changes_nothing_takes_no_revision() {
    let server = server();
    let client = Client::of(&server);
    let created = client.post(PODS, pod("a", json!({}))).await.json();
    let again = client.put(&format!("{PODS}/a"), created.clone()).await.json();
    assert_eq!(again, created);
    assert_eq!(server.revision(), 5);
}

#[tokio::test(start_paused = true)]
async fn the_generation_counts_changes_of_the_spec_only() {
    let server = server();
    let generation = |patch: Value| {
        server.patch("v1/pods", "default", "a", patch).unwrap()["metadata"]["generation"]
            .as_u64()
            .unwrap()
    };
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    assert_eq!(generation(json!({ "metadata": { "labels": { "a": "b" } } })), 1);
    assert_eq!(generation(json!({ "status": { "phase": "Running" } })), 1);
    assert_eq!(generation(json!({ "spec": { "nodeName": "n2" } })), 2);
    let map = server
        .create("v1/configmaps", "default", json!({ "metadata": { "name": "m" } }))
        .unwrap();
    assert_eq!(map["metadata"].get("generation"), None);
}

#[tokio::test(start_paused = true)]
async fn status_is_written_through_its_subresource_alone() {
    let server = server();
    let client = Client::of(&server);
    let mut object = pod("a", json!({}));
    object["status"] = json!({ "phase": "Running" });
    let created = client.post(PODS, object).await.json();
    assert_eq!(created["status"], json!({ "phase": "Pending" }));

    let mut changed = created.clone();
    changed["status"] = json!({ "phase": "Running", "podIP": "10.0.0.1" });
    changed["spec"] = json!({ "nodeName": "n2" });
    let status = client.put(&format!("{PODS}/a/status"), changed.clone()).await.json();
    assert_eq!(
        (&status["status"]["podIP"], &status["spec"]["nodeName"]),
        (&json!("10.0.0.1"), &json!("n1"))
    );

    changed["metadata"]["resourceVersion"] = Value::Null;
    changed["status"] = json!({ "phase": "Failed" });
    let main = client.put(&format!("{PODS}/a"), changed).await.json();
    assert_eq!(
        (&main["status"]["phase"], &main["spec"]["nodeName"]),
        (&json!("Running"), &json!("n2"))
    );
    assert_eq!(
        client.get(&format!("{PODS}/a/status")).await.json()["status"]["phase"],
        "Running"
    );
    assert_eq!(
        client.get("/api/v1/namespaces/default/configmaps/m/status").await.code,
        404
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_answers_and_stores_nothing() {
    let server = server();
    let client = Client::of(&server);
    let created = client.post(&format!("{PODS}?dryRun=All"), pod("a", json!({}))).await;
    assert_eq!(
        (created.code, created.json()["metadata"].get("resourceVersion")),
        (201, None)
    );
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    let merge = "application/merge-patch+json";
    let patched = client
        .patch(
            &format!("{PODS}/b?dryRun=All"),
            merge,
            json!({ "spec": { "nodeName": "n9" } }),
        )
        .await
        .json();
    assert_eq!(patched["spec"]["nodeName"], "n9");
    client.delete(&format!("{PODS}/b"), json!({ "dryRun": ["All"] })).await;
    assert_eq!(client.get(PODS).await.names(), ["b"]);
    assert_eq!(
        server.get("v1/pods", "default", "b").unwrap().unwrap()["spec"]["nodeName"],
        "n1"
    );
    assert_eq!(server.revision(), 5);
    assert_eq!(
        client
            .post(&format!("{PODS}?dryRun=Some"), pod("a", json!({})))
            .await
            .code,
        422
    );
}

#[tokio::test(start_paused = true)]
async fn unsupported_methods_are_405() {
    let client = Client::of(&server());
    assert_eq!(client.put(PODS, pod("a", json!({}))).await.code, 405);
    assert_eq!(client.post(&format!("{PODS}/a"), pod("a", json!({}))).await.code, 405);
    assert_eq!(client.post("/version", json!({})).await.code, 405);
}

#[tokio::test(start_paused = true)]
async fn string_data_of_secrets_is_encoded() {
    let client = Client::of(&server());
    let secret = json!({ "metadata": { "name": "s" }, "stringData": { "password": "hunter2" } });
    let stored = client.post("/api/v1/namespaces/default/secrets", secret).await.json();
    assert_eq!(
        (&stored["data"], stored.get("stringData")),
        (&json!({ "password": "aHVudGVyMg==" }), None)
    );
}

#[tokio::test(start_paused = true)]
async fn workloads_are_scaled_through_their_subresource() {
    let server = server();
    let client = Client::of(&server);
    let deployment = json!({ "metadata": { "name": "d" }, "spec": { "replicas": 1, "selector": { "matchLabels": { "app": "d" } } } });
    server.create("apps/v1/deployments", "default", deployment).unwrap();
    let uri = "/apis/apps/v1/namespaces/default/deployments/d/scale";
    let scaled = client
        .patch(
            uri,
            "application/merge-patch+json",
            json!({ "spec": { "replicas": 3 } }),
        )
        .await
        .json();
    assert_eq!(
        (
            &scaled["kind"],
            &scaled["spec"]["replicas"],
            &scaled["status"]["selector"]
        ),
        (&json!("Scale"), &json!(3), &json!("app=d"))
    );
    let stored = server.get("apps/v1/deployments", "default", "d").unwrap().unwrap();
    assert_eq!(
        (&stored["spec"]["replicas"], &stored["metadata"]["generation"]),
        (&json!(3), &json!(2))
    );
    let mut old = client.get(uri).await.json();
    old["metadata"]["resourceVersion"] = json!("5");
    assert_eq!(client.put(uri, old).await.code, 409);
    let negative = client
        .patch(
            uri,
            "application/merge-patch+json",
            json!({ "spec": { "replicas": -1 } }),
        )
        .await;
    assert_eq!(negative.code, 422);
    assert_eq!(client.get("/api/v1/namespaces/default/pods/p/scale").await.code, 404);
}
