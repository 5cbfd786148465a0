//! Finalizers: a plugin that must clean up before an object is gone puts its name into `metadata.finalizers`.
//!
//! The object then stays, with a `metadata.deletionTimestamp`, until the plugin takes the name out again. The functions
//! return merge patches for the state that the event describes. If the object has changed since then, the patch is a
//! conflict, and the handler is called for the new state.
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # use serde::Deserialize;
//! # fn clean_up(_: &Event) -> Result { Ok(()) }
//! #[derive(Deserialize, Projection)]
//! #[serde(rename_all = "camelCase")]
//! struct Metadata {
//!     #[serde(default)]
//!     finalizers: Vec<String>,
//!     deletion_timestamp: Option<String>,
//! }
//!
//! const NAME: &str = "example.com/clean-up";
//!
//! fn finalize(event: &Event, metadata: &Metadata) -> Result {
//!     let patch = if metadata.deletion_timestamp.is_none() {
//!         finalizer::add(event, &metadata.finalizers, NAME)
//!     } else {
//!         clean_up(event)?;
//!         finalizer::remove(event, &metadata.finalizers, NAME)
//!     };
//!     if let Some(patch) = patch {
//!         kube::patch(&kube::of(event)).merge(&patch)?;
//!     }
//!     Ok(())
//! }
//! ```

use serde_json::{Value, json};

use crate::event::Event;

/// The merge patch that adds `name` to the object's `finalizers`. `None` if it is there.
pub fn add(event: &Event, finalizers: &[String], name: &str) -> Option<Value> {
    if finalizers.iter().any(|present| present == name) {
        return None;
    }
    let finalizers: Vec<&str> = finalizers.iter().map(String::as_str).chain([name]).collect();
    Some(patch(event, &finalizers))
}

/// The merge patch that removes `name` from the object's `finalizers`. `None` if it is not there.
pub fn remove(event: &Event, finalizers: &[String], name: &str) -> Option<Value> {
    let others: Vec<&str> = finalizers
        .iter()
        .map(String::as_str)
        .filter(|present| *present != name)
        .collect();
    (others.len() < finalizers.len()).then(|| patch(event, &others))
}

/// A merge patch replaces the list. So it must apply only to the state that has the old one.
fn patch(event: &Event, finalizers: &[&str]) -> Value {
    json!({
        "metadata": {
            "uid": event.uid,
            "resourceVersion": event.resource_version,
            "finalizers": finalizers,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube;
    use crate::prelude::*;
    use crate::testing::Driver;

    /// Adds a finalizer, and removes it from objects that are being deleted.
    struct Finalizing;

    impl Plugin for Finalizing {
        fn init(_: Init) -> Result<Self> {
            Ok(Self)
        }
    }

    impl EventHandler for Finalizing {
        fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
            let finalizers: Vec<String> = serde_json::from_value(pod["metadata"]["finalizers"].clone())?;
            let patch = if pod["metadata"]["deletionTimestamp"].is_null() {
                add(event, &finalizers, "ours")
            } else {
                remove(event, &finalizers, "ours")
            };
            if let Some(patch) = patch {
                kube::patch(&kube::of(event)).merge(&patch)?;
            }
            Ok(Action::done())
        }
    }

    crate::export!(Finalizing: events);

    #[test]
    fn a_finalizer_is_added_once_and_removed_once() {
        let mut driver = Driver::<Finalizing>::start(json!({})).expect("the plugin starts");
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "namespace": "web", "name": "a", "uid": "1", "finalizers": ["theirs"] },
        });
        let finalizers = || {
            let pod = store::get::<Value>("pods", "web", "a");
            pod.expect("the store answers").expect("it is there")["metadata"]["finalizers"].clone()
        };
        driver.put(pod.clone()).expect("the plugin accepts it");
        assert_eq!(driver.settle(), Ok(1));
        assert_eq!(finalizers(), json!(["theirs", "ours"]));
        pod["metadata"]["finalizers"] = finalizers();
        pod["metadata"]["deletionTimestamp"] = json!("2026-11-22T00:00:00Z");
        driver.put(pod).expect("the plugin accepts it");
        assert_eq!(driver.settle(), Ok(1));
        assert_eq!(finalizers(), json!(["theirs"]));
    }
}
