//! Measures the cost of an event from its listener to the guest's answer, on one thread: `cargo run --release -p
//! informant-plugin-host --example call`.
//!
//! Prints microseconds per event. Arguments: a component or script that handles pods (default: the benchmark's handler,
//! where `cargo xtask guests` puts it), the number of events, the size of a batch, and `small` for pods of 300 bytes
//! instead of 5 KiB.

#![expect(clippy::print_stdout, reason = "it prints its results")]

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use informant_cache::listener::{ChangeKind, ObjectChange};
use informant_cache::{
    BoxFuture, Catalog, Environment, ListenerHandle, Moment, Reason, Snapshot, SourceInfo, SourceState, StoreWriter,
};
use informant_object::{Object, ResourceVersion, Shape, SourceId};
use informant_plugin_host::{Compiler, HostOptions, PluginHost, PluginMetrics, PluginSpec};
use prometheus_client::registry::Registry;
use tokio::runtime::Handle;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ROUNDS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let component = args.next().map_or_else(built, PathBuf::from);
    let mut number = |usual| args.next().and_then(|arg| arg.parse().ok()).unwrap_or(usual);
    let (events, at_once) = (number(200_000usize), number(20));
    let is_small = args.next().is_some_and(|arg| arg == "small");
    let env: Arc<dyn Environment> = Arc::new(RealTime {
        began: Instant::now(),
        handle: Handle::current(),
        random: AtomicU64::new(1),
    });
    let catalog = Catalog::new();
    let (source, snapshot) = pods(&catalog);
    let cache = tempfile::tempdir().expect("a folder");
    let host = PluginHost::new(HostOptions {
        cache_dir: cache.path().to_owned(),
        env: Arc::clone(&env),
        handle: Handle::current(),
        compiler: Compiler::InProcess,
        catalog,
        metrics: PluginMetrics::register(&mut Registry::default()),
        kube: None,
        script_runner: std::fs::read(in_target("informant_script_runner.wasm"))
            .ok()
            .map(Cow::Owned),
    })
    .expect("an engine");
    let plugin = host
        .load(PluginSpec::new("measured", component))
        .await
        .expect("a plugin");
    plugin.start().await;
    let listener = plugin.listener().clone();
    listener.attach(source, &snapshot, env.now());
    while !listener.has_synced(source) {
        tokio::task::yield_now().await;
    }
    let changes = updates(at_once, is_small, env.now());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        for _ in 0..events / at_once {
            listener.push(source, &snapshot, &changes, env.now());
            delivered(&listener).await;
        }
        let each = began.elapsed().as_secs_f64() * 1e6 / events as f64;
        println!("{each:8.3} us an event, {at_once} at once");
    }
}

fn built() -> PathBuf {
    in_target("guest_measured.wasm")
}

/// What `cargo xtask guests` has built.
fn in_target(file: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/wasm32-wasip2/plugin");
    folder.join(file)
}

/// A pod of 300 bytes.
const SMALL: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"","namespace":"default","uid":"0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0","resourceVersion":"","labels":{"app":"web","team":"blue","tier":"front"}},"spec":{"nodeName":"node-1"},"status":{"phase":"Running","podIP":"10.0.0.17","startTime":"2026-11-22T09:00:00Z"}}"#;

/// A synced source without objects.
fn pods(catalog: &Catalog) -> (SourceId, Snapshot) {
    let source = catalog.add_source(SourceInfo {
        informer: "pods".to_owned(),
        cluster: String::new(),
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        resource: "v1/pods".to_owned(),
        namespace: None,
    });
    let mut writer = StoreWriter::publishing_to(catalog, source).expect("a source");
    writer.set_version(ResourceVersion::new("1"), 0);
    let snapshot = writer.publish().clone();
    catalog.set_state(source, SourceState::Live);
    catalog.source(source).expect("a source").set_synced();
    (source, snapshot)
}

/// Updates of as many pods.
fn updates(count: usize, is_small: bool, received: Moment) -> Vec<ObjectChange> {
    let text = match is_small {
        true => SMALL,
        false => include_str!("../../object/corpus/accepted/pod.json"),
    };
    let pod = |number: usize, version: u32| {
        let mut pod: serde_json::Value = serde_json::from_str(text).expect("a pod");
        pod["metadata"]["name"] = format!("pod-{number}").into();
        pod["metadata"]["resourceVersion"] = version.to_string().into();
        Object::parse(pod.to_string().as_bytes(), &Shape::of("v1", "Pod")).expect("a pod")
    };
    let update = |number| ChangeKind::Update {
        old: pod(number, 1),
        new: pod(number, 2),
    };
    (0..count)
        .map(|number| ObjectChange {
            kind: update(number),
            reason: Reason::Watch,
            received,
        })
        .collect()
}

async fn delivered(listener: &ListenerHandle) {
    while listener.pending() + listener.in_flight() > 0 {
        tokio::task::yield_now().await;
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
