//! Measures what waiting for HTTP costs others: the latency of one plugin, alone and while 16 instances of
//! another wait for 200 responses that take 1 s each. `cargo xtask bench plugins` runs it.
//!
//! Exits with an error if the 99th percentile grows by 5 ms or more, as the median of five rounds.

#![expect(clippy::print_stdout, reason = "it prints its results")]

#[path = "shared/setup.rs"]
mod setup;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use informant::{HttpSender, SystemResolver};
use informant_cache::listener::{ChangeKind, ListenerHandle, ObjectChange};
use informant_cache::{Catalog, Environment, Reason, Snapshot};
use informant_config::HttpSection;
use informant_informer::TokioEnvironment;
use informant_object::{Object, Shape, SourceId};
use informant_plugin_host::{Compiler, HostOptions, Plugin, PluginHost, PluginMetrics, RunnerSources, Services};
use informant_spec::{Content, HttpGrant, PluginSpec};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Instances that wait.
const WAITING: u32 = 16;

/// Requests of all of them in a round.
const REQUESTS: usize = 200;

/// How long the server takes for a response.
const RESPONSE_TIME: Duration = Duration::from_secs(1);

/// Rounds; their median counts.
const ROUNDS: usize = 5;

/// Events of the other plugin, in each half of a round.
const EVENTS: usize = 1_000;

/// Between two of them.
const EVENT_INTERVAL: Duration = Duration::from_millis(5);

/// By how much its 99th percentile may grow.
const GROWTH_MAX_MS: f64 = 5.0;

fn main() -> Result<ExitCode> {
    // As in the program: guests have a runtime of their own.
    let (informers, guests) = (Runtime::new()?, Runtime::new()?);
    let growth = informers.block_on(measure(&informers, &guests))?;
    println!("median: {growth:.2} ms; below {GROWTH_MAX_MS} ms are allowed");
    guests.shutdown_background();
    Ok(match growth < GROWTH_MAX_MS {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Returns by how many milliseconds the 99th percentile grows.
async fn measure(informers: &Runtime, guests: &Runtime) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(serve(listener));
    let folder = tempfile::tempdir()?;
    let world = World::new(informers, guests, folder.path())?;
    let mut spec = PluginSpec::new("waiting", setup::built("guest_http.wasm")?);
    spec.allow_http = vec![HttpGrant::parse(&url)?];
    spec.limits.instances = WAITING;
    let plugin = world.start(spec).await?;
    let waiting = plugin.listener();
    let other = world
        .start(PluginSpec::new("other", setup::built("guest_no_op.wasm")?))
        .await?;
    println!("p99 of one event of a plugin, alone and while {WAITING} instances send {REQUESTS} requests");
    let mut growths = Vec::new();
    for round in 1..=ROUNDS {
        let alone = world.p99_ms(&other.listener()).await?;
        let request = json!({ "url": url });
        for number in 0..REQUESTS {
            world.push(&waiting, &format!("round-{round}-{number}"), &request)?;
        }
        let with_others = world.p99_ms(&other.listener()).await?;
        ensure!(
            waiting.consumer().in_flight() > 1,
            "no instances were waiting at the end of the round"
        );
        ensure!(waiting.control().stats().counters.retried == 0, "requests have failed");
        while waiting.ledger().pending() + waiting.consumer().in_flight() > 0 {
            tokio::time::sleep(EVENT_INTERVAL).await;
        }
        println!("round {round}: {alone:6.2} ms alone, {with_others:6.2} ms with the others");
        growths.push(with_others - alone);
    }
    growths.sort_by(f64::total_cmp);
    growths.get(ROUNDS / 2).copied().context("no rounds")
}

async fn serve(listener: TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        tokio::spawn(respond(socket));
    }
}

/// Answers one request after [`RESPONSE_TIME`].
async fn respond(mut socket: TcpStream) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await?);
    }
    tokio::time::sleep(RESPONSE_TIME).await;
    socket
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await
}

/// A host, and a source for its plugins.
struct World {
    host: PluginHost,
    env: Arc<dyn Environment>,
    source: SourceId,
    snapshot: Snapshot,
}

impl World {
    fn new(informers: &Runtime, guests: &Runtime, folder: &Path) -> Result<World> {
        let environment = |runtime: &Runtime| Arc::new(TokioEnvironment::new(runtime.handle().clone(), 0));
        let env: Arc<dyn Environment> = environment(guests);
        let catalog = Catalog::new();
        let (source, snapshot) = setup::synced(&catalog, "pods", "Pod", Vec::new())?;
        let sender = HttpSender::new(&HttpSection::default(), SystemResolver, environment(informers));
        let host = PluginHost::new(HostOptions {
            cache_dir: folder.to_owned(),
            env: Arc::clone(&env),
            handle: guests.handle().clone(),
            compiler: Compiler::InProcess,
            services: Services {
                catalog,
                kube: None,
                key_value: None,
                http: Some(Arc::new(sender)),
                observer: None,
                gate: None,
            },
            metrics: PluginMetrics::register(&mut Registry::default()),
            script_runners: RunnerSources::new(),
        })?;
        Ok(World {
            host,
            env,
            source,
            snapshot,
        })
    }

    async fn start(&self, spec: PluginSpec) -> Result<Plugin> {
        let content = Content::new(spec.content.clone(), std::fs::read(spec.content.path())?);
        let plugin = self.host.load(spec, content).await?;
        plugin.start().await;
        let listener = plugin.listener();
        listener.feed().attach(self.source, &self.snapshot, self.env.now());
        while !listener.feed().has_synced(self.source) {
            tokio::task::yield_now().await;
        }
        Ok(plugin)
    }

    /// Delivers an added object with this `spec`.
    fn push(&self, listener: &ListenerHandle, name: &str, spec: &Value) -> Result<()> {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod", "spec": spec,
            "metadata": { "namespace": "default", "name": name, "uid": name, "resourceVersion": "2" },
        });
        let now = self.env.now();
        let change = ObjectChange {
            kind: ChangeKind::Add(Object::parse(object.to_string().as_bytes(), &Shape::of("v1", "Pod"))?),
            reason: Reason::Watch,
            received: now,
        };
        listener.feed().push(self.source, &self.snapshot, &[change]);
        Ok(())
    }

    /// The 99th percentile of the time from an event to the end of its call.
    async fn p99_ms(&self, listener: &ListenerHandle) -> Result<f64> {
        let mut times = Vec::with_capacity(EVENTS);
        for number in 0..EVENTS {
            let began = Instant::now();
            self.push(listener, &format!("event-{number}"), &Value::Null)?;
            while listener.ledger().pending() + listener.consumer().in_flight() > 0 {
                tokio::task::yield_now().await;
            }
            times.push(began.elapsed().as_secs_f64() * 1e3);
            tokio::time::sleep(EVENT_INTERVAL).await;
        }
        times.sort_by(f64::total_cmp);
        times.get(EVENTS * 99 / 100).copied().context("no events")
    }
}
