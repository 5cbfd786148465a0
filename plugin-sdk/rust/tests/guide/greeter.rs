//! The first plugin of the guide, with its test.

use informant_plugin_sdk::prelude::*;

struct Greeter;

impl Plugin for Greeter {
    fn init(_: Init) -> Result<Self> {
        Ok(Greeter)
    }
}

impl EventHandler for Greeter {
    type Object = Value;

    fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
        info!("{event} is {}", pod["status"]["phase"]);
        Ok(Action::done())
    }
}

export!(Greeter: events);

#[cfg(test)]
mod tests {
    use super::Greeter;
    use informant_plugin_sdk::testing::Driver;
    use serde_json::json;

    #[test]
    fn a_pod_is_greeted_with_its_phase() {
        let mut driver = Driver::<Greeter>::start(json!({})).unwrap();
        let metadata = json!({ "namespace": "web", "name": "a" });
        let status = json!({ "phase": "Running" });
        driver
            .put(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status }))
            .unwrap();
        assert_eq!(driver.take_log(), [r#"info: web/a is "Running""#]);
    }
}
