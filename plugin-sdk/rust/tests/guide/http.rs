//! The code of `docs/guides/http.md`, as a plugin with its test.

use informant_plugin_sdk::prelude::*;

struct Notify;

impl Plugin for Notify {
    fn init(_: Init) -> Result<Self> {
        Ok(Notify)
    }
}

impl EventHandler for Notify {
    fn on_upsert(&mut self, event: &Event, _: Value) -> Result<Action> {
        http::post("https://hooks.example.com/services/T000/B000")
            .header("Idempotency-Key", event.id())
            .json(&json!({ "text": format!("{event} is failing") }))
            .send()?
            .ensure_ok()?;
        Ok(Action::done())
    }
}

export!(Notify: events);

mod tests {
    use informant_plugin_sdk::testing::Driver;

    use super::*;

    #[test]
    fn a_busy_webhook_delays_the_event() {
        let mut driver = Driver::<Notify>::start(json!({})).unwrap();
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": "a" } });
        driver.cache().serve_http(|request| {
            assert_eq!(request.url, "https://hooks.example.com/services/T000/B000");
            (429, vec![("Retry-After".into(), "30".into())], "")
        });
        assert!(matches!(driver.put(pod), Err(Failure::RetryAfter(..))));
        assert_eq!(driver.cache().take_requests().len(), 1);
    }
}
