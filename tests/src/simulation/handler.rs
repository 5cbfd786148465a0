//! Scripted handlers: they take time, fail, panic, and record their calls.
//!
//! There are three kinds: one that pulls from its listener and makes several calls concurrently, as a plugin with
//! several instances does; a native one, which the informer calls; and a WebAssembly component ([`super::guest`]).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::listener::{
    Delivery, DeliveryOutcome, Lane, LaneSet, ListenerOptions, NextBatch, NextDelivery, Notification, Pause,
};
use informant_cache::{
    Environment, EventContext, EventHandler, HandlerError, ListenerHandle, Moment, ResourceIdentity,
};
use informant_object::{KeyRef, Object};
use informant_plugin_host::Plugin;
use informant_state::{EventEnd, KeySpace};
use tokio::sync::Notify;

use super::history::Entry;
use super::recorder::{CallRecorder, Script, ScriptedResult};
use super::rng::Rng;
use super::watched::Watched;
use super::world::World;

/// How many concurrent calls one handler makes, for different keys.
const CALLS_AT_ONCE_MAX: usize = 3;

/// Every third handler that pulls has so many lanes, as a plugin with several instances, and one call in each.
pub(super) const LANES: Lane = 3;

/// How many percent of the calls of a handler that keeps versions defer a write.
const DEFERS_PERCENT: u64 = 40;

/// The deadline for stopping a guest.
const GUEST_STOP_MAX: Duration = Duration::from_secs(10);

/// A registered handler.
pub(super) struct Handler {
    pub(super) id: u32,
    pub(super) watched: Arc<Watched>,
    pub(super) listener: ListenerHandle,
    /// It receives every state, see [`Entry::HandlerAdded`].
    pub(super) receives_every_state: bool,
    /// It has a shortest time between two calls for one key.
    pub(super) has_interval: bool,
    pub(super) native: Option<informant_informer::Registration>,
    /// It is WebAssembly.
    pub(super) guest: Option<Plugin>,
}

impl Handler {
    /// Registers a handler that pulls, and runs it until its listener is closed.
    pub(super) fn start(
        world: &Arc<World>,
        watched: &Arc<Watched>,
        id: u32,
        script: Script,
        options: ListenerOptions,
        rng: Rng,
    ) -> Self {
        Self::start_as(world, watched, id, script, options, rng, |_| None)
    }

    /// As [`start`](Self::start); `name` is called before the listener is attached, and returns where the handler keeps
    /// the version of each object.
    pub(super) fn start_as(
        world: &Arc<World>,
        watched: &Arc<Watched>,
        id: u32,
        script: Script,
        options: ListenerOptions,
        rng: Rng,
        name: impl FnOnce(&ListenerHandle) -> Option<KeySpace>,
    ) -> Self {
        let recorder = CallRecorder::register(world, watched, id, script, &options, false);
        let has_interval = options.min_interval.is_some();
        let listener = ListenerHandle::new(options);
        let lanes = if id % 3 == 2 { LANES } else { 1 };
        if lanes > 1 {
            // All its sources deliver the same objects.
            listener.consumer().set_lanes(
                lanes,
                Arc::new(|_| ResourceIdentity::new("", "", "configmaps")),
                world.environment.now(),
            );
        }
        let keys = name(&listener);
        let added = watched.named.add_listener(listener.clone());
        added.expect("the informer runs");
        let receives_every_state = recorder.receives_every_state;
        let pulling = Pulling {
            recorder: Arc::new(recorder),
            listener: listener.clone(),
            keys,
            lanes,
        };
        world.environment.spawn("scripted handler", Box::pin(pulling.run(rng)));
        Self {
            id,
            watched: Arc::clone(watched),
            listener,
            receives_every_state,
            has_interval,
            native: None,
            guest: None,
        }
    }

