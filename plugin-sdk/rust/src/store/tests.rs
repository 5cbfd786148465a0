use serde_json::{Value, json};

use super::*;
use crate::call;
use crate::failure::Failure;
use crate::host_error::ErrorCode;
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
    assert_eq!(get::<Value>("pods", "a", "pod-9"), Ok(None));
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
        .keys()
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
fn an_index_may_have_only_the_empty_value() {
    let cache = seven_pods();
    cache.index("pods", "zone", |_| vec![String::new()]);
    let values: Vec<_> = index_values("pods", "zone").take(3).collect();
    assert_eq!(values, [Ok(String::new())]);
}

#[test]
fn a_source_is_requested_once_in_each_call() {
    let cache = seven_pods();
    let pods = sources("pods").expect("the informer is there")[0].clone();
    assert_eq!((pods.id, pods.resource.as_str()), (SourceId(0), "v1/pods"));
    call::about(pods.id, || {
        assert_eq!(source(pods.id).expect("the source is there").kind, "Pod");
        assert_eq!(sources("pods").expect("the informer is there").len(), 1);
        cache.refuse(Some(HostError {
            code: ErrorCode::Unavailable,
            message: "asked again".into(),
        }));
        assert_eq!(source(pods.id).expect("it is remembered").state, SourceState::Live);
        assert_eq!(sources("pods").expect("they are remembered").len(), 1);
    });
    assert!(
        source(pods.id).is_err(),
        "its state may be another one in the next call"
    );
    assert_eq!(constant(pods.id).expect("it is remembered").resource, "v1/pods");
    assert!(constant(SourceId(7)).is_err());
}

/// `pods` and `nodes` in `east` and `west`, `zones` only in `west`. Pods and nodes have the same names in both.
fn two_clusters() -> Cache {
    let cache = Cache::new();
    for (number, cluster) in ["east", "west"].into_iter().enumerate() {
        cache.source_in_cluster(cluster, "pods", "v1", "Pod");
        cache.source_in_cluster(cluster, "nodes", "v1", "Node");
        cache.put_in_cluster(cluster, pod("a", "pod", &format!("n{number}")));
        let node =
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" }, "spec": { "in": cluster } });
        cache.put_in_cluster(cluster, node);
    }
    cache.source_in_cluster("west", "zones", "v1", "Zone");
    cache.index("pods", "node", |object| {
        vec![object["spec"]["nodeName"].as_str().unwrap_or_default().to_owned()]
    });
    cache
}

/// Makes `call` as in a call about an object of this cluster.
fn in_a_call_about<T>(cluster: &str, call: impl FnOnce() -> T) -> T {
    let sources = sources("pods").expect("the informer is there");
    let source = sources.iter().find(|source| source.cluster == cluster);
    call::about(source.expect("it has a source").id, call)
}

fn nodes_of(query: Query<'_>) -> Result<Vec<String>> {
    let node = |item: Result<Item<Value>>| Ok(item?.object["spec"]["nodeName"].as_str().unwrap_or_default().to_owned());
    query.objects().map(node).collect()
}

#[test]
fn queries_read_the_cluster_of_the_call() {
    let _cache = two_clusters();
    for (cluster, node) in [("east", "n0"), ("west", "n1")] {
        in_a_call_about(cluster, || {
            assert_eq!(nodes_of(list("pods")), Ok(vec![node.to_owned()]));
            assert_eq!(
                nodes_of(by_index("pods", "node", node))
                    .expect("the store answers")
                    .len(),
                1
            );
            assert_eq!(
                index_keys("pods", "node", node)
                    .keys()
                    .expect("the store answers")
                    .len(),
                1
            );
            let values: Result<Vec<_>, _> = index_values("pods", "node").collect();
            assert_eq!(values.expect("the store answers"), [node]);
            let found = get::<Value>("nodes", "", "n")
                .expect("the store answers")
                .expect("it is there");
            assert_eq!(found["spec"]["in"], cluster);
        });
    }
}

#[test]
fn queries_read_other_clusters_on_request() {
    let _cache = two_clusters();
    in_a_call_about("east", || {
        assert_eq!(
            nodes_of(list("pods").all_clusters()).expect("the store answers").len(),
            2
        );
        assert_eq!(nodes_of(list("pods").in_cluster("west")), Ok(vec!["n1".to_owned()]));
        let keys = index_keys("pods", "node", "n1");
        assert_eq!(keys.clone().keys().expect("the store answers").len(), 0);
        assert_eq!(
            keys.clone().in_cluster("west").keys().expect("the store answers").len(),
            1
        );
        assert_eq!(keys.all_clusters().keys().expect("the store answers").len(), 1);
        let values: Result<Vec<_>, _> = index_values("pods", "node").all_clusters().collect();
        assert_eq!(values.expect("the store answers"), ["n0", "n1"]);
    });
}

#[test]
fn calls_about_no_source_have_to_name_the_cluster() {
    let _cache = two_clusters();
    let refused = nodes_of(list("pods")).expect_err("there are two clusters");
    let message = "informer \"pods\" has sources in \"east\", \"west\", and this call is about no object: use \
                   all_clusters() or in_cluster(name)";
    assert_eq!(refused, Failure::permanent(message));
    assert!(index_keys("pods", "node", "n0").keys().is_err());
    assert!(index_values("pods", "node").all(|value| value.is_err()));
    assert!(get::<Value>("nodes", "", "n").is_err());
    assert_eq!(
        nodes_of(list("pods").all_clusters()).expect("the store answers").len(),
        2
    );
    assert_eq!(nodes_of(list("zones")), Ok(vec![]), "there is one cluster");
}

#[test]
fn an_informer_without_a_source_in_the_cluster_fails() {
    let _cache = two_clusters();
    let found = in_a_call_about("east", || get::<Value>("zones", "", "z"));
    assert!(matches!(found, Err(Failure::Retryable(_))), "{found:?}");
    let refused = in_a_call_about("east", || nodes_of(list("zones"))).expect_err("zones are in west");
    let message = "informer \"zones\" has no source in cluster \"east\"; it has sources in \"west\"; add the cluster \
                   to `clusters` of the informer, or use in_cluster(name) or all_clusters()";
    assert_eq!(refused, Failure::retryable(message));
}

#[test]
fn a_single_unnamed_cluster_needs_no_sources() {
    let cache = seven_pods();
    let pods = source(SourceId(0)).expect("the source is there").id;
    call::about(pods, || {
        cache.refuse(Some(HostError {
            code: ErrorCode::Unavailable,
            message: "asked for sources".into(),
        }));
        let selected = super::sources::Clusters::default().sources_of("pods");
        assert_eq!(selected, Ok(vec![]));
    });
}
