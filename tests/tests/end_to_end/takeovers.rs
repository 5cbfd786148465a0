//! Replicas that are killed, stopped and cut off: no write of a former holder follows one of its successor, nothing is
//! lost, and what the handler remembers is what its calls confirmed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, EventContext, EventHandler, HandlerError};
use informant_informer::{InformerMetrics, SharedInformer, SourceSpec, TokioEnvironment};
use informant_object::{KeyRef, Object};
use informant_spec::GroupVersionResource;
use informant_state::{Row, RowKind, export_file};
use informant_tests::chaos::{ChaosProxy, Mode};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind, Login};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::{guests, wait};
use serde_json::Value;
use tokio::process::Command;
use tokio::task::JoinHandle;

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// How many objects change all the time, and how long the client pauses between two changes.
const NAMES: usize = 20;
const PAUSE: Duration = Duration::from_millis(10);

const REPLICAS: usize = 3;

/// From a kill to the first effect of the successor, with `speed = "fast"`: 4.5 s at the 99th percentile on a machine
/// that does nothing else. Here other tests run at the same time.
const FAST_MAX: Duration = Duration::from_secs(15);

/// Each term of the handler has a number of its own, which each of its writes carries. They carry the number of calls
/// for the object, too, which `kv` remembers.
const WRITER: &str = r#"import { kube, kv } from "informant";
const term = Math.random().toString(36).slice(2);
const write = (rev, event) => {
  const name = `copy-${event.name}`;
  const metadata = { name, namespace: event.namespace };
  const calls = (kv.get(name) ?? 0) + 1;
  kv.set(name, calls);
  const data = { rev, term, of: event.uid, calls: String(calls) };
  const copy = { apiVersion: "v1", kind: "ConfigMap", metadata, data };
  kube.defer.apply({ resource: "v1/configmaps", namespace: event.namespace, name }, copy, { force: true });
};
export const onAdd = (map, event) => write(map.data.value, event);
export const onUpdate = (map, event) => write(map.data.value, event);
export const onDelete = (map, event) => write("gone", event);
"#;

const CONFIG: &str = "[ha]\ngroup = \"informant\"\nspeed = \"fast\"\nnamespace = \"default\"\n\n\
    [state]\nstore = \"kubernetes\"\ngroup-ms = 50\n\n\
    [informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\n\n\
    [plugin.writer]\nscript = \"writer.js\"\ninformers = [\"maps\"]\n\
    allow.kube = [{ verbs = [\"patch\", \"create\"], resource = \"v1/configmaps\", namespaces = [\"default\"] }]\n";

fn takeovers() -> usize {
    match std::env::var_os("INFORMANT_TESTS_FULL") {
        Some(_) => 100,
        None => 5,
    }
}

/// A write of the handler, as the API server shows it.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// The object that the handler was called for.
    pub(super) name: String,
    pub(super) term: String,
    pub(super) rev: String,
    /// How often the handler was called for the object, as it remembers.
    calls: u64,
    pub(super) at: Instant,
}

/// All writes, in the order in which they took effect.
#[derive(Clone, Default)]
pub(super) struct Writes(Arc<Mutex<Vec<Write>>>);

impl Writes {
    fn add(&self, object: &Object) {
        let value: Value = serde_json::from_slice(object.json()).unwrap_or_default();
        let text = |member: &str| value["data"][member].as_str().unwrap_or_default().to_owned();
        let Some(name) = object.name().strip_prefix("copy-") else {
            return;
        };
        self.0.lock().expect("no holder panics").push(Write {
            name: name.to_owned(),
            term: text("term"),
            rev: text("rev"),
            calls: text("calls").parse().unwrap_or_default(),
            at: Instant::now(),
        });
    }

    pub(super) fn all(&self) -> Vec<Write> {
        self.0.lock().expect("no holder panics").clone()
    }

