//! Measures what one call of a plugin costs, in this process and on one thread, through the whole plugin host. `cargo
//! xtask bench plugins` runs it.
//!
//! For each handler it prints the microseconds of one event in each run, from the listener to the guest's answer in the
//! listener: the object-ref and the payload, the limits of a call, the guest, its result, and the queue around it. Then
//! it counts the calls for many events of one key within `min-interval`.
//!
//! Then it measures a handler that waits 10 ms in each call, with several instances.
//!
//! Exits with an error if the best run of a handler with a bound is above it, if there are other than two calls, or if
//! several instances are not fast enough.

#![expect(clippy::print_stdout, reason = "it prints its results")]

#[path = "shared/setup.rs"]
mod setup;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Parser;
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

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Events pushed at once: a burst, as a busy watch delivers it.
const BURST_EVENTS: usize = 50;

/// Events of one key within [`INTERVAL`].
const INTERVAL_EVENTS: u64 = 1_000;

/// The shortest time between two calls of one key.
const INTERVAL: Duration = Duration::from_millis(500);

/// A handler whose second call must have the last state.
const LAST_STATE_SECOND: &str = r#"
let calls = 0;
export function onUpdate(pod) {
  calls += 1;
  if (calls === 2 && pod.metadata.resourceVersion !== "1000") throw new Error("not the last state");
}
"#;

/// How long a call of the handler that waits takes.
const WAIT: Duration = Duration::from_millis(10);

/// Numbers of instances, and how many times the rate of one instance they have to reach.
const INSTANCES: [(u32, f64); 2] = [(4, 3.6), (16, 13.0)];

/// Pods for each instance of the handler that waits: more than it handles in [`WARM_UP`] and [`WINDOW`].
const WAITING_PODS: usize = 200;

/// The time in which calls of that handler are not counted yet, and in which they are.
const WARM_UP: Duration = Duration::from_millis(200);
const WINDOW: Duration = Duration::from_secs(1);

/// Measure what one call of a plugin costs
#[derive(Parser)]
struct Args {
    /// Number of calls of a handler in one run; those that read more than 300 bytes get a tenth of it
    #[arg(long, default_value_t = 1_000_000)]
    calls: usize,
    /// Number of runs; the best one counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Measure only this component or script that handles pods, with pods of 300 bytes and of 5 KiB
    handler: Option<PathBuf>,
}

/// A handler, and what its calls pass.
struct Case {
    name: String,
    component: PathBuf,
    pod: &'static str,
    /// The most microseconds of an event, if there is a bound.
    us_max: Option<f64>,
}

/// A pod of 300 bytes.
const SMALL: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"","namespace":"default","uid":"0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0","resourceVersion":"","labels":{"app":"web","team":"blue"}},"spec":{"nodeName":"node-1"},"status":{"phase":"Running","podIP":"10.0.0.17","startTime":"2026-11-22T09:00:00Z"}}"#;

