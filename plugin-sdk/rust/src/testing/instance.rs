//! Starts instances of a plugin, and what they may not call.

use serde_json::{Value, json};

use super::cache::Cache;
use crate::CONTRACT;
use crate::context::{Describe, Init, Role};
use crate::exports;
use crate::failure::{Failure, Result};
use crate::host_error::{ErrorCode, HostError};
use crate::manifest::Manifest;
use crate::plugin::Plugin;

/// A new instance of the plugin, with its manifest.
///
/// # Panics
/// If `context` is not an object.
pub(super) fn instance<P: Plugin>(cache: &Cache, context: Value) -> Result<(Manifest, P)> {
    let mut all = json!({
        "plugin": "test", "config": {}, "informant": env!("CARGO_PKG_VERSION"), "contract": CONTRACT,
        "offers": ["store", "kube", "kv", "metrics", "recorder", "log"],
        "role": "events", "instance": 0, "instances": 1, "because": "start", "logLevel": "trace",
        "roles": ["event-handler", "reconciler", "timer-handler", "sync-handler", "index-funcs", "state"],
        "limits": { "memoryBytes": 67_108_864, "callMs": 30_000 },
    });
    let Value::Object(members) = context else {
        panic!("the context is not an object: {context}");
    };
    for (name, value) in members {
        all[name] = value;
    }
    let context = all.to_string().into_bytes();
    let started = cache.while_denied(|| {
        let manifest = exports::describe::<P>(Describe::parse(&context)?)?;
        let init = Init::parse(&context)?;
        cache.deny_keys(init.role == Role::Index);
        Ok::<_, Failure>((manifest, exports::init::<P>(init)?))
    });
    cache.end_changes(started.is_ok());
    let (manifest, plugin) = started?;
    cache.declare_metrics(manifest.metrics());
    cache.declare_owned(manifest.owned_types());
    Ok((manifest, plugin))
}

impl Cache {
    /// Denies every host call but logging, as Informant does in `describe` and index functions.
    pub(super) fn while_denied<T>(&self, call: impl FnOnce() -> T) -> T {
        let message = "host calls cannot be made in describe, init and index functions".to_owned();
        self.refuse(Some(HostError {
            code: ErrorCode::NotHere,
            message,
        }));
        self.deny_keys(true);
        self.deny_metrics(true);
        self.deny_events(true);
        let answer = call();
        self.refuse(None);
        self.deny_keys(false);
        self.deny_metrics(false);
        self.deny_events(false);
        answer
    }
}
