//! A scripted handler of a replica, which acts or stands by as a plugin does (`host/plugin/src/actor/standing.rs`). It
//! keeps the version of each object it handles in shared state, and defers writes, which pass the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use informant_cache::listener::{
    Beginning, Delivery, DeliveryOutcome, DeliveryToken, ListenerOptions, NextDelivery, Notification, Pause, Takeover,
};
use informant_cache::{Environment, ListenerHandle, Moment, SourceInfo};
use informant_lease::Gate;
use informant_object::KeyRef;
use informant_state::{EventEnd, KeySpace, OnStart};
use tokio::sync::{Notify, oneshot, watch};

use super::super::history::Entry;
use super::super::process::versions_in;
use super::super::recorder::{CallRecorder, Script, ScriptedResult};
use super::super::rng::Rng;
use super::super::watched::Watched;
use super::super::world::{World, locked};
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
    /// By handler, its last term.
    last: Mutex<BTreeMap<&'static str, u32>>,
}

/// The gate of all effects of a process, as in the daemon: of the term in which its handlers act.
pub(super) struct ProcessGate {
    pub(super) gate: Gate,
    /// Zero: they stand by.
    pub(super) epoch: AtomicU32,
    pub(super) environment: Arc<ProcessEnvironment>,
}

impl ProcessGate {
    /// Until when a request that begins now must have ended; none: it must not begin.
    fn request_end(&self) -> Option<Moment> {
        let permit = self.gate.permit(self.environment.boot_now())?;
        let remaining = permit.remaining(self.environment.boot_now());
        (permit.epoch == self.epoch.load(Ordering::Relaxed)).then(|| self.environment.now() + remaining)
    }
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
}

