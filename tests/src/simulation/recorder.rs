//! Records the calls of one handler, and decides how they end.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::{ListenerOptions, Notification};
use informant_cache::{Environment, HandlerError, Moment, Reason};
use informant_object::{KeyRef, Object, SourceId};

use super::history::{Call, Ended, Entry, EventKind, ObjectVersion};
use super::rng::Rng;
use super::watched::Watched;
use super::world::{World, version_of_object};

/// How often a handler that asks for other calls does so.
const ASKS_PERCENT: u64 = 40;

/// How a handler behaves while there are faults.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Script {
    /// The range of a call's duration.
    pub(super) call_ms_min: u64,
    pub(super) call_ms_max: u64,
    pub(super) fails_percent: u64,
    pub(super) refuses_percent: u64,
    /// The name of an object on which it always fails.
    pub(super) poison: Option<&'static str>,
    /// It sometimes asks to be called again for an object that exists.
    pub(super) asks: bool,
    /// It writes to the objects it receives: it stores the value that it saw in a label.
    pub(super) writes_back: bool,
}

/// How a call ends.
pub(super) enum ScriptedResult {
    Ok,
    Fail(HandlerError),
    /// It panics, as a guest would trap.
    Panic,
}

/// One handler as the history shows it.
pub(super) struct CallRecorder {
    pub(super) id: u32,
    pub(super) world: Arc<World>,
    pub(super) watched: Arc<Watched>,
    pub(super) receives_every_state: bool,
    script: Script,
    /// The objects that existed when it was added.
    there: Vec<ObjectVersion>,
    began_unsynced: bool,
}

