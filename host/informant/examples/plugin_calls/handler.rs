//! Plugins on this thread, and events for them.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use informant_cache::listener::{ChangeKind, ListenerHandle, ObjectChange};
use informant_cache::{BoxFuture, Catalog, Environment, Moment, Reason, Snapshot};
use informant_object::{Object, Shape, SourceId};
use informant_plugin_host::{
    Compiler, HostOptions, KubeApi, KubeCall, KubeFuture, Plugin, PluginHost, PluginMetrics, RunnerSource,
    RunnerSources, Services,
};
use informant_spec::{Content, PluginSpec, Suffix};
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

use crate::setup::{built, pods};

/// How long a call of the cluster takes.
pub(crate) const WAIT: Duration = Duration::from_millis(10);

/// A pod of 300 bytes.
pub(crate) const SMALL: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"","namespace":"default","uid":"0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0","resourceVersion":"","labels":{"app":"web","team":"blue"}},"spec":{"nodeName":"node-1"},"status":{"phase":"Running","podIP":"10.0.0.17","startTime":"2026-11-22T09:00:00Z"}}"#;

/// A pod of 5 KiB.
pub(crate) const LARGE: &str = include_str!("../../../object/corpus/accepted/pod.json");

/// A plugin host, and a source that has synced.
pub(crate) struct Bench {
    host: PluginHost,
    pub(crate) env: Arc<dyn Environment>,
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
    /// Keeps compiled components in `folder`.
    pub(crate) fn new(folder: &Path) -> Result<Bench> {
        let env: Arc<dyn Environment> = Arc::new(RealTime {
            began: Instant::now(),
            handle: Handle::current(),
            random: AtomicU64::new(1),
        });
        let catalog = Catalog::new();
        let (source, snapshot) = pods(&catalog)?;
        let host = PluginHost::new(HostOptions {
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
            },
            metrics: PluginMetrics::register(&mut Registry::default()),
            script_runners: script_runners(),
        })?;
        Ok(Bench {
            host,
            env,
            source,
            snapshot,
        })
    }

    pub(crate) async fn start(&self, spec: PluginSpec) -> Result<Handler<'_>> {
        let path = spec.content.path();
        let text = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let content = Content::new(spec.content.clone(), text);
        let plugin = self.host.load(spec, content).await?;
        plugin.start().await;
        let listener = plugin.listener().clone();
        listener.feed().attach(self.source, &self.snapshot, self.env.now());
        while !listener.feed().has_synced(self.source) {
            tokio::task::yield_now().await;
        }
        Ok(Handler {
            bench: self,
            plugin,
            listener,
        })
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
        let failed = self.listener.control().stats().counters.retried;
        ensure!(failed == 0, "{failed} calls have failed: {}", self.last_error());
        Ok(used.as_secs_f64() * 1e6 / (rounds * changes.len()) as f64)
    }

    pub(crate) fn push(&self, changes: &[ObjectChange]) {
        self.listener
            .feed()
            .push(self.bench.source, &self.bench.snapshot, changes);
    }

    pub(crate) async fn wait_until_idle(&self) {
        while self.listener.ledger().pending() + self.listener.consumer().in_flight() > 0 {
            tokio::task::yield_now().await;
        }
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
fn cpu_of_this_thread() -> Result<Duration> {
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
