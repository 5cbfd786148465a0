//! A controller: a plugin that reconciles ConfigMaps, owns Secrets and has a timer (`tests/guests/controller`), in the
//! real plugin host. Its processes are killed one after the other, as those of [`super::process`].
//!
//! ```text
//! informers ─▶ listener ─▶ actor ─▶ guest ──log: what it does──────▶ [`Calls`] ─▶ history
//!                                     └─────kube: writes, Events ──▶ [`Calls`] ─▶ API server, history
//! ```
//!
//! Its Secrets change and vanish behind its back. Those of a ConfigMap that is gone are deleted, as by the garbage
//! collector of a cluster.

mod calls;
mod keys;

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informant_apiserver::{Ending, Filter};
use informant_cache::Environment;
use informant_informer::{InformerSpec, NamedInformer, ReflectorOptions, SourceSpec};
use informant_plugin_host::{Plugin, PluginHost, PluginMetrics, Services, SimulatedGuests};
use informant_spec::{Content, GroupVersionResource, KubeGrant, KubeResource, KubeVerb, PluginSpec, RetryPolicy};
use informant_state::stepped::MemoryDisk;
use serde_json::Value;
use tracing::subscriber::DefaultGuard;

use self::calls::{Calls, Server};
use super::history::{Controlled, ControlledMap, Entry};
use super::lines;
use super::process::{SharedState, open_state};
use super::rng::Rng;
use super::schedule::{NAMES, NAMESPACES};
use super::world::{RESOURCE, World, locked, version_of};
use crate::guests;

/// In how many percent of the seeds there is one.
const SEEDS_PERCENT: u64 = 15;

/// Separates the random numbers of this part from those of others.
const SALT: u64 = 0x636f_6e74_726f_6c73;

/// The kind that it owns.
const CHILDREN: &str = "v1/secrets";

/// Its informers: the name, and the resource with its kind.
const INFORMERS: [(&str, &str, &str); 2] = [("maps", "configmaps", "ConfigMap"), ("secrets", "secrets", "Secret")];

/// How often what belongs to nothing is deleted.
const COLLECTION_INTERVAL: Duration = Duration::from_secs(10);

/// The most time between two steps.
const STEP_MS_MAX: u64 = 1_500;

/// The most steps that tasks run before a kill.
const YIELDS_MAX: u64 = 40;

/// The deadline for stopping an informer.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The process that runs now, if one runs, and what outlives it.
pub(super) struct Controller {
    world: Arc<World>,
    rng: Rng,
    disk: MemoryDisk,
    processes: u32,
    running: Option<Running>,
}

struct Running {
    plugin: Plugin,
    informers: Arc<Vec<NamedInformer>>,
    state: SharedState,
    calls: Arc<Calls>,
    _host: PluginHost,
    _lines: DefaultGuard,
}

/// The compiled guest, for all runs of the process.
fn compiled() -> &'static (SimulatedGuests, Content) {
    static COMPILED: OnceLock<(SimulatedGuests, Content)> = OnceLock::new();
    COMPILED.get_or_init(|| {
        let path = guests::component("guest-controller").expect("the guest is built");
        let bytes = std::fs::read(&path).expect("the guest can be read");
        let file = Content::new("guest-controller.wasm", bytes);
        let guests = SimulatedGuests::compile(std::slice::from_ref(&file)).expect("the guest is a valid component");
        (guests, file)
    })
}

impl Controller {
    /// The controller of a seed; most seeds have none.
    pub(super) fn of_seed(world: &Arc<World>, seed: u64) -> Option<Self> {
        let mut rng = Rng::new(seed ^ SALT);
        rng.percent(SEEDS_PERCENT).then(|| Self {
            world: Arc::clone(world),
            rng,
            disk: MemoryDisk::default(),
            processes: 0,
            running: None,
        })
    }

    /// Runs it, and kills it now and then, as long as `playing`; then lets it run.
    pub(super) async fn play(controller: &mut Option<Self>, playing: &AtomicBool) {
        let Some(controller) = controller else { return };
        let collector = collect_garbage(Arc::downgrade(&controller.world));
        controller
            .world
            .environment
            .spawn("garbage collector", Box::pin(collector));
        controller.start().await;
        while playing.load(Ordering::Relaxed) {
            controller.step().await;
        }
        if controller.running.is_none() {
            controller.start().await;
        }
    }

