//! Plugins on this thread, and events for them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use informant_cache::listener::{ChangeKind, ListenerHandle, ObjectChange};
use informant_cache::{BoxFuture, Catalog, Environment, Moment, Reason, Snapshot};
use informant_object::{Object, Shape, SourceId};
use informant_plugin_host::{
    Compiler, HostError, HostOptions, KubeApi, KubeCall, KubeFuture, Plugin, PluginHost, PluginMetrics, RunnerSource,
    RunnerSources, Services,
};
use informant_spec::{Content, PluginSpec, Suffix};
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

use crate::setup::{built, synced};

/// How long a call of the cluster takes.
pub(crate) const WAIT: Duration = Duration::from_millis(10);

/// A pod of 300 bytes.
pub(crate) const SMALL: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"","namespace":"default","uid":"0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0","resourceVersion":"","labels":{"app":"web","team":"blue"}},"spec":{"nodeName":"node-1"},"status":{"phase":"Running","podIP":"10.0.0.17","startTime":"2026-11-22T09:00:00Z"}}"#;

/// A pod of 5 KiB.
pub(crate) const LARGE: &str = include_str!("../../../object/corpus/accepted/pod.json");

/// The ConfigMap that handlers read from the cache.
const SETTINGS: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop","uid":"8d2c6f1e-7a43-4c55-9c1f-2f0b6f7a1d10","resourceVersion":"1","labels":{"app":"shop"}},"data":{"mode":"strict","limit":"20"}}"#;

/// A plugin host, and two sources that have synced.
pub(crate) struct Bench {
    host: PluginHost,
    pub(crate) env: Arc<dyn Environment>,
    pods: Cached,
    configmaps: Cached,
}

/// A source, and what the cache has of it.
struct Cached {
    source: SourceId,
    snapshot: Snapshot,
}

/// A running plugin.
pub(crate) struct Handler<'b> {
    bench: &'b Bench,
    plugin: Plugin,
    pub(crate) listener: ListenerHandle,
}

impl Bench {
    /// Keeps compiled components in `folder`. The cache has no pods.
    pub(crate) fn new(folder: &Path) -> Result<Bench> {
        Bench::with_pods(folder, Vec::new())
    }

    /// As [`new`](Self::new), with these pods in the cache.
    pub(crate) fn with_pods(folder: &Path, pods: Vec<Object>) -> Result<Bench> {
        let env = Arc::new(RealTime {
            began: Instant::now(),
            handle: Handle::current(),
            random: AtomicU64::new(1),
        });
        Bench::with(folder, env, pods, PluginHost::new)
    }

    /// As [`new`](Self::new), with this environment, whose clock guests see.
    pub(crate) fn with_clock(folder: &Path, env: Arc<dyn Environment>) -> Result<Bench> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Bench::with(folder, env, Vec::new(), |options| {
            PluginHost::for_scenario(options, now)
        })
    }

    fn with(
        folder: &Path,
        env: Arc<dyn Environment>,
        pods: Vec<Object>,
        host: impl FnOnce(HostOptions) -> Result<PluginHost, HostError>,
    ) -> Result<Bench> {
        let catalog = Catalog::new();
        let settings = Object::parse(SETTINGS.as_bytes(), &Shape::of("v1", "ConfigMap"))?;
        let (pods, configmaps) = (
            Cached::of(&catalog, "pods", "Pod", pods)?,
            Cached::of(&catalog, "configmaps", "ConfigMap", vec![settings])?,
        );
        let host = host(HostOptions {
            cache_dir: folder.to_owned(),
            env: Arc::clone(&env),
            handle: Handle::current(),
            compiler: Compiler::InProcess,
            services: Services {
                catalog,
                kube: Some(Arc::new(Waits)),
                key_value: None,
                http: None,
                observer: None,
                gate: None,
            },
            metrics: PluginMetrics::register(&mut Registry::default()),
            script_runners: script_runners(),
        })?;
        Ok(Bench {
            host,
            env,
            pods,
            configmaps,
        })
    }

    /// Starts a plugin that receives pods, and ConfigMaps if its section has an informer for them.
    pub(crate) async fn start(&self, spec: PluginSpec) -> Result<Handler<'_>> {
        let path = spec.content.path();
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let content = Content::new(spec.content.clone(), text);
        let mut received = vec![&self.pods];
        received.extend((!spec.informers.is_empty()).then_some(&self.configmaps));
        let plugin = self.host.load(spec, content).await?;
        plugin.start().await;
        let listener = plugin.listener().clone();
        for cached in &received {
            let feed = listener.feed();
            feed.attach(cached.source, &cached.snapshot, self.env.now());
        }
        while !received.iter().all(|cached| listener.feed().has_synced(cached.source)) {
            tokio::task::yield_now().await;
        }
        Ok(Handler {
            bench: self,
            plugin,
            listener,
        })
    }

    /// The section of a plugin that reads both sources.
    pub(crate) fn reads_both(file: &Path) -> PluginSpec {
        let mut spec = PluginSpec::new("measured", file);
        let informers = ["pods", "configmaps"].map(|name| (name.to_owned(), name.to_owned()));
        spec.informers = informers.to_vec();
        spec
    }
}

