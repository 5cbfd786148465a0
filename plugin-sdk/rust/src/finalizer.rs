//! Finalizers: a plugin that must clean up before an object is gone puts its name into `metadata.finalizers`.
//!
//! The object then stays, with a `metadata.deletionTimestamp`, until the plugin takes the name out again. [`finalize`]
//! does all of it:
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn clean_up(_: &Request) -> Result { Ok(()) }
//! # fn reconcile(request: &Request) -> Result<Action> {
//! if !finalizer::finalize(request, || clean_up(request))? {
//!     return Ok(Action::done());
//! }
//! # Ok(Action::done())
//! # }
//! ```
//!
//! The other functions return merge patches for the state that the event describes. If the object has changed since
//! then, the patch is a conflict, and the handler is called for the new state.
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
use crate::failure::Result;
use crate::{context, kube, store};

/// The finalizer of a plugin is this and the plugin's name in config.toml.
const PREFIX: &str = "informant.dev/";

/// Lets `cleanup` run before the object that the call is about is gone. Returns whether to handle the object as usual.
///
/// - Without the plugin's finalizer, `informant.dev/NAME`, the finalizer is added. That leads to the next call: nothing
///   has an effect before the finalizer is there.
/// - If somebody has deleted the object, `cleanup` is called, and then the finalizer is removed. If `cleanup` fails,
///   the finalizer stays, and `finalize` returns that failure: `cleanup` is called again.
///   [`Failure::RetryAfter`](crate::Failure::RetryAfter) waits for what takes its time.
///
/// The writes are [deferred](kube::Deferred), and for the state that the call is about. If the object has changed since
/// then, the write is a conflict, and the handler is called again: also after `cleanup`, which must be able to run
/// twice. `allow.kube` needs `patch` for the resource.
///
/// # Errors
/// The failure of `cleanup`; errors of [`store::get_fields`] and [`kube::Deferred`].
pub fn finalize(about: &Event, cleanup: impl FnOnce() -> Result) -> Result<bool> {
    let pointers = ["/metadata/deletionTimestamp", "/metadata/finalizers"];
    let found: Option<Value> = store::get_fields(about.source, &about.namespace, &about.name, &pointers)?;
    let Some(object) = found else {
        return Ok(false);
    };
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    let finalizers: Vec<String> = finalizers.filter_map(Value::as_str).map(str::to_owned).collect();
    let name = format!("{PREFIX}{}", context::plugin_name());
    let is_there = finalizers.contains(&name);
    let patch = match metadata["deletionTimestamp"].is_null() {
        true if is_there => return Ok(true),
        true => add(about, &finalizers, &name),
        false if is_there => {
            cleanup()?;
            remove(about, &finalizers, &name)
        }
        false => None,
    };
    if let Some(patch) = patch {
        kube::defer_patch(&kube::of(about)).merge(&patch)?;
    }
    Ok(false)
}

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
    use super::{add, finalize, remove};
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

    /// Says when it reconciles and cleans up.
    struct Sites;

    impl Plugin for Sites {
        fn describe(_: Describe) -> Result<Manifest> {
            Ok(Manifest::new().reconciles(Reconciles::of("v1", "ConfigMap")))
        }

        fn init(_: Init) -> Result<Self> {
            Ok(Self)
        }
    }

    impl Reconciler for Sites {
        type Object = Value;

        fn reconcile(&mut self, request: &Request, map: Option<Value>) -> Result<Action> {
            let clean_up = || match map.is_some_and(|map| map["data"]["stuck"].is_string()) {
                true => Err(Failure::permanent("it is stuck")),
                false => {
                    info!("clean up {request}");
                    Ok(())
                }
            };
            if finalize(request, clean_up)? {
                info!("reconcile {request}");
            }
            Ok(Action::done())
        }
    }

    crate::export!(Sites: reconciler);

    /// Calls the plugin for a map with these members of metadata and this data. Returns its result, what it logged, and
    /// the finalizers after it.
    fn reconcile(metadata: Value, data: Value) -> (Result<Action>, Vec<String>, Value) {
        let mut driver = Driver::<Sites>::start_with(json!({ "plugin": "sites" })).unwrap();
        let mut map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data });
        map["metadata"]["namespace"] = json!("web");
        map["metadata"]["name"] = json!("a");
        let maps = driver.cache().put(map);
        let answer = driver.reconcile(maps, "web", "a");
        let map = driver.cache().object(maps, "web", "a").unwrap();
        (answer, driver.take_log(), map["metadata"]["finalizers"].clone())
    }

    #[test]
    fn nothing_has_an_effect_before_the_finalizer_is_there() {
        let (theirs, both) = (json!(["theirs"]), json!(["theirs", "informant.dev/sites"]));
        let (answer, log, after) = reconcile(json!({ "finalizers": theirs }), json!({}));
        assert_eq!((answer, log.len(), &after), (Ok(Action::done()), 0, &both));
        let (answer, log, after) = reconcile(json!({ "finalizers": both }), json!({}));
        assert_eq!(answer, Ok(Action::done()));
        assert_eq!((log, after), (vec!["info: reconcile web/a".to_owned()], both));
    }

    #[test]
    fn a_deleted_object_is_cleaned_up_once() {
        let deleted = |finalizers: &[&str]| {
            let metadata = json!({ "deletionTimestamp": "2026-11-22T00:00:00Z", "finalizers": finalizers });
            reconcile(metadata, json!({}))
        };
        let (answer, log, after) = deleted(&["informant.dev/sites", "theirs"]);
        assert_eq!(answer, Ok(Action::done()));
        assert_eq!(
            (log, after),
            (vec!["info: clean up web/a".to_owned()], json!(["theirs"]))
        );
        let (answer, log, after) = deleted(&["theirs"]);
        assert_eq!((answer, log.len(), after), (Ok(Action::done()), 0, json!(["theirs"])));
    }

    #[test]
    fn a_cleanup_that_fails_keeps_the_finalizer() {
        let ours = json!(["informant.dev/sites"]);
        let metadata = json!({ "deletionTimestamp": "2026-11-22T00:00:00Z", "finalizers": ours });
        let (answer, _, after) = reconcile(metadata, json!({ "stuck": "yes" }));
        assert_eq!((answer, after), (Err(Failure::permanent("it is stuck")), ours));
    }

    #[test]
    fn an_object_that_is_gone_is_not_reconciled() {
        let mut driver = Driver::<Sites>::start(json!({})).unwrap();
        let maps = driver.cache().source("maps", "v1", "ConfigMap");
        driver.reconcile(maps, "web", "a").unwrap();
        assert!(driver.take_log().is_empty());
    }
}
