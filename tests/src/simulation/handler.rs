//! Scripted handlers: they take their time, fail, panic, and write everything down.
//!
//! Two kinds: one that pulls from its listener and makes several calls at once, as a plugin with several instances
//! does; and a native one, which the informer drives.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::listener::{Delivery, DeliveryOutcome, ListenerOptions, NextDelivery, Notification, Pause};
use informant_cache::{Environment, EventContext, EventHandler, HandlerError, ListenerHandle};
use informant_object::{KeyRef, Object};
use tokio::sync::Notify;

use super::dice::Dice;
use super::history::Entry;
use super::watched::Watched;
use super::witness::{Script, Verdict, Witness};
use super::world::World;

/// How many calls one handler makes at once, about different keys.
const CALLS_AT_ONCE_MAX: usize = 3;

/// A handler that is registered.
pub(super) struct Handler {
    pub(super) id: u32,
    pub(super) watched: Arc<Watched>,
    pub(super) listener: ListenerHandle,
    /// It is told every state, see [`Entry::Came`].
    pub(super) keeps_all: bool,
    native: Option<informant_informer::Registration>,
}

impl Handler {
    /// Registers a handler that pulls, and lets it run until its listener is closed.
    pub(super) fn start(
        world: &Arc<World>,
        watched: &Arc<Watched>,
        id: u32,
        script: Script,
        options: ListenerOptions,
        dice: Dice,
    ) -> Self {
        let witness = Witness::come(world, watched, id, script, &options);
        let listener = ListenerHandle::new(options);
        let added = watched.named.add_listener(listener.clone());
        added.expect("the informer runs");
        let keeps_all = witness.keeps_all;
        let pulling = Pulling {
            witness,
            listener: listener.clone(),
        };
        world.environment.spawn("scripted handler", Box::pin(pulling.run(dice)));
        Self {
            id,
            watched: Arc::clone(watched),
            listener,
            keeps_all,
            native: None,
        }
    }

    /// Registers a native handler with an informer of one source.
    pub(super) fn start_native(
        world: &Arc<World>,
        watched: &Arc<Watched>,
        id: u32,
        script: Script,
        options: ListenerOptions,
        dice: Dice,
    ) -> Self {
        let witness = Witness::come(world, watched, id, script, &options);
        let keeps_all = witness.keeps_all;
        let source = watched.named.sources().remove(0);
        let added = source.add_handler(Box::new(Native { witness, dice }), options);
        let registration = added.expect("the informer runs");
        Self {
            id,
            watched: Arc::clone(watched),
            listener: registration.listener().clone(),
            keeps_all,
            native: Some(registration),
        }
    }

    /// Ends whatever holds it back.
    pub(super) fn resume(&self) {
        self.listener.resume(Pause::Swap);
        self.listener.resume(Pause::Quarantine);
    }

    /// Removes it.
    pub(super) fn leave(self, world: &World) {
        match &self.native {
            Some(registration) => self.watched.named.sources()[0].remove_handler(registration),
            None => self.watched.named.remove_listener(&self.listener),
        }
        self.listener.abandon();
        world.record(Entry::Left { handler: self.id });
    }
}

/// Pulls from its listener.
struct Pulling {
    witness: Witness,
    listener: ListenerHandle,
}

impl Pulling {
    async fn run(self, mut dice: Dice) {
        let woken = Arc::new(Notify::new());
        let notify = woken.clone();
        self.listener.set_waker(Arc::new(move || notify.notify_one()));
        let mut calls = FuturesUnordered::new();
        loop {
            let now = self.witness.now();
            let next = if calls.len() < CALLS_AT_ONCE_MAX {
                self.listener.next(now)
            } else {
                NextDelivery::Idle
            };
            let wait = match next {
                NextDelivery::Deliver(delivery) => {
                    self.witness
                        .begin(&delivery.notification, delivery.reason, delivery.source);
                    calls.push(self.call(delivery, dice.split()));
                    continue;
                }
                NextDelivery::WaitUntil(moment) => moment.since(now),
                NextDelivery::Idle => Duration::MAX,
                NextDelivery::Closed if calls.is_empty() => return,
                NextDelivery::Closed => Duration::MAX,
            };
            let timer = self
                .witness
                .world
                .environment
                .sleep(wait.min(Duration::from_secs(86_400)));
            tokio::select! {
                biased;
                Some(()) = calls.next() => {}
                () = woken.notified() => {}
                () = timer => {}
            }
        }
    }

    async fn call(&self, delivery: Delivery, mut dice: Dice) {
        let pause = Duration::from_millis(self.witness.call_ms(&mut dice));
        if !pause.is_zero() {
            self.witness.world.environment.sleep(pause).await;
        }
        let outcome = match delivery.key() {
            None => DeliveryOutcome::Ok,
            Some(key) => {
                self.witness.act(&delivery.notification);
                let verdict = self.witness.judge(key, &mut dice);
                self.witness.end(key, &verdict);
                match verdict {
                    Verdict::Ok => DeliveryOutcome::Ok,
                    Verdict::Panic => DeliveryOutcome::Trapped("scripted".into()),
                    Verdict::Fail(error) => error.into(),
                }
            }
        };
        self.listener.done(delivery.token, outcome, self.witness.now());
    }
}

/// Is called by the informer. Under paused time its calls take none.
struct Native {
    witness: Witness,
    dice: Dice,
}

impl Native {
    fn call(&mut self, what: &Notification, key: KeyRef<'_>, context: &EventContext) -> Result<(), HandlerError> {
        self.witness.begin(what, context.reason, context.source);
        let verdict = self.witness.judge(key, &mut self.dice);
        self.witness.end(key, &verdict);
        verdict.carry_out()
    }
}

impl EventHandler for Native {
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.call(&Notification::Add(object.clone()), object.key(), context)
    }

    fn on_update(&mut self, old: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError> {
        let what = Notification::Update {
            old: old.cloned(),
            new: new.clone(),
        };
        self.call(&what, new.key(), context)
    }

    fn on_delete(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        final_state_unknown: bool,
        context: &EventContext,
    ) -> Result<(), HandlerError> {
        let what = Notification::Delete {
            last: last.cloned(),
            key: key.to_key(),
            final_state_unknown,
        };
        self.call(&what, key, context)
    }

    fn on_synced(&mut self, context: &EventContext) -> Result<(), HandlerError> {
        self.witness
            .begin(&Notification::Synced, context.reason, context.source);
        Ok(())
    }
}
