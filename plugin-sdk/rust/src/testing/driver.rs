//! Calls a plugin as Informant does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::cache::{Cache, Key};
use super::instance::instance;
use super::{projection, selector};
use crate::action::Action;
use crate::bindings::imports::informant::plugin::types as contract;
use crate::event::{Deleted, Event, ObjectRef, Reason, Request, SourceId, Synced, Tick};
use crate::exports::{self, Change, HandleEvents};
use crate::failure::{Failure, Result};
use crate::index_values::IndexValues;
use crate::manifest::{Events, Manifest};
use crate::plugin::{IndexFuncs, Plugin, Reconciler, Stateful, SyncHandler, TimerHandler};
use crate::store::ObjectKey;

/// The maximum number of calls in [`Driver::settle`].
pub const SETTLE_CALLS_MAX: usize = 1_000;

/// When a run of a timer was due, unless the test says otherwise.
const TICK_SCHEDULED: &str = "2026-01-01T00:00:00Z";

/// A running plugin with the cache that it reads. Events need the plugin's [`export!`](crate::export!) with the role
/// `events`.
///
/// The plugin receives objects as its manifest requests: only those kinds and fields, `old` if requested, and no
/// unchanged payloads with `changed_only`. So a test finds a field that is missing in the manifest.
#[derive(Debug)]
pub struct Driver<P> {
    pub(super) cache: Cache,
    pub(super) plugin: P,
    pub(super) manifest: Manifest,
    pub(super) reason: Reason,
    pub(super) attempt: u32,
    /// The types that the plugin receives, if not all of its manifest.
    pub(super) watched: Option<Vec<(String, String)>>,
    /// The calls of the plugin that a scenario compares, as it shows them.
    pub(super) calls: Vec<Value>,
    pub(super) requeues: BTreeMap<Key, Requeue>,
}

/// A call that the plugin asked for.
#[derive(Debug, Clone)]
pub(super) struct Requeue {
    pub(super) after: Duration,
    /// The last state, and whether it is the final one, if the object was deleted.
    pub(super) deleted: Option<(Value, bool)>,
}

impl<P: Plugin> Driver<P> {
    /// Starts the plugin as an event handler with this config.
    ///
    /// # Errors
    /// The failure of `describe` or `init`.
    pub fn start(config: Value) -> Result<Self> {
        Self::start_with(json!({ "config": config }))
    }

    /// Starts the plugin as index functions with this config.
    ///
    /// # Errors
    /// The failure of `describe` or `init`.
    pub fn start_index(config: Value) -> Result<Self> {
        Self::start_with(json!({ "config": config, "role": "index" }))
    }

    /// Starts the plugin with these members of the context that the contract describes for `init`: `because`,
    /// `previous` and so on. The others have the values of a first start as an event handler.
    ///
    /// # Errors
    /// The failure of `describe` or `init`.
    ///
    /// # Panics
    /// If `context` is not an object.
    pub fn start_with(context: Value) -> Result<Self> {
        Self::start_in(Cache::new(), context)
    }

