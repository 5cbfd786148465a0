//! The environment of these tests: a host, informers written by hand, and the log.

mod environment;
mod gate;
mod log;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use informant_cache::listener::{ChangeKind, ObjectChange};
use informant_cache::{Catalog, Environment, ListenerHandle, Reason, Snapshot, SourceInfo, SourceState, StoreWriter};
use informant_object::{Key, Object, ResourceVersion, Shape, SourceId};
use informant_plugin_host::{
    ActingGate, Compiler, HostOptions, HttpClient, Inspection, KeyValue, KubeApi, LoadError, LoadProblem, Plugin,
    PluginHost, PluginMetrics, RunnerSource, RunnerSources, Services, Swapped, script_component,
};
use informant_spec::{Content, ContentSource, PluginSpec, Suffix};
use prometheus_client::registry::Registry;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tracing::subscriber::DefaultGuard;

pub(crate) use self::environment::TestEnvironment;
use self::gate::TestGate;
pub(crate) use self::log::Log;
use crate::kv::Keys;

/// How long a condition may take to become true, in real time. Generous: CI machines are slow and shared.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The built guest called `name`.
pub(crate) fn guest(name: &str) -> PathBuf {
    if let Some(source) = javascript_source(name) {
        return javascript_component(name, &source);
    }
    let path = guests_folder().join(format!("{name}.wasm"));
    assert!(path.exists(), "{} is missing: run `cargo xtask guests`", path.display());
    path
}

fn guests_folder() -> PathBuf {
    std::env::var_os("INFORMANT_GUESTS_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/wasm32-wasip2/plugin"),
        PathBuf::from,
    )
}

/// The script of a component in JavaScript.
pub(crate) fn javascript_source(name: &str) -> Option<PathBuf> {
    let file = match name {
        "crash_loop_js" => "plugin-sdk/javascript/examples/crash-loop/crash_loop.js",
        "guest_javascript" => "plugin-sdk/javascript/tests/guest.js",
        "guest_conformance_js" => "plugin-sdk/javascript/tests/conformance.js",
        "guest_conformance_reconciler_js" => "plugin-sdk/javascript/tests/conformance_reconciler.js",
        _ => return None,
    };
    Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file))
}

/// Makes the component that `informant plugin build --component` makes.
fn javascript_component(name: &str, source: &Path) -> PathBuf {
    let (runner, text) = (script_runner().unwrap(), std::fs::read(source).unwrap());
    let file_name = source.file_name().unwrap().to_string_lossy();
    let component = script_component(&runner, &file_name, &text);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.wasm"));
    // Other tests may read it at the same time.
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(file.path(), component).unwrap();
    file.persist(&path).unwrap();
    path
}

/// Whether the guest called `name` was built. It may be missing where there is no Go, or no C compiler for WebAssembly,
/// but never in CI.
pub(crate) fn is_built(name: &str) -> bool {
    let is_built = match javascript_source(name) {
        Some(_) => script_runner().is_some(),
        None => guests_folder().join(format!("{name}.wasm")).is_file(),
    };
    let (tool, task) = match name.rsplit('_').next() {
        Some("go") => ("GO", "guests"),
        Some("python") => ("PYTHON", "python-runner"),
        _ => ("SCRIPTS", "guests"),
    };
    assert!(
        is_built || is_left_out(tool),
        "{name} is missing: run `cargo xtask {task}`"
    );
    is_built
}

/// Whether scripts in Python can run. Their runner may be missing where there is no Python with pip, but never in CI.
pub(crate) fn can_run_python() -> bool {
    let is_built = python_runner().is_some();
    assert!(
        is_built || is_left_out("PYTHON"),
        "the runner of Python scripts is missing: run `cargo xtask python-runner`"
    );
    is_built
}

/// Whether `cargo xtask test` leaves out what needs a tool that is not installed.
fn is_left_out(what: &str) -> bool {
    std::env::var_os(format!("INFORMANT_TESTS_WITHOUT_{what}")).is_some()
}

/// The built script runner. None where there is no C compiler for WebAssembly, but never in CI.
pub(crate) fn script_runner() -> Option<Cow<'static, [u8]>> {
    let path = guests_folder().join("informant_script_runner.wasm");
    std::fs::read(path).ok().map(Cow::Owned)
}

/// The runners of a host with the built script runner.
pub(crate) fn script_runners() -> RunnerSources {
    let runner = script_runner().map(RunnerSource::BuiltIn);
    Suffix::new("js").zip(runner).into_iter().collect()
}