    /// Nothing that one term has written follows what another one has written after it, to the same object. A call is
    /// confirmed once the next one for the object was made, so the numbers of calls never fall.
    fn check(&self) -> Result<()> {
        let mut terms: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut before: BTreeMap<String, u64> = BTreeMap::new();
        for Write {
            name, term, rev, calls, ..
        } in self.all()
        {
            let last = before.insert(name.clone(), calls).unwrap_or_default();
            ensure!(last <= calls, "{name}: {term} remembers {calls} calls after {last}");
            let of_object = terms.entry(name.clone()).or_default();
            match of_object.iter().position(|known| *known == term) {
                Some(place) if place + 1 < of_object.len() => {
                    bail!("{name}: {term} wrote {rev} after {}", of_object[of_object.len() - 1]);
                }
                Some(_) => {}
                None => of_object.push(term),
            }
        }
        Ok(())
    }

    /// The first write of another term than `terms` that took effect after `since`.
    fn successor(&self, since: Instant, terms: &[String]) -> Option<Write> {
        self.all()
            .into_iter()
            .find(|write| write.at > since && !terms.contains(&write.term))
    }

    fn terms(&self) -> Vec<String> {
        let mut terms: Vec<String> = self.all().into_iter().map(|write| write.term).collect();
        terms.sort();
        terms.dedup();
        terms
    }
}

impl EventHandler for Writes {
    fn on_add(&mut self, object: &Object, _: &EventContext) -> Result<(), HandlerError> {
        self.add(object);
        Ok(())
    }

    fn on_update(&mut self, _: Option<&Object>, new: &Object, _: &EventContext) -> Result<(), HandlerError> {
        self.add(new);
        Ok(())
    }