    async fn step(&mut self) {
        match self.rng.below(12) {
            0..5 => self.drift(),
            5..8 => self.disturb_watches(),
            8..10 if self.running.is_none() => self.start().await,
            8 => {
                for _ in 0..self.rng.below(YIELDS_MAX) {
                    tokio::task::yield_now().await;
                }
                self.kill().await;
            }
            _ => {}
        }
        let pause = match self.rng.percent(50) {
            true => self.rng.below(20),
            false => self.rng.below(STEP_MS_MAX),
        };
        self.world.environment.sleep(Duration::from_millis(pause)).await;
    }

    /// Somebody changes or deletes one of the children.
    fn drift(&mut self) {
        let children = children(&self.world);
        if children.is_empty() || !self.world.may_be_written() {
            return;
        }
        let mut child = children[self.rng.below(children.len() as u64) as usize].clone();
        let id = version_of(&child);
        let done = match self.rng.percent(50) {
            true => self.world.server().delete(CHILDREN, &id.namespace, &id.name),
            false => {
                child["data"]["text"] = ["eQ==", "eg=="][self.rng.below(2) as usize].into();
                self.world.server().put(CHILDREN, &id.namespace, child)
            }
        };
        done.expect("the child exists");
        self.world.note(format!("{id} drifts"));
    }

    /// The watches of the children end, or show nothing for a while.
    fn disturb_watches(&mut self) {
        let faults = self.world.server().faults();
        let secrets = Filter::any().resource("secrets");
        let name = match self.rng.below(4) {
            0 => {
                faults.drop_watches(&secrets, Ending::Reset);
                "drop"
            }
            1 => {
                faults.thaw_watches(&secrets);
                "thaw"
            }
            2 => {
                let wait = Duration::from_millis(self.rng.below(15_000));
                faults.delay(secrets.clone().verb("watch"), 2, wait);
                faults.drop_watches(&secrets, Ending::Expired);
                "expire and delay"
            }
            _ => {
                faults.freeze_watches(&secrets);
                "freeze"
            }
        };
        self.world.note(format!("{name} watches of the controller's secrets"));
    }

    /// Starts a process on what the last one left.
    async fn start(&mut self) {
        self.processes += 1;
        let state = open_state(&self.world, &self.disk, self.rng.split());
        let recorded_ms = keys::recorded_run(&state);
        self.record(Controlled::Started { recorded_ms });
        let informers = Arc::new(self.start_informers());
        let calls = Arc::new(Calls::new(&self.world, Arc::clone(&informers), self.rng.split()));
        let lines = {
            let calls = Arc::clone(&calls);
            lines::read_by(move |_, line| calls.logged(line))
        };
        let (guests, file) = compiled();
        let host = PluginHost::simulated(
            guests,
            Arc::clone(&self.world.environment) as Arc<dyn Environment>,
            Services {
                catalog: self.world.catalog.clone(),
                kube: Some(Arc::new(Server(Arc::clone(&calls)))),
                key_value: Some(Arc::new(keys::Storage(Arc::clone(&state)))),
                http: None,
                observer: None,
                gate: None,
            },
            PluginMetrics::register(&mut Default::default()),
        );
        let loaded = host.load(self.spec(file), file.clone()).await;
        let plugin = loaded.expect("the guest is a plugin");
        plugin.start().await;
        let attaching = attach(plugin.clone(), Arc::clone(&informers));
        self.world.environment.spawn("controller barrier", Box::pin(attaching));
        self.running = Some(Running {
            plugin,
            informers,
            state,
            calls,
            _host: host,
            _lines: lines,
        });
    }

    fn start_informers(&mut self) -> Vec<NamedInformer> {
        let start = |(name, resource, kind): (&str, &str, &str)| {
            let resource = GroupVersionResource::new("", "v1", resource);
            let spec = InformerSpec {
                source: SourceSpec::new(self.informer(name), resource, kind),
                resources: None,
                namespaces: Default::default(),
                reflector: ReflectorOptions {
                    watch_list: self.rng.percent(60),
                    ..ReflectorOptions::default()
                },
                durable: None,
                cache_bytes_max: None,
            };
            NamedInformer::start(
                spec,
                // The history shows nothing of its watches.
                self.world.client(u32::MAX),
                Arc::clone(&self.world.environment) as Arc<dyn Environment>,
                self.world.catalog.clone(),
                &self.world.metrics,
            )
            .expect("the specification is valid")
        };
        INFORMERS.map(start).into()
    }

    /// The informer that the plugin calls `name`.
    fn informer(&self, name: &str) -> String {
        format!("controlled-{name}-{}", self.processes)
    }

