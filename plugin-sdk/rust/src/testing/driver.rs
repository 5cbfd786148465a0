//! Calls a plugin as Informant would.

use serde_json::Value;

use super::cache::{Cache, Key};
use super::projection;
use crate::event::{Event, ObjectRef, Reason, SourceId};
use crate::exports;
use crate::failure::{Failure, Result};
use crate::host_error::{ErrorCode, HostError};
use crate::index_values::IndexValues;
use crate::manifest::{Events, Manifest};
use crate::plugin::{EventHandler, IndexFuncs, Init, InstanceRole, Plugin, Stateful, SyncHandler};

/// Calls by which [`Driver::settle`] expects a plugin to have come to rest.
pub const SETTLE_CALLS_MAX: usize = 1_000;

/// A started plugin, the cache it can read, and the means to call it.
///
/// Objects are handed over as the manifest says: only the kinds it names, only the fields it names, `old` if it asks
/// for it, unchanged payloads left out if it asks for that. So a test finds a field that the manifest forgot.
#[derive(Debug)]
pub struct Driver<P> {
    cache: Cache,
    plugin: P,
    manifest: Manifest,
    reason: Reason,
}

impl<P: Plugin> Driver<P> {
    /// Starts the plugin as a handler with this config.
    ///
    /// # Errors
    /// What `init` answers.
    pub fn start(config: Value) -> Result<Self> {
        Self::start_as(InstanceRole::Events, config)
    }

    /// Starts the plugin for index functions with this config.
    ///
    /// # Errors
    /// What `init` answers.
    pub fn start_index(config: Value) -> Result<Self> {
        Self::start_as(InstanceRole::Index, config)
    }

    fn start_as(role: InstanceRole, config: Value) -> Result<Self> {
        let cache = Cache::new();
        let manifest = cache.while_denied(P::describe);
        let plugin = P::init(Init::new(role, config.to_string().into_bytes()))?;
        Ok(Self {
            cache,
            plugin,
            manifest,
            reason: Reason::Watch,
        })
    }

    /// The cache that the plugin reads.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The plugin, to look at.
    pub fn plugin(&self) -> &P {
        &self.plugin
    }

    /// What was logged since the last time, as `level: message`.
    pub fn take_log(&self) -> Vec<String> {
        self.cache.take_log()
    }

    /// The reason of the events from now on. [`Reason::Watch`] at first.
    pub fn set_reason(&mut self, reason: Reason) {
        self.reason = reason;
    }

    fn event(&self, key: &Key, object: &Value) -> Event {
        let metadata = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Event {
            source: SourceId(key.0),
            namespace: key.1.clone(),
            name: key.2.clone(),
            uid: metadata("uid"),
            resource_version: metadata("resourceVersion"),
            reason: self.reason,
            attempt: 0,
        }
    }
}

impl<P: Stateful> Driver<P> {
    /// What the plugin would hand over if another version were swapped in now, as bytes.
    ///
    /// # Errors
    /// What the plugin answers.
    pub fn save(&self) -> Result<Vec<u8>> {
        exports::save(&self.plugin)
    }

    /// Hands the plugin what another version [saved](Self::save), as a swap does after `init`.
    ///
    /// # Errors
    /// What the plugin answers, or a permanent failure if the state does not fit.
    pub fn restore(&mut self, state: &[u8]) -> Result {
        exports::restore(&mut self.plugin, state)
    }
}

impl<P: EventHandler> Driver<P> {
    /// Puts an object into the cache and tells the plugin: an add if its key is new, an update if not; a delete and an
    /// add if it has another uid than the one before. For what is made up if it is missing, see [`Cache::put`].
    ///
    /// # Errors
    /// What the plugin answers.
    pub fn put(&mut self, object: Value) -> Result {
        let key = self.cache.key_of(&object);
        let mut before = self.cache.get(&key);
        let uid = &object["metadata"]["uid"];
        if before
            .as_ref()
            .is_some_and(|before| !uid.is_null() && *uid != before["metadata"]["uid"])
        {
            self.delete(SourceId(key.0), &key.1, &key.2)?;
            before = None;
        }
        self.cache.put_key(object);
        let object = self.cache.get(&key).expect("it was just put");
        self.tell(&key, before.as_ref(), &object)
    }

