//! Logs the phase of each pod.

use informant_plugin_sdk::prelude::*;

#[informant::handler(api_version = "v1", kind = "Pod")]
fn on_pod(event: &Event, pod: Value) -> Result {
    info!("{event} is {}", pod["status"]["phase"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::OnPod;
    use informant_plugin_sdk::prelude::*;
    use informant_plugin_sdk::testing::Driver;

    #[test]
    fn a_pod_is_greeted_with_its_phase() {
        let mut driver = Driver::<OnPod>::start(json!({})).unwrap();
        let metadata = json!({ "namespace": "web", "name": "a" });
        let status = json!({ "phase": "Running" });
        driver.put(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": status })).unwrap();
        assert_eq!(driver.take_log(), [r#"info: web/a is "Running""#]);
    }
}
