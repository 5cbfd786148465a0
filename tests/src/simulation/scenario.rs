//! Scenarios: fixed instead of random schedules, each of which plays one fault case.
//!
//! A scenario asserts the expected results of the case, and the checker checks the history as well. A scenario also
//! lists seeded bugs; with each of them it must fail. A case that no bug fails is not really played.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::LocalBoxFuture;
use informant_apiserver::Faults;
use informant_cache::listener::{ListenerCounters, ListenerOptions};
use informant_cache::seeded_bug::SeededBug;
use informant_cache::{Environment, SourceState};
use informant_informer::{ReflectorOptions, ReflectorStatus};

use super::checker;
use super::handler::Handler;
use super::history::{Call, Entry, EventKind, ObjectVersion, Selection};
use super::recorder::Script;
use super::rng::Rng;
use super::run::{Run, run_to_rest, run_world};
use super::watched::Watched;
use super::world::{Setting, World, locked};

pub use super::scenarios::SCENARIOS;

/// The namespace that scenarios use.
pub(super) const NAMESPACE: &str = "default";

/// The longest wait of a scenario, in simulated time.
const DEADLINE: Duration = Duration::from_secs(1_800);

/// How often a condition is polled, in the first seconds and later.
const STEP: Duration = Duration::from_millis(10);
const STEP_LATE: Duration = Duration::from_millis(500);

/// One case.
pub struct Scenario {
    /// Its number in `cases.md`.
    pub case: &'static str,
    /// What it shows: the name of the test that runs it.
    pub name: &'static str,
    /// It fails with each of these bugs.
    pub bugs: &'static [SeededBug],
    pub(super) setting: fn() -> Setting,
    pub(super) play: fn(Arc<Stage>) -> LocalBoxFuture<'static, ()>,
}

impl Scenario {
    /// Plays it, and waits until everything is at rest.
    ///
    /// # Panics
    /// If an assertion of the scenario fails.
    #[must_use]
    pub fn run(&self) -> Run {
        run_world(async {
            let stage = Arc::new(Stage {
                world: World::new(0, &(self.setting)()),
                handlers: Mutex::default(),
            });
            (self.play)(Arc::clone(&stage)).await;
            stage.world.end_faults();
            locked(&stage.handlers)
                .iter()
                .for_each(|handler| handler.resume(&stage.world));
            run_to_rest(&stage.world).await
        })
    }

    /// The violations of the contract, or the assertion that failed.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        let ran = std::panic::catch_unwind(AssertUnwindSafe(|| self.run()));
        match ran {
            Ok(run) => run.violations.first().map(checker::Violation::to_string),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                Some(text.unwrap_or_else(|| "it panicked".to_owned()))
            }
        }
    }
}

/// The environment of a scenario: a server, informers on it, handlers.
pub(super) struct Stage {
    pub(super) world: Arc<World>,
    handlers: Mutex<Vec<Arc<Handler>>>,
}

impl Stage {
    pub(super) fn faults(&self) -> Faults {
        self.world.server().faults()
    }

    /// An informer of everything, with default requests.
    pub(super) fn watch(&self) -> Arc<Watched> {
        self.watch_by(ReflectorOptions::default())
    }

    pub(super) fn watch_by(&self, reflector: ReflectorOptions) -> Arc<Watched> {
        Watched::start(&self.world, Selection::default(), reflector)
    }

    /// A handler that accepts every call at once.
    pub(super) fn handle(&self, watched: &Arc<Watched>) -> Arc<Handler> {
        self.handle_by(watched, Script::default(), ListenerOptions::default())
    }

    pub(super) fn handle_by(&self, watched: &Arc<Watched>, script: Script, options: ListenerOptions) -> Arc<Handler> {
        let mut handlers = locked(&self.handlers);
        let id = handlers.len() as u32;
        let handler = Handler::start(&self.world, watched, id, script, options, Rng::new(u64::from(id)));
        handlers.push(Arc::new(handler));
        Arc::clone(&handlers[handlers.len() - 1])
    }

    pub(super) fn put(&self, name: &str, value: &str) -> ObjectVersion {
        self.world.put(NAMESPACE, name, value, "a")
    }

    pub(super) fn delete(&self, name: &str) -> ObjectVersion {
        self.world.delete(NAMESPACE, name)
    }

    /// Lets this much time pass.
    pub(super) async fn pass(&self, seconds: u64) {
        self.world.environment.sleep(Duration::from_secs(seconds)).await;
    }

    /// Lets pending work run: 10 ms pass.
    pub(super) async fn settle(&self) {
        self.world.environment.sleep(STEP).await;
    }

    /// Waits until `condition` holds.
    ///
    /// # Panics
    /// If it does not within [`DEADLINE`].
    pub(super) async fn until(&self, what: &str, condition: impl Fn() -> bool) -> Duration {
        let begin = self.world.environment.now();
        while !condition() {
            let waited = self.world.environment.now() - begin;
            assert!(waited < DEADLINE, "waited for {what} for {waited:?}");
            // Late conditions need no 10 ms resolution.
            let step = if waited < Duration::from_secs(10) {
                STEP
            } else {
                STEP_LATE
            };
            self.world.environment.sleep(step).await;
        }
        self.world.environment.now() - begin
    }

    /// Waits until the informer has synced.
    pub(super) async fn synced(&self, watched: &Watched) {
        self.until("the first list", || watched.named.has_synced()).await;
        self.settle().await;
    }

    /// The handler's calls so far, one line each: `update x@7 from 3 (watch)`.
    pub(super) fn calls(&self, handler: &Handler) -> Vec<String> {
        let history = self.world.history_so_far();
        let calls = history.entries.iter().filter_map(|(_, entry)| match entry {
            Entry::Begin(call) if call.handler == handler.id => Some(line_of(call)),
            _ => None,
        });
        calls.collect()
    }

    /// How often the handler was synced.
    pub(super) fn times_synced(&self, handler: &Handler) -> usize {
        let history = self.world.history_so_far();
        let is_synced = |entry: &Entry| matches!(entry, Entry::Synced { handler: id, .. } if *id == handler.id);
        history.entries.iter().filter(|(_, entry)| is_synced(entry)).count()
    }

    /// The number of requests to the server so far.
    pub(super) fn requests(&self, verb: &str) -> usize {
        let requests = self.world.server().requests();
        requests.iter().filter(|request| request.verb == verb).count()
    }
}

/// The state of an informer with one source.
impl Watched {
    pub(super) fn status(&self) -> ReflectorStatus {
        self.named.statuses().remove(0)
    }

    pub(super) fn state(&self) -> SourceState {
        self.status().state
    }
}

impl Handler {
    pub(super) fn counters(&self) -> ListenerCounters {
        self.listener.control().stats().counters
    }
}

fn line_of(call: &Call) -> String {
    let what = match call.kind {
        EventKind::Add => "add",
        EventKind::Update => "update",
        EventKind::Delete if call.unknown => "delete unknown",
        EventKind::Delete => "delete",
    };
    let from = call.old.as_ref().map(|old| format!(" from {}", old.version));
    let (from, Call { object, reason, .. }) = (from.unwrap_or_default(), call);
    format!("{what} {}@{}{from} ({reason})", object.name, object.version)
}
