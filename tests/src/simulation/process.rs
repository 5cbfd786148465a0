//! Processes with a durable informer, one after the other: each is killed at a random moment, between two steps of its
//! tasks, and the next one starts on what was committed.
//!
//! Everything the process had in memory is gone: listeners, stores, what the recorder had not committed, and what it
//! had committed and not delivered. The recorder is the real one of the crate `informant-state`, without its thread, on
//! a disk in memory ([`SteppedState`]).

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::listener::{ListenerOptions, RetryOptions};
use informant_cache::{Environment, Journal};
use informant_informer::{DurableSource, DurableSources, ReflectorOptions, SourceSpec};
use informant_spec::StoredContent;
use informant_state::stepped::{MemoryDisk, SteppedState};
use informant_state::{COMMIT_INTERVAL, KeySpace, OnStart, SourceIdentity, SourceOptions};
use tokio::sync::Notify;

use super::handler::Handler;
use super::history::{Entry, Selection};
use super::recorder::Script;
use super::rng::Rng;
use super::schedule::{NAMES, NAMESPACES};
use super::watched::Watched;
use super::world::{World, locked};

/// In how many percent of the seeds there are such processes: their disk costs as much as the rest of a run.
const SEEDS_PERCENT: u64 = 15;

/// Separates the random numbers of this part from those of others.
const SALT: u64 = 0x6475_7261_626c_6531;

/// The handlers, the same in each process.
const HANDLERS: [(&str, OnStart); 2] = [("continues", OnStart::Continue), ("replays", OnStart::Replay)];

/// The numbers of their handlers start here, above those of the schedule.
const HANDLER_FIRST: u32 = 1_000_000;

/// The informer's name on the disk.
const INFORMER: &str = "durable";

/// How often acknowledgements are read once all faults have ended, instead of every 200 ms: a dead letter keeps its key
/// open during all of the long wait for rest.
const REST_PAUSE: Duration = Duration::from_secs(10);

/// How often one name is deleted or created in a row.
const CHURN_MAX: u64 = 6;

/// How often this happens at once, now and then: more incarnations than are stored for one key.
const BURST: u64 = 48;

/// The most steps that tasks run between two writes, or before a kill.
const YIELDS_MAX: u64 = 40;

/// The most time between two steps.
const STEP_MS_MAX: u64 = 1_500;

pub(super) type SharedState = Arc<Mutex<Option<SteppedState>>>;

/// The process that runs now, if one runs, and what outlives it.
pub(super) struct Process {
    world: Arc<World>,
    rng: Rng,
    disk: MemoryDisk,
    selection: Selection,
    running: Option<Running>,
    /// The handlers of the last process.
    last: Vec<u32>,
    handlers_ever: u32,
}

struct Running {
    watched: Arc<Watched>,
    handlers: Vec<Handler>,
    state: SharedState,
}

impl Process {
    /// Whether the seed has one.
    pub(super) fn is_in(seed: u64) -> bool {
        Rng::new(seed ^ SALT).percent(SEEDS_PERCENT)
    }

    /// The process of a seed; most seeds have none.
    pub(super) fn of_seed(world: &Arc<World>, seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        rng.percent(SEEDS_PERCENT).then(|| Self {
            world: Arc::clone(world),
            disk: MemoryDisk::default(),
            selection: Selection {
                namespaces: match rng.percent(30) {
                    true => NAMESPACES.map(str::to_owned).into(),
                    false => Default::default(),
                },
                group: None,
            },
            rng,
            running: None,
            last: Vec::new(),
            handlers_ever: HANDLER_FIRST,
        })
    }

    /// Runs it, and kills it now and then, as long as `playing`; then lets it run.
    pub(super) async fn play(process: &mut Option<Self>, playing: &AtomicBool) {
        let Some(process) = process else { return };
        process.start();
        while playing.load(Ordering::Relaxed) {
            process.step().await;
        }
        if process.running.is_none() {
            process.start();
        }
    }