    /// Tells the plugin of what it has written itself, as Informant would, and goes on until it writes nothing more.
    /// Returns how often it was told: a plugin that compares before it writes is told once for each object it changed.
    ///
    /// # Errors
    /// What the plugin answers.
    ///
    /// # Panics
    /// If it still writes after [`SETTLE_CALLS_MAX`] calls: it chases its own writes.
    pub fn settle(&mut self) -> Result<usize> {
        let mut calls = 0;
        loop {
            let changed = self.cache.take_changed();
            if changed.is_empty() {
                return Ok(calls);
            }
            for (key, before) in changed {
                calls += 1;
                assert!(
                    calls <= SETTLE_CALLS_MAX,
                    "the plugin writes again and again: compare before writing"
                );
                match (before, self.cache.get(&key)) {
                    (before, Some(now)) => self.tell(&key, before.as_ref(), &now)?,
                    (Some(before), None) => self.tell_deleted(&key, &before, false)?,
                    (None, None) => {}
                }
            }
        }
    }

    fn tell(&mut self, key: &Key, before: Option<&Value>, object: &Value) -> Result {
        let Some(wanted) = self.wanted(object) else {
            return Ok(());
        };
        let event = self.event(key, object);
        let shown = projection::payload(object, wanted.payload());
        let Some(before) = before else {
            return exports::on_add(&mut self.plugin, &event, shown.to_string().into_bytes());
        };
        let before = projection::payload(before, wanted.payload());
        if wanted.wants_changed_only() && before == shown {
            return Ok(());
        }
        let old = wanted.wants_old().then(|| before.to_string().into_bytes());
        exports::on_update(&mut self.plugin, &event, old, shown.to_string().into_bytes())
    }

    /// Takes an object out of the cache and tells the plugin.
    ///
    /// # Errors
    /// What the plugin answers.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn delete(&mut self, source: SourceId, namespace: &str, name: &str) -> Result {
        self.remove(source, namespace, name, false)
    }

    /// As [`delete`](Self::delete), as if nobody had watched when it happened.
    ///
    /// # Errors
    /// What the plugin answers.
    ///
    /// # Panics
    /// If there is no such object.
    pub fn vanish(&mut self, source: SourceId, namespace: &str, name: &str) -> Result {
        self.remove(source, namespace, name, true)
    }

    fn remove(&mut self, source: SourceId, namespace: &str, name: &str, final_state_unknown: bool) -> Result {
        let last = self.cache.remove(source, namespace, name);
        let last = last.unwrap_or_else(|| panic!("the test deletes {namespace}/{name}, which the cache does not have"));
        let key = (source.0, namespace.to_owned(), name.to_owned());
        self.tell_deleted(&key, &last, final_state_unknown)
    }

    fn tell_deleted(&mut self, key: &Key, last: &Value, final_state_unknown: bool) -> Result {
        let Some(wanted) = self.wanted(last) else {
            return Ok(());
        };
        let event = self.event(key, last);
        let shown = projection::payload(last, wanted.payload());
        exports::on_delete(
            &mut self.plugin,
            &event,
            shown.to_string().into_bytes(),
            final_state_unknown,
        )
    }

    /// What the manifest says of objects of this type; none if the plugin is not told about them.
    fn wanted(&self, object: &Value) -> Option<Events> {
        let (api_version, kind) = type_of(object);
        self.manifest.events_of(api_version, kind)
    }
}

impl<P: SyncHandler> Driver<P> {
    /// Tells the plugin that it has been shown a source completely.
    ///
    /// # Errors
    /// What the plugin answers.
    pub fn synced(&mut self, source: SourceId) -> Result {
        self.plugin.on_synced(source)
    }
}

impl<P: IndexFuncs> Driver<P> {
    /// The index values of an object, which is not put into the cache.
    ///
    /// # Errors
    /// What the plugin answers; and an index that its manifest does not name, which Informant would refuse.
    pub fn index(&mut self, object: &Value) -> Result<IndexValues> {
        let key = self.cache.key_of(object);
        let (api_version, kind) = type_of(object);
        let Some(wanted) = self.manifest.indexed_of(api_version, kind) else {
            return Ok(IndexValues::new());
        };
        let shown = projection::payload(object, wanted.payload()).to_string().into_bytes();
        let of = ObjectRef::from(&self.event(&key, object));
        let values = self
            .cache
            .while_denied(|| exports::index(&mut self.plugin, &of, shown))?;
        if let Some(stray) = values.names().find(|index| !self.manifest.offers_index(index)) {
            return Err(Failure::permanent(format_args!(
                "the manifest names no index {stray:?}"
            )));
        }
        Ok(values)
    }
}

impl Cache {
    /// Refuses the store's calls, as Informant does in `describe` and in index functions.
    fn while_denied<T>(&self, call: impl FnOnce() -> T) -> T {
        let message = "denied in describe and in index functions".to_owned();
        self.refuse(Some(HostError {
            code: ErrorCode::Denied,
            message,
        }));
        let answer = call();
        self.refuse(None);
        answer
    }
}

fn type_of(object: &Value) -> (&str, &str) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    (text("apiVersion"), text("kind"))
}