    /// As [`start_with`](Self::start_with), with what is in the cache.
    pub(super) fn start_in(cache: Cache, context: Value) -> Result<Self> {
        let (manifest, plugin) = instance(&cache, context)?;
        Ok(Self {
            cache,
            plugin,
            manifest,
            reason: Reason::Watch,
            attempt: 0,
            watched: None,
            calls: Vec::new(),
            requeues: BTreeMap::new(),
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

impl<P: HandleEvents> Driver<P> {
    /// Puts an object into the cache and calls the plugin: an add if the key is new, an update otherwise. An object
    /// with another uid than the previous one is a delete and an add. [`Cache::put`] describes which fields are
    /// generated. Returns what the plugin returned, [`Action::done`] if it was not called.
    ///
    /// # Errors
    /// The failure of the plugin.
    pub fn put(&mut self, object: Value) -> Result<Action> {
        self.put_in(None, object)
    }

    /// As [`put`](Self::put), in this cluster.
    ///
    /// # Errors
    /// The failure of the plugin.
    pub fn put_in_cluster(&mut self, cluster: &str, object: Value) -> Result<Action> {
        self.put_in(Some(cluster), object)
    }

    fn put_in(&mut self, cluster: Option<&str>, object: Value) -> Result<Action> {
        let key = self.cache.key_of(cluster, &object);
        let mut before = self.cache.get(&key);
        let uid = &object["metadata"]["uid"];
        if before
            .as_ref()
            .is_some_and(|before| !uid.is_null() && *uid != before["metadata"]["uid"])
        {
            self.delete(SourceId(key.0), &key.1, &key.2)?;
            before = None;
        }
        self.cache.put_key(cluster, object);
        let object = self.cache.get(&key).expect("it was just put");
        self.deliver(&key, before.as_ref(), &object)
    }

    /// The objects for which the plugin asked to be called again, and after which time.
    pub fn requeues(&self) -> Vec<(ObjectKey, Duration)> {
        let key = |(source, namespace, name): &Key| ObjectKey {
            source: SourceId(*source),
            namespace: namespace.clone(),
            name: name.clone(),
        };
        self.requeues
            .iter()
            .map(|(object, requeue)| (key(object), requeue.after))
            .collect()
    }

    /// Makes the calls that the plugin [asked for](Self::requeues), without waiting, each once. Returns the number of
    /// calls.
    ///
    /// # Errors
    /// The first failure of the plugin.
    pub fn run_requeues(&mut self) -> Result<usize> {
        let due = std::mem::take(&mut self.requeues);
        let calls = due.len();
        for (key, Requeue { deleted, .. }) in due {
            match (deleted, self.cache.get(&key)) {
                (Some((last, final_state_unknown)), _) => {
                    self.call_delete(Reason::RequeueAfter, &key, &last, final_state_unknown)?;
                }
                (None, Some(object)) => {
                    self.call_upsert(Reason::RequeueAfter, &key, false, None, &object)?;
                }
                (None, None) => {}
            }
        }
        Ok(calls)
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
                    (None, None) => Action::done(),
                };
            }
        }
    }

    /// An object that starts to match its rule is an add, one that no longer matches is a delete.
    pub(super) fn deliver(&mut self, key: &Key, before: Option<&Value>, object: &Value) -> Result<Action> {
        let Some(wanted) = self.rule_for(object) else {
            return Ok(Action::done());
        };
        match (
            before.filter(|before| selects(&wanted, before)),
            selects(&wanted, object),
        ) {
            (before, true) => {
                let shown = |object| projection::payload(object, wanted.payload());
                if wanted.wants_changed_only() && before.is_some_and(|before| shown(before) == shown(object)) {
                    return Ok(Action::done());
                }
                self.call_upsert(self.reason, key, before.is_none(), before, object)
            }
            (Some(before), false) => self.call_delete(self.reason, key, before, false),
            (None, false) => Ok(Action::done()),
        }
    }

    pub(super) fn call_upsert(
        &mut self,
        reason: Reason,
        key: &Key,
        is_new: bool,
        old: Option<&Value>,
        object: &Value,
    ) -> Result<Action> {
        let Some(wanted) = self.rule_for(object) else {
            return Ok(Action::done());
        };
        self.requeues.remove(key);
        let event = self.event(reason, key, object);
        let shown = |object| projection::document(object, wanted.payload());
        let change = if is_new {
            Change::Add(shown(object))
        } else {
            Change::Update(old.filter(|_| wanted.wants_old()).map(shown), shown(object))
        };
        let answer = self.plugin.handle(&event, change);
        let answer = self.with_deferred(answer);
        let name = if is_new { "on-add" } else { "on-update" };
        let action = self.record(name, Some((key, reason)), answer)?;
        self.requeue(key, action, None);
        Ok(action)
    }

    fn requeue(&mut self, key: &Key, action: Action, deleted: Option<(Value, bool)>) {
        if let Some(after) = action.delay() {
            self.requeues.insert(key.clone(), Requeue { after, deleted });
        }
    }

    /// Removes an object from the cache and calls the plugin.
    ///
    /// # Errors
    /// The failure of the plugin.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn delete(&mut self, source: SourceId, namespace: &str, name: &str) -> Result<Action> {
        self.remove(source, namespace, name, false)
    }

