//! A scripted handler: pulls from its listener, takes its time, fails now and then, and writes everything down.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::listener::{Delivery, ListenerOptions, Next, Outcome, What};
use informant_cache::{Environment, ListenerHandle};
use tokio::sync::Notify;

use super::dice::Dice;
use super::history::{Ended, Entry, ObjectVersion, Told};
use super::world::{World, version_of_object};

/// How many calls one handler makes at once, about different keys.
const CALLS_AT_ONCE_MAX: usize = 3;

/// How a handler behaves while there is trouble.
#[derive(Clone, Copy, Debug)]
pub(super) struct Script {
    pub(super) call_ms_max: u64,
    pub(super) fails_percent: u64,
    pub(super) refuses_percent: u64,
}

pub(super) struct Handler {
    id: u32,
    script: Script,
    world: Arc<World>,
    listener: ListenerHandle,
    /// What was there when it came.
    there: Vec<ObjectVersion>,
}

impl Handler {
    /// Registers a handler and lets it run until its listener is closed.
    pub(super) fn start(
        world: &Arc<World>,
        id: u32,
        script: Script,
        options: ListenerOptions,
        dice: Dice,
    ) -> ListenerHandle {
        let listener = ListenerHandle::new(options);
        // Before the first list everything the cluster holds must show up; later, everything the store does.
        let there = if world.informer.has_synced() {
            world.stored()
        } else {
            world.cluster()
        };
        let handler = Self {
            id,
            script,
            world: world.clone(),
            listener: listener.clone(),
            there,
        };
        world
            .informer
            .add_listener(listener.clone())
            .expect("the informer runs");
        world.environment.spawn("scripted handler", Box::pin(handler.run(dice)));
        listener
    }

    async fn run(self, mut dice: Dice) {
        let woken = Arc::new(Notify::new());
        let notify = woken.clone();
        self.listener.set_waker(Arc::new(move || notify.notify_one()));
        let mut calls = FuturesUnordered::new();
        loop {
            let next = if calls.len() < CALLS_AT_ONCE_MAX {
                self.listener.next(self.now())
            } else {
                Next::Idle
            };
            let wait = match next {
                Next::Deliver(delivery) => {
                    self.begin(&delivery);
                    calls.push(self.call(delivery, dice.split()));
                    continue;
                }
                Next::WaitUntil(moment) => moment.since(self.now()),
                Next::Idle => Duration::MAX,
                Next::Closed if calls.is_empty() => return,
                Next::Closed => Duration::MAX,
            };
            let timer = self.world.environment.sleep(wait.min(Duration::from_secs(86_400)));
            tokio::select! {
                biased;
                Some(()) = calls.next() => {}
                () = woken.notified() => {}
                () = timer => {}
            }
        }
    }

    fn now(&self) -> informant_cache::Moment {
        self.world.environment.now()
    }

    fn begin(&self, delivery: &Delivery) {
        let (told, object, old, unknown) = match &delivery.what {
            What::Add(object) => (Told::Add, version_of_object(object), None, false),
            What::Update { old, new } => (
                Told::Update,
                version_of_object(new),
                old.as_ref().map(version_of_object),
                false,
            ),
            What::Delete {
                last,
                key,
                final_state_unknown,
            } => {
                let nothing = || ObjectVersion {
                    namespace: key.namespace().to_owned(),
                    name: key.name().to_owned(),
                    uid: String::new(),
                    version: 0,
                };
                (
                    Told::Delete,
                    last.as_ref().map_or_else(nothing, version_of_object),
                    None,
                    *final_state_unknown,
                )
            }
            What::Synced => return self.synced(),
        };
        let snapshot = self.world.informer.snapshot();
        let stored = delivery
            .key()
            .and_then(|key| snapshot.get(key))
            .and_then(|object| object.version().number());
        let reason = format!("{:?}", delivery.reason).to_lowercase();
        self.world.record(Entry::Begin {
            handler: self.id,
            told,
            object,
            old,
            unknown,
            reason,
            stored,
        });
    }

    fn synced(&self) {
        let cluster = self.world.cluster();
        let still = |object: &&ObjectVersion| {
            cluster
                .iter()
                .any(|now| now.key() == object.key() && now.uid == object.uid)
        };
        let there = self
            .there
            .iter()
            .filter(still)
            .map(|object| (object.namespace.clone(), object.name.clone()))
            .collect();
        self.world.record(Entry::Synced {
            handler: self.id,
            there,
        });
    }

    async fn call(&self, delivery: Delivery, mut dice: Dice) {
        let pause = Duration::from_millis(dice.below(self.script.call_ms_max + 1));
        if self.world.is_troubled() && !pause.is_zero() {
            self.world.environment.sleep(pause).await;
        }
        let (ended, outcome) = if !self.world.is_troubled() || matches!(delivery.what, What::Synced) {
            (Ended::Ok, Outcome::Ok)
        } else if dice.percent(self.script.refuses_percent) {
            (Ended::Permanent, Outcome::Permanent("scripted".into()))
        } else if dice.percent(self.script.fails_percent) {
            let wait = Duration::from_millis(dice.below(5_000));
            let message = String::from("scripted");
            let outcomes = [
                Outcome::Retryable(message.clone()),
                Outcome::Trapped(message.clone()),
                Outcome::RetryAfter(message, wait),
            ];
            let [retryable, trapped, after] = outcomes;
            let chosen = match dice.below(3) {
                0 => retryable,
                1 => trapped,
                _ => after,
            };
            (Ended::Retry, chosen)
        } else {
            (Ended::Ok, Outcome::Ok)
        };
        if let Some(key) = delivery.key() {
            let (namespace, name) = (key.namespace.to_owned(), key.name.to_owned());
            self.world.record(Entry::End {
                handler: self.id,
                namespace,
                name,
                ended,
            });
        }
        self.listener.done(delivery.token, outcome, self.now());
    }
}