    fn spec(&mut self, file: &Content) -> PluginSpec {
        let mut spec = PluginSpec::new("controller", file.origin().clone());
        let informer = |(name, _, _): (&str, &str, &str)| (name.to_owned(), self.informer(name));
        spec.informers = INFORMERS.map(informer).into();
        let grant = |resource, verbs: &[KubeVerb]| KubeGrant {
            verbs: verbs.to_vec(),
            resource: KubeResource::parse(resource).expect("a resource"),
            namespaces: None,
            names: None,
            subresources: Vec::new(),
        };
        let writes = [KubeVerb::Create, KubeVerb::Update, KubeVerb::Delete];
        spec.allow_kube = vec![grant(RESOURCE, &[KubeVerb::Get]), grant(CHILDREN, &writes)];
        spec.allow_events = true;
        spec.limits.instances = self.rng.pick(&[1, 3]);
        spec.limits.pending = self.rng.pick(&[2, 8, 1_024]);
        spec.retry = RetryPolicy {
            attempts: 1_000,
            ..RetryPolicy::default()
        };
        spec
    }

    /// Kills the process: nothing of it happens after this moment.
    async fn kill(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.calls.end();
        drop(locked(&running.state).take());
        self.disk = self.disk.after_kill();
        self.record(Controlled::Killed);
        running.stop(&self.world).await;
    }

    /// Everything is at rest: records what the API server has.
    pub(super) fn record_rest(&self) {
        let (server, children) = (self.world.server(), children(&self.world));
        let names = NAMESPACES
            .iter()
            .flat_map(|namespace| (0..NAMES).map(move |number| (*namespace, format!("map-{number}"))));
        let maps = names.map(|(namespace, name)| {
            let map = server.get(RESOURCE, namespace, &name).expect("a built-in kind");
            let value = map
                .as_ref()
                .and_then(|map| map["data"]["value"].as_str()?.strip_prefix('v'));
            let is_its = |child: &&Value| calls::owner_of(child) == (namespace, &name);
            ControlledMap {
                primary: map.as_ref().map(version_of),
                children: children.iter().filter(is_its).map(version_of).collect(),
                wanted: value.and_then(|number| number.parse().ok()).unwrap_or_default(),
                namespace: namespace.to_owned(),
                name,
            }
        });
        self.record(Controlled::AtRest { maps: maps.collect() });
    }

    /// The run is over.
    pub(super) async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.calls.end();
            running.stop(&self.world).await;
        }
    }

    fn record(&self, did: Controlled) {
        self.world.record(Entry::Controller(did));
    }
}

impl Running {
    async fn stop(self, world: &World) {
        self.plugin.listener().control().abandon();
        self.plugin.stop(Duration::ZERO).await;
        for informer in &*self.informers {
            let report = informer.stop(STOP_MAX).await;
            world.note(format!("informer of the controller stopped: {report:?}"));
        }
    }
}

/// The barrier: calls begin when all that they read is there.
async fn attach(plugin: Plugin, informers: Arc<Vec<NamedInformer>>) {
    for informer in &*informers {
        // It may be stopped meanwhile.
        if informer.synced().await.is_err() {
            return;
        }
    }
    for informer in &*informers {
        if informer.add_listener(plugin.listener()).is_err() {
            return;
        }
    }
}

/// All Secrets.
fn children(world: &World) -> Vec<Value> {
    world.server().list(CHILDREN).expect("secrets are built in")
}

/// Deletes the children of ConfigMaps that are gone, again and again, until the run is over.
async fn collect_garbage(world: std::sync::Weak<World>) {
    loop {
        let environment = match world.upgrade() {
            Some(world) => Arc::clone(&world.environment),
            None => return,
        };
        environment.sleep(COLLECTION_INTERVAL).await;
        let Some(world) = world.upgrade() else { return };
        let maps = world.server().list(RESOURCE).expect("config maps are built in");
        let uids: Vec<String> = maps.iter().map(|map| version_of(map).uid).collect();
        for child in children(&world) {
            let owner = child["metadata"]["ownerReferences"][0]["uid"]
                .as_str()
                .unwrap_or_default();
            if !uids.iter().any(|uid| uid == owner) && world.may_be_written() {
                let id = version_of(&child);
                let deleted = world.server().delete(CHILDREN, &id.namespace, &id.name);
                deleted.expect("the child exists");
                world.note(format!("{id} is collected"));
            }
        }
    }
}