    async fn step(&mut self) {
        match self.rng.below(10) {
            0..5 => self.churn().await,
            5..7 => {}
            _ if self.running.is_none() => self.start(),
            _ => {
                self.yield_some().await;
                self.kill().await;
            }
        }
        let pause = match self.rng.percent(50) {
            true => self.rng.below(20),
            false => self.rng.below(STEP_MS_MAX),
        };
        self.pass_ms(pause).await;
    }

    /// Deletes and creates one name in quick succession.
    async fn churn(&mut self) {
        let (namespace, name) = (self.rng.pick(&NAMESPACES), format!("map-{}", self.rng.below(NAMES)));
        let is_burst = self.rng.percent(3);
        let times = if is_burst { BURST } else { self.rng.below(CHURN_MAX) };
        for _ in 0..times {
            if !self.world.may_be_written() {
                return;
            }
            if self.world.exists(namespace, &name) {
                self.world.delete(namespace, &name);
            } else {
                self.world.put(namespace, &name, "v1", "a");
            }
            match self.rng.below(3) {
                _ if is_burst => {}
                0 => {}
                1 => self.yield_some().await,
                _ => {
                    let pause = self.rng.below(80);
                    self.pass_ms(pause).await;
                }
            }
        }
    }

    /// Lets the tasks run some steps.
    async fn yield_some(&mut self) {
        for _ in 0..self.rng.below(YIELDS_MAX) {
            tokio::task::yield_now().await;
        }
    }

    async fn pass_ms(&self, ms: u64) {
        self.world.environment.sleep(Duration::from_millis(ms)).await;
    }

    /// Starts a process on what the last one left.
    fn start(&mut self) {
        let rng = self.rng.split();
        let state = open_state(&self.world, &self.disk, rng);
        let storage = Arc::new(Storage(Arc::clone(&state)));
        let reflector = ReflectorOptions {
            watch_list: self.rng.percent(60),
            ..ReflectorOptions::default()
        };
        let watched = Watched::start_stored(&self.world, self.selection.clone(), reflector, Some(storage));
        let handlers = HANDLERS.iter().enumerate();
        let handlers: Vec<Handler> = handlers
            .map(|(place, (name, on_start))| self.start_handler(&watched, &state, place, name, *on_start))
            .collect();
        self.last = handlers.iter().map(|handler| handler.id).collect();
        self.running = Some(Running {
            watched,
            handlers,
            state,
        });
    }

    fn start_handler(
        &mut self,
        watched: &Arc<Watched>,
        state: &SharedState,
        place: usize,
        name: &str,
        on_start: OnStart,
    ) -> Handler {
        let id = self.handlers_ever;
        self.handlers_ever += 1;
        let script = Script {
            call_ms_max: self.rng.pick(&[0, 5, 100, 1_000]),
            fails_percent: self.rng.pick(&[0, 0, 30]),
            refuses_percent: self.rng.pick(&[0, 0, 0, 5]),
            ..Script::default()
        };
        let options = ListenerOptions {
            pending_events_max: self.rng.pick(&[2, 8, 1_024, 1_024]),
            retry: RetryOptions {
                attempts: 1_000,
                ..RetryOptions::default()
            },
            seed: 1 + self.rng.below(u64::MAX - 1),
            ..ListenerOptions::default()
        };
        let rng = self.rng.split();
        let mut found = Vec::new();
        let handler = Handler::start_as(&self.world, watched, id, script, options, rng, |listener| {
            let mut state = locked(state);
            let state = state.as_mut()?;
            state.name(listener, name, on_start);
            let keys = state.keys(name).ok()?;
            found = versions_in(&keys);
            Some(keys)
        });
        self.world.record(Entry::Resumed {
            handler: id,
            after: self.last.get(place).copied(),
            continues: on_start == OnStart::Continue,
        });
        self.world.record(Entry::Found {
            handler: id,
            values: found,
        });
        handler
    }

    /// Everything is at rest: records what its handlers have kept.
    pub(super) fn record_rest(&self) {
        let Some(running) = &self.running else { return };
        for (handler, (name, _)) in running.handlers.iter().zip(HANDLERS) {
            let keys = locked(&running.state).as_mut().and_then(|state| state.keys(name).ok());
            let Some(keys) = keys else { continue };
            self.world.record(Entry::Kept {
                handler: handler.id,
                values: versions_in(&keys),
            });
        }
    }

