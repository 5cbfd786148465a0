//! Measures the cost of native handlers: 100 of them on one informer, compared to one.
//!
//! ```text
//! cargo run --release -p informant-informer --example many_handlers
//! ```
//!
//! Prints nanoseconds of CPU per handler and event, and fails above the promised limit. Everything, including the
//! embedded API server, runs in one thread, whose CPU time is measured; what 99 more handlers add to it is their cost.
//! Events come in bursts, as from a busy cluster, and one by one, as from a quiet one, where each wakes all handlers.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informant_apiserver::ApiServer;
use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, EventContext, EventHandler, HandlerError};
use informant_informer::{InformerMetrics, SharedInformer, SourceSpec, TokioEnvironment};
use informant_object::{KeyRef, Object};
use informant_spec::GroupVersionResource;
use kube::Client;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const HANDLERS: u64 = 100;
const OBJECTS: u64 = 256;
const EVENTS: u64 = 20_000;
const ROUNDS: usize = 3;

/// The promised limit per handler and event.
const NANOS_MAX: f64 = 1_000.0;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let mut is_within = true;
    println!("CPU per native handler and event, {HANDLERS} handlers that do nothing on one informer");
    for (name, burst) in [("in bursts of 200", 200), ("one by one", 1)] {
        let mut costs = Vec::new();
        for _ in 0..ROUNDS {
            let one = runtime.block_on(deliver(1, burst));
            let many = runtime.block_on(deliver(HANDLERS, burst));
            let events = EVENTS as f64 * (HANDLERS - 1) as f64;
            costs.push((many.as_nanos() as f64 - one.as_nanos() as f64) / events);
        }
        costs.sort_unstable_by(f64::total_cmp);
        let cost = costs[ROUNDS / 2];
        println!("  {name:<20} {cost:>6.0} ns, at most {NANOS_MAX:.0}");
        is_within &= cost <= NANOS_MAX;
    }
    if is_within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

struct CountUpdates(Arc<AtomicU64>);

impl EventHandler for CountUpdates {
    fn on_add(&mut self, _: &Object, _: &EventContext) -> Result<(), HandlerError> {
        Ok(())
    }

    fn on_update(&mut self, _: Option<&Object>, _: &Object, _: &EventContext) -> Result<(), HandlerError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn on_delete(&mut self, _: KeyRef<'_>, _: Option<&Object>, _: bool, _: &EventContext) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// The CPU time of delivering all events, in bursts, to this many handlers. None is folded: each burst is handled
/// before the next.
async fn deliver(handlers: u64, burst: u64) -> Duration {
    let server = ApiServer::new(informant_apiserver::Options::default());
    (0..OBJECTS).for_each(|number| put(&server, number, 0));
    let spec = SourceSpec::new("pods", GroupVersionResource::new("", "v1", "pods"), "Pod");
    let client = Client::new(server.service(), "default");
    let environment = Arc::new(TokioEnvironment::current(7));
    let metrics = InformerMetrics::default();
    let informer = SharedInformer::start(spec, client, environment, Catalog::new(), &metrics).expect("it starts");
    let updates = Arc::new(AtomicU64::new(0));
    let registrations: Vec<_> = (0..handlers)
        .map(|_| {
            let handler = CountUpdates(Arc::clone(&updates));
            let added = informer.add_handler(Box::new(handler), ListenerOptions::default());
            added.expect("the informer runs")
        })
        .collect();
    for mut registration in registrations {
        registration.synced().await;
    }
    let before = thread_cpu_time();
    let mut written = 0;
    while written < EVENTS {
        for _ in 0..burst {
            written += 1;
            put(&server, written % OBJECTS, written);
        }
        while updates.load(Ordering::Relaxed) < written * handlers {
            tokio::task::yield_now().await;
        }
    }
    let cost = thread_cpu_time() - before;
    assert!(informer.stop(Duration::from_secs(5)).await.is_clean());
    cost
}

fn put(server: &ApiServer, number: u64, revision: u64) {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": format!("pod-{number}"), "labels": {"revision": revision.to_string()}},
        "spec": {"nodeName": "node", "containers": [{"name": "main", "image": "nginx"}]},
    });
    server.put("v1/pods", "default", pod).expect("the pod is written");
}

/// The CPU time of the calling thread, as Linux counts it.
fn thread_cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the CPU time of threads");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("nanoseconds come first"))
}
