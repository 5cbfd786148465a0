use std::time::Duration;

use serde_json::json;

use crate::http::ErrorCode;
use crate::prelude::*;
use crate::testing::{Cache, Driver};

/// Notifies a webhook of each object.
struct Notifier;

impl Plugin for Notifier {
    fn init(_: Init) -> Result<Self> {
        let denied = http::get("https://hooks.example.com/").send().unwrap_err();
        assert!(denied.is_denied() && denied.is_lasting());
        Ok(Self)
    }
}

impl EventHandler<Value> for Notifier {
    fn on_upsert(&mut self, event: &Event, _: Value) -> Result<Action> {
        let answer = http::post("https://hooks.example.com/services/T000?key=secret")
            .header("Idempotency-Key", event.id())
            .json(&json!({ "text": format!("{event} changed") }))
            .send()?
            .ensure_ok()?;
        info!("{} {}", answer.status(), answer.json::<Value>()?["id"]);
        Ok(Action::done())
    }
}

crate::export!(Notifier: events);

fn pod() -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": "a", "uid": "u" } })
}

#[test]
fn a_test_answers_the_requests_of_a_plugin() {
    let mut driver = Driver::<Notifier>::start(json!({})).unwrap();
    assert!(
        matches!(driver.put(pod()), Err(Failure::Permanent(_))),
        "denied until it is served"
    );
    driver
        .cache()
        .serve_http(|_| (201, vec![("ETag".to_owned(), "7".to_owned())], r#"{"id":4}"#));
    driver.put(pod()).unwrap();
    assert_eq!(driver.take_log(), ["info: 201 4"]);
    let [request] = &driver.cache().take_requests()[..] else {
        panic!("one request was sent")
    };
    assert_eq!(
        (request.method.as_str(), request.body.as_slice()),
        ("POST", &br#"{"text":"web/a changed"}"#[..])
    );
    let (name, value) = &request.headers[0];
    assert_eq!(name, "Idempotency-Key");
    assert!(value.starts_with("u/"), "{value}");
}

#[test]
fn ensure_ok_turns_a_status_into_its_failure() {
    let cache = Cache::new();
    let failure = |status: u16, retry_after: Option<&str>| {
        let headers = retry_after.map(|value| ("Retry-After".to_owned(), value.to_owned()));
        let headers: Vec<_> = headers.into_iter().collect();
        cache.serve_http(move |_| (status, headers.clone(), ""));
        let answer = http::get("https://hooks.example.com/services/T000?key=secret")
            .send()
            .unwrap();
        answer.ensure_ok().map(|answer| answer.status())
    };
    let message = |status: u16| format!("https://hooks.example.com answered {status}");
    for status in [200, 204, 299] {
        assert_eq!(failure(status, None), Ok(status));
    }
    for status in [429, 503] {
        let after = |seconds| Err(Failure::retry_after(message(status), Duration::from_secs(seconds)));
        assert_eq!(failure(status, Some("7")), after(7));
        assert_eq!(
            failure(status, Some("Sun, 06 Nov 1994 08:49:37 GMT")),
            after(0),
            "a past date"
        );
        assert_eq!(failure(status, None), after(30));
        assert_eq!(failure(status, Some("soon")), after(30));
    }
    for status in [408, 425, 500, 502, 599] {
        assert_eq!(failure(status, Some("30")), Err(Failure::retryable(message(status))));
    }
    for status in [301, 304, 400, 401, 404, 410] {
        assert_eq!(failure(status, None), Err(Failure::permanent(message(status))));
    }
}

#[test]
fn an_invalid_request_is_not_sent() {
    let cache = Cache::new();
    cache.serve_http(|_| (200, Vec::new(), ""));
    let not_json = std::collections::BTreeMap::from([(vec![1], 2)]);
    let error = http::post("https://hooks.example.com")
        .json(&not_json)
        .send()
        .unwrap_err();
    assert_eq!(error.code, ErrorCode::Invalid);
    assert!(cache.take_requests().is_empty());
    let failure = Failure::from(error);
    assert!(matches!(failure, Failure::Permanent(_)), "{failure}");
}

#[test]
fn a_response_shows_its_parts_and_hides_its_headers() {
    let cache = Cache::new();
    cache.serve_http(|_| {
        (
            200,
            vec![("Set-Cookie".to_owned(), "secret".to_owned())],
            b"\xff".to_vec(),
        )
    });
    let answer = http::get("https://hooks.example.com:8443?a=b").send().unwrap();
    assert!(answer.is_ok());
    assert_eq!(answer.header("set-COOKIE"), Some("secret"));
    assert_eq!(answer.bytes(), b"\xff");
    assert!(answer.text().is_err());
    let shown = format!("{answer:?}");
    assert!(
        shown.contains(r#"origin: "https://hooks.example.com:8443""#) && !shown.contains("secret"),
        "{shown}"
    );
}