impl Cached {
    fn of(catalog: &Catalog, informer: &str, kind: &str, objects: Vec<Object>) -> Result<Cached> {
        let (source, snapshot) = synced(catalog, informer, kind, objects)?;
        Ok(Cached { source, snapshot })
    }
}

impl Handler<'_> {
    /// Delivers `count` events, as many at once as there are `changes`. Returns the microseconds of CPU of one.
    pub(crate) async fn call(&self, changes: &[ObjectChange], count: usize) -> Result<f64> {
        let began = cpu_of_this_thread()?;
        let rounds = count.div_ceil(changes.len());
        for _ in 0..rounds {
            self.push(changes);
            self.wait_until_idle().await;
        }
        let used = cpu_of_this_thread()? - began;
        self.ensure_none_failed()?;
        Ok(used.as_secs_f64() * 1e6 / (rounds * changes.len()) as f64)
    }

    /// Changes of pods.
    pub(crate) fn push(&self, changes: &[ObjectChange]) {
        self.push_of(&self.bench.pods, changes);
    }

    /// Changes of ConfigMaps.
    pub(crate) fn push_configmaps(&self, changes: &[ObjectChange]) {
        self.push_of(&self.bench.configmaps, changes);
    }

    fn push_of(&self, cached: &Cached, changes: &[ObjectChange]) {
        self.listener.feed().push(cached.source, &cached.snapshot, changes);
    }

    pub(crate) async fn wait_until_idle(&self) {
        while self.listener.ledger().pending() + self.listener.consumer().in_flight() > 0 {
            tokio::task::yield_now().await;
        }
    }

    /// Calls that have ended well.
    pub(crate) fn calls(&self) -> u64 {
        self.listener.control().stats().counters.ok
    }

    pub(crate) fn ensure_none_failed(&self) -> Result<()> {
        let counters = self.listener.control().stats().counters;
        let failed = counters.retried + counters.dead_lettered;
        ensure!(failed == 0, "{failed} calls have failed: {}", self.last_error());
        Ok(())
    }

    /// Linear memory of its instances, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.plugin.status().memory_bytes
    }

    fn last_error(&self) -> String {
        let error = self.plugin.status().last_error;
        error.map_or_else(|| "no error is known".to_owned(), |(_, error)| error)
    }
}

/// So many updates, each of another pod.
pub(crate) fn updates(text: &str, count: usize, received: Moment) -> Result<Vec<ObjectChange>> {
    (0..count).map(|number| update_of(text, number, 2, received)).collect()
}

/// The update of one pod to a version from the one before.
pub(crate) fn update_of(text: &str, number: usize, version: u64, received: Moment) -> Result<ObjectChange> {
    let pod = |version: u64| -> Result<Object> {
        let mut pod: serde_json::Value = serde_json::from_str(text)?;
        pod["metadata"]["name"] = format!("pod-{number}").into();
        pod["metadata"]["resourceVersion"] = version.to_string().into();
        Ok(Object::parse(pod.to_string().as_bytes(), &Shape::of("v1", "Pod"))?)
    };
    let (old, new) = (pod(version - 1)?, pod(version)?);
    Ok(ObjectChange {
        kind: ChangeKind::Update { old, new },
        reason: Reason::Watch,
        received,
    })
}

/// The CPU time that this thread, which does all the work, has used. Unlike the real time, it does not grow while other
/// programs run.
pub(crate) fn cpu_of_this_thread() -> Result<Duration> {
    const FILE: &str = "/proc/thread-self/schedstat";
    let text = std::fs::read_to_string(FILE).with_context(|| format!("cannot read {FILE}"))?;
    let used = text.split(' ').next().and_then(|text| text.parse().ok());
    used.map(Duration::from_nanos)
        .with_context(|| format!("{FILE} does not begin with a number: {text}"))
}

/// A cluster whose answers take a while.
struct Waits;

impl KubeApi for Waits {
    fn call(&self, _call: KubeCall) -> KubeFuture {
        Box::pin(async {
            tokio::time::sleep(WAIT).await;
            Ok(b"{}".to_vec())
        })
    }
}

/// The real clock.
struct RealTime {
    began: Instant,
    handle: Handle,
    random: AtomicU64,
}

impl Environment for RealTime {
    fn now(&self) -> Moment {
        Moment::ZERO + self.began.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        let _entered = self.handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture) {
        self.handle.spawn(task);
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

/// The script runners that are built.
fn script_runners() -> RunnerSources {
    let runner = |key: &str, file: &str| {
        let bytes = built(file).ok().and_then(|path| std::fs::read(path).ok())?;
        Some((Suffix::new(key)?, RunnerSource::BuiltIn(Cow::Owned(bytes))))
    };
    [
        runner("js", "informant_script_runner.wasm"),
        runner("py", "informant-runner-python.wasm"),
    ]
    .into_iter()
    .flatten()
    .collect()
}