    /// As [`delete`](Self::delete), but with `final_state_unknown`: no watch was running when the object was deleted.
    ///
    /// # Errors
    /// The failure of the plugin.
    ///
    /// # Panics
    /// If the object does not exist.
    pub fn vanish(&mut self, source: SourceId, namespace: &str, name: &str) -> Result<Action> {
        self.remove(source, namespace, name, true)
    }

    fn remove(&mut self, source: SourceId, namespace: &str, name: &str, final_state_unknown: bool) -> Result<Action> {
        let last = self.cache.remove(source, namespace, name);
        let last = last.unwrap_or_else(|| panic!("the test deletes {namespace}/{name}, which is not in the cache"));
        let key = (source.0, namespace.to_owned(), name.to_owned());
        self.deliver_delete(&key, &last, final_state_unknown)
    }

    pub(super) fn deliver_delete(&mut self, key: &Key, last: &Value, final_state_unknown: bool) -> Result<Action> {
        match self.rule_for(last) {
            Some(wanted) if selects(&wanted, last) => self.call_delete(self.reason, key, last, final_state_unknown),
            _ => Ok(Action::done()),
        }
    }

    pub(super) fn call_delete(
        &mut self,
        reason: Reason,
        key: &Key,
        last: &Value,
        final_state_unknown: bool,
    ) -> Result<Action> {
        let Some(wanted) = self.rule_for(last) else {
            return Ok(Action::done());
        };
        self.requeues.remove(key);
        let event = self.event(reason, key, last);
        let shown = projection::document(last, wanted.payload());
        let deleted = Deleted {
            last: Some(shown),
            final_state_unknown,
        };
        let answer = self.plugin.handle(&event, Change::Delete(deleted));
        let answer = self.with_deferred(answer);
        let action = self.record("on-delete", Some((key, reason)), answer)?;
        self.requeue(key, action, Some((last.clone(), final_state_unknown)));
        Ok(action)
    }

    /// Whether the plugin receives this object.
    pub(super) fn receives(&self, object: &Value) -> bool {
        self.rule_for(object).is_some_and(|wanted| selects(&wanted, object))
    }

    /// The rule of the manifest for objects of this type, if the plugin receives them.
    fn rule_for(&self, object: &Value) -> Option<Events> {
        let (api_version, kind) = type_of(object);
        let is_it = |(version, name): &(String, String)| version == api_version && name == kind;
        if self.watched.as_ref().is_some_and(|watched| !watched.iter().any(is_it)) {
            return None;
        }
        self.manifest.events_of(api_version, kind)
    }
}

impl<P: Reconciler> Driver<P> {
    /// Reconciles the object, as it is in the [cache](Self::cache); as one that is gone if it is not there. Put objects
    /// there with [`Cache::put`].
    ///
    /// # Errors
    /// The failure of the plugin.
    pub fn reconcile(&mut self, source: SourceId, namespace: &str, name: &str) -> Result<Action> {
        self.reconcile_behind(source, namespace, name, false)
    }