    /// Registers a native handler with an informer of one source.
    pub(super) fn start_native(
        world: &Arc<World>,
        watched: &Arc<Watched>,
        id: u32,
        script: Script,
        options: ListenerOptions,
        rng: Rng,
    ) -> Self {
        let recorder = CallRecorder::register(world, watched, id, script, &options, false);
        let receives_every_state = recorder.receives_every_state;
        let has_interval = options.min_interval.is_some();
        let source = watched.named.sources().remove(0);
        let added = source.add_handler(Box::new(Native { recorder, rng }), options);
        let registration = added.expect("the informer runs");
        Self {
            id,
            watched: Arc::clone(watched),
            listener: registration.listener().clone(),
            receives_every_state,
            has_interval,
            native: Some(registration),
            guest: None,
        }
    }

    /// Ends every pause.
    pub(super) fn resume(&self, world: &World) {
        self.listener.control().resume(Pause::Swap);
        self.listener.control().resume(Pause::Quarantine);
        if let Some(plugin) = self.guest.clone() {
            let resume = async move {
                plugin.resume().await;
            };
            world.environment.spawn("guest resume", Box::pin(resume));
        }
    }

    /// Its process is killed: it receives nothing more, and what it still answers does not count.
    pub(super) fn kill(&self, world: &World, dropped: Vec<String>) {
        self.listener.control().abandon();
        world.record(Entry::Killed {
            handler: self.id,
            dropped,
        });
    }

    /// Removes it.
    pub(super) fn remove(self, world: &World) {
        match &self.native {
            Some(registration) => self.watched.named.sources()[0].remove_handler(registration),
            None => self.watched.named.remove_listener(&self.listener),
        }
        match self.guest {
            Some(plugin) => {
                let stop = async move {
                    plugin.stop(GUEST_STOP_MAX).await;
                };
                world.environment.spawn("guest stop", Box::pin(stop));
            }
            None => drop(self.listener.control().abandon()),
        }
        world.record(Entry::HandlerRemoved { handler: self.id });
    }
}

/// Pulls from its listener.
struct Pulling {
    recorder: Arc<CallRecorder>,
    listener: ListenerHandle,
    keys: Option<KeySpace>,
    lanes: Lane,
}

impl Pulling {
    async fn run(self, mut rng: Rng) {
        let woken = Arc::new(Notify::new());
        let notify = woken.clone();
        self.listener
            .consumer()
            .set_waker(Arc::new(move || notify.notify_one()));
        let mut calls = FuturesUnordered::new();
        let mut idle = LaneSet::default();
        (0..self.lanes).for_each(|lane| idle.insert(lane));
        loop {
            let now = self.recorder.now();
            let next = match self.lanes {
                1 if calls.len() < CALLS_AT_ONCE_MAX => self.listener.consumer().next(now),
                1 => NextDelivery::Idle,
                _ => self.next_of(idle, now),
            };
            let wait = match next {
                NextDelivery::Deliver(delivery) => {
                    idle.remove(delivery.lane);
                    let Delivery {
                        notification,
                        reason,
                        source,
                        lane,
                        ..
                    } = &delivery;
                    self.recorder.begin(notification, *reason, *source, *lane);
                    calls.push(self.call(delivery, rng.split()));
                    continue;
                }
                NextDelivery::WaitUntil(moment) => moment.since(now),
                NextDelivery::Idle => Duration::MAX,
                NextDelivery::Closed if calls.is_empty() => return,
                NextDelivery::Closed => Duration::MAX,
            };
            let timer = self
                .recorder
                .world
                .environment
                .sleep(wait.min(Duration::from_secs(86_400)));
            tokio::select! {
                biased;
                Some(lane) = calls.next() => idle.insert(lane),
                () = woken.notified() => {}
                () = timer => {}
            }
        }
    }

