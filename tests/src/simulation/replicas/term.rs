//! A term of a replica's handler: the time in which it is called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::listener::{Delivery, DeliveryOutcome, DeliveryToken, NextDelivery, Notification};
use informant_cache::{Environment, ListenerHandle, Moment};
use informant_object::KeyRef;
use informant_state::{EventEnd, HeldChanges, KeySpace};
use tokio::sync::{Notify, oneshot, watch};

use super::super::history::{Entry, Part};
use super::super::process::versions_in;
use super::super::recorder::{CallRecorder, ScriptedResult};
use super::super::rng::Rng;
use super::super::world::{World, locked};
use super::gate::ProcessGate;
use super::life::{Life, ProcessEnvironment};
use super::shared::Shared;

/// How many concurrent calls one handler makes, for different keys.
const CALLS_AT_ONCE_MAX: usize = 3;

/// How many percent of the calls defer a write.
const DEFERS_PERCENT: u64 = 40;

/// How long a request about an object takes in one way.
const WAY_MS: [u64; 5] = [0, 0, 5, 50, 1_000];

/// The pause of a handler whose gate is closed before it stands by, as in the plugin host.
const GATE_PAUSE: Duration = Duration::from_millis(100);

/// The time in which a handler is called.
pub(super) struct Term {
    world: Arc<World>,
    /// Of all objects, or of each part that it is called about.
    recorders: Mutex<BTreeMap<Option<Part>, Arc<CallRecorder>>>,
    listener: ListenerHandle,
    environment: Arc<ProcessEnvironment>,
    gate: Arc<ProcessGate>,
    /// It is over: what runs is aborted, and no event ends.
    is_over: AtomicBool,
    ends: Notify,
    /// Whether nothing of it runs.
    is_quiet: watch::Sender<bool>,
    /// Deliveries whose events have not ended.
    open: Mutex<BTreeSet<DeliveryToken>>,
    keys: Mutex<Option<KeySpace>>,
}