    /// Kills the process: nothing of it happens after this moment.
    async fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        let state = locked(&running.state).take();
        self.disk = self.disk.after_kill();
        for (handler, (name, _)) in running.handlers.iter().zip(HANDLERS) {
            let dropped = state
                .as_ref()
                .map_or_else(Vec::new, |state| state.incarnations_dropped(INFORMER, name));
            handler.kill(&self.world, dropped);
        }
        drop(state);
        // What is left of it does nothing that the history shows.
        running.watched.stop(&self.world).await;
    }
}

/// Opens the database on a disk, with a recorder that runs until the state is taken away.
pub(super) fn open_state(world: &Arc<World>, disk: &MemoryDisk, rng: Rng) -> SharedState {
    let state = SteppedState::open(disk).expect("the disk holds a database");
    let pending = Arc::new(Notify::new());
    let notify = Arc::clone(&pending);
    state.set_waker(move || notify.notify_one());
    let state = Arc::new(Mutex::new(Some(state)));
    let recording = Recording {
        world: Arc::clone(world),
        state: Arc::clone(&state),
        pending,
        rng,
    };
    world.environment.spawn("scripted recorder", Box::pin(recording.run()));
    state
}

/// Namespace, name and version of each object for which a handler has kept its version.
pub(super) fn versions_in(keys: &KeySpace) -> Vec<(String, String, u64)> {
    let value = |key: String| {
        let version = String::from_utf8(keys.get(&key)?.to_vec()).ok()?.parse().ok()?;
        let (namespace, name) = key.split_once('/')?;
        Some((namespace.to_owned(), name.to_owned(), version))
    };
    keys.keys("", "", usize::MAX).into_iter().filter_map(value).collect()
}

/// The recorder of a process, with a disk that takes its time.
struct Recording {
    world: Arc<World>,
    state: SharedState,
    pending: Arc<Notify>,
    rng: Rng,
}

impl Recording {
    /// Runs until the process is killed.
    async fn run(mut self) {
        let environment = Arc::clone(&self.world.environment);
        loop {
            let Some(pause) = locked(&self.state).as_ref().map(SteppedState::pause) else {
                return;
            };
            let (pause, disk_ms) = match self.world.faults_active() {
                true => (pause, self.rng.pick(&[0, 1, 20])),
                false => (pause.max(REST_PAUSE), 0),
            };
            tokio::select! {
                biased;
                () = self.pending.notified() => {}
                () = environment.sleep(pause) => {}
            }
            let Some(()) = locked(&self.state).as_mut().map(SteppedState::commit) else {
                return;
            };
            // Committed and not delivered yet.
            environment.sleep(Duration::from_millis(disk_ms)).await;
            match &mut *locked(&self.state) {
                Some(state) => state.deliver(),
                None => return,
            }
            environment.sleep(COMMIT_INTERVAL).await;
        }
    }
}

/// Opens the storage of the sources of a process.
struct Storage(SharedState);

impl DurableSources for Storage {
    fn open(&self, spec: &SourceSpec) -> Result<Option<DurableSource>, Box<dyn Error + Send + Sync>> {
        let options = SourceOptions {
            identity: SourceIdentity {
                informer: INFORMER.to_owned(),
                cluster: String::new(),
                server: String::new(),
                resource: spec.resource.to_string(),
                namespace: spec.namespace.clone(),
            },
            content: StoredContent::Metadata,
            form: String::new(),
            request: String::new(),
            cipher: None,
            handlers: HANDLERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
            has_replicas: false,
        };
        let mut state = locked(&self.0);
        let state = state.as_mut().ok_or("the process was killed")?;
        let source = state.source(options)?;
        let high_water = source.high_water();
        let journal: Arc<dyn Journal> = Arc::new(source);
        Ok(Some(DurableSource::new(journal, high_water)))
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Storage")
    }
}
