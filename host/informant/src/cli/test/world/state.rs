//! What has happened in a scenario, and what is the case, as expectations have it.

use std::collections::BTreeMap;

use informant_cache::SourceInfo;
use informant_config::show_duration;
use informant_object::SourceId;
use informant_plugin_host::{CallResult, ScenarioCall};
use serde_json::{Map, Value, json};

use super::World;
use crate::cli::test::recorder::Recorded;
use crate::cli::test::scenario::{Stream, reference};
use crate::cli::test::series;
use crate::daemon::PluginPhase;

/// What has happened since the last expectation.
pub(in crate::cli::test) struct Happened {
    calls: Vec<Value>,
    log: Vec<Value>,
    writes: Vec<Value>,
    http: Vec<Value>,
    dead_letters: Vec<Value>,
}

impl Happened {
    pub(in crate::cli::test) fn of(&self, stream: Stream) -> &[Value] {
        match stream {
            Stream::Calls => &self.calls,
            Stream::Log => &self.log,
            Stream::Writes => &self.writes,
            Stream::Http => &self.http,
            Stream::DeadLetters => &self.dead_letters,
        }
    }
}

impl World {
    /// Takes what has happened.
    pub(in crate::cli::test) fn take_happened(&self) -> Happened {
        let Recorded {
            calls,
            log,
            writes,
            http,
            ..
        } = self.recorder.take();
        Happened {
            calls: calls.into_iter().map(|call| self.call(call)).collect(),
            log,
            writes,
            http,
            dead_letters: self.dead_letters(),
        }
    }

    fn info(&self, source: SourceId) -> Option<SourceInfo> {
        self.daemon.registry().catalog().info(source)
    }

    fn call(&self, call: ScenarioCall) -> Value {
        let mut entry = Map::new();
        let mut set = |name: &str, value: Value| drop(entry.insert(name.to_owned(), value));
        set("call", call.function.into());
        if let Some(about) = call.about {
            let resource = self.info(about.source).map(|info| info.resource).unwrap_or_default();
            let object = match &about.object {
                Some((namespace, name)) => reference(&resource, namespace, name),
                None => resource,
            };
            set("object", object.into());
            set("reason", about.reason.into());
            set("attempt", about.attempt.into());
        }
        let result = match call.result {
            CallResult::Ok { requeue_after } => {
                if let Some(after) = requeue_after {
                    set("requeueAfter", show_duration(after).into());
                }
                "ok"
            }
            CallResult::Retry { message, after } => {
                set("error", message.into());
                if let Some(after) = after {
                    set("requeueAfter", show_duration(after).into());
                }
                "retry"
            }
            CallResult::Permanent(message) => {
                set("error", message.into());
                "permanent"
            }
            CallResult::Trap(message) => {
                set("error", message.into());
                "trap"
            }
        };
        set("result", result.into());
        Value::Object(entry)
    }

    fn dead_letters(&self) -> Vec<Value> {
        let Some(PluginPhase::Running(plugin)) = self.phase() else {
            return Vec::new();
        };
        let letters = plugin.listener().ledger().dead_letters().into_iter();
        letters
            .map(|letter| {
                let resource = self.info(letter.source).map(|info| info.resource).unwrap_or_default();
                let object = reference(&resource, letter.key.namespace(), letter.key.name());
                json!({ "object": object, "error": letter.error })
            })
            .collect()
    }

    /// The keys of an informer's objects that have this value in an index, sorted; or why they are not known.
    pub(in crate::cli::test) fn index_keys(
        &self,
        informer: &str,
        index: &str,
        value: &str,
    ) -> Result<Vec<String>, String> {
        let plugin = self.daemon.registry().plugin(&self.plugin);
        let informers = plugin
            .map(|entry| entry.section().spec.informers.clone())
            .unwrap_or_default();
        let named = informers.iter().find(|(alias, _)| alias == informer);
        let name = named.map_or(informer, |(_, name)| name.as_str());
        let mut keys = Vec::new();
        for source in self.daemon.registry().sources(name) {
            let snapshot = source.snapshot();
            let found = snapshot.index_keys(index, value).map_err(|error| error.to_string())?;
            keys.extend(found.map(|key| key.to_key().to_string()));
        }
        keys.sort();
        Ok(keys)
    }

    /// The series of the plugin's own metrics.
    pub(in crate::cli::test) fn series(&self) -> BTreeMap<String, f64> {
        let exported = self.daemon.metrics().encode().unwrap_or_default();
        series::of_plugin(&exported, &self.plugin)
    }
}