/// The file of the built runner of Python scripts, if it is there.
fn python_runner() -> Option<PathBuf> {
    let path = guests_folder().join("informant-runner-python.wasm");
    path.is_file().then_some(path)
}

/// The runners of a host with all built runners. That of Python is read for the first script in Python only.
fn all_runners() -> RunnerSources {
    let python = python_runner().map(RunnerSource::Configured);
    script_runners()
        .into_iter()
        .chain(Suffix::new("py").zip(python))
        .collect()
}

/// A host with nothing loaded.
pub(crate) struct World {
    pub(crate) host: PluginHost,
    pub(crate) catalog: Catalog,
    pub(crate) env: Arc<TestEnvironment>,
    pub(crate) log: Log,
    pub(crate) cache: tempfile::TempDir,
    /// What plugins remember.
    pub(crate) keys: Keys,
    /// Whether this process may act.
    pub(crate) gate: Arc<TestGate>,
    registry: Registry,
    _log: DefaultGuard,
}

/// Reads a file without limits.
pub(crate) fn read(source: &ContentSource) -> Result<Content, LoadError> {
    match std::fs::read(source.path()) {
        Ok(bytes) => Ok(Content::new(source.clone(), bytes)),
        Err(error) => Err(LoadError::new(source.path(), LoadProblem::Unreadable(error))),
    }
}

/// What a world has to offer: a cluster, keys, and other services.
type Outside = (Option<Arc<dyn KubeApi>>, Option<Keys>, Option<Arc<dyn HttpClient>>);

/// What supervisors do when a file or a section changes, in one step.
pub(crate) trait Reload {
    /// Reloads the plugin from a file, which need not be the one that it was loaded from.
    async fn swap(&self, path: &Path) -> Result<Swapped, LoadError>;

    /// Applies another section: in place if that is possible, or else with new instances.
    async fn reconfigure(&self, spec: PluginSpec) -> Result<Option<Swapped>, LoadError>;
}

impl Reload for Plugin {
    async fn swap(&self, path: &Path) -> Result<Swapped, LoadError> {
        let content = read(&path.into()).map_err(|error| self.refuse(error))?;
        let change = self.prepare_version(content).await?;
        Ok(self.apply(change).await?.expect("it has new instances"))
    }

    async fn reconfigure(&self, spec: PluginSpec) -> Result<Option<Swapped>, LoadError> {
        if self.reconfigure_in_place(&spec).await {
            return Ok(None);
        }
        let content = read(&spec.content).map_err(|error| self.refuse(error))?;
        let change = self.prepare_section(spec, content).await?;
        self.apply(change).await
    }
}

impl World {
    /// Uses the current runtime. Keeps the log of this thread.
    pub(crate) fn new() -> World {
        World::with_cache(tempfile::tempdir().unwrap())
    }

    pub(crate) fn with_cache(cache: tempfile::TempDir) -> World {
        let cache_dir = cache.path().to_owned();
        World::of(cache, cache_dir, script_runners(), None)
    }

    /// With a cluster to act on.
    pub(crate) fn with_cluster(cluster: Arc<dyn KubeApi>) -> World {
        World::of(
            tempfile::tempdir().unwrap(),
            World::scripts_cache(),
            script_runners(),
            Some(cluster),
        )
    }

    /// As [`new`](Self::new), with the compiled script runner of the tests before.
    pub(crate) fn for_scripts() -> World {
        World::of(
            tempfile::tempdir().unwrap(),
            World::scripts_cache(),
            script_runners(),
            None,
        )
    }

    /// As [`for_scripts`](Self::for_scripts), with these runners.
    pub(crate) fn with_runners(runners: RunnerSources) -> World {
        World::of(tempfile::tempdir().unwrap(), World::scripts_cache(), runners, None)
    }

