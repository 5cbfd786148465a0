//! A subject of the benchmark: kube-rs' reflector with typed pods, two manually maintained indexes, and one handler.
//! `tests/src/bench/subject.rs` describes its arguments and output.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::{Parser, ValueEnum};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Config};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The annotation with the time at which a pod was written, in microseconds since 1970.
const WRITTEN_ANNOTATION: &str = "bench/written-us";

/// The number of lags per output line.
const LAGS_IN_A_LINE: usize = 1_000;

/// The interval at which the counts are printed.
const PRINTED_EVERY: Duration = Duration::from_millis(10);

#[derive(Parser)]
struct Args {
    /// The cluster to watch.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// How the initial state is fetched; kube-rs' default is a list.
    #[arg(long, value_enum, default_value = "list")]
    sync: Sync,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Sync {
    List,
    WatchList,
}

/// How often the handler was called.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    adds: u64,
    updates: u64,
    lists: u64,
}

/// Does what the handlers of the other subjects do: it reads some fields of each pod.
#[derive(Default)]
struct Handler {
    restarts: i64,
    running: u64,
    nodes: usize,
    lags_us: Vec<u64>,
}

/// By namespace and by node.
#[derive(Default)]
struct Indexes {
    namespaces: HashMap<String, HashSet<ObjectRef<Pod>>>,
    nodes: HashMap<String, HashSet<ObjectRef<Pod>>>,
    /// The index values of each object, to remove it again.
    filed: HashMap<ObjectRef<Pod>, (String, String)>,
}

impl Indexes {
    fn file(&mut self, pod: &Pod) {
        let key = ObjectRef::from_obj(pod);
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        let node = pod
            .spec
            .as_ref()
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default();
        let values = (namespace, node);
        if self.filed.get(&key) == Some(&values) {
            return;
        }
        self.remove(&key);
        self.namespaces.entry(values.0.clone()).or_default().insert(key.clone());
        self.nodes.entry(values.1.clone()).or_default().insert(key.clone());
        self.filed.insert(key, values);
    }

    fn remove(&mut self, key: &ObjectRef<Pod>) {
        let Some((namespace, node)) = self.filed.remove(key) else {
            return;
        };
        if let Some(keys) = self.namespaces.get_mut(&namespace) {
            keys.remove(key);
        }
        if let Some(keys) = self.nodes.get_mut(&node) {
            keys.remove(key);
        }
    }
}

impl Handler {
    fn read(&mut self, pod: &Pod) {
        if let Some(status) = &pod.status {
            let statuses = status.container_statuses.iter().flatten();
            self.restarts += statuses.map(|status| i64::from(status.restart_count)).sum::<i64>();
            self.running += u64::from(status.phase.as_deref() == Some("Running"));
        }
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        self.nodes += node.map_or(0, str::len);
        let annotations = pod.metadata.annotations.as_ref();
        let written = annotations.and_then(|annotations| annotations.get(WRITTEN_ANNOTATION));
        if let Some(written) = written.and_then(|text| text.parse::<u64>().ok()) {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_micros() as u64);
            self.note(now.saturating_sub(written));
        }
    }

    fn note(&mut self, lag: u64) {
        self.lags_us.push(lag);
        if self.lags_us.len() < LAGS_IN_A_LINE {
            return;
        }
        self.lags_us.sort_unstable();
        let at = |share: usize| self.lags_us[(LAGS_IN_A_LINE - 1) * share / 100];
        println!(
            "{}",
            serde_json::json!({"lags": LAGS_IN_A_LINE, "p50_us": at(50), "p99_us": at(99), "max_us": at(100)})
        );
        self.lags_us.clear();
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let kubeconfig = Kubeconfig::read_from(&args.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let api = Api::<Pod>::all(Client::try_from(config)?);
    let counts = Arc::new(Mutex::new(Counts::default()));
    tokio::spawn(watch(api, args.sync, Arc::clone(&counts)));
    let mut printed = Counts::default();
    loop {
        tokio::time::sleep(PRINTED_EVERY).await;
        let now = *counts.lock().unwrap_or_else(PoisonError::into_inner);
        if now != printed {
            printed = now;
            println!(
                "{}",
                serde_json::json!({"adds": now.adds, "updates": now.updates, "lists": now.lists})
            );
        }
    }
}

async fn watch(api: Api<Pod>, sync: Sync, counts: Arc<Mutex<Counts>>) {
    let config = match sync {
        Sync::List => watcher::Config::default(),
        Sync::WatchList => watcher::Config::default().streaming_lists(),
    };
    let writer = reflector::store::Writer::<Pod>::default();
    let _store: Store<Pod> = writer.as_reader();
    let mut events = reflector::reflector(writer, watcher(api, config))
        .default_backoff()
        .boxed();
    let (mut indexes, mut handler) = (Indexes::default(), Handler::default());
    while let Some(event) = events.next().await {
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Ok(watcher::Event::InitApply(pod)) => {
                indexes.file(&pod);
                handler.read(&pod);
                // A relist emits every object again.
                counts.adds += u64::from(counts.lists == 0);
            }
            Ok(watcher::Event::Apply(pod)) => {
                indexes.file(&pod);
                handler.read(&pod);
                counts.updates += 1;
            }
            Ok(watcher::Event::Delete(pod)) => indexes.remove(&ObjectRef::from_obj(&pod)),
            Ok(watcher::Event::InitDone) => counts.lists += 1,
            Ok(watcher::Event::Init) => {}
            Err(error) => eprintln!("kube-rs: {error}"),
        }
    }
}