impl CallRecorder {
    /// Records a new handler. It must receive everything the informer has from now on.
    pub(super) fn register(
        world: &Arc<World>,
        watched: &Arc<Watched>,
        id: u32,
        script: Script,
        options: &ListenerOptions,
        forgets_suspects: bool,
    ) -> Self {
        let never_fails = script.fails_percent == 0 && script.refuses_percent == 0 && script.poison.is_none();
        let never_full = options.pending_events_max >= 1_000 && options.pending_bytes_max >= 1 << 20;
        let receives_every_state = never_fails && never_full && options.min_interval.is_none();
        world.record(Entry::HandlerAdded {
            handler: id,
            informer: watched.id,
            receives_every_state,
            min_interval_ms: options.min_interval.unwrap_or_default().as_millis() as u64,
            calls_per_second_max: options.calls_per_second_max,
            limits_suspects: options.limits_suspects,
            forgets_suspects,
        });
        let began_unsynced = !watched.named.has_synced();
        Self {
            id,
            receives_every_state,
            script,
            // Before the first list, everything that the cluster had at the start must be delivered; later, everything
            // in the store.
            there: if began_unsynced {
                watched.at_start.clone()
            } else {
                watched.stored()
            },
            began_unsynced,
            world: Arc::clone(world),
            watched: Arc::clone(watched),
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.world.environment.now()
    }

    /// A call into `instance` begins.
    pub(super) fn begin(&self, what: &Notification, reason: Reason, source: SourceId, instance: u8) {
        let (kind, object, old, unknown) = match what {
            Notification::Add(object) => (EventKind::Add, version_of_object(object), None, false),
            Notification::Update { old, new } => {
                let old = old.as_ref().map(version_of_object);
                (EventKind::Update, version_of_object(new), old, false)
            }
            Notification::Delete {
                last,
                key,
                final_state_unknown,
            } => {
                let last = last.as_ref().map_or_else(|| nothing(key.as_ref()), version_of_object);
                (EventKind::Delete, last, None, *final_state_unknown)
            }
            Notification::Synced => return self.synced(source, instance),
            Notification::Tick(_) => return,
        };
        self.read_body(what, source);
        let stored = what.key().and_then(|key| self.watched.version_at(key));
        self.world.record(Entry::Begin(Call {
            handler: self.id,
            kind,
            object,
            old,
            unknown,
            reason: reason.to_string(),
            stored,
            instance,
        }));
    }

    /// Reads what the handler received only the head of.
    fn read_body(&self, what: &Notification, source: SourceId) {
        let (Notification::Add(object) | Notification::Update { new: object, .. }) = what else {
            return;
        };
        let Some(source) = self.watched.catalog.source(source).filter(|_| object.is_head()) else {
            return;
        };
        let (world, head) = (Arc::clone(&self.world), version_of_object(object));
        let answer = move |body: Result<Object, _>| {
            if let Ok(body) = body {
                let body = version_of_object(&body);
                world.record(Entry::BodyRead { head, body });
            }
        };
        source.read_body(object, Box::new(answer));
    }

    /// Every object that existed when the handler was added, and has not changed since, must have been attempted.
    pub(super) fn synced(&self, source: SourceId, lane: u8) {
        let there = match self.watched.catalog.info(source) {
            // Its first list may have been of an old state.
            _ if self.began_unsynced && self.watched.has_lagged() => Vec::new(),
            // The source was removed since.
            None => Vec::new(),
            Some(info) => self.still_there(info.namespace.as_deref()),
        };
        self.world.record(Entry::Synced {
            handler: self.id,
            lane,
            there,
        });
    }

    fn still_there(&self, namespace: Option<&str>) -> Vec<ObjectVersion> {
        // An earlier selection may stay in force for a while. If labels decide whether an object is selected, only an
        // object that did not change was selected all the time.
        let selections = self.watched.selections_so_far();
        let by_state = selections.iter().any(|selection| selection.group.is_some());
        let mut there = self.there.clone();
        for selection in &selections {
            let cluster = self.world.cluster(selection);
            let is_now = |object: &ObjectVersion| {
                cluster.iter().any(|now| {
                    now.key() == object.key() && now.uid == object.uid && (!by_state || now.version == object.version)
                })
            };
            there.retain(is_now);
        }
        there
            .into_iter()
            .filter(|object| namespace.is_none_or(|namespace| namespace == object.namespace))
            .collect()
    }

    /// The duration of a call, in milliseconds.
    pub(super) fn call_ms(&self, rng: &mut Rng) -> u64 {
        let Script {
            call_ms_min: least,
            call_ms_max: most,
            ..
        } = self.script;
        let drawn = least + rng.below(most.saturating_sub(least) + 1);
        if self.world.faults_active() { drawn } else { 0 }
    }

    /// Decides how a call for an object ends.
    pub(super) fn draw_result(&self, key: KeyRef<'_>, rng: &mut Rng) -> ScriptedResult {
        if !self.world.faults_active() {
            return ScriptedResult::Ok;
        }
        let message = String::from("scripted");
        if self.script.poison == Some(key.name) {
            return ScriptedResult::Fail(HandlerError::Retryable(message));
        }
        if rng.percent(self.script.refuses_percent) {
            return ScriptedResult::Fail(HandlerError::Permanent(message));
        }
        if !rng.percent(self.script.fails_percent) {
            return ScriptedResult::Ok;
        }
        let after = Duration::from_millis(rng.below(5_000));
        match rng.below(3) {
            0 => ScriptedResult::Fail(HandlerError::Retryable(message)),
            1 => ScriptedResult::Panic,
            _ => ScriptedResult::Fail(HandlerError::RetryAfter { message, after }),
        }
    }

    /// Makes the writes that the handler makes in its call.
    pub(super) fn act(&self, what: &Notification) {
        let (Notification::Add(object) | Notification::Update { new: object, .. }) = what else {
            return;
        };
        if self.script.writes_back {
            self.world.note_seen(object);
        }
    }

    /// After a call that succeeded: whether it asks for another one, and after what time.
    pub(super) fn ask(&self, what: &Notification, rng: &mut Rng) -> Option<Duration> {
        let exists = matches!(what, Notification::Add(_) | Notification::Update { .. });
        if !self.script.asks || !exists || !self.world.faults_active() || !rng.percent(ASKS_PERCENT) {
            return None;
        }
        let after_ms = rng.pick(&[0, 1_000, 20_000]) + rng.below(1_000);
        let key = what.key()?;
        self.world.record(Entry::Asked {
            handler: self.id,
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
            after_ms,
        });
        Some(Duration::from_millis(after_ms))
    }

    /// Records that the call for `key` defers a write.
    pub(super) fn defer(&self, key: KeyRef<'_>) {
        self.world.record(Entry::Deferred {
            handler: self.id,
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
        });
    }

    /// How long a deferred write waits, in milliseconds.
    pub(super) fn write_ms(&self, rng: &mut Rng) -> u64 {
        let drawn = rng.pick(&[0, 20, 400, 2_000]);
        if self.world.faults_active() { drawn } else { 0 }
    }

    /// Records that the API server received the write that the call for `key` deferred.
    pub(super) fn sent(&self, key: KeyRef<'_>) {
        self.world.record(Entry::Sent {
            handler: self.id,
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
        });
    }

    /// Records the end of the call for `key`.
    pub(super) fn end(&self, key: KeyRef<'_>, result: &ScriptedResult) {
        let ended = match result {
            ScriptedResult::Ok => Ended::Ok,
            ScriptedResult::Fail(HandlerError::Permanent(_)) => Ended::Permanent,
            ScriptedResult::Fail(_) => Ended::Retry,
            ScriptedResult::Panic => Ended::Trap,
        };
        self.world.record(Entry::End {
            handler: self.id,
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
            ended,
        });
    }
}

impl ScriptedResult {
    /// Ends a native handler's call: returns, or panics, quietly.
    pub(super) fn carry_out(self) -> Result<(), HandlerError> {
        match self {
            ScriptedResult::Ok => Ok(()),
            ScriptedResult::Fail(error) => Err(error),
            // Unlike `panic!`, without a message on standard error.
            ScriptedResult::Panic => std::panic::resume_unwind(Box::new("scripted")),
        }
    }
}

fn nothing(key: KeyRef<'_>) -> ObjectVersion {
    ObjectVersion {
        namespace: key.namespace.to_owned(),
        name: key.name.to_owned(),
        uid: String::new(),
        version: 0,
    }
}
