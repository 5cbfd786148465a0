//! Runs a scenario: the plugin in a driver, with retries, dead letters and a clock that only `wait` moves.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};

use super::format::{Action, Object, Reference, Scenario};
use super::requests::Requests;
use super::start::{context, start_indexer};
use super::yaml::{Node, Read};
use crate::action::Action as Done;
use crate::event::{Reason, SourceId, Tick};
use crate::failure::{Failure, Result};
use crate::index_values::IndexValues;
use crate::testing::cache::Key;
use crate::testing::cluster::merge;
use crate::testing::driver::Driver;
use crate::testing::exported::{AnyRole, Exported, Roles};
use crate::testing::instance::instance;

/// 2026-01-01T00:00:00Z, when the steps begin.
const START: Duration = Duration::from_secs(1_767_225_600);

/// As in Informant, without what it adds at random.
const BACK_OFF_FIRST: Duration = Duration::from_secs(1);
const BACK_OFF_MAX: Duration = Duration::from_secs(300);
const REQUEUE_MIN: Duration = Duration::from_millis(100);

/// Stands for a source in the key of a timer, which has the timer's name.
const TIMERS: u32 = u32::MAX;

/// The most events of the plugin's own writes after one call.
const EVENTS_MAX: usize = 1_000;

/// A call of the plugin.
#[derive(Debug, Clone)]
pub(super) enum Call {
    /// Delivers what an object is when the call is made.
    Object(Reason, Known),
    /// Delivers the end of an object, whose last state this is, and whether the final state is unknown.
    Deleted(Reason, Value, bool),
    Synced,
    /// Runs the timer of its key: when the run was due, and how many it stands for.
    Timer(String, u32),
}

/// What the plugin knows of an object before a call.
#[derive(Debug, Clone)]
pub(super) enum Known {
    /// It has accepted this state, or received none.
    Exactly(Option<Value>),
    /// As before, but a call has failed since. So it is called even if nothing that it receives has changed.
    Maybe(Option<Value>),
    /// Somebody asked for the call: an update without an old state.
    Asked,
}

/// A call that is due later: a retry, or one that the plugin asked for.
#[derive(Debug)]
pub(super) struct DelayedCall {
    due: Duration,
    call: Call,
    attempt: u32,
    /// Of a retry, those that lengthen the back-off: not the waits that the plugin asked for.
    failures: Option<u32>,
}

#[derive(Debug)]
pub(super) struct DeadLetter {
    pub(super) key: Key,
    pub(super) message: String,
    call: Call,
}

/// One run of a scenario.
pub(super) struct Run<'s, P> {
    pub(super) scenario: &'s Scenario,
    pub(super) driver: Driver<AnyRole<P>>,
    pub(super) roles: Roles<P>,
    /// The types that informers of the plugin watch.
    pub(super) watched: Vec<(String, String)>,
    pub(super) requests: Rc<RefCell<Requests>>,
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) delayed: BTreeMap<Key, DelayedCall>,
    pub(super) now: Duration,
    /// The values in the plugin's indexes, by uid and version of the object.
    pub(super) indexed: Rc<RefCell<BTreeMap<String, IndexValues>>>,
}