    pub(crate) fn scripts_cache() -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("script-runner")
    }

    /// With a cluster to act on, and with the compiled guests of the tests before.
    pub(crate) fn for_conformance(cluster: Arc<dyn KubeApi>) -> World {
        World::of(
            tempfile::tempdir().unwrap(),
            World::conformance_cache(),
            all_runners(),
            Some(cluster),
        )
    }

    /// The same, with other services to call instead of a cluster.
    pub(crate) fn for_conformance_with_http(http: Arc<dyn HttpClient>) -> World {
        let (cache, keys) = (tempfile::tempdir().unwrap(), Some(Keys::default()));
        World::of_parts(cache, World::conformance_cache(), all_runners(), None, keys, Some(http))
    }

    fn conformance_cache() -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance")
    }

    /// With a cluster to act on, and a clock that shows this time at the beginning and moves with the tests' own.
    pub(crate) fn with_clock(cluster: Arc<dyn KubeApi>, unix_time: Duration) -> World {
        let (cache, keys) = (tempfile::tempdir().unwrap(), Some(Keys::default()));
        let services = (Some(cluster), keys, None);
        let host = |options| PluginHost::for_scenario(options, unix_time).unwrap();
        World::with_host(cache, World::conformance_cache(), all_runners(), services, host)
    }

    /// Like a program that was built without the script runner.
    pub(crate) fn without_runner() -> World {
        let cache = tempfile::tempdir().unwrap();
        let cache_dir = cache.path().to_owned();
        World::of(cache, cache_dir, RunnerSources::new(), None)
    }

    /// Without keys for plugins.
    pub(crate) fn without_state() -> World {
        let cache = tempfile::tempdir().unwrap();
        let cache_dir = cache.path().to_owned();
        World::of_parts(cache, cache_dir, RunnerSources::new(), None, None, None)
    }

    /// With other services to call, and without scripts.
    pub(crate) fn with_http(http: Arc<dyn HttpClient>) -> World {
        let cache = tempfile::tempdir().unwrap();
        let cache_dir = cache.path().to_owned();
        World::of_parts(cache, cache_dir, RunnerSources::new(), None, None, Some(http))
    }

    /// With other services that scripts may call, and perhaps a cluster to act on.
    pub(crate) fn for_scripts_with_http(kube: Option<Arc<dyn KubeApi>>, http: Arc<dyn HttpClient>) -> World {
        let cache = tempfile::tempdir().unwrap();
        let keys = Some(Keys::default());
        World::of_parts(cache, World::scripts_cache(), script_runners(), kube, keys, Some(http))
    }

    fn of(
        cache: tempfile::TempDir,
        cache_dir: PathBuf,
        script_runners: RunnerSources,
        kube: Option<Arc<dyn KubeApi>>,
    ) -> World {
        World::of_parts(cache, cache_dir, script_runners, kube, Some(Keys::default()), None)
    }

    fn of_parts(
        cache: tempfile::TempDir,
        cache_dir: PathBuf,
        script_runners: RunnerSources,
        kube: Option<Arc<dyn KubeApi>>,
        keys: Option<Keys>,
        http: Option<Arc<dyn HttpClient>>,
    ) -> World {
        let host = |options| PluginHost::new(options).unwrap();
        World::with_host(cache, cache_dir, script_runners, (kube, keys, http), host)
    }

    fn with_host(
        cache: tempfile::TempDir,
        cache_dir: PathBuf,
        script_runners: RunnerSources,
        (kube, keys, http): Outside,
        host: impl FnOnce(HostOptions) -> PluginHost,
    ) -> World {
        let log = Log::default();
        let guard = tracing::subscriber::set_default(log.clone());
        let env = Arc::new(TestEnvironment::new());
        let (catalog, gate) = (Catalog::new(), Arc::new(TestGate::new()));
        let mut registry = Registry::with_prefix("informant");
        let host = host(HostOptions {
            cache_dir,
            env: Arc::clone(&env) as Arc<dyn Environment>,
            handle: Handle::current(),
            compiler: Compiler::InProcess,
            services: Services {
                catalog: catalog.clone(),
                kube,
                key_value: keys.clone().map(|keys| Arc::new(keys) as Arc<dyn KeyValue>),
                http,
                observer: None,
                gate: Some(Arc::clone(&gate) as Arc<dyn ActingGate>),
            },
            metrics: PluginMetrics::register(&mut registry),
            script_runners,
        });
        World {
            host,
            catalog,
            env,
            log,
            cache,
            keys: keys.unwrap_or_default(),
            gate,
            registry,
            _log: guard,
        }
    }

    /// Loads a plugin with the content of its file.
    pub(crate) async fn load(&self, spec: PluginSpec) -> Result<Plugin, LoadError> {
        match read(&spec.content) {
            Ok(content) => self.host.load(spec, content).await,
            Err(error) => Err(error.of_plugin(&spec.name)),
        }
    }

    /// Inspects the component or script in a file.
    pub(crate) async fn inspect(&self, path: &Path, config: Value) -> Result<Inspection, LoadError> {
        self.host.inspect(&read(&path.into())?, config).await
    }

    /// A running plugin with the name of its guest, and with `config`.
    pub(crate) async fn run(&self, guest_name: &str, config: Value, adjust: impl FnOnce(&mut PluginSpec)) -> Plugin {
        let mut spec = spec(guest_name, config);
        adjust(&mut spec);
        let plugin = self.load(spec).await.unwrap();
        plugin.start().await;
        plugin
    }

    /// An informer's only source, empty and synced.
    pub(crate) fn pods(&self, informer: &str) -> Pods {
        self.pods_of(informer, "")
    }

    /// An informer's source in a cluster, empty and synced.
    pub(crate) fn pods_of(&self, informer: &str, cluster: &str) -> Pods {
        self.objects_of(informer, cluster, "Pod", "v1/pods")
    }

    /// As [`pods_of`](Self::pods_of), for another kind: its objects are written like pods.
    pub(crate) fn objects_of(&self, informer: &str, cluster: &str, kind: &'static str, resource: &str) -> Pods {
        let info = SourceInfo {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            resource: resource.to_owned(),
            namespace: None,
            namespaced: true,
            partial: false,
        };
        let id = self.catalog.add_source(info);
        let mut writer = StoreWriter::publishing_to(&self.catalog, id).unwrap();
        writer.set_version(ResourceVersion::new("1"), 0);
        writer.publish();
        let source = self.catalog.source(id).unwrap();
        source.set_state(SourceState::Live);
        source.set_synced();
        source.add_shape(Arc::new(Shape::of("v1", "Pod")));
        Pods {
            id,
            kind,
            uid_suffix: if cluster.is_empty() {
                String::new()
            } else {
                format!("-{cluster}")
            },
            writer,
            listeners: Vec::new(),
            env: Arc::clone(&self.env),
            version: 1,
        }
    }

    /// The lines of `/metrics` that start with `prefix`.
    pub(crate) fn metrics(&self, prefix: &str) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let mut lines: Vec<&str> = text.lines().filter(|line| line.starts_with(prefix)).collect();
        lines.sort_unstable();
        lines.join("\n")
    }

    /// Waits until `condition` holds.
    pub(crate) async fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !condition() {
            assert!(
                Instant::now() < deadline,
                "timed out waiting for: {what}\n{}",
                self.log.text()
            );
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits until the recorder has written `count` lines that `wanted` selects; returns them.
    pub(crate) async fn recorded(&self, count: usize, wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
        self.until("that many lines", || {
            self.log.json().iter().filter(|line| wanted(line)).count() >= count
        })
        .await;
        self.log.json().into_iter().filter(|line| wanted(line)).collect()
    }
}