    /// The next delivery for a lane without a call.
    fn next_of(&self, idle: LaneSet, now: Moment) -> NextDelivery {
        let mut taken = Vec::new();
        match (
            idle.is_empty(),
            self.listener.consumer().next_batch(idle, now, 1, &mut taken),
        ) {
            (true, _) | (_, NextBatch::Idle) => NextDelivery::Idle,
            (_, NextBatch::WaitUntil(until)) => NextDelivery::WaitUntil(until),
            (_, NextBatch::Closed) => NextDelivery::Closed,
            (_, NextBatch::Delivered(_)) => taken.pop().map_or(NextDelivery::Idle, NextDelivery::Deliver),
        }
    }

    /// Returns the lane that is idle again.
    async fn call(&self, delivery: Delivery, mut rng: Rng) -> Lane {
        let pause = Duration::from_millis(self.recorder.call_ms(&mut rng));
        if !pause.is_zero() {
            self.recorder.world.environment.sleep(pause).await;
        }
        let mut defers = false;
        let outcome = match delivery.key() {
            None => DeliveryOutcome::Ok,
            Some(key) => {
                self.recorder.act(&delivery.notification);
                defers = self.keys.is_some() && rng.percent(DEFERS_PERCENT);
                if defers {
                    self.recorder.defer(key);
                }
                let result = self.recorder.draw_result(key, &mut rng);
                self.recorder.end(key, &result);
                match result {
                    ScriptedResult::Ok => {
                        let again = self.recorder.ask(&delivery.notification, &mut rng);
                        again.map_or(DeliveryOutcome::Ok, DeliveryOutcome::RequeueAfter)
                    }
                    ScriptedResult::Panic => DeliveryOutcome::Trapped("scripted".into()),
                    ScriptedResult::Fail(error) => error.into(),
                }
            }
        };
        match &self.keys {
            Some(keys) if outcome.is_ok() => {
                let write_ms = defers.then(|| self.recorder.write_ms(&mut rng));
                self.keep(keys, &delivery, outcome, write_ms);
            }
            _ => self
                .listener
                .consumer()
                .done(delivery.token, outcome, self.recorder.now()),
        }
        delivery.lane
    }

    /// Keeps the version that the call has handled; the event ends when that is persisted. If the call deferred a
    /// write, which takes `write_ms`, that comes before.
    fn keep(&self, keys: &KeySpace, delivery: &Delivery, outcome: DeliveryOutcome, write_ms: Option<u64>) {
        let key = delivery.key().map(KeyRef::to_key);
        let change = key.as_ref().map(|key| {
            let object = match &delivery.notification {
                Notification::Add(object) | Notification::Update { new: object, .. } => Some(object),
                Notification::Delete { .. } | Notification::Synced | Notification::Tick(_) => None,
            };
            let version = object.map(|object| object.version().as_str().as_bytes().into());
            (key.to_string(), version)
        });
        let (listener, token) = (self.listener.clone(), delivery.token);
        let environment = Arc::clone(&self.recorder.world.environment);
        let end = EventEnd {
            source: delivery.source,
            key: key.clone(),
            report: Box::new(move || listener.consumer().done(token, outcome, environment.now())),
        };
        let changes = change.into_iter().collect();
        let (Some(write_ms), Some(key)) = (write_ms, key) else {
            return keys.commit(changes, Some(end));
        };
        let (held, recorder) = (keys.hold(changes), Arc::clone(&self.recorder));
        let write = async move {
            let environment = &recorder.world.environment;
            environment.sleep(Duration::from_millis(write_ms)).await;
            recorder.sent(key.as_ref());
            held.end(end);
        };
        self.recorder.world.environment.spawn("scripted write", Box::pin(write));
    }
}

/// Called by the informer. Under paused time its calls take no time.
struct Native {
    recorder: CallRecorder,
    rng: Rng,
}

impl Native {
    fn call(&mut self, what: &Notification, key: KeyRef<'_>, context: &EventContext) -> Result<(), HandlerError> {
        self.recorder.begin(what, context.reason, context.source, 0);
        let result = self.recorder.draw_result(key, &mut self.rng);
        self.recorder.end(key, &result);
        result.carry_out()
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
        self.recorder
            .begin(&Notification::Synced, context.reason, context.source, 0);
        Ok(())
    }
}
