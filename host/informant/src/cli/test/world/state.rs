//! What has happened in a scenario, and what is the case, as expectations have it.

use std::collections::BTreeMap;

use informant_cache::SourceInfo;
use informant_object::SourceId;
use informant_plugin_host::ObservedCall;
use serde_json::{Value, json};

use super::World;
use crate::cli::test::recorder::Recorded;
use crate::cli::test::scenario::Stream;
use crate::cli::test::series;
use crate::daemon::PluginPhase;
use crate::recorded::{self, reference};

/// What has happened since the last expectation.
pub(in crate::cli::test) struct Happened {
    calls: Vec<Value>,
    log: Vec<Value>,
    writes: Vec<Value>,
    http: Vec<Value>,
    events: Vec<Value>,
    dead_letters: Vec<Value>,
}

impl Happened {
    pub(in crate::cli::test) fn of(&self, stream: Stream) -> &[Value] {
        match stream {
            Stream::Calls => &self.calls,
            Stream::Log => &self.log,
            Stream::Writes => &self.writes,
            Stream::Http => &self.http,
            Stream::Events => &self.events,
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
            events,
            ..
        } = self.recorder.take();
        Happened {
            calls: calls.iter().map(|call| self.call(call)).collect(),
            log,
            writes,
            http,
            events,
            dead_letters: self.dead_letters(),
        }
    }

    fn info(&self, source: SourceId) -> Option<SourceInfo> {
        self.daemon.registry().catalog().info(source)
    }

    fn call(&self, call: &ObservedCall) -> Value {
        let source = call.about.as_ref().map(|about| about.source);
        let info = source.and_then(|source| self.info(source));
        let resource = info.map(|info| info.resource).unwrap_or_default();
        recorded::call(call, &resource).into()
    }

    /// The call that has begun and not returned, if there is one: everything else has happened.
    pub(in crate::cli::test) fn open_call(&self) -> Option<String> {
        let Some(PluginPhase::Running(plugin)) = self.phase() else {
            return None;
        };
        let open = plugin.status().stuck_on?;
        let call = match open.event {
            "sync" => "on-synced".to_owned(),
            event => format!("on-{event}"),
        };
        if open.event == "timer" {
            return Some("a timer's call has not returned: it waits for time, which only `wait` moves".to_owned());
        }
        let resource = self.info(open.source)?.resource;
        let about = match &open.key {
            Some(key) => reference(&resource, key.namespace(), key.name()),
            None => resource,
        };
        Some(format!(
            "call {call} {about} has not returned: it waits for time, which only `wait` moves"
        ))
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