    /// As [`reconcile`](Self::reconcile), with [`Request::cache_is_behind`]: no [child](crate::kube::children) is
    /// deleted then.
    ///
    /// # Errors
    /// The failure of the plugin.
    pub fn reconcile_behind(
        &mut self,
        source: SourceId,
        namespace: &str,
        name: &str,
        cache_is_behind: bool,
    ) -> Result<Action> {
        let key = (source.0, namespace.to_owned(), name.to_owned());
        let object = self.cache.get(&key);
        let event = self.event(self.reason, &key, object.as_ref().unwrap_or(&Value::Null));
        let payload = self.manifest.reconciled_payload();
        let document = object.map(|object| projection::document(&object, &payload));
        let request = Request::new(event, cache_is_behind);
        self.cache.set_behind(cache_is_behind);
        let answer = exports::reconcile(&mut self.plugin, &request, document);
        self.with_deferred(answer)
    }
}

impl<P: TimerHandler> Driver<P> {
    /// Runs a timer of the manifest: the first attempt, with no missed runs.
    ///
    /// # Errors
    /// The failure of the plugin.
    ///
    /// # Panics
    /// If the manifest has no timer with this name.
    pub fn tick(&mut self, name: &str) -> Result {
        self.tick_with(Tick {
            name: name.to_owned(),
            ..Tick::default()
        })
    }

    /// As [`tick`](Self::tick), with this run. Without a time, it was due at 2026-01-01T00:00:00Z.
    ///
    /// ```
    /// # use informant_plugin_sdk::prelude::*;
    /// # use informant_plugin_sdk::testing::Driver;
    /// # struct Report;
    /// # impl Plugin for Report {
    /// #     fn describe(_: Describe) -> Result<Manifest> {
    /// #         Ok(Manifest::new().timer(Timer::cron("report", "0 8 * * *")))
    /// #     }
    /// #     fn init(_: Init) -> Result<Self> { Ok(Report) }
    /// # }
    /// # impl TimerHandler for Report {
    /// #     fn on_timer(&mut self, tick: &Tick) -> Result { info!("{tick} missed {}", tick.missed); Ok(()) }
    /// # }
    /// # export!(Report: timers);
    /// # let mut driver = Driver::<Report>::start(json!({})).unwrap();
    /// driver.tick_with(Tick { name: "report".to_owned(), missed: 2, ..Tick::default() }).unwrap();
    /// assert_eq!(driver.take_log(), ["info: report missed 2"]);
    /// ```
    ///
    /// # Errors
    /// The failure of the plugin.
    ///
    /// # Panics
    /// As [`tick`](Self::tick).
    pub fn tick_with(&mut self, mut tick: Tick) -> Result {
        let known = self.manifest.timer_names();
        assert!(
            known.contains(&tick.name.as_str()),
            "{}",
            unknown_timer(&tick.name, &known)
        );
        if tick.scheduled.is_empty() {
            TICK_SCHEDULED.clone_into(&mut tick.scheduled);
        }
        let answer = exports::on_timer(&mut self.plugin, &tick);
        let answer = self.with_deferred(answer).map(Action::from);
        let Tick {
            name, missed, attempt, ..
        } = tick;
        let call = json!({ "call": "on-timer", "timer": name, "missed": missed, "attempt": attempt });
        self.record_result(call, answer).map(drop)
    }
}

impl<P: SyncHandler> Driver<P> {
    /// Tells the plugin that a source is synced.
    ///
    /// # Errors
    /// The failure of the plugin.
    pub fn synced(&mut self, source: SourceId) -> Result {
        let call = contract::Call {
            reason: Reason::Initial,
            attempt: self.attempt,
        };
        let answer = exports::on_synced(&mut self.plugin, &Synced::new(source, call));
        let answer = self.with_deferred(answer).map(Action::from);
        let key = (source.0, String::new(), String::new());
        self.record("on-synced", Some((&key, Reason::Initial)), answer)
            .map(drop)
    }
}

impl<P> Driver<P> {
    /// Keeps a call, about what it was and why it was made, and its result.
    pub(super) fn record(
        &mut self,
        call: &str,
        about: Option<(&Key, Reason)>,
        answer: Result<Action>,
    ) -> Result<Action> {
        let call = json!({
            "call": call, "object": about.map(|(key, _)| self.cache.shown(key)),
            "reason": about.map(|(_, reason)| reason.as_str()), "attempt": about.map(|_| self.attempt),
        });
        self.record_result(call, answer)
    }