impl<P: Exported> Run<'_, P> {
    /// Runs all steps, and returns what differs.
    pub(super) fn all(&mut self) -> Read<Vec<String>> {
        let mut differences = Vec::new();
        for step in &self.scenario.steps {
            let refusal = match &step.action {
                Some((node, action)) => self.act(node, action)?,
                None => None,
            };
            differences.extend(self.compare(step, refusal));
        }
        Ok(differences)
    }

    /// Computes the index values of objects that have changed.
    pub(super) fn index(&mut self) {
        if self.roles.index.is_none() {
            return;
        }
        for (_, object) in self.driver.cache.objects() {
            let state = state_of(&object);
            if !self.indexed.borrow().contains_key(&state) {
                // An object whose index function fails has no values.
                let values = self.driver.index(&object).unwrap_or_default();
                self.indexed.borrow_mut().insert(state, values);
            }
        }
    }

    /// Returns why a new version was refused.
    fn act(&mut self, node: &Node, action: &Action) -> Read<Option<Failure>> {
        match action {
            Action::Apply(objects) => {
                for object in objects {
                    self.apply(object, Reason::Watch)?;
                }
            }
            Action::Patch(patch) => {
                let key = self.existing(node, &patch.at)?;
                let mut after = self.driver.cache.get(&key).unwrap_or_default();
                merge(&mut after, &patch.value);
                self.change(after, Reason::Watch)?;
            }
            Action::Delete(reference) => self.delete(&self.existing(node, reference)?)?,
            Action::Wait(time) => self.wait(*time)?,
            Action::Http(answers) => self.requests.borrow_mut().answers.clone_from(answers),
            Action::Swap => return Ok(self.swap().err()),
            Action::Requeue(reference) => self.redeliver(node, reference.as_ref())?,
            Action::Timer(name) => self.tick(name)?,
            Action::Trigger(reference) => {
                let key = self.existing(node, reference)?;
                self.ask(&key, Call::Object(Reason::Trigger, Known::Asked))?;
            }
        }
        Ok(None)
    }

    pub(super) fn apply(&mut self, object: &Object, reason: Reason) -> Read<()> {
        let namespace = Reference {
            resource: "v1/namespaces".to_owned(),
            namespace: String::new(),
            name: object.at.namespace.clone(),
        };
        // Namespaces that do not exist are created first.
        if !["", "default"].contains(&namespace.name.as_str()) && self.find(&namespace).is_none() {
            let metadata = json!({ "name": namespace.name });
            let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
            self.change(namespace, reason)?;
        }
        self.change(object.value.clone(), reason)
    }

    /// Writes an object to the cluster, and delivers the event.
    fn change(&mut self, mut after: Value, reason: Reason) -> Read<()> {
        let key = self.driver.cache.key_of(None, &after);
        let before = self.driver.cache.get(&key);
        if let Some(before) = &before {
            for name in ["uid", "resourceVersion"] {
                after["metadata"][name] = before["metadata"][name].clone();
            }
            // The API server writes nothing then.
            if *before == after {
                return Ok(());
            }
        }
        self.driver.cache.put_key(None, after);
        self.event(&key, before, reason);
        self.settle()
    }

    fn delete(&mut self, key: &Key) -> Read<()> {
        let Some(mut object) = self.driver.cache.get(key) else {
            return Ok(());
        };
        let finalizers = object["metadata"]["finalizers"].as_array();
        if finalizers.is_some_and(|finalizers| !finalizers.is_empty()) {
            object["metadata"]["deletionTimestamp"] = self.time().into();
            return self.change(object, Reason::Watch);
        }
        self.driver.cache.remove(SourceId(key.0), &key.1, &key.2);
        self.event(key, Some(object), Reason::Watch);
        self.settle()
    }

    pub(super) fn find(&self, reference: &Reference) -> Option<Key> {
        let shown = reference.to_string();
        let mut keys = self.driver.cache.objects().into_iter().map(|(key, _)| key);
        keys.find(|key| self.driver.cache.shown(key) == shown)
    }

    fn existing(&self, node: &Node, reference: &Reference) -> Read<Key> {
        let missing = || node.at(format_args!("{reference} does not exist: apply it first"));
        self.find(reference).ok_or_else(missing)
    }

    /// Delivers what an object is now. While a retry is due, that delivers it.
    fn event(&mut self, key: &Key, before: Option<Value>, reason: Reason) {
        let before = before.filter(|before| self.driver.receives(before));
        let now = self.received(key);
        let is_dead = self.dead_letters.iter().any(|letter| letter.key == *key);
        let retry = self.delayed.get_mut(key).filter(|delayed| delayed.failures.is_some());
        let call = match (before, now, retry.as_ref().map(|delayed| &delayed.call)) {
            // What follows is delivered after the end of the object before.
            (_, _, Some(Call::Deleted(..))) | (None, None, _) => return,
            (_, Some(_), Some(Call::Object(_, known))) => Call::Object(reason, known.clone()),
            (before, Some(_), _) if is_dead => Call::Object(reason, Known::Maybe(before)),
            (before, Some(_), _) => Call::Object(reason, Known::Exactly(before)),
            (Some(last), None, _) => Call::Deleted(reason, last, false),
        };
        match retry {
            Some(delayed) => (delayed.attempt, delayed.call) = (0, call),
            None => self.make(key, call, 0, 0),
        }
    }

    /// The object of a key, if the plugin receives it.
    fn received(&self, key: &Key) -> Option<Value> {
        self.driver.cache.get(key).filter(|now| self.driver.receives(now))
    }

    /// Makes a call that somebody asks for, unless a retry is due.
    fn ask(&mut self, key: &Key, call: Call) -> Read<()> {
        if self.delayed.get(key).is_none_or(|delayed| delayed.failures.is_none()) {
            self.make(key, call, 0, 0);
        }
        self.settle()
    }

    /// Runs a timer. While a retry is due, that stands for this run, too.
    fn tick(&mut self, name: &str) -> Read<()> {
        let key = (TIMERS, String::new(), name.to_owned());
        let scheduled = self.time();
        match self.delayed.get_mut(&key) {
            Some(DelayedCall {
                call: Call::Timer(due, missed),
                attempt,
                ..
            }) => {
                (*due, *attempt) = (scheduled, 0);
                *missed += 1;
            }
            _ => self.make(&key, Call::Timer(scheduled, 0), 0, 0),
        }
        self.settle()
    }

    /// What the clock shows, RFC 3339 in UTC.
    fn time(&self) -> String {
        let now = std::time::UNIX_EPOCH + START + self.now;
        humantime::format_rfc3339_seconds(now).to_string()
    }

    /// Delivers the events of the plugin's own writes.
    pub(super) fn settle(&mut self) -> Read<()> {
        let mut changed = VecDeque::from(self.driver.cache.take_changed());
        let mut events = 0;
        while let Some((key, before)) = changed.pop_front() {
            events += 1;
            if events > EVENTS_MAX {
                let why = format!("the plugin still writes after {EVENTS_MAX} events: compare before writing");
                return self.scenario.root.fail(why);
            }
            self.event(&key, before, Reason::Watch);
            changed.extend(self.driver.cache.take_changed());
        }
        Ok(())
    }

    /// Makes a call, and keeps what follows from it.
    pub(super) fn make(&mut self, key: &Key, call: Call, attempt: u32, failures: u32) {
        self.index();
        let calls = self.driver.calls.len();
        self.driver.attempt = attempt;
        let result = self.call(key, &call);
        // An event that the plugin is not called for cancels nothing.
        if self.driver.calls.len() == calls {
            return;
        }
        self.delayed.remove(key);
        let (after, failures) = match result {
            Err(Failure::RetryAfter(_, after)) => (after, failures),
            Err(Failure::Retryable(_)) => {
                let factor = 2_u32.saturating_pow(failures);
                (BACK_OFF_FIRST.saturating_mul(factor).min(BACK_OFF_MAX), failures + 1)
            }
            ended => return self.end(key, call, ended.err()),
        };
        let call = match call {
            Call::Object(reason, Known::Exactly(known)) => Call::Object(reason, Known::Maybe(known)),
            call => call,
        };
        self.later(key, after, call, attempt + 1, Some(failures));
    }

    fn later(&mut self, key: &Key, after: Duration, call: Call, attempt: u32, failures: Option<u32>) {
        let due = self.now + after;
        let delayed = DelayedCall {
            due,
            call,
            attempt,
            failures,
        };
        self.delayed.insert(key.clone(), delayed);
    }

    /// A call has succeeded, or is not retried.
    fn end(&mut self, key: &Key, call: Call, failure: Option<Failure>) {
        self.dead_letters.retain(|letter| letter.key != *key);
        let is_delete = matches!(call, Call::Deleted(..));
        match failure {
            None => self.keep_requeue(key),
            // A dead letter is about an object.
            Some(_) if matches!(call, Call::Synced | Call::Timer(..)) => {}
            Some(failure) => self.dead_letters.push(DeadLetter {
                key: key.clone(),
                message: failure.message().to_owned(),
                call,
            }),
        }
        // It was created again while the delete was retried.
        if is_delete && self.received(key).is_some() {
            self.event(key, None, Reason::Watch);
        }
    }

    fn call(&mut self, key: &Key, call: &Call) -> Result {
        let now = self.received(key);
        let driver = &mut self.driver;
        let action = match (call, now) {
            (Call::Synced, _) => driver.synced(SourceId(key.0)).map(Done::from),
            (Call::Timer(scheduled, missed), _) => {
                let tick = Tick {
                    name: key.2.clone(),
                    scheduled: scheduled.clone(),
                    missed: *missed,
                    attempt: driver.attempt,
                };
                driver.tick_with(tick).map(Done::from)
            }
            (Call::Deleted(reason, last, is_unknown), _) => driver.call_delete(*reason, key, last, *is_unknown),
            (Call::Object(reason, Known::Exactly(before)), Some(now)) => {
                driver.reason = *reason;
                driver.deliver(key, before.as_ref(), &now)
            }
            (Call::Object(reason, Known::Maybe(before)), Some(now)) => {
                driver.call_upsert(*reason, key, before.is_none(), before.as_ref(), &now)
            }
            (Call::Object(reason, Known::Asked), Some(now)) => driver.call_upsert(*reason, key, false, None, &now),
            (Call::Object(..), None) => Ok(Done::done()),
        };
        action.map(drop)
    }

    /// Keeps the call that the plugin has asked for.
    fn keep_requeue(&mut self, key: &Key) {
        let Some(requeue) = self.driver.requeues.get(key).cloned() else {
            return;
        };
        let call = match requeue.deleted {
            Some((last, is_unknown)) => Call::Deleted(Reason::RequeueAfter, last, is_unknown),
            None => Call::Object(Reason::RequeueAfter, Known::Asked),
        };
        self.later(key, requeue.after.max(REQUEUE_MIN), call, 0, None);
    }

    fn wait(&mut self, time: Duration) -> Read<()> {
        let end = self.now + time;
        loop {
            let due = self.delayed.iter().filter(|(_, delayed)| delayed.due <= end);
            let Some(key) = due.min_by_key(|(_, delayed)| delayed.due).map(|(key, _)| key.clone()) else {
                self.now = end;
                return Ok(());
            };
            if let Some(delayed) = self.delayed.remove(&key) {
                self.now = self.now.max(delayed.due);
                self.make(&key, delayed.call, delayed.attempt, delayed.failures.unwrap_or(0));
                self.settle()?;
            }
        }
    }

    /// Redelivers dead letters, or the object of a key.
    fn redeliver(&mut self, node: &Node, reference: Option<&Reference>) -> Read<()> {
        let letters = self.dead_letters.iter().map(|letter| letter.key.clone());
        let keys: Vec<Key> = match reference {
            None => letters.collect(),
            Some(reference) => {
                let is_its = |key: &Key| self.driver.cache.shown(key) == reference.to_string();
                letters.filter(is_its).chain(self.find(reference)).take(1).collect()
            }
        };
        if keys.is_empty() {
            let of = reference.map_or(String::new(), |reference| format!(" of {reference}"));
            return node.fail(format_args!("the plugin has no dead letter{of}"));
        }
        for key in keys {
            let letter = self.dead_letters.iter().find(|letter| letter.key == key);
            let call = match (self.received(&key), letter.map(|letter| &letter.call)) {
                (None, Some(Call::Deleted(_, last, is_unknown))) => {
                    Call::Deleted(Reason::Requeue, last.clone(), *is_unknown)
                }
                // As if for the first time.
                _ => Call::Object(Reason::Requeue, Known::Maybe(None)),
            };
            self.ask(&key, call)?;
        }
        Ok(())
    }

    /// Replaces the plugin by itself.
    fn swap(&mut self) -> Result {
        let mut state = None;
        if let Some(save) = self.roles.save {
            let saved = save(&self.driver.plugin.plugin).map(|saved| state = Some(saved));
            self.driver.record("save", None, saved.map(Done::from))?;
        }
        let context = context(self.scenario, "events", "swap");
        let (manifest, mut plugin) = instance::<AnyRole<P>>(&self.driver.cache, context)?;
        if let (Some(restore), Some(state)) = (self.roles.restore, state) {
            let restored = restore(&mut plugin.plugin, &state);
            self.driver.record("restore", None, restored.map(Done::from))?;
        }
        (self.driver.manifest, self.driver.plugin) = (manifest, plugin);
        start_indexer(self.scenario, &self.roles, &mut self.driver)
    }
}

/// Names a state of an object.
pub(super) fn state_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    format!("{}/{}", metadata["uid"], metadata["resourceVersion"])
}