pub(crate) fn spec(guest_name: &str, config: Value) -> PluginSpec {
    let mut spec = PluginSpec::new(guest_name, guest(guest_name));
    spec.config = config;
    spec
}

/// The log of the plugin `hello`, with levels.
pub(crate) fn hello_log(world: &World) -> Vec<String> {
    let lines = world.log.lines().into_iter();
    let ours = lines.filter(|line| line.is_of_guest("hello"));
    ours.map(|line| format!("{} {}", line.level, line.message)).collect()
}

/// Waits until the plugin is idle.
pub(crate) async fn idle(world: &World, plugin: &Plugin) {
    let is_idle = || {
        let stats = plugin.listener().control().stats();
        stats.pending + stats.in_flight + stats.syncing == 0
    };
    world.until("it to handle all events", is_idle).await;
}

/// As many namespaces as must crash a plugin before it is quarantined.
pub(crate) const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];

/// One informer of pods, written by hand.
pub(crate) struct Pods {
    pub(crate) id: SourceId,
    pub(crate) writer: StoreWriter,
    pub(crate) version: u64,
    kind: &'static str,
    /// Objects of different clusters have different uids.
    uid_suffix: String,
    listeners: Vec<ListenerHandle>,
    env: Arc<TestEnvironment>,
}

impl Pods {
    /// Attaches `listener` to this informer.
    pub(crate) fn attach(&mut self, listener: &ListenerHandle) {
        listener.feed().attach(self.id, self.writer.published(), self.env.now());
        self.listeners.push(listener.clone());
    }

    /// Writes a pod with `rest`; the informer publishes and delivers it.
    pub(crate) fn apply_with(&mut self, name: &str, rest: &str) {
        self.apply_in("default", name, rest);
    }

