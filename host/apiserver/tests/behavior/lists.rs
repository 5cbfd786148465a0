//! Lists: versions, pages, selectors, forms.

use http::header;
use informant_apiserver::{ApiServer, Options};
use serde_json::json;

use crate::support::{Client, PODS, pod, server};

/// Five pods, revisions 5 to 9 (the four namespaces came first).
fn with_pods(server: &ApiServer) {
    for name in ["a", "b", "c", "d", "e"] {
        server
            .create("v1/pods", "default", pod(name, json!({ "app": name })))
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_carries_its_version_and_items_without_type() {
    let server = server();
    with_pods(&server);
    let answer = Client::of(&server).get("/api/v1/pods").await;
    assert_eq!(
        (answer.code, answer.header(header::CONTENT_TYPE)),
        (200, "application/json")
    );
    let list = answer.json();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PodList"), &json!("v1")));
    assert_eq!(list["metadata"], json!({ "resourceVersion": "9" }));
    assert_eq!(answer.names(), ["a", "b", "c", "d", "e"]);
    assert_eq!(list["items"][0].get("kind"), None);
    assert_eq!(list["items"][0].get("apiVersion"), None);
}

#[tokio::test(start_paused = true)]
async fn items_of_custom_resources_carry_their_type() {
    let server = server();
    server.register(informant_apiserver::Kind::custom(
        "example.com",
        "v1",
        "Widget",
        "widgets",
        true,
    ));
    server
        .create(
            "example.com/v1/widgets",
            "default",
            json!({ "metadata": { "name": "w" } }),
        )
        .unwrap();
    let list = Client::of(&server).get("/apis/example.com/v1/widgets").await.json();
    assert_eq!(
        (&list["kind"], &list["items"][0]["kind"]),
        (&json!("WidgetList"), &json!("Widget"))
    );
    assert_eq!(list["items"][0]["apiVersion"], "example.com/v1");
}

#[tokio::test(start_paused = true)]
async fn pages_stay_at_the_revision_of_the_first() {
    let server = server();
    with_pods(&server);
    let client = Client::of(&server);
    let first = client.get(&format!("{PODS}?limit=2")).await;
    assert_eq!(first.names(), ["a", "b"]);
    assert_eq!(first.json()["metadata"]["remainingItemCount"], 3);

    server.delete("v1/pods", "default", "c").unwrap();
    server.create("v1/pods", "default", pod("f", json!({}))).unwrap();

    let next = first.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let second = client.get(&format!("{PODS}?limit=2&continue={next}")).await;
    assert_eq!(second.names(), ["c", "d"]);
    assert_eq!(second.json()["metadata"]["resourceVersion"], "9");
    let next = second.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let last = client.get(&format!("{PODS}?limit=2&continue={next}")).await;
    assert_eq!(last.names(), ["e"]);
    assert_eq!(last.json()["metadata"], json!({ "resourceVersion": "9" }));
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_is_410_with_an_inconsistent_continue_token() {
    let server = server();
    with_pods(&server);
    let client = Client::of(&server);
    let first = client.get(&format!("{PODS}?limit=2")).await.json();
    server.delete("v1/pods", "default", "c").unwrap();
    server.faults().compact();

    let next = first["metadata"]["continue"].as_str().unwrap();
    let expired = client.get(&format!("{PODS}?limit=2&continue={next}")).await;
    assert!(
        expired
            .failure()
            .starts_with("410 Expired: The provided continue parameter is too old"),
        "{}",
        expired.text
    );
    let next = expired.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = client.get(&format!("{PODS}?limit=5&continue={next}")).await;
    assert_eq!(rest.names(), ["d", "e"]);
    assert_eq!(rest.json()["metadata"]["resourceVersion"], "10");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_continue_token_is_refused() {
    let answer = Client::of(&server()).get(&format!("{PODS}?continue=bm90LW91cnM")).await;
    insta::assert_snapshot!(answer.failure(), @"400 BadRequest: invalid continue token: continue key is not valid: it was not made by this server");
}

#[tokio::test(start_paused = true)]
async fn versions_mean_what_the_api_conventions_say() {
    let server = server();
    with_pods(&server);
    server
        .patch(
            "v1/pods",
            "default",
            "a",
            json!({ "metadata": { "labels": { "app": "z" } } }),
        )
        .unwrap();
    let client = Client::of(&server);
    let version = async |query: &str| {
        let answer = client.get(&format!("{PODS}?{query}")).await;
        match answer.code {
            200 => format!(
                "{} of {}",
                answer.names().len(),
                answer.json()["metadata"]["resourceVersion"]
            ),
            _ => answer.failure(),
        }
    };
    let mut seen = Vec::new();
    for query in [
        "",
        "resourceVersion=0",
        "resourceVersion=0&limit=2",
        "resourceVersion=6",
        "resourceVersion=6&resourceVersionMatch=NotOlderThan",
        "resourceVersion=6&limit=1",
        "resourceVersion=6&limit=1&resourceVersionMatch=NotOlderThan",
        "resourceVersion=6&resourceVersionMatch=Exact",
        "resourceVersion=99",
        "resourceVersion=99&resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersionMatch=Exact",
        "resourceVersion=x",
        "sendInitialEvents=true",
    ] {
        seen.push(format!("{query} -> {}", version(query).await));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
     -> 5 of "10"
    resourceVersion=0 -> 5 of "10"
    resourceVersion=0&limit=2 -> 5 of "10"
    resourceVersion=6 -> 5 of "10"
    resourceVersion=6&resourceVersionMatch=NotOlderThan -> 5 of "10"
    resourceVersion=6&limit=1 -> 1 of "6"
    resourceVersion=6&limit=1&resourceVersionMatch=NotOlderThan -> 1 of "10"
    resourceVersion=6&resourceVersionMatch=Exact -> 2 of "6"
    resourceVersion=99 -> 504 Timeout: Timeout: Too large resource version: 99, current: 10
    resourceVersion=99&resourceVersionMatch=Exact -> 504 Timeout: Timeout: Too large resource version: 99, current: 10
    resourceVersion=0&resourceVersionMatch=Exact -> 422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch "exact" is forbidden for resourceVersion "0"
    resourceVersionMatch=Exact -> 422 Invalid: ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided
    resourceVersion=x -> 400 BadRequest: invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax
    sendInitialEvents=true -> 422 Invalid: ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_too_large_version_is_named_in_the_causes() {
    let status = Client::of(&server())
        .get(&format!("{PODS}?resourceVersion=99"))
        .await
        .json();
    insta::assert_snapshot!(status["details"], @r#"{"causes":[{"message":"Too large resource version","reason":"ResourceVersionTooLarge"}],"retryAfterSeconds":1}"#);
}

#[tokio::test(start_paused = true)]
async fn an_exact_list_before_a_compaction_is_410() {
    let server = server();
    with_pods(&server);
    server.faults().compact_before(8);
    let client = Client::of(&server);
    let answer = client
        .get(&format!("{PODS}?resourceVersion=7&resourceVersionMatch=Exact"))
        .await;
    assert_eq!(
        answer.failure(),
        "410 Expired: The resourceVersion for the provided list is too old."
    );
    let kept = client
        .get(&format!("{PODS}?resourceVersion=8&resourceVersionMatch=Exact"))
        .await;
    assert_eq!(kept.names(), ["a", "b", "c", "d"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_watch_cache_pages_at_zero() {
    let server = ApiServer::new(Options {
        paging_at_zero: true,
        ..Options::default()
    });
    with_pods(&server);
    let first = Client::of(&server)
        .get(&format!("{PODS}?limit=2&resourceVersion=0"))
        .await;
    assert_eq!(first.names(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn selectors_choose_and_hide_how_much_is_left() {
    let server = server();
    with_pods(&server);
    server
        .create("v1/pods", "kube-system", pod("a", json!({ "app": "a" })))
        .unwrap();
    let client = Client::of(&server);
    assert_eq!(
        client.get("/api/v1/pods?labelSelector=app%20in%20(a,c)").await.names(),
        ["a", "c", "a"]
    );
    assert_eq!(client.get("/api/v1/namespaces/kube-system/pods").await.names(), ["a"]);
    assert_eq!(
        client
            .get("/api/v1/pods?fieldSelector=metadata.namespace!=default")
            .await
            .names(),
        ["a"]
    );
    assert_eq!(
        client
            .get(&format!("{PODS}?fieldSelector=status.phase=Pending,metadata.name=b"))
            .await
            .names(),
        ["b"]
    );
    assert_eq!(
        client
            .get(&format!("{PODS}?fieldSelector=spec.nodeName!=n1"))
            .await
            .names(),
        [""; 0]
    );
    let page = client.get(&format!("{PODS}?labelSelector=app!=c&limit=3")).await;
    assert_eq!(page.names(), ["a", "b", "d"]);
    assert_eq!(page.json()["metadata"].get("remainingItemCount"), None);
}

/// The selector of one half of all namespaces; that of `default` is in the second one.
fn half(second: bool) -> &'static str {
    match second {
        false => "shardRange(object.metadata.namespace,%20'0x0',%20'0x8000000000000000')",
        true => "shardRange(object.metadata.namespace,%20'0x8000000000000000',%20'0x10000000000000000')",
    }
}

#[tokio::test(start_paused = true)]
async fn shard_selectors_choose_by_namespace_if_supported() {
    for is_supported in [false, true] {
        let server = ApiServer::new(Options {
            sharded_list_and_watch: is_supported,
            ..Options::default()
        });
        with_pods(&server);
        let client = Client::of(&server);
        let of = |second| format!("/api/v1/pods?shardSelector={}", half(second));
        let (first, second) = (client.get(&of(false)).await, client.get(&of(true)).await);
        assert_eq!(second.names(), ["a", "b", "c", "d", "e"]);
        assert_eq!(first.names().is_empty(), is_supported);
        let info = first.json()["metadata"].get("shardInfo").cloned();
        assert_eq!(info.is_some(), is_supported);
        let invalid = client.get("/api/v1/pods?shardSelector=x").await;
        assert_eq!(invalid.code, if is_supported { 400 } else { 200 });
    }
}

#[tokio::test(start_paused = true)]
async fn unsupported_field_selectors_are_refused() {
    let client = Client::of(&server());
    let pods = client.get("/api/v1/pods?fieldSelector=spec.image=x").await.failure();
    let maps = client.get("/api/v1/configmaps?fieldSelector=data=x").await.failure();
    let labels = client.get("/api/v1/pods?labelSelector=a%20in").await;
    assert_eq!(labels.code, 400);
    insta::assert_snapshot!(format!("{pods}\n{maps}"), @r#"
    400 BadRequest: field label not supported: spec.image
    400 BadRequest: "data" is not a known field selector: only "metadata.name", "metadata.namespace"
    "#);
}

#[tokio::test(start_paused = true)]
async fn metadata_only_can_be_requested() {
    let server = server();
    with_pods(&server);
    let accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = Client::of(&server).accepting(PODS, accept).await.json();
    assert_eq!(
        (&list["kind"], &list["apiVersion"]),
        (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1"))
    );
    let item = &list["items"][0];
    assert_eq!(
        (&item["kind"], &item["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("a"))
    );
    assert_eq!(item.get("spec"), None);
}

#[tokio::test(start_paused = true)]
async fn an_unsupported_media_type_is_406() {
    let answer = Client::of(&server())
        .accepting(PODS, "application/vnd.kubernetes.protobuf")
        .await;
    assert_eq!(
        answer.failure(),
        "406 NotAcceptable: only the following media types are accepted: application/json"
    );
}

#[tokio::test(start_paused = true)]
async fn a_long_list_comes_in_frames_and_is_whole() {
    let server = server();
    for number in 0..200 {
        let object = json!({ "metadata": { "name": format!("p{number:03}") }, "data": { "text": "x".repeat(5_000) } });
        server.create("v1/configmaps", "default", object).unwrap();
    }
    let client = Client::of(&server);
    let list = client.get("/api/v1/configmaps").await;
    assert_eq!(list.names().len(), 200);
    assert_eq!(list.names()[199], "p199");
}

#[tokio::test(start_paused = true)]
async fn the_state_at_a_revision_can_be_asked_for_directly() {
    let server = server();
    with_pods(&server);
    server.delete("v1/pods", "default", "a").unwrap();
    let names = |revision| -> Vec<String> {
        let pods = server.list_at("v1/pods", revision).unwrap();
        pods.iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(6), ["a", "b"]);
    assert_eq!(names(10), ["b", "c", "d", "e"]);
    assert_eq!(
        server
            .writes_after("v1/pods", 8)
            .unwrap()
            .iter()
            .map(|it| it.kind)
            .collect::<Vec<_>>(),
        ["ADDED", "DELETED"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_last_page_of_a_selection_may_be_empty() {
    let server = server();
    with_pods(&server);
    let client = Client::of(&server);
    let first = client.get(&format!("{PODS}?labelSelector=app=a&limit=1")).await;
    assert_eq!(first.names(), ["a"]);
    let next = first.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let last = client
        .get(&format!("{PODS}?labelSelector=app=a&limit=1&continue={next}"))
        .await;
    assert_eq!(last.names(), [""; 0]);
    assert_eq!(last.json()["metadata"], json!({ "resourceVersion": "9" }));
}
