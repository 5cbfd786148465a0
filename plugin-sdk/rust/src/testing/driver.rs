//! Calls a plugin as Informant does.

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

/// The maximum number of calls in [`Driver::settle`].
pub const SETTLE_CALLS_MAX: usize = 1_000;

/// A running plugin with the cache that it reads.
///
/// The plugin receives objects as its manifest requests: only those kinds and fields, `old` if requested, and no
/// unchanged payloads with `changed_only`. So a test finds a field that is missing in the manifest.
#[derive(Debug)]
pub struct Driver<P> {
    cache: Cache,
    plugin: P,
    manifest: Manifest,
    reason: Reason,
}

impl<P: Plugin> Driver<P> {
    /// Starts the plugin as an event handler with this config.
    ///
    /// # Errors
    /// The failure of `init`.
    pub fn start(config: Value) -> Result<Self> {
        Self::start_as(InstanceRole::Events, config)
    }

    /// Starts the plugin as index functions with this config.
    ///
    /// # Errors
    /// The failure of `init`.
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

    /// The plugin, to inspect its state.
    pub fn plugin(&self) -> &P {
        &self.plugin
    }

    /// The lines logged since the last call, as `level: message`.
    pub fn take_log(&self) -> Vec<String> {
        self.cache.take_log()
    }

    /// Sets the reason of the following events. The default is [`Reason::Watch`].
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
    /// Saves the plugin's state, as in a hot swap, and returns its bytes.
    ///
    /// # Errors
    /// The failure of the plugin.
    pub fn save(&self) -> Result<Vec<u8>> {
        exports::save(&self.plugin)
    }

    /// Restores a state that another version [saved](Self::save), as a hot swap does after `init`.
    ///
    /// # Errors
    /// The failure of the plugin, or a permanent failure if the state does not match its type.
    pub fn restore(&mut self, state: &[u8]) -> Result {
        exports::restore(&mut self.plugin, state)
    }
}

impl<P: EventHandler> Driver<P> {
    /// Puts an object into the cache and calls the plugin: an add if the key is new, an update otherwise. An object
    /// with another uid than the previous one is a delete and an add. [`Cache::put`] describes which fields are
    /// generated.
    ///
    /// # Errors
    /// The failure of the plugin.
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
        self.deliver(&key, before.as_ref(), &object)
    }

    /// Delivers the events of the plugin's own writes, as Informant does, until the plugin stops writing. Returns the
    /// number of calls: a plugin that compares before it writes gets one call for each object that it changed.
    ///
    /// # Errors
    /// The failure of the plugin.
    ///
    /// # Panics
    /// If the plugin still writes after [`SETTLE_CALLS_MAX`] calls: each write causes another.
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
                    "the plugin still writes after {SETTLE_CALLS_MAX} calls: each write causes another; compare before writing"
                );
                match (before, self.cache.get(&key)) {
                    (before, Some(now)) => self.deliver(&key, before.as_ref(), &now)?,
                    (Some(before), None) => self.deliver_delete(&key, &before, false)?,
                    (None, None) => {}
                }
            }
        }
    }

    fn deliver(&mut self, key: &Key, before: Option<&Value>, object: &Value) -> Result {
        let Some(wanted) = self.rule_for(object) else {
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

    /// Removes an object from the cache and calls the plugin.
    ///
    /// # Errors
    /// The failure of the plugin.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn delete(&mut self, source: SourceId, namespace: &str, name: &str) -> Result {
        self.remove(source, namespace, name, false)
    }

    /// As [`delete`](Self::delete), but with `final_state_unknown`: no watch was running when the object was deleted.
    ///
    /// # Errors
    /// The failure of the plugin.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn vanish(&mut self, source: SourceId, namespace: &str, name: &str) -> Result {
        self.remove(source, namespace, name, true)
    }

    fn remove(&mut self, source: SourceId, namespace: &str, name: &str, final_state_unknown: bool) -> Result {
        let last = self.cache.remove(source, namespace, name);
        let last = last.unwrap_or_else(|| panic!("the test deletes {namespace}/{name}, which is not in the cache"));
        let key = (source.0, namespace.to_owned(), name.to_owned());
        self.deliver_delete(&key, &last, final_state_unknown)
    }

    fn deliver_delete(&mut self, key: &Key, last: &Value, final_state_unknown: bool) -> Result {
        let Some(wanted) = self.rule_for(last) else {
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

    /// The rule of the manifest for objects of this type, if the plugin receives them.
    fn rule_for(&self, object: &Value) -> Option<Events> {
        let (api_version, kind) = type_of(object);
        self.manifest.events_of(api_version, kind)
    }
}

impl<P: SyncHandler> Driver<P> {
    /// Tells the plugin that a source is synced.
    ///
    /// # Errors
    /// The failure of the plugin.
    pub fn synced(&mut self, source: SourceId) -> Result {
        self.plugin.on_synced(source)
    }
}

impl<P: IndexFuncs> Driver<P> {
    /// Returns the index values of an object, which is not put into the cache.
    ///
    /// # Errors
    /// The failure of the plugin, or a permanent failure if it returns an index that its manifest does not declare.
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
        if let Some(undeclared) = values.names().find(|index| !self.manifest.offers_index(index)) {
            return Err(Failure::permanent(format_args!(
                "the manifest does not declare the index {undeclared:?}"
            )));
        }
        Ok(values)
    }
}

impl Cache {
    /// Denies every host call, as Informant does in `describe` and in index functions.
    fn while_denied<T>(&self, call: impl FnOnce() -> T) -> T {
        let message = "host calls are denied in describe and in index functions".to_owned();
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
