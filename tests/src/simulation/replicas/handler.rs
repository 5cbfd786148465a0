//! A scripted handler of a replica, which acts or stands by as a plugin does (`host/plugin/src/actor/standing.rs`). It
//! keeps the version of each object it handles in shared state, and defers writes, which pass the gate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::listener::{Beginning, Ledger, ListenerOptions, Pause, Takeover};
use informant_cache::{Environment, ListenerHandle, SourceInfo};
use informant_informer::SharedInformer;
use informant_object::SourceId;
use informant_state::OnStart;

use super::super::history::{Entry, Part};
use super::super::recorder::{CallRecorder, Script};
use super::super::rng::Rng;
use super::super::watched::Watched;
use super::super::world::{World, locked};
use super::gate::ProcessGate;
use super::life::ProcessEnvironment;
use super::shared::Shared;
use super::term::Term;

/// The handlers of each replica.
pub(super) const HANDLERS: [(&str, OnStart); 2] = [("continues", OnStart::Continue), ("replays", OnStart::Replay)];

/// The numbers of their terms start here, above those of other handlers.
pub(super) const TERM_FIRST: u32 = 2_000_000;

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

    /// Begins a term in place of another process, about all objects or some parts of them, each with what that process
    /// has published, if there was one. Of several, `predecessor` is the lowest. With `shared` it keeps something
    /// there.
    pub(super) fn act(
        &self,
        parts: Vec<(Option<Part>, Option<Watermarks>)>,
        predecessor: Option<&Watermarks>,
        shared: Option<&Arc<Shared>>,
    ) {
        let recorders = parts.into_iter();
        let recorders = recorders.map(|(part, of_part)| (part, self.record(part, of_part.as_ref())));
        let term = Term::new(recorders.collect(), &self.world, &self.listener, &self.gate);
        let term = Arc::new(term);
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
        let run = async move { term.run(shared.as_deref(), name, rng).await };
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
            term.end();
        }
    }

    /// Ends the term, and waits until nothing of it runs.
    pub(super) async fn stand_by(&self) {
        let _standing_by = self.standing_by.lock().await;
        self.end_term();
        let Some(term) = locked(&self.term).take() else { return };
        let open = term.is_quiet().await;
        let now = self.environment.now();
        for token in open {
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
        term.filter(|term| !term.is_over())
    }

    /// At rest: records what it has kept.
    pub(super) fn record_rest(&self) {
        if let Some(term) = self.term() {
            term.kept().into_iter().for_each(|kept| self.world.record(kept));
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
