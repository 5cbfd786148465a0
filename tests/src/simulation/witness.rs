//! What one handler is told, written down; and how it answers.

use std::sync::Arc;

use informant_cache::listener::{ListenerOptions, Notification};
use informant_cache::{Environment, HandlerError, Moment, Reason};
use informant_object::{KeyRef, SourceId};

use super::dice::Dice;
use super::history::{Call, Ended, Entry, ObjectVersion, Told};
use super::watched::Watched;
use super::world::{World, version_of_object};

/// How a handler behaves while there is trouble.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Script {
    /// How long a call takes, drawn between these.
    pub(super) call_ms_min: u64,
    pub(super) call_ms_max: u64,
    pub(super) fails_percent: u64,
    pub(super) refuses_percent: u64,
    /// The name of an object that it fails on each time.
    pub(super) poison: Option<&'static str>,
    /// It writes to what it is told of: notes the value that it saw in a label.
    pub(super) writes_back: bool,
}

/// How a call is to end.
pub(super) enum Verdict {
    Ok,
    Fail(HandlerError),
    /// It panics: a guest would trap.
    Panic,
}

/// One handler as the history knows it.
pub(super) struct Witness {
    pub(super) id: u32,
    pub(super) world: Arc<World>,
    pub(super) watched: Arc<Watched>,
    pub(super) keeps_all: bool,
    script: Script,
    /// What was there when it came.
    there: Vec<ObjectVersion>,
    began_unsynced: bool,
}

impl Witness {
    /// Writes down that a handler comes. What the informer holds from now on, it is to be told of.
    pub(super) fn come(
        world: &Arc<World>,
        watched: &Arc<Watched>,
        id: u32,
        script: Script,
        options: &ListenerOptions,
    ) -> Self {
        let never_fails = script.fails_percent == 0 && script.refuses_percent == 0 && script.poison.is_none();
        let never_full = options.pending_events_max >= 1_000 && options.pending_bytes_max >= 1 << 20;
        let keeps_all = never_fails && never_full;
        world.record(Entry::Came {
            handler: id,
            informer: watched.id,
            keeps_all,
        });
        let began_unsynced = !watched.named.has_synced();
        Self {
            id,
            keeps_all,
            script,
            // Before the first list everything the cluster held at the start must show up; later, everything the store
            // does.
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

    /// A call begins.
    pub(super) fn begin(&self, what: &Notification, reason: Reason, source: SourceId) {
        let (told, object, old, unknown) = match what {
            Notification::Add(object) => (Told::Add, version_of_object(object), None, false),
            Notification::Update { old, new } => {
                let old = old.as_ref().map(version_of_object);
                (Told::Update, version_of_object(new), old, false)
            }
            Notification::Delete {
                last,
                key,
                final_state_unknown,
            } => {
                let last = last.as_ref().map_or_else(|| nothing(key.as_ref()), version_of_object);
                (Told::Delete, last, None, *final_state_unknown)
            }
            Notification::Synced => return self.synced(source),
        };
        let stored = what.key().and_then(|key| self.watched.version_at(key));
        self.world.record(Entry::Begin(Call {
            handler: self.id,
            told,
            object,
            old,
            unknown,
            reason: reason.to_string(),
            stored,
        }));
    }

    /// Whatever was there when the handler came, and is still the same, must have been attempted.
    fn synced(&self, source: SourceId) {
        let there = match self.world.catalog.info(source) {
            // Its first list may have been of the past.
            _ if self.began_unsynced && self.watched.has_lagged() => Vec::new(),
            // The source has left since.
            None => Vec::new(),
            Some(info) => self.still_there(info.namespace.as_deref()),
        };
        self.world.record(Entry::Synced {
            handler: self.id,
            there,
        });
    }

    fn still_there(&self, namespace: Option<&str>) -> Vec<(String, String)> {
        // What was asked for before may be in force for a while. Where it is the state that decides whether an object
        // belongs, only one that did not change belonged all the time.
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
            .map(|object| (object.namespace, object.name))
            .collect()
    }

    /// How long a call takes, in milliseconds.
    pub(super) fn call_ms(&self, dice: &mut Dice) -> u64 {
        let Script {
            call_ms_min: least,
            call_ms_max: most,
            ..
        } = self.script;
        let drawn = least + dice.below(most.saturating_sub(least) + 1);
        if self.world.is_troubled() { drawn } else { 0 }
    }

    /// How a call about an object ends.
    pub(super) fn judge(&self, key: KeyRef<'_>, dice: &mut Dice) -> Verdict {
        if !self.world.is_troubled() {
            return Verdict::Ok;
        }
        let message = String::from("scripted");
        if self.script.poison == Some(key.name) {
            return Verdict::Fail(HandlerError::Retryable(message));
        }
        if dice.percent(self.script.refuses_percent) {
            return Verdict::Fail(HandlerError::Permanent(message));
        }
        if !dice.percent(self.script.fails_percent) {
            return Verdict::Ok;
        }
        let after = std::time::Duration::from_millis(dice.below(5_000));
        match dice.below(3) {
            0 => Verdict::Fail(HandlerError::Retryable(message)),
            1 => Verdict::Panic,
            _ => Verdict::Fail(HandlerError::RetryAfter { message, after }),
        }
    }

    /// Does to the cluster what the handler does in its call.
    pub(super) fn act(&self, what: &Notification) {
        let (Notification::Add(object) | Notification::Update { new: object, .. }) = what else {
            return;
        };
        if self.script.writes_back {
            self.world.note_seen(object);
        }
    }

    /// The call about `key` ends.
    pub(super) fn end(&self, key: KeyRef<'_>, verdict: &Verdict) {
        let ended = match verdict {
            Verdict::Ok => Ended::Ok,
            Verdict::Fail(HandlerError::Permanent(_)) => Ended::Permanent,
            Verdict::Fail(_) | Verdict::Panic => Ended::Retry,
        };
        self.world.record(Entry::End {
            handler: self.id,
            namespace: key.namespace.to_owned(),
            name: key.name.to_owned(),
            ended,
        });
    }
}

impl Verdict {
    /// What a native handler does: returns, or panics, quietly.
    pub(super) fn carry_out(self) -> Result<(), HandlerError> {
        match self {
            Verdict::Ok => Ok(()),
            Verdict::Fail(error) => Err(error),
            // Unlike `panic!`, without a message on standard error.
            Verdict::Panic => std::panic::resume_unwind(Box::new("scripted")),
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