/// The time in which a handler is called.
pub(super) struct Term {
    recorder: Arc<CallRecorder>,
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
        }
    }

    /// Begins a term in place of another process; `predecessor`: what that has published, if there was one.
    pub(super) fn act(&self, predecessor: Option<&Watermarks>, shared: &Arc<Shared>, script: Script) {
        let id = TERM_FIRST + self.terms.ever.fetch_add(1, Ordering::Relaxed);
        let recorder = CallRecorder::register(&self.world, &self.watched, id, script, &self.options, false);
        let continues = self.on_start == OnStart::Continue;
        let after = locked(&self.terms.last).insert(self.name, id);
        let watermark = |info: &SourceInfo| predecessor.and_then(|watermarks| watermarks.get(&scope(info)).copied());
        let sources = self.watched.named.sources();
        let watermarks = sources
            .iter()
            .filter_map(|source| Some((scope(source.info()), watermark(source.info())?)));
        self.world.record(Entry::TookOver {
            handler: id,
            after,
            continues,
            watermarks: watermarks.collect(),
        });
        let term = Arc::new(Term {
            recorder: Arc::new(recorder),
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
                Some(_) => {
                    let takeover = Takeover {
                        watermark: watermark(info),
                        all_objects: !continues,
                    };
                    // They are not kept in shared state here.
                    Beginning::Takeover(takeover, None)
                }
            });
        begun.expect("the informer runs");
        let (rng, shared, name) = (locked(&self.rng).split(), Arc::clone(shared), self.name);
        let run = async move {
            term.run(&shared, name, rng).await;
            term.is_quiet.send_replace(true);
        };
        self.environment.spawn("replica's handler", Box::pin(run));
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
    pub(super) fn detach(&self) {
        self.listener.control().hand_over_timers();
        self.watched.named.hand_over(&self.listener);
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

    pub(super) fn watermarks(&self) -> Watermarks {
        let sources = self.watched.named.sources();
        let watermark = |source: &Arc<informant_informer::SharedInformer>| {
            let watermark = self.listener.ledger().watermark(source.source())?;
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

    /// The term in which it acts.
    pub(super) fn term(&self) -> Option<u32> {
        let term = locked(&self.term);
        let acts = |term: &&Arc<Term>| !term.is_over.load(Ordering::Relaxed);
        term.as_ref().filter(acts).map(|term| term.recorder.id)
    }

    /// At rest: records what it has kept.
    pub(super) fn record_rest(&self) {
        let term = locked(&self.term).clone();
        let Some(term) = term else { return };
        if let Some(keys) = &*locked(&term.keys) {
            self.world.record(Entry::Kept {
                handler: term.recorder.id,
                values: versions_in(keys),
            });
        }
    }
}

/// A source, in every process.
fn scope(info: &SourceInfo) -> String {
    info.namespace.clone().unwrap_or_default()
}

impl Term {
    async fn run(self: &Arc<Self>, shared: &Shared, name: &'static str, mut rng: Rng) {
        let woken = Arc::new(Notify::new());
        let notify = woken.clone();
        self.listener
            .consumer()
            .set_waker(Arc::new(move || notify.notify_one()));
        // As an instance, which is created with them.
        let keys = tokio::select! {
            biased;
            () = self.ends.notified() => return,
            keys = shared.keys(name) => keys,
        };
        let Some(keys) = keys else { return };
        self.recorder.world.record(Entry::Found {
            handler: self.recorder.id,
            values: versions_in(&keys),
        });
        *locked(&self.keys) = Some(keys.clone());
        let mut calls = FuturesUnordered::new();
        while !self.is_over.load(Ordering::Relaxed) {
            let now = self.environment.now();
            let next = match self.gate.request_end() {
                None => NextDelivery::WaitUntil(now + GATE_PAUSE),
                Some(_) if calls.len() < CALLS_AT_ONCE_MAX => self.listener.consumer().next(now),
                Some(_) => NextDelivery::Idle,
            };
            let wait = match next {
                NextDelivery::Deliver(delivery) => {
                    locked(&self.open).insert(delivery.token);
                    let Delivery {
                        notification,
                        reason,
                        source,
                        ..
                    } = &delivery;
                    self.recorder.begin(notification, *reason, *source, 0);
                    calls.push(self.call(delivery, &keys, rng.split()));
                    continue;
                }
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

    async fn call(self: &Arc<Self>, delivery: Delivery, keys: &KeySpace, mut rng: Rng) {
        let pause = Duration::from_millis(self.recorder.call_ms(&mut rng));
        if !pause.is_zero() {
            self.environment.sleep(pause).await;
        }
        // What it did is dropped: the process that acts receives the event.
        if self.gate.request_end().is_none() {
            return;
        }
        let Some(key) = delivery.key() else {
            return self.done(delivery.token, DeliveryOutcome::Ok);
        };
        let defers = rng.percent(DEFERS_PERCENT);
        if defers {
            self.recorder.defer(key);
        }
        let result = self.recorder.draw_result(key, &mut rng);
        self.recorder.end(key, &result);
        match result {
            ScriptedResult::Ok if defers => {
                let held = keys.hold(change_of(&delivery));
                if self.write(key, &mut rng).await {
                    held.end(self.end_of(&delivery));
                }
            }
            ScriptedResult::Ok => keys.commit(change_of(&delivery), Some(self.end_of(&delivery))),
            ScriptedResult::Panic => self.done(delivery.token, DeliveryOutcome::Trapped("scripted".into())),
            ScriptedResult::Fail(error) => self.done(delivery.token, error.into()),
        }
    }

    /// Makes the write that a call has deferred, again if its time is over. Returns false once it must not be made.
    async fn write(&self, key: KeyRef<'_>, rng: &mut Rng) -> bool {
        // It waits for its turn.
        self.environment
            .sleep(Duration::from_millis(self.recorder.write_ms(rng)))
            .await;
        while let Some(request_end) = self.gate.request_end() {
            if self.request(key, request_end, rng).await {
                return true;
            }
        }
        false
    }

    /// Sends a write. Returns whether it has arrived in time.
    async fn request(&self, key: KeyRef<'_>, request_end: Moment, rng: &mut Rng) -> bool {
        let mut way = || Duration::from_millis(rng.pick(&WAY_MS));
        let (there, back) = (way(), way());
        let request = Request {
            life: self.environment.life.clone(),
            is_cancelled: Arc::default(),
        };
        let (answered, answer) = oneshot::channel();
        let (recorder, key) = (Arc::clone(&self.recorder), key.to_key());
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
        self.recorder
            .world
            .environment
            .spawn("scripted write", Box::pin(flight));
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
