//! A scripted handler of a replica, which acts or stands by as a plugin does (`host/plugin/src/actor/standing.rs`). It
//! keeps the version of each object it handles in shared state, and defers writes, which pass the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::listener::{
    Beginning, Delivery, DeliveryOutcome, DeliveryToken, Ledger, ListenerOptions, NextDelivery, Notification, Pause,
    Takeover,
};
use informant_cache::{Environment, ListenerHandle, Moment, SourceInfo};
use informant_informer::SharedInformer;
use informant_object::{KeyRef, SourceId};
use informant_state::{EventEnd, HeldChanges, KeySpace, OnStart};
use tokio::sync::{Notify, oneshot, watch};

use super::super::history::{Entry, Part};
use super::super::process::versions_in;
use super::super::recorder::{CallRecorder, Script, ScriptedResult};
use super::super::rng::Rng;
use super::super::watched::Watched;
use super::super::world::{World, locked};
use super::gate::ProcessGate;
use super::life::{Life, ProcessEnvironment};
use super::shared::Shared;

/// The handlers of each replica.
pub(super) const HANDLERS: [(&str, OnStart); 2] = [("continues", OnStart::Continue), ("replays", OnStart::Replay)];

/// The numbers of their terms start here, above those of other handlers.
pub(super) const TERM_FIRST: u32 = 2_000_000;

/// How many concurrent calls one handler makes, for different keys.
const CALLS_AT_ONCE_MAX: usize = 3;

/// How many percent of the calls defer a write.
const DEFERS_PERCENT: u64 = 40;

/// How long a request about an object takes in one way.
const WAY_MS: [u64; 5] = [0, 0, 5, 50, 1_000];

/// The pause of a handler whose gate is closed before it stands by, as in the plugin host.
const GATE_PAUSE: Duration = Duration::from_millis(100);

/// How often a hand-over looks whether calls have ended.
const HAND_OVER_LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Of sources, by namespace, the version up to which everything is accepted.
pub(super) type Watermarks = BTreeMap<String, u64>;