    /// The same in any namespace.
    pub(crate) fn apply_in(&mut self, namespace: &str, name: &str, rest: &str) {
        self.version += 1;
        let uid = format!("uid-{name}{}", self.uid_suffix);
        let new = object_in(self.kind, (namespace, name, &uid), self.version, rest);
        let kind = match self.writer.add(new.clone()) {
            Some(old) => ChangeKind::Update { old, new },
            None => ChangeKind::Add(new),
        };
        self.tell(vec![kind]);
    }

    pub(crate) fn apply(&mut self, name: &str) {
        self.apply_with(name, "");
    }

    /// Writes pods into each of [`NAMESPACES`]: a plugin that traps on them does so in several namespaces.
    pub(crate) fn apply_everywhere(&mut self, names: &[String]) {
        for namespace in NAMESPACES {
            names.iter().for_each(|name| self.apply_in(namespace, name, ""));
        }
    }

    /// Writes seven pods repeatedly until `task` is done, and at least a thousand times. Returns how often.
    pub(crate) async fn apply_during(&mut self, task: JoinHandle<()>) -> usize {
        let mut written = 0;
        while !task.is_finished() || written < 1_000 {
            for key in 0..7 {
                self.apply(&format!("pod-{key}"));
                written += 1;
            }
            tokio::task::yield_now().await;
        }
        task.await.unwrap();
        written
    }

    /// Writes several pods in one batch.
    pub(crate) fn apply_all(&mut self, names: &[String]) {
        let mut kinds = Vec::new();
        for name in names {
            self.version += 1;
            let new = pod(name, self.version, "");
            kinds.push(match self.writer.add(new.clone()) {
                Some(old) => ChangeKind::Update { old, new },
                None => ChangeKind::Add(new),
            });
        }
        self.tell(kinds);
    }

    pub(crate) fn delete(&mut self, name: &str) {
        self.delete_in("default", name);
    }

    pub(crate) fn delete_in(&mut self, namespace: &str, name: &str) {
        self.remove(Key::new(namespace, name), false);
    }

    /// As [`delete`](Self::delete), but the final state is unknown.
    pub(crate) fn vanish(&mut self, name: &str) {
        self.remove(Key::new("default", name), true);
    }

    /// As [`vanish`](Self::vanish), and nothing but the name is known.
    pub(crate) fn forget(&mut self, name: &str) {
        let key = Key::new("default", name);
        self.writer.delete(key.as_ref());
        self.report_delete(key, None, true);
    }

    fn remove(&mut self, key: Key, final_state_unknown: bool) {
        let last = self.writer.delete(key.as_ref());
        self.report_delete(key, last, final_state_unknown);
    }

    fn report_delete(&mut self, key: Key, last: Option<Object>, final_state_unknown: bool) {
        self.version += 1;
        self.tell(vec![ChangeKind::Delete {
            last,
            key,
            final_state_unknown,
        }]);
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.writer.published().clone()
    }

    /// The view of a handler that has seen every event of this source, computed like the recorder's.
    pub(crate) fn digest(&self) -> String {
        let mut view = BTreeMap::new();
        for object in self.writer.published().iter() {
            view.insert((object.namespace(), object.name()), object.version().as_str());
        }
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for ((namespace, name), version) in view {
            for byte in format!("{namespace}/{name}={version}\n").bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        format!("{hash:016x}")
    }

    fn tell(&mut self, kinds: Vec<ChangeKind>) {
        self.writer
            .set_version(ResourceVersion::new(&self.version.to_string()), 0);
        let now = self.env.now();
        let snapshot = self.writer.publish();
        let changes: Vec<ObjectChange> = kinds
            .into_iter()
            .map(|kind| ObjectChange {
                kind,
                reason: Reason::Watch,
                received: now,
            })
            .collect();
        for listener in &self.listeners {
            listener.feed().push(self.id, &snapshot, &changes);
        }
        drop(self.writer.take_garbage());
    }
}

pub(crate) fn pod(name: &str, version: u64, rest: &str) -> Object {
    object_in("Pod", ("default", name, &format!("uid-{name}")), version, rest)
}

fn object_in(kind: &str, (namespace, name, uid): (&str, &str, &str), version: u64, rest: &str) -> Object {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{uid}","resourceVersion":"{version}"{rest}}}}}"#
    );
    Object::parse(json.as_bytes(), &Shape::of("v1", kind)).unwrap()
}