    /// Keeps a call with its result.
    fn record_result(&mut self, mut call: Value, answer: Result<Action>) -> Result<Action> {
        let (result, error, after) = match &answer {
            Ok(action) => ("ok", None, action.delay()),
            Err(Failure::Permanent(message)) => ("permanent", Some(message), None),
            Err(Failure::RetryAfter(message, after)) => ("retry", Some(message), Some(*after)),
            Err(Failure::Retryable(message)) => ("retry", Some(message), None),
        };
        call["result"] = json!(result);
        call["error"] = json!(error);
        call["requeueAfter"] = json!(after.map(|after| humantime::format_duration(after).to_string()));
        self.calls.push(call);
        answer
    }

    fn event(&self, reason: Reason, key: &Key, object: &Value) -> Event {
        let metadata = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        Event {
            source: SourceId(key.0),
            namespace: key.1.clone(),
            name: key.2.clone(),
            uid: metadata("uid"),
            resource_version: metadata("resourceVersion"),
            reason,
            attempt: self.attempt,
        }
    }

    /// Makes the writes that a call has deferred, what it changed in `kv` and `metrics`, and the Events that it has
    /// recorded effective if it succeeded, or drops them.
    fn with_deferred<T>(&self, answer: Result<T>) -> Result<T> {
        self.cache.end_changes(answer.is_ok());
        self.cache.end_metrics(answer.is_ok());
        self.cache.end_events(answer.is_ok());
        match answer {
            Ok(done) => Ok(self.cache.make_deferred().map(|()| done)?),
            Err(failure) => {
                self.cache.drop_deferred();
                Err(failure)
            }
        }
    }
}

impl<P: IndexFuncs> Driver<P> {
    /// Returns the index values of an object, which is not put into the cache.
    ///
    /// # Errors
    /// The failure of the plugin, or a permanent failure if it returns an index that its manifest does not declare.
    pub fn index(&mut self, object: &Value) -> Result<IndexValues> {
        let key = self.cache.key_of(None, object);
        let (api_version, kind) = type_of(object);
        let Some(wanted) = self.manifest.indexed_of(api_version, kind) else {
            return Ok(IndexValues::new());
        };
        let shown = projection::document(object, wanted.payload());
        let of = ObjectRef::from(&self.event(self.reason, &key, object));
        let names = self.manifest.index_names();
        let values = self
            .cache
            .while_denied(|| exports::index(&mut self.plugin, names, &of, shown))?;
        let named = names.iter().zip(values).filter(|(_, values)| !values.is_empty());
        Ok(named.fold(IndexValues::new(), |all, (name, values)| all.with(name, values)))
    }
}

/// Why there is no timer with this name.
pub(super) fn unknown_timer(name: &str, known: &[&str]) -> String {
    let known = if known.is_empty() {
        "none".to_owned()
    } else {
        known.join(", ")
    };
    format!("the manifest has no timer {name:?}; it has {known}")
}

/// Whether the namespaces and the label selector of a rule select an object.
///
/// # Panics
/// If the selector is invalid: Informant refuses such a manifest.
fn selects(rule: &Events, object: &Value) -> bool {
    let namespaces = rule.wanted_namespaces();
    let labels = selector::parse(rule.wanted_labels()).unwrap_or_else(|message| panic!("manifest: {message}"));
    let is_in = |namespace: &Value| namespaces.iter().any(|wanted| namespace == wanted.as_str());
    (namespaces.is_empty() || is_in(&object["metadata"]["namespace"]))
        && labels.iter().all(|requirement| requirement.matches(object))
}

pub(super) fn type_of(object: &Value) -> (&str, &str) {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    (text("apiVersion"), text("kind"))
}