impl Term {
    pub(super) fn new(
        recorders: BTreeMap<Option<Part>, Arc<CallRecorder>>,
        world: &Arc<World>,
        listener: &ListenerHandle,
        gate: &Arc<ProcessGate>,
    ) -> Self {
        Self {
            world: Arc::clone(world),
            recorders: Mutex::new(recorders),
            listener: listener.clone(),
            environment: Arc::clone(&gate.environment),
            gate: Arc::clone(gate),
            is_over: AtomicBool::new(false),
            ends: Notify::new(),
            is_quiet: watch::Sender::new(false),
            open: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    /// Whether it is over: what runs is aborted, and no event ends.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.ends.notify_one();
    }

    /// Once it is over: waits until nothing of it runs. Returns the deliveries whose events have not ended.
    pub(super) async fn is_quiet(&self) -> BTreeSet<DeliveryToken> {
        // The sender lives as long as the term.
        let _ = self.is_quiet.subscribe().wait_for(|is_quiet| *is_quiet).await;
        std::mem::take(&mut *locked(&self.open))
    }

    /// What it has kept, if it keeps something.
    pub(super) fn kept(&self) -> Vec<Entry> {
        let Some(keys) = &*locked(&self.keys) else {
            return Vec::new();
        };
        let kept = |handler| Entry::Kept {
            handler,
            values: versions_in(keys),
        };
        self.handlers().into_iter().map(kept).collect()
    }

    /// The numbers under which it is called.
    pub(super) fn handlers(&self) -> Vec<u32> {
        let recorders = locked(&self.recorders);
        recorders.values().map(|recorder| recorder.id).collect()
    }

    /// It is called about these parts from now on, or no longer.
    pub(super) fn set_recorder(&self, part: Part, recorder: Option<Arc<CallRecorder>>) {
        match recorder {
            Some(recorder) => drop(locked(&self.recorders).insert(Some(part), recorder)),
            None => drop(locked(&self.recorders).remove(&Some(part))),
        }
    }

    /// As whom it is called about an object. About one of no part of its own, as another one: the history shows it.
    fn recorder(&self, key: Option<KeyRef<'_>>) -> Option<Arc<CallRecorder>> {
        let recorders = locked(&self.recorders);
        let covers = |part: &Option<Part>| {
            let is_in = |(part, key): (Part, KeyRef<'_>)| part.covers(key.namespace, key.name);
            part.zip(key).is_none_or(is_in)
        };
        let own = recorders.iter().find(|(part, _)| covers(part));
        own.or(recorders.first_key_value())
            .map(|(_, recorder)| Arc::clone(recorder))
    }

    /// Calls the handler until it is over.
    pub(super) async fn run(self: &Arc<Self>, shared: Option<&Shared>, name: &'static str, rng: Rng) {
        self.call_all(shared, name, rng).await;
        self.is_quiet.send_replace(true);
    }

    async fn call_all(self: &Arc<Self>, shared: Option<&Shared>, name: &'static str, mut rng: Rng) {
        let woken = Arc::new(Notify::new());
        let notify = woken.clone();
        self.listener
            .consumer()
            .set_waker(Arc::new(move || notify.notify_one()));
        let keys = match shared {
            Some(shared) => {
                let Some(keys) = self.find(shared, name).await else {
                    return;
                };
                Some(keys)
            }
            None => None,
        };
        let mut calls = FuturesUnordered::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let now = self.environment.now();
            let next = match self.gate.is_open() {
                false => NextDelivery::WaitUntil(now + GATE_PAUSE),
                true if calls.len() < CALLS_AT_ONCE_MAX => self.listener.consumer().next(now),
                true => NextDelivery::Idle,
            };
            let wait = match next {
                NextDelivery::Deliver(delivery) => match self.begin(&delivery) {
                    Ok(recorder) => {
                        calls.push(self.call(delivery, recorder, keys.as_ref(), rng.split()));
                        continue;
                    }
                    Err(wait) => wait,
                },
                NextDelivery::WaitUntil(moment) => moment.since(now),
                NextDelivery::Idle => Duration::from_secs(86_400),
                NextDelivery::Closed => return,
            };
            tokio::select! {
                biased;
                () = self.ends.notified() => {}
                Some(()) = calls.next() => {}
                () = woken.notified() => {}
                () = self.environment.sleep(wait) => {}
            }
        }
    }

    /// What it has kept in earlier terms, as an instance is created with it. None if the term ends before.
    async fn find(&self, shared: &Shared, name: &str) -> Option<KeySpace> {
        let keys = tokio::select! {
            biased;
            () = self.ends.notified() => None,
            keys = shared.keys(name) => keys,
        }?;
        for handler in self.handlers() {
            let values = versions_in(&keys);
            self.world.record(Entry::Found { handler, values });
        }
        *locked(&self.keys) = Some(keys.clone());
        Some(keys)
    }

    /// A call begins, unless its gate is closed: then it has to wait that long.
    fn begin(&self, delivery: &Delivery) -> Result<Arc<CallRecorder>, Duration> {
        let is_open = match delivery.key() {
            Some(key) => self.gate.request_end(key).is_some(),
            None => true,
        };
        let Some(recorder) = self.recorder(delivery.key()).filter(|_| is_open) else {
            self.listener
                .consumer()
                .interrupted(delivery.token, self.environment.now());
            return Err(GATE_PAUSE);
        };
        locked(&self.open).insert(delivery.token);
        let Delivery {
            notification,
            reason,
            source,
            ..
        } = delivery;
        // Which shard the end of a list is of is not known.
        if delivery.key().is_some() || locked(&self.recorders).contains_key(&None) {
            recorder.begin(notification, *reason, *source, 0);
        }
        Ok(recorder)
    }

    async fn call(
        self: &Arc<Self>,
        delivery: Delivery,
        recorder: Arc<CallRecorder>,
        keys: Option<&KeySpace>,
        mut rng: Rng,
    ) {
        let pause = Duration::from_millis(recorder.call_ms(&mut rng));
        if !pause.is_zero() {
            self.environment.sleep(pause).await;
        }
        let Some(key) = delivery.key() else {
            if self.gate.is_open() {
                self.done(delivery.token, DeliveryOutcome::Ok);
            }
            return;
        };
        // What it did is dropped: the process that acts receives the event.
        if self.gate.request_end(key).is_none() {
            return;
        }
        let defers = rng.percent(DEFERS_PERCENT);
        if defers {
            recorder.defer(key);
        }
        let result = recorder.draw_result(key, &mut rng);
        recorder.end(key, &result);
        match result {
            ScriptedResult::Ok if defers => {
                let held = keys.map(|keys| keys.hold(change_of(&delivery)));
                if self.write(&recorder, key, &mut rng).await {
                    self.ended(held, &delivery);
                }
            }
            ScriptedResult::Ok => match keys {
                Some(keys) => keys.commit(change_of(&delivery), Some(self.end_of(&delivery))),
                None => self.done(delivery.token, DeliveryOutcome::Ok),
            },
            ScriptedResult::Panic => self.done(delivery.token, DeliveryOutcome::Trapped("scripted".into())),
            ScriptedResult::Fail(error) => self.done(delivery.token, error.into()),
        }
    }

    /// The writes of a call were made.
    fn ended(self: &Arc<Self>, held: Option<HeldChanges>, delivery: &Delivery) {
        match held {
            Some(held) => held.end(self.end_of(delivery)),
            None => self.done(delivery.token, DeliveryOutcome::Ok),
        }
    }

    /// Makes the write that a call has deferred, again if its time is over. Returns false once it must not be made.
    async fn write(&self, recorder: &Arc<CallRecorder>, key: KeyRef<'_>, rng: &mut Rng) -> bool {
        // It waits for its turn.
        self.environment
            .sleep(Duration::from_millis(recorder.write_ms(rng)))
            .await;
        while let Some(request_end) = self.gate.request_end(key) {
            if self.request(recorder, key, request_end, rng).await {
                return true;
            }
        }
        false
    }

    /// Sends a write. Returns whether it has arrived in time.
    async fn request(&self, recorder: &Arc<CallRecorder>, key: KeyRef<'_>, request_end: Moment, rng: &mut Rng) -> bool {
        let mut way = || Duration::from_millis(rng.pick(&WAY_MS));
        let (there, back) = (way(), way());
        let request = Request {
            life: self.environment.life.clone(),
            is_cancelled: Arc::default(),
        };
        let (answered, answer) = oneshot::channel();
        let (recorder, key) = (Arc::clone(recorder), key.to_key());
        let (is_cancelled, environment) = (
            Arc::clone(&request.is_cancelled),
            Arc::clone(&recorder.world.environment),
        );
        let flight = async move {
            environment.sleep(there).await;
            // The process cancels it then. If it stands still, the bytes have left before.
            if !is_cancelled.load(Ordering::Relaxed) && environment.now() < request_end {
                recorder.sent(key.as_ref());
                environment.sleep(back).await;
                // The process may be gone.
                let _ = answered.send(());
            }
        };
        self.world.environment.spawn("scripted write", Box::pin(flight));
        let has_arrived = answer.await.is_ok();
        drop(request);
        has_arrived
    }

    fn end_of(self: &Arc<Self>, delivery: &Delivery) -> EventEnd {
        let (term, token) = (Arc::clone(self), delivery.token);
        EventEnd {
            source: delivery.source,
            key: delivery.key().map(KeyRef::to_key),
            report: Box::new(move || term.done(token, DeliveryOutcome::Ok)),
        }
    }

    fn done(&self, token: DeliveryToken, outcome: DeliveryOutcome) {
        if locked(&self.open).remove(&token) {
            self.listener.consumer().done(token, outcome, self.environment.now());
        }
    }
}

/// The call keeps the version that it has handled.
fn change_of(delivery: &Delivery) -> Vec<(String, Option<Arc<[u8]>>)> {
    let object = match &delivery.notification {
        Notification::Add(object) | Notification::Update { new: object, .. } => Some(object),
        Notification::Delete { .. } | Notification::Synced | Notification::Tick(_) => None,
    };
    let version = object.map(|object| object.version().as_str().as_bytes().into());
    delivery
        .key()
        .map(|key| (key.to_string(), version))
        .into_iter()
        .collect()
}

/// A request under way: cancelled when it is dropped, unless its process was killed. Then its bytes have left.
struct Request {
    life: Life,
    is_cancelled: Arc<AtomicBool>,
}

impl Drop for Request {
    fn drop(&mut self) {
        if !self.life.is_killed() {
            self.is_cancelled.store(true, Ordering::Relaxed);
        }
    }
}