/// What the run knows of all terms of all replicas.
#[derive(Default)]
pub(super) struct Terms {
    ever: AtomicU32,
    /// By handler, and part if they are divided, its last term.
    last: Mutex<BTreeMap<(&'static str, Option<Part>), u32>>,
}

pub(super) struct ReplicaHandler {
    name: &'static str,
    on_start: OnStart,
    world: Arc<World>,
    watched: Arc<Watched>,
    environment: Arc<ProcessEnvironment>,
    gate: Arc<ProcessGate>,
    terms: Arc<Terms>,
    listener: ListenerHandle,
    options: ListenerOptions,
    rng: Mutex<Rng>,
    term: Mutex<Option<Arc<Term>>>,
    /// Held while it comes to stand by.
    standing_by: tokio::sync::Mutex<()>,
}

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

impl ReplicaHandler {
    pub(super) fn new(
        (name, on_start): (&'static str, OnStart),
        world: &Arc<World>,
        watched: &Arc<Watched>,
        gate: &Arc<ProcessGate>,
        terms: &Arc<Terms>,
        options: ListenerOptions,
        rng: Rng,
    ) -> Self {
        let listener = ListenerHandle::new(options.clone());
        listener.control().pause(Pause::Standby);
        Self {
            name,
            on_start,
            world: Arc::clone(world),
            watched: Arc::clone(watched),
            environment: Arc::clone(&gate.environment),
            gate: Arc::clone(gate),
            terms: Arc::clone(terms),
            listener,
            options,
            rng: Mutex::new(rng),
            term: Mutex::default(),
            standing_by: tokio::sync::Mutex::default(),
        }
    }

    /// Begins a term in place of another process; `predecessor`: what that has published, if there was one. Without
    /// `parts` it is called about all objects, and keeps something in `shared` state.
    pub(super) fn act(&self, parts: &[Part], predecessor: Option<&Watermarks>, shared: Option<&Arc<Shared>>) {
        let parts: Vec<Option<Part>> = match parts {
            [] => vec![None],
            parts => parts.iter().copied().map(Some).collect(),
        };
        let recorders = parts.into_iter().map(|part| (part, self.record(part, predecessor)));
        let term = Arc::new(Term {
            world: Arc::clone(&self.world),
            recorders: Mutex::new(recorders.collect()),
            listener: self.listener.clone(),
            environment: Arc::clone(&self.environment),
            gate: Arc::clone(&self.gate),
            is_over: AtomicBool::new(false),
            ends: Notify::new(),
            is_quiet: watch::Sender::new(false),
            open: Mutex::default(),
            keys: Mutex::default(),
        });
        *locked(&self.term) = Some(Arc::clone(&term));
        self.listener.control().resume(Pause::Standby);
        let begun = self
            .watched
            .named
            .begin_listener(self.listener.clone(), |info| match predecessor {
                None => Beginning::Start,
                // They are not kept in shared state here.
                Some(watermarks) => Beginning::Takeover(self.takeover(Some(watermarks), info), None),
            });
        begun.expect("the informer runs");
        let (rng, shared, name) = (locked(&self.rng).split(), shared.cloned(), self.name);
        let run = async move {
            term.run(shared.as_deref(), name, rng).await;
            term.is_quiet.send_replace(true);
        };
        self.environment.spawn("replica's handler", Box::pin(run));
    }

    /// Records that it is called from now on, about a part of the objects or about all.
    pub(super) fn record(&self, part: Option<Part>, predecessor: Option<&Watermarks>) -> Arc<CallRecorder> {
        let id = TERM_FIRST + self.terms.ever.fetch_add(1, Ordering::Relaxed);
        let script = script(&mut locked(&self.rng));
        let recorder = CallRecorder::register(&self.world, &self.watched, id, script, &self.options, false);
        let sources = self.watched.named.sources();
        let watermark = |source: &Arc<SharedInformer>| {
            let takeover = self.takeover(predecessor, source.info());
            Some((scope(source.info()), takeover.watermark?))
        };
        self.world.record(Entry::TookOver {
            handler: id,
            after: locked(&self.terms.last).insert((self.name, part), id),
            continues: self.on_start == OnStart::Continue,
            watermarks: sources.iter().filter_map(watermark).collect(),
            part,
        });
        Arc::new(recorder)
    }

    /// How it continues with a source.
    pub(super) fn takeover(&self, predecessor: Option<&Watermarks>, source: &SourceInfo) -> Takeover {
        Takeover {
            watermark: predecessor.and_then(|watermarks| watermarks.get(&scope(source)).copied()),
            all_objects: self.on_start == OnStart::Replay,
        }
    }

    /// Ends the term: calls that run are aborted, none begins, and nothing has an effect any more.
    pub(super) fn end_term(&self) {
        self.listener.control().pause(Pause::Standby);
        if let Some(term) = &*locked(&self.term) {
            term.is_over.store(true, Ordering::Relaxed);
            term.ends.notify_one();
        }
    }

    /// Ends the term, and waits until nothing of it runs.
    pub(super) async fn stand_by(&self) {
        let _standing_by = self.standing_by.lock().await;
        self.end_term();
        let Some(term) = locked(&self.term).take() else { return };
        // The sender lives as long as the term.
        let _ = term.is_quiet.subscribe().wait_for(|is_quiet| *is_quiet).await;
        let now = self.environment.now();
        for token in std::mem::take(&mut *locked(&term.open)) {
            self.listener.consumer().interrupted(token, now);
        }
        self.listener.consumer().stand_by(now);
    }

    /// What is queued is left to the process that acts next. In standby.
    pub(super) async fn detach(&self) {
        self.listener.control().hand_over_timers();
        self.watched.named.hand_over(&self.listener).await;
    }

    /// Makes no further call, waits until those that run have ended, with their writes, and stands by.
    pub(super) async fn hand_over(&self, at_most: Duration) {
        let until = self.environment.now() + at_most;
        self.listener.control().pause(Pause::Standby);
        while self.listener.consumer().in_flight() > 0 && self.environment.now() < until {
            self.environment.sleep(HAND_OVER_LOOK_INTERVAL).await;
        }
        self.stand_by().await;
    }

    /// Of each source, what the ledger says.
    pub(super) fn watermarks(&self, of: impl Fn(&Ledger, SourceId) -> Option<u64>) -> Watermarks {
        let sources = self.watched.named.sources();
        let watermark = |source: &Arc<SharedInformer>| {
            let watermark = of(self.listener.ledger(), source.source())?;
            Some((scope(source.info()), watermark))
        };
        sources.iter().filter_map(watermark).collect()
    }

    pub(super) fn oldest_delete(&self) -> Option<Duration> {
        self.listener.ledger().oldest_delete(self.environment.now())
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn listener(&self) -> &ListenerHandle {
        &self.listener
    }

    pub(super) fn gate(&self) -> &Arc<ProcessGate> {
        &self.gate
    }

    pub(super) fn watched(&self) -> &Arc<Watched> {
        &self.watched
    }

    /// The term in which it acts.
    pub(super) fn term(&self) -> Option<Arc<Term>> {
        let term = locked(&self.term).clone();
        term.filter(|term| !term.is_over.load(Ordering::Relaxed))
    }

    /// At rest: records what it has kept.
    pub(super) fn record_rest(&self) {
        let Some(term) = self.term() else { return };
        if let Some(keys) = &*locked(&term.keys) {
            let values = versions_in(keys);
            let handlers = term.handlers().into_iter();
            handlers.for_each(|handler| {
                let values = values.clone();
                self.world.record(Entry::Kept { handler, values });
            });
        }
    }
}

/// How it behaves in a term.
fn script(rng: &mut Rng) -> Script {
    Script {
        call_ms_max: rng.pick(&[0, 5, 100, 1_000]),
        fails_percent: rng.pick(&[0, 0, 30]),
        refuses_percent: rng.pick(&[0, 0, 0, 5]),
        ..Script::default()
    }
}

/// A source, in every process.
fn scope(info: &SourceInfo) -> String {
    info.namespace.clone().unwrap_or_default()
}

impl Term {
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

    async fn run(self: &Arc<Self>, shared: Option<&Shared>, name: &'static str, mut rng: Rng) {
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
            return match self.gate.is_open() {
                true => self.done(delivery.token, DeliveryOutcome::Ok),
                false => {}
            };
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
