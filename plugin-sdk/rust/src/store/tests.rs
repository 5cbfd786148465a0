use serde_json::{Value, json};

use super::*;
use crate::failure::Failure;
use crate::testing::Cache;

fn pod(namespace: &str, name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": namespace, "name": name, "labels": { "app": name } },
        "spec": { "nodeName": node },
    })
}

/// Seven pods in two namespaces, on two nodes, with an index by node.
fn seven_pods() -> Cache {
    let cache = Cache::new();
    cache.source("pods", "v1", "Pod");
    for number in 0..7 {
        let namespace = if number < 5 { "a" } else { "b" };
        cache.put(pod(namespace, &format!("pod-{number}"), ["n0", "n1"][number % 2]));
    }
    cache.index("pods", "node", |object| {
        vec![object["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()]
    });
    cache
}

fn names(query: Query<'_>) -> Vec<String> {
    let name = |item: Result<Item<Value>>| {
        item.expect("an object").object["metadata"]["name"]
            .as_str()
            .map(str::to_owned)
    };
    query.objects().filter_map(name).collect()
}

#[test]
fn a_query_reads_every_page() {
    let cache = seven_pods();
    for bytes in [1, 300, 500, 100_000] {
        cache.page_bytes_max(bytes);
        assert_eq!(names(list("pods")).len(), 7, "with pages of {bytes} bytes");
        assert_eq!(names(by_index("pods", "node", "n1")), ["pod-1", "pod-3", "pod-5"]);
    }
}

#[test]
fn a_limit_holds_across_pages() {
    let cache = seven_pods();
    cache.page_bytes_max(300);
    for limit in 0..9_u32 {
        assert_eq!(
            names(list("pods").limit(limit)).len(),
            usize::try_from(limit.min(7)).expect("it is small")
        );
    }
}

#[test]
fn a_query_selects_by_namespace_and_label_and_shows_fields() {
    let _cache = seven_pods();
    assert_eq!(names(list("pods").namespace("b")), ["pod-5", "pod-6"]);
    assert_eq!(names(list("pods").labels("app in (pod-2, pod-6)")), ["pod-2", "pod-6"]);
    let shown: Vec<Item<Value>> = list("pods")
        .fields(["/spec/nodeName"])
        .limit(1)
        .objects()
        .collect::<Result<_>>()
        .expect("an object");
    assert_eq!(
        shown[0].object,
        json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "nodeName": "n0" } })
    );
}

#[test]
fn a_failed_query_returns_one_error() {
    let _cache = seven_pods();
    let answers: Vec<Result<Item<Value>>> = by_index("pods", "zone", "x").objects().collect();
    assert!(
        matches!(answers.as_slice(), [Err(Failure::Permanent(_))]),
        "{answers:?}"
    );
    let answers: Vec<Result<Item<Value>>> = list("nodes").objects().collect();
    assert!(
        matches!(answers.as_slice(), [Err(Failure::Permanent(_))]),
        "{answers:?}"
    );
}

#[test]
fn an_object_of_another_shape_does_not_end_the_iteration() {
    #[derive(Debug, serde::Deserialize)]
    struct OnNode1 {
        #[serde(rename = "spec")]
        _spec: Spec,
    }
    #[derive(Debug, serde::Deserialize)]
    struct Spec {
        #[serde(rename = "nodeName")]
        _node: u32,
    }
    let cache = seven_pods();
    let mut fitting = pod("a", "pod-1", "");
    fitting["spec"]["nodeName"] = json!(7);
    cache.put(fitting);
    let answers: Vec<Result<Item<OnNode1>>> = list("pods").namespace("a").objects().collect();
    let fits: Vec<bool> = answers.iter().map(Result::is_ok).collect();
    assert_eq!(fits, [false, true, false, false, false]);
}

#[test]
fn a_missing_object_is_none_but_not_an_error() {
    let cache = seven_pods();
    let pods = SourceId(0);
    let found: Option<Value> = get(pods, "a", "pod-0").expect("the store answers");
    assert_eq!(found.expect("it is there")["spec"]["nodeName"], "n0");
    assert_eq!(get::<Value>(pods, "a", "pod-9"), Ok(None));
    cache.refuse(Some(HostError {
        code: ErrorCode::NotReady,
        message: "not yet".into(),
    }));
    assert_eq!(get::<Value>(pods, "a", "pod-0"), Err(Failure::retryable("not yet")));
}

#[test]
fn an_index_lists_its_keys_and_values() {
    let cache = seven_pods();
    let keys: Vec<String> = index_keys("pods", "node", "n1")
        .expect("the store answers")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(keys, ["a/pod-1", "a/pod-3", "b/pod-5"]);
    let values = |index| index_values("pods", index).collect::<Result<Vec<_>, _>>();
    assert_eq!(values("node").expect("the store answers"), ["n0", "n1"]);
    cache.index("pods", "number", |object| {
        let pod = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        (0..1_000).map(|number| format!("{pod}/{number:03}")).collect()
    });
    assert_eq!(values("number").expect("the store answers").len(), 7_000);
    assert!(values("zone").is_err());
}

#[test]
fn source_details_are_requested_once() {
    let cache = seven_pods();
    let pods = sources("pods").expect("the informer is there")[0];
    assert_eq!(source(pods).expect("the source is there").kind, "Pod");
    cache.refuse(Some(HostError {
        code: ErrorCode::Unavailable,
        message: "asked again".into(),
    }));
    assert_eq!(source(pods).expect("it is remembered").informer, "pods");
    assert!(source(SourceId(7)).is_err());
}
