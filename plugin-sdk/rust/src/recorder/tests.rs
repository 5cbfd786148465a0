use serde_json::json;

use crate::host_error::ErrorCode;
use crate::prelude::*;
use crate::testing::{Cache, Driver};

/// Records an Event about each object.
struct Records;

impl Plugin for Records {
    fn describe(_: Describe) -> Result<Manifest> {
        let refused = recorder::event(&pod("a"), "Seen").record();
        assert_eq!(refused.unwrap_err().code, ErrorCode::NotHere);
        Ok(Manifest::new().events(Events::of("v1", "Pod")))
    }

    fn init(_: Init) -> Result<Self> {
        let refused = recorder::event(&pod("a"), "Seen").record();
        assert_eq!(refused.unwrap_err().code, ErrorCode::NotHere);
        Ok(Self)
    }
}

impl EventHandler<Value> for Records {
    fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
        recorder::event(event, "Seen").record()?;
        let node = recorder::object("v1", "Node", "", "n1").in_cluster("west");
        recorder::event(&pod, "Crashing")
            .warning()
            .action("Restart")
            .note(format_args!("{event} restarts"))
            .related(node)
            .record()?;
        match event.name.as_str() {
            "fails" => Err(Failure::retryable("not yet")),
            _ => Ok(Action::done()),
        }
    }
}

crate::export!(Records: events);

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "web", "name": name, "uid": format!("uid-{name}") },
    })
}

#[test]
fn events_are_kept_with_a_success_only() {
    let mut driver = Driver::<Records>::start(json!({})).unwrap();
    driver.put(pod("fails")).unwrap_err();
    assert!(driver.cache().take_events().is_empty());
    driver.put(pod("a")).unwrap();
    driver.put(pod("fails")).unwrap_err();
    let events: Vec<String> = driver.cache().take_events().iter().map(ToString::to_string).collect();
    assert_eq!(
        events,
        ["Normal Seen Pod web/a: ", "Warning Crashing Pod web/a: web/a restarts"]
    );
    assert!(driver.cache().take_events().is_empty());
}

#[test]
fn an_event_has_defaults_and_what_it_is_given() {
    let mut driver = Driver::<Records>::start(json!({})).unwrap();
    driver.put_in_cluster("east", pod("a")).unwrap();
    let [seen, crashing] = driver.cache().take_events().try_into().expect("two Events");
    assert_eq!(
        (seen.event_type, seen.action.as_str(), seen.note.as_str()),
        ("Normal", "Seen", "")
    );
    assert_eq!(
        (seen.regarding.to_string(), seen.related),
        ("Pod web/a".to_owned(), None)
    );
    assert_eq!(
        (crashing.event_type, crashing.action.as_str(), crashing.note.as_str()),
        ("Warning", "Restart", "web/a restarts")
    );
    for regarding in [&seen.regarding, &crashing.regarding] {
        let members = [&regarding.cluster, &regarding.api_version, &regarding.uid];
        assert_eq!(members, ["east", "v1", "uid-a"]);
    }
    let node = crashing.related.expect("there is one");
    assert_eq!(
        (node.to_string(), node.cluster.as_str()),
        ("Node n1".to_owned(), "west")
    );
}

#[test]
fn an_object_that_was_read_is_of_its_cluster() {
    let cache = Cache::new();
    cache.put_in_cluster("west", pod("a"));
    for item in store::list("pods").objects::<Value>() {
        recorder::event(&item.unwrap(), "Seen").record().unwrap();
    }
    let events = cache.take_events();
    assert_eq!(events[0].regarding.cluster, "west");
}

#[test]
fn an_event_that_informant_would_refuse_is_refused() {
    let cache = Cache::new();
    let about = recorder::object("v1", "Pod", "web", "a");
    let code = |event: recorder::NewEvent| event.record().unwrap_err().code;
    for word in ["", "seen", "Seen it", &"S".repeat(129)] {
        assert_eq!(code(recorder::event(&about, word)), ErrorCode::Invalid, "{word:?}");
        assert_eq!(
            code(recorder::event(&about, "Seen").action(word)),
            ErrorCode::Invalid,
            "{word:?}"
        );
    }
    let nameless = recorder::event(&json!({ "apiVersion": "v1", "kind": "Pod" }), "Seen").record();
    assert!(nameless.unwrap_err().message.contains("has no metadata.name"));
    for _ in 0..100 {
        recorder::event(&about, "Seen").record().unwrap();
    }
    assert_eq!(code(recorder::event(&about, "Seen")), ErrorCode::TooLarge);
    assert_eq!(cache.take_events().len(), 100);
    recorder::event(&about, "Seen").note("é".repeat(600)).record().unwrap();
    assert_eq!(cache.take_events()[0].note.len(), 1_024);
}
