use serde_json::{Value, json};

use super::*;
use crate::event::Reason;
use crate::testing::Cache;

const SINCE: &str = "2026-01-01T00:00:00Z";

/// A website in the cache, and a call about it.
struct Call {
    cache: Cache,
    event: Event,
}

impl Call {
    fn about(object: Value) -> Self {
        let cache = Cache::new();
        let source = cache.put(object);
        let event = Event {
            source,
            namespace: "web".to_owned(),
            name: "a".to_owned(),
            uid: "1".to_owned(),
            resource_version: "7".to_owned(),
            reason: Reason::Watch,
            attempt: 0,
        };
        Self { cache, event }
    }

    /// Sets the status, and makes the write. Returns the document that was sent.
    fn set(&self, status: &Value) -> Option<Value> {
        set_status(&self.event, status).expect("it is valid");
        self.cache.make_deferred().expect("the object is as the call says");
        let writes = self.cache.take_writes();
        assert!(
            writes
                .iter()
                .all(|write| write.resource == "example.com/v1/websites/status")
        );
        writes.into_iter().next().map(|write| write.document)
    }
}

/// A website with these conditions.
fn website(conditions: Value) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Website",
        "metadata": { "namespace": "web", "name": "a", "uid": "1", "resourceVersion": "7", "generation": 3 },
        "status": { "url": "http://a", "observedGeneration": 3, "conditions": conditions },
    })
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "", "observedGeneration": 3,
        "lastTransitionTime": SINCE,
    })
}

#[test]
fn a_status_that_the_object_has_is_not_written() {
    let call = Call::about(website(json!([condition("Ready", "True", "Deployed")])));
    let ready = Condition::new("Ready", true, "Deployed");
    assert_eq!(
        call.set(&json!({ "url": "http://a", "old": null, "conditions": [ready] })),
        None
    );
    assert_eq!(call.set(&json!({ "conditions": [] })), None);
    let written = call.set(&json!({ "url": "http://b" }));
    let status = json!({ "url": "http://b", "observedGeneration": 3 });
    assert_eq!(
        written,
        Some(json!({ "metadata": { "resourceVersion": "7" }, "status": status }))
    );
}

#[test]
fn conditions_are_merged_by_type() {
    let theirs = json!({ "type": "Theirs", "status": "True" });
    let call = Call::about(website(json!([condition("Ready", "True", "Deployed"), theirs])));
    let given = [
        Condition::new("Ready", true, "RolledOut").message("3 replicas"),
        Condition::new("Paused", ConditionStatus::Unknown, "NotAsked"),
    ];
    let mut written = call.set(&json!({ "conditions": given })).expect("it differs");
    let conditions = written["status"]["conditions"].take();
    let mut ready = condition("Ready", "True", "RolledOut");
    ready["message"] = json!("3 replicas");
    assert_eq!((&conditions[0], &conditions[1]), (&ready, &theirs));
    let paused = &conditions[2];
    assert_eq!(
        (&paused["type"], &paused["status"]),
        (&json!("Paused"), &json!("Unknown"))
    );
    assert_eq!(paused["observedGeneration"], 3);
}

#[test]
fn the_transition_time_changes_with_the_status_only() {
    let call = Call::about(website(json!([condition("Ready", "True", "Deployed")])));
    let failed = Condition::new("Ready", false, "Failed");
    let written = call.set(&json!({ "conditions": [failed] })).expect("it differs");
    let time = &written["status"]["conditions"][0]["lastTransitionTime"];
    let time = humantime::parse_rfc3339(time.as_str().expect("a text")).expect("a time");
    let age = SystemTime::now().duration_since(time).expect("it is not in the future");
    assert!(age.as_secs() < 60, "{age:?}");
}

#[test]
fn an_object_that_has_changed_is_a_conflict() {
    let call = Call::about(website(json!([])));
    call.cache.put(website(json!([])));
    set_status(&call.event, &json!({ "url": "http://b" })).expect("it is valid");
    let error = call.cache.make_deferred().expect_err("it has changed");
    assert!(error.is_conflict(), "{error}");
}

#[test]
fn an_object_that_is_gone_has_no_status() {
    let mut call = Call::about(website(json!([])));
    call.event.name = "gone".to_owned();
    assert_eq!(call.set(&json!({ "url": "http://b" })), None);
}

#[test]
fn an_invalid_status_is_a_permanent_failure() {
    let call = Call::about(website(json!([])));
    for (status, message) in [
        (json!([]), "the status is not a JSON object"),
        (json!({ "conditions": {} }), "the conditions of a status are not a list"),
        (
            json!({ "conditions": [{ "type": "Ready", "status": "True" }] }),
            r#"a condition has no reason: {"status":"True","type":"Ready"}"#,
        ),
        (
            json!({ "conditions": [{ "type": "Ready", "status": "true", "reason": "Deployed" }] }),
            r#"the status of the condition "Ready" is "true": write "True", "False" or "Unknown""#,
        ),
    ] {
        assert_eq!(set_status(&call.event, &status), Err(Failure::permanent(message)));
    }
}