/// A pod of 5 KiB.
const LARGE: &str = include_str!("../../object/corpus/accepted/pod.json");

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let folder = tempfile::tempdir()?;
    let mut missed = Vec::new();
    for case in cases(&args, folder.path())? {
        let best = measure(&case, &args, folder.path()).await?;
        if let Some(us_max) = case.us_max {
            match best <= us_max {
                true => println!("ok: at most {us_max} us"),
                false => missed.push(format!("missed: {}: {best:.2} us, at most {us_max} us", case.name)),
            }
        }
    }
    if args.handler.is_none() {
        missed.extend(count_calls_within_interval(folder.path()).await?);
        missed.extend(measure_instances(folder.path()).await?);
    }
    missed.iter().for_each(|line| println!("{line}"));
    Ok(match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The handlers to measure. Scripts are written to `folder`.
fn cases(args: &Args, folder: &Path) -> Result<Vec<Case>> {
    if let Some(handler) = &args.handler {
        let case = |size: &str, pod| Case {
            name: format!("{}, {size}", handler.display()),
            component: handler.clone(),
            pod,
            us_max: None,
        };
        return Ok(vec![case("300 bytes", SMALL), case("5 KiB", LARGE)]);
    }
    let script = |file: &str, text: &str| -> Result<PathBuf> {
        let path = folder.join(file);
        std::fs::write(&path, text)?;
        Ok(path)
    };
    let case = |name: &str, component, pod, us_max| Case {
        name: name.to_owned(),
        component,
        pod,
        us_max,
    };
    let (empty, blind) = (
        script("no-op.js", "export function onUpdate(pod, event) {}\n")?,
        script("blind.js", "export function onUpdate() {}\n")?,
    );
    Ok(vec![
        case("Rust, no-op, 300 bytes", built("guest_no_op.wasm")?, SMALL, Some(1.5)),
        case("script, no-op, 300 bytes", empty.clone(), SMALL, Some(12.0)),
        case("script, onUpdate() without parameters, 300 bytes", blind, SMALL, None),
        case("script, no-op, whole pod of 5 KiB", empty, LARGE, None),
        case(
            "Rust, five fields of a pod of 5 KiB",
            built("guest_measured.wasm")?,
            LARGE,
            None,
        ),
    ])
}

/// Prints all runs of one handler. Returns the microseconds of an event in the best one.
async fn measure(case: &Case, args: &Args, folder: &Path) -> Result<f64> {
    println!("\n{}", case.name);
    let handler = Handler::start(PluginSpec::new("measured", &case.component), folder).await?;
    let calls = if case.pod == SMALL { args.calls } else { args.calls / 10 };
    let changes = updates(case.pod, BURST_EVENTS, handler.env.now())?;
    // Warms up caches and the guest's memory.
    handler.call(&changes, calls / 100).await?;
    let mut best = f64::INFINITY;
    for number in 1..=args.runs {
        let us = handler.call(&changes, calls).await?;
        println!("run {number}: {us:6.2} us per event ({calls} events)");
        best = best.min(us);
    }
    println!("best:  {best:6.2} us per event");
    Ok(best)
}

/// Prints how many calls [`INTERVAL_EVENTS`] events of one key cause within its interval. Returns what is missed.
async fn count_calls_within_interval(folder: &Path) -> Result<Option<String>> {
    let script = folder.join("interval.js");
    std::fs::write(&script, LAST_STATE_SECOND)?;
    let mut spec = PluginSpec::new("measured", script);
    spec.min_interval = Some(INTERVAL);
    let handler = Handler::start(spec, folder).await?;
    let before = handler.listener.control().stats().counters.ok;
    let began = Instant::now();
    for version in 1..=INTERVAL_EVENTS {
        let change = update_of(SMALL, 0, version, handler.env.now())?;
        handler
            .listener
            .feed()
            .push(handler.source, &handler.snapshot, &[change]);
        tokio::task::yield_now().await;
    }
    let pushed = began.elapsed();
    handler.wait_until_idle().await;
    let calls = handler.listener.control().stats().counters.ok - before;
    println!("\n{INTERVAL_EVENTS} events of one key in {pushed:.0?}, min-interval {INTERVAL:?}: {calls} calls");
    // A machine that is this slow measures nothing.
    let is_met = calls == 2 || pushed >= INTERVAL;
    Ok((!is_met).then(|| format!("missed: {calls} calls, 2 expected")))
}

/// A running plugin, with a source that has synced.
struct Handler {
    // Without these two, the plugin would end.
    _host: PluginHost,
    _plugin: Plugin,
    listener: ListenerHandle,
    env: Arc<dyn Environment>,
    source: SourceId,
    snapshot: Snapshot,
}

impl Handler {
    async fn start(spec: PluginSpec, folder: &Path) -> Result<Handler> {
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
            script_runners: script_runners()?,
        })?;
        let content = Content::new(spec.content.clone(), std::fs::read(spec.content.path())?);
        let plugin = host.load(spec, content).await?;
        plugin.start().await;
        let listener = plugin.listener().clone();
        listener.feed().attach(source, &snapshot, env.now());
        while !listener.feed().has_synced(source) {
            tokio::task::yield_now().await;
        }
        Ok(Handler {
            _host: host,
            _plugin: plugin,
            listener,
            env,
            source,
            snapshot,
        })
    }

    /// Delivers `count` events. Returns the microseconds of one.
    async fn call(&self, changes: &[ObjectChange], count: usize) -> Result<f64> {
        let began = Instant::now();
        for _ in 0..count / changes.len() {
            self.listener.feed().push(self.source, &self.snapshot, changes);
            self.wait_until_idle().await;
        }
        let each = began.elapsed().as_secs_f64() * 1e6 / count as f64;
        let failed = self.listener.control().stats().counters.retried;
        ensure!(failed == 0, "{failed} calls have failed");
        Ok(each)
    }
}

