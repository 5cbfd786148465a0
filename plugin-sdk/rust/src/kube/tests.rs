use serde_json::{Value, json};

use super::*;
use crate::failure::Failure;
use crate::testing::Cache;

fn pod(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": name, "uid": name } })
}

#[test]
fn writes_change_the_cache_and_are_recorded() {
    let cache = Cache::new();
    let pods = collection("v1/pods", "web");
    let created: Value = create(&pods).object(&pod("a")).unwrap().decode().unwrap();
    assert_eq!(created["metadata"]["name"], "a");
    let a = object("v1/pods", "web", "a");
    patch(&a)
        .merge(&json!({ "metadata": { "uid": "a", "labels": { "x": "1" } } }))
        .unwrap();
    patch(&a.clone().status())
        .merge(&json!({ "status": { "phase": "Running" } }))
        .unwrap();
    let now: Value = get(&a).unwrap().unwrap().decode().unwrap();
    assert_eq!(
        (&now["metadata"]["labels"]["x"], &now["status"]["phase"]),
        (&json!("1"), &json!("Running"))
    );
    delete(&a).if_uid("a").send().unwrap();
    assert_eq!(get(&a).unwrap(), None);
    let done: Vec<_> = cache
        .take_writes()
        .into_iter()
        .map(|write| (write.verb, write.resource, write.object))
        .collect();
    let wanted = [
        ("create", "v1/pods"),
        ("patch", "v1/pods"),
        ("patch", "v1/pods/status"),
        ("delete", "v1/pods"),
    ];
    assert_eq!(
        done,
        wanted.map(|(verb, resource)| (verb, resource.to_owned(), "web/a".to_owned()))
    );
}

#[test]
fn errors_have_distinct_codes() {
    let cache = Cache::new();
    cache.put(pod("a"));
    let (a, b) = (object("v1/pods", "web", "a"), object("v1/pods", "web", "b"));
    assert!(
        create(&collection("v1/pods", "web"))
            .object(&pod("a"))
            .unwrap_err()
            .is_already_exists()
    );
    assert!(patch(&b).merge(&json!({})).unwrap_err().is_not_found());
    let other = json!({ "metadata": { "uid": "another" } });
    assert!(patch(&a).merge(&other).unwrap_err().is_conflict());
    assert!(delete(&a).if_resource_version("0").send().unwrap_err().is_conflict());
    assert!(cache.take_writes().is_empty());
}

#[test]
fn a_list_reads_every_page() {
    let cache = Cache::new();
    for name in ["a", "b", "c"] {
        cache.put(pod(name));
    }
    let names = |list: List| -> Vec<String> {
        let objects = list.objects().map(|object| object.unwrap().decode::<Value>().unwrap());
        objects
            .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(list("v1/pods").page_size(2)), ["a", "b", "c"]);
    assert!(names(list("v1/pods").namespace("db")).is_empty());
    assert!(names(list("v1/pods").labels("app=x")).is_empty());
}

/// An event about the pod `a` in a source.
fn event(source: SourceId) -> Event {
    Event {
        source,
        namespace: "web".to_owned(),
        name: "a".to_owned(),
        uid: "a".to_owned(),
        resource_version: "1".to_owned(),
        reason: crate::Reason::Watch,
        attempt: 0,
    }
}

#[test]
fn writes_go_to_the_cluster_of_call_or_event() {
    let cache = Cache::new();
    let east = cache.source_in_cluster("east", "all", "v1", "Pod");
    let west = cache.source_in_cluster("west", "all", "v1", "Pod");
    for cluster in ["east", "west"] {
        let mut object = pod("a");
        object["spec"]["in"] = json!(cluster);
        cache.put_in_cluster(cluster, object);
    }
    let a = object("v1/pods", "web", "a");
    let label = json!({ "metadata": { "labels": { "x": "1" } } });
    let write = |address: &Address| {
        let answer = patch(address).merge(&label).map(drop);
        let written: Vec<String> = cache.take_writes().into_iter().map(|write| write.cluster).collect();
        answer.map(|()| written.concat())
    };
    crate::call::about(west, || {
        assert_eq!(write(&a), Ok("west".to_owned()));
        assert_eq!(write(&of(&event(west))), Ok("west".to_owned()));
        assert_eq!(
            write(&of(&event(east))),
            Ok("east".to_owned()),
            "an event that the plugin kept"
        );
        assert_eq!(write(&a.clone().in_cluster("east")), Ok("east".to_owned()));
        assert_eq!(list("v1/pods").objects().count(), 1);
        let read: Value = get(&a).unwrap().unwrap().decode().unwrap();
        assert_eq!(read["spec"]["in"], "west");
    });
    // In a call about no source:
    assert_eq!(write(&a).expect_err("there are two clusters").code, ErrorCode::Invalid);
    assert_eq!(write(&of(&event(west))), Ok("west".to_owned()));
}

#[test]
fn an_event_whose_source_is_gone_has_no_address() {
    let _cache = Cache::new();
    let error = get(&of(&event(SourceId(7)))).expect_err("there is no such source");
    assert_eq!(error.code, ErrorCode::Unavailable, "{error}");
}

#[test]
fn options_arrive_and_a_dry_run_changes_nothing() {
    let cache = Cache::new();
    cache.put(pod("a"));
    let a = object("v1/pods", "web", "a");
    let write = || {
        patch(&a)
            .field_manager("me")
            .field_validation(FieldValidation::Strict)
            .dry_run()
    };
    write().merge(&json!({})).unwrap();
    write().force().apply(&pod("a")).unwrap();
    assert_eq!(write().force().merge(&json!({})).unwrap_err().code, ErrorCode::Invalid);
    let delete_it = || delete(&a).grace_period(std::time::Duration::ZERO).foreground();
    delete_it().if_uid("a").dry_run().send().unwrap();
    assert!(cache.take_writes().is_empty());
    delete_it().send().unwrap();
    assert_eq!(cache.take_writes().len(), 1);
}

#[test]
fn an_error_becomes_the_matching_failure() {
    let error = |code, retry_after_ms| {
        Error::from(contract::ApiError {
            code,
            status: 429,
            reason: String::new(),
            message: "a message".into(),
            retry_after_ms,
        })
    };
    let failure = |error: Error| Failure::from(error);
    assert!(matches!(failure(error(ErrorCode::Denied, 0)), Failure::Permanent(_)));
    assert!(matches!(failure(error(ErrorCode::Conflict, 0)), Failure::Retryable(_)));
    assert!(matches!(
        failure(error(ErrorCode::TooManyRequests, 1_500)),
        Failure::RetryAfter(_, after) if after.as_millis() == 1_500
    ));
}