    fn on_delete(&mut self, _: KeyRef<'_>, _: Option<&Object>, _: bool, _: &EventContext) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// A replica, with a way of its own to the API server.
pub(super) struct Replica {
    pub(super) name: String,
    folder: PathBuf,
    kubeconfig: PathBuf,
    config: &'static str,
    pub(super) proxy: ChaosProxy,
    pub(super) daemon: Daemon,
}

impl Replica {
    /// With this configuration, whose plugin is the script `writer.js`.
    pub(super) async fn start(
        cluster: &Cluster,
        number: usize,
        (config, script): (&'static str, &str),
    ) -> Result<Self> {
        let name = format!("informant-{number}");
        let proxy = ChaosProxy::start(cluster.address(), number as u64).await?;
        let kubeconfig = cluster
            .kubeconfigs()
            .write(&name, proxy.address(), &Login::admin())
            .await?;
        let folder = cluster.folder().join(&name);
        tokio::fs::create_dir_all(&folder).await?;
        tokio::fs::write(folder.join("writer.js"), script).await?;
        let daemon = Self::run(&name, &folder, &kubeconfig, config).await?;
        Ok(Self {
            name,
            folder,
            kubeconfig,
            config,
            proxy,
            daemon,
        })
    }

    async fn run(name: &str, folder: &Path, kubeconfig: &Path, config: &str) -> Result<Daemon> {
        let text = format!("[admin]\nlisten = \"127.0.0.1:0\"\n{config}");
        let config = folder.join("config.toml");
        tokio::fs::write(&config, text).await?;
        let mut command = Command::new(guests::informant()?);
        command
            .args(["run", "--log-format=json", "--health-listen=127.0.0.1:0"])
            .arg(format!("--config={}", config.display()))
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .env("HOSTNAME", name);
        let daemon = Daemon::start_command(command, config).await?;
        daemon.wait_until_ready().await?;
        Ok(daemon)
    }

    async fn acts(&self) -> bool {
        let replicas = self.daemon.json("/api/v1/replicas").await;
        replicas.is_ok_and(|replicas| replicas["standing"] == "acting")
    }

    /// Ends its process by this signal.
    pub(super) async fn end(&mut self, signal: &str) -> Result<()> {
        self.daemon.process().signal(signal).await?;
        self.daemon.process_mut().wait_for_end(WITHIN).await?;
        Ok(())
    }

    pub(super) async fn restart(&mut self) -> Result<()> {
        self.daemon = Self::run(&self.name, &self.folder, &self.kubeconfig, self.config).await?;
        Ok(())
    }
}

/// Changes, deletes and creates objects until `stop`. Returns the last value of each; none if it is deleted.
async fn change(client: Client, stop: Arc<AtomicBool>) -> Result<BTreeMap<String, Option<String>>> {
    let mut values: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) || number % NAMES != 0 {
        let name = format!("name-{:02}", number % NAMES);
        let rev = number.to_string();
        // Each object is deleted in every seventh turn.
        let is_deleted = number / NAMES % 7 == number % 7;
        match values.get(&name).cloned().flatten() {
            Some(_) if is_deleted => {
                client.delete(&config_maps(&name)).await?;
                values.insert(name, None);
            }
            Some(_) => {
                client.put(&config_maps(&name), &config_map(&name, &rev)).await?;
                values.insert(name, Some(rev));
            }
            None => {
                client.post(&config_maps(""), &config_map(&name, &rev)).await?;
                values.insert(name, Some(rev));
            }
        }
        number += 1;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(values)
}

pub(super) fn watch(client: &Client, namespace: Option<&str>, writes: &Writes) -> Result<SharedInformer> {
    let spec = SourceSpec {
        namespace: namespace.map(str::to_owned),
        ..SourceSpec::new("copies", GroupVersionResource::new("", "v1", "configmaps"), "ConfigMap")
    };
    let environment = Arc::new(TokioEnvironment::current(1));
    let metrics = InformerMetrics::default();
    let informer = SharedInformer::start(spec, client.kube(), environment, Catalog::new(), &metrics)?;
    informer.add_handler(Box::new(writes.clone()), ListenerOptions::default())?;
    Ok(informer)
}

async fn holder(replicas: &[Replica]) -> Result<usize> {
    wait::until("a replica that acts", WITHIN, async || {
        for (number, replica) in replicas.iter().enumerate() {
            if replica.acts().await {
                return Ok(number);
            }
        }
        Err("none".to_owned())
    })
    .await
}

/// The numbers of calls that the handler remembers, by object. No replica runs.
async fn remembered(cluster: &Cluster, replica: &Replica) -> Result<BTreeMap<String, u64>> {
    let copy = cluster.folder().join("copy.redb");
    let mut command = Command::new(guests::informant()?);
    command
        .args(["state", "copy", "--from=kubernetes", "--to=file"])
        .arg(format!("--file={}", copy.display()))
        .arg(format!("--config={}", replica.folder.join("config.toml").display()))
        .arg(format!("--kubeconfig={}", cluster.kubeconfig().display()));
    let copied = command.output().await?;
    ensure!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let rows = export_file(&copy)?
        .into_iter()
        .filter(|row| row.key.kind == RowKind::Key);
    let number = |row: Row| {
        let name = row.key.key.strip_prefix("copy-").context("another key")?;
        anyhow::Ok((name.to_owned(), serde_json::from_slice(&row.value)?))
    };
    rows.map(number).collect()
}

/// What the replicas show, for the message of a failure.
pub(super) async fn states(replicas: &[Replica]) -> String {
    let mut shown = String::new();
    for replica in replicas {
        for path in ["/api/v1/replicas", "/api/v1/plugins", "/api/v1/sources"] {
            let answer = replica.daemon.http_get(path).await;
            let _ = writeln!(shown, "{} {path}: {answer:?}", replica.name);
        }
        shown += &replica.daemon.process().tail();
    }
    shown
}

async fn run(kind: Kind) -> Result<()> {
    let cluster = Cluster::start(kind).await?;
    let client = cluster.client().await?;
    let writes = Writes::default();
    let _informer = watch(&client, Some("default"), &writes)?;
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        replicas.push(Replica::start(&cluster, number, (CONFIG, WRITER)).await?);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let changes: JoinHandle<_> = tokio::spawn(change(client, Arc::clone(&stop)));
    let mut longest = Duration::ZERO;
    for takeover in 0..takeovers() {
        let at = holder(&replicas).await?;
        wait::until("a write of the holder", WITHIN, async || {
            let last = writes.all().last().map(|write| write.at.elapsed());
            last.is_some_and(|age| age < Duration::from_secs(1))
                .then_some(())
                .ok_or_else(|| "none".to_owned())
        })
        .await?;
        let (terms, began) = (writes.terms(), Instant::now());
        match takeover % 3 {
            0 => replicas[at].end("KILL").await?,
            1 => replicas[at].daemon.process().signal("STOP").await?,
            _ => replicas[at].proxy.set(Mode::HalfOpen),
        }
        let first = wait::until("a write of a successor", WITHIN, async || {
            writes.successor(began, &terms).ok_or_else(|| format!("{terms:?}"))
        })
        .await
        .with_context(|| format!("takeover {takeover}"))?;
        let took = first.at - began;
        ensure!(
            takeover % 3 != 0 || took < FAST_MAX,
            "takeover {takeover} took {took:?}"
        );
        longest = longest.max(took);
        match takeover % 3 {
            0 => replicas[at].restart().await?,
            1 => replicas[at].daemon.process().signal("CONT").await?,
            _ => {
                // What it sent is lost.
                replicas[at].proxy.set_open(Mode::Reset);
                replicas[at].proxy.set_new(Mode::Pass);
            }
        }
        // What the former one does now would be seen.
        tokio::time::sleep(Duration::from_millis(500)).await;
        writes.check().with_context(|| format!("takeover {takeover}"))?;
    }
    stop.store(true, Ordering::Relaxed);
    let last = changes.await??;
    if let Err(error) = last_states(&writes, &replicas, &last).await {
        return Err(error.context(states(&replicas).await));
    }
    writes.check()?;
    remembered_is_written(&cluster, &mut replicas, &writes).await?;
    #[expect(clippy::print_stdout, reason = "the figures are the result of the long form")]
    {
        println!(
            "{} takeovers, the longest {longest:?}; {} writes",
            takeovers(),
            writes.all().len()
        );
    }
    Ok(())
}

/// Waits until the last write of each object is about its last state.
async fn last_states(writes: &Writes, replicas: &[Replica], last: &BTreeMap<String, Option<String>>) -> Result<()> {
    wait::until("the last state of each object", WITHIN, async || {
        // Each object is written to far more often than ten times a minute, so its calls are spaced.
        for replica in replicas {
            let _ = replica.daemon.command(&["plugin", "resume", "writer"]).await;
        }
        let mut shown: BTreeMap<String, String> = BTreeMap::new();
        for write in writes.all() {
            shown.insert(write.name, write.rev);
        }
        for (name, rev) in last {
            let wanted = rev.as_deref().unwrap_or("gone");
            if shown.get(name).map(String::as_str) != Some(wanted) {
                return Err(format!("{name}: {:?}, not {wanted}", shown.get(name)));
            }
        }
        Ok(())
    })
    .await
}

/// Ends the replicas, and compares what calls have remembered with what they have written.
async fn remembered_is_written(cluster: &Cluster, replicas: &mut [Replica], writes: &Writes) -> Result<()> {
    for replica in &*replicas {
        replica.daemon.process().signal("TERM").await?;
    }
    for replica in &mut *replicas {
        replica.daemon.process_mut().wait_for_end(WITHIN).await?;
    }
    let calls = writes.all().into_iter().map(|write| (write.name, write.calls));
    let (calls, remembered) = (
        calls.collect::<BTreeMap<_, _>>(),
        remembered(cluster, &replicas[0]).await?,
    );
    ensure!(
        remembered == calls,
        "{remembered:?} is remembered, and {calls:?} were written"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_former_holder_writes_after_its_successor() -> Result<()> {
    run(Kind::Real).await
}