impl Handler {
    async fn wait_until_idle(&self) {
        while self.listener.ledger().pending() + self.listener.consumer().in_flight() > 0 {
            tokio::task::yield_now().await;
        }
    }
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

/// Measures a handler that waits in each call, with one instance and with several. Returns what was missed.
async fn measure_instances(folder: &Path) -> Result<Vec<String>> {
    let script = folder.join("waits.js");
    let text = "import { kube } from \"informant\";\nexport const manifest = { parallel: true };\n\
                export function onUpdate(pod) {\n  \
                kube.get({ resource: \"v1/pods\", namespace: \"a\", name: pod.metadata.name });\n}\n";
    std::fs::write(&script, text)?;
    println!("\nscript, waits {WAIT:?} in each call");
    let one = calls_per_second(&script, 1, folder).await?;
    println!("  1 instance:  {one:6.0} calls/s");
    let mut missed = Vec::new();
    for (instances, times_min) in INSTANCES {
        let rate = calls_per_second(&script, instances, folder).await?;
        let times = rate / one;
        println!(" {instances:2} instances: {rate:6.0} calls/s, {times:.1} times");
        match times >= times_min {
            true => println!("ok: at least {times_min} times"),
            false => missed.push(format!(
                "missed: {instances} instances: {times:.1} times, at least {times_min}"
            )),
        }
    }
    Ok(missed)
}

async fn calls_per_second(script: &Path, instances: u32, folder: &Path) -> Result<f64> {
    let mut spec = PluginSpec::new("waits", script);
    spec.allow_kube = serde_json::from_value(serde_json::json!([{ "verbs": ["get"], "resource": "v1/pods" }]))?;
    spec.limits.instances = instances;
    spec.limits.kube_calls = instances as usize;
    spec.limits.pending = 100_000;
    let handler = Handler::start(spec, folder).await?;
    let changes = updates(SMALL, WAITING_PODS * instances as usize, handler.env.now())?;
    handler
        .listener
        .feed()
        .push(handler.source, &handler.snapshot, &changes);
    tokio::time::sleep(WARM_UP).await;
    let handled = || handler.listener.control().stats().counters.ok;
    let (began, before) = (Instant::now(), handled());
    tokio::time::sleep(WINDOW).await;
    let (took, calls) = (began.elapsed(), handled() - before);
    let failed = handler.listener.control().stats().counters.retried;
    ensure!(failed == 0, "{failed} calls have failed");
    Ok(calls as f64 / took.as_secs_f64())
}

/// So many updates, each of another pod.
fn updates(text: &str, count: usize, received: Moment) -> Result<Vec<ObjectChange>> {
    (0..count).map(|number| update_of(text, number, 2, received)).collect()
}

/// The update of one pod to a version from the one before.
fn update_of(text: &str, number: usize, version: u64, received: Moment) -> Result<ObjectChange> {
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

/// The built script runner, if there is one.
fn script_runners() -> Result<RunnerSources> {
    let runner = std::fs::read(built("informant_script_runner.wasm")?).ok();
    let runner = runner.map(|bytes| RunnerSource::BuiltIn(Cow::Owned(bytes)));
    Ok(Suffix::new("js").zip(runner).into_iter().collect())
}
