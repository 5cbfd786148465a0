//! The subject of a measurement: a program that keeps pods in a cache and calls one handler for each change.
//!
//! Informant is one. Any other program can be, if it implements this protocol:
//!
//! - It is started as `PROGRAM ARGS… --kubeconfig FILE --sync list|watch-list`, keeps the pods of all namespaces with
//!   two indexes (namespace and node), and calls one handler that reads `metadata.annotations["bench/written-us"]`,
//!   `spec.nodeName`, `status.phase` and the containers' restart counts.
//! - It writes JSON lines to its standard output. `{"adds":N,"updates":N,"lists":N}`, at most every 10 ms, reports how
//!   often the handler was called since the start, and how many lists (or initial streams) were complete. Numbers that
//!   did not change may be left out.
//! - `{"lags":1000,"p50_us":N,"p99_us":N,"max_us":N}` for each 1,000 updates whose object has the annotation: now, less
//!   the annotation, when the handler returns.
//!
//! CPU and memory are read from /proc for all subjects.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::cores::Cores;
use super::results::{BASE, INFORMANT};
use super::usage::{self, Usage};
use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::guests;
use crate::process::Process;
use crate::wait;

/// How a subject fetches all objects at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Sync {
    /// The subject's default.
    Default,
    /// LIST, then watch.
    List,
    /// One watch that starts with all objects.
    WatchList,
}

/// The plugin that is Informant's handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Handler {
    /// Reads some fields, no old state, called for every change: like the other programs' handlers.
    Fields,
    /// The example plugin: called only for changes of its fields.
    CrashLoop,
}

/// A program that can be started.
#[derive(Clone, Debug)]
pub(super) enum Program {
    /// The `informant` of this build, with this handler.
    Informant(Handler),
    /// An `informant` of an earlier commit, with the same handler: that commit's, if it is in the folder
    /// `BINARY.handlers`, because the plugin contract may have been another one.
    Base {
        handler: Handler,
        binary: PathBuf,
    },
    Other {
        name: String,
        command: Vec<String>,
    },
}

/// A running program.
pub(super) enum Subject {
    Informant(Box<Daemon>),
    Other(Box<Process>),
}

/// How often a subject's handler was called, and how many lists it received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HandlerCounts {
    pub(super) adds: u64,
    pub(super) updates: u64,
    pub(super) lists: u64,
}

/// The lags of a series of updates.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Lags {
    pub(super) lags: u64,
    pub(super) p50_us: u64,
    pub(super) p99_us: u64,
}

#[derive(Deserialize)]
struct CountsLine {
    adds: Option<u64>,
    updates: Option<u64>,
    lists: Option<u64>,
}

impl Program {
    /// `NAME=COMMAND ARGS…`.
    pub(super) fn parse(text: &str) -> Result<Program> {
        let Some((name, command)) = text.split_once('=') else {
            bail!("--program {text:?}: expected NAME=COMMAND, the command with its arguments");
        };
        let command: Vec<String> = command.split_whitespace().map(ToOwned::to_owned).collect();
        anyhow::ensure!(!command.is_empty(), "--program {text:?}: the command is empty");
        Ok(Program::Other {
            name: name.to_owned(),
            command,
        })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Program::Informant(_) => INFORMANT,
            Program::Base { .. } => BASE,
            Program::Other { name, .. } => name,
        }
    }

    /// Starts it on its CPUs and on a cluster; returns once it has received its first list and its handler can be
    /// called.
    pub(super) async fn start(&self, cores: &Cores, cluster: &Cluster, sync: Sync) -> Result<Subject> {
        let (under, kubeconfig) = (cores.subject(), cluster.kubeconfig());
        match self {
            Program::Informant(handler) => {
                let config = handler.config(&guests::component(handler.package())?, sync);
                let daemon =
                    Daemon::start_under(&under, &folder(cluster, INFORMANT).await?, &kubeconfig, &config).await?;
                ready(daemon).await
            }
            Program::Base { handler, binary } => {
                let config = handler.config(&handler.of_base(binary)?, sync);
                let daemon =
                    Daemon::start_program(&under, binary, &folder(cluster, BASE).await?, &kubeconfig, &config).await?;
                ready(daemon).await
            }
            Program::Other { command, .. } => {
                let mut args: Vec<String> = command[1..].to_vec();
                args.push(format!("--kubeconfig={}", kubeconfig.display()));
                args.extend(sync.word().map(|word| format!("--sync={word}")));
                let mut process = Process::start_under(&under, Path::new(&command[0]), args)?;
                let listed = |line: &str| counts_line(line)?.lists.filter(|lists| *lists > 0);
                process
                    .wait_for_line("the first list", super::DONE_WITHIN, listed)
                    .await?;
                Ok(Subject::Other(Box::new(process)))
            }
        }
    }
}

/// The folder of a daemon's configuration. Two daemons may run at the same time.
async fn folder(cluster: &Cluster, name: &str) -> Result<PathBuf> {
    let folder = cluster.folder().join(name);
    tokio::fs::create_dir_all(&folder).await?;
    Ok(folder)
}

async fn ready(daemon: Daemon) -> Result<Subject> {
    daemon.wait_until_ready().await?;
    wait_until_it_runs(&daemon).await?;
    Ok(Subject::Informant(Box::new(daemon)))
}

/// A daemon is ready before its plugins are: a plugin that is not in the artifact cache yet is still being compiled.
pub(super) async fn wait_until_it_runs(daemon: &Daemon) -> Result<()> {
    let labels = ["plugin=\"measured\"", "state=\"running\""];
    wait::until("the handler's instance", super::DONE_WITHIN, async || {
        let state = daemon.metric("informant_plugin_state", &labels).await;
        match state.map_err(|error| format!("{error:#}"))? {
            Some(1.0) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

impl Sync {
    const fn word(self) -> Option<&'static str> {
        match self {
            Sync::Default => None,
            Sync::List => Some("list"),
            Sync::WatchList => Some("watch-list"),
        }
    }

    /// The label in tables.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Sync::Default => "by default",
            Sync::List => "LIST",
            Sync::WatchList => "WatchList",
        }
    }
}

impl Handler {
    const fn package(self) -> &'static str {
        match self {
            Handler::Fields => "guest-measured",
            Handler::CrashLoop => "crash-loop",
        }
    }

    /// The component for the `informant` of an earlier commit.
    fn of_base(self, binary: &Path) -> Result<PathBuf> {
        let file = format!("{}.wasm", self.package().replace('-', "_"));
        let own = binary.with_extension("handlers").join(file);
        if own.is_file() {
            return Ok(own);
        }
        guests::component(self.package())
    }

    fn config(self, component: &Path, sync: Sync) -> String {
        let options = match self {
            Handler::Fields => "",
            Handler::CrashLoop => "config = { min-restarts = 1000000000 }\n",
        };
        let watch_list = match sync {
            Sync::Default => "",
            Sync::List => "watch-list = false\n",
            Sync::WatchList => "watch-list = true\n",
        };
        config_of(watch_list, component, options)
    }
}

/// How long it may take until all pods are read that do not fit into the budget.
pub(super) const BUDGET_DONE_WITHIN: Duration = Duration::from_secs(3_600);

/// For the measurement of the budget: the caches take this at most.
pub(super) fn budget_config(component: &Path, max_bytes: &str) -> String {
    format!(
        "[cache]\nmax-bytes = \"{max_bytes}\"\n\n{}",
        config_of("", component, "")
    )
}

/// For the measurement of swaps: the handler logs each event and continues where the previous version stopped.
pub(super) fn swap_config(component: &Path) -> String {
    config_of("", component, "on-reload = \"continue\"\nconfig = { each = true }\n")
}

/// One informer of pods with an index, and one plugin `measured`. `informer` and `plugin` are lines of their sections.
pub(super) fn config_of(informer: &str, component: &Path, plugin: &str) -> String {
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n{informer}\n[informer.pods.index]\nnode = \"/spec/nodeName\"\n\n\
         [plugin.measured]\ncomponent = {component:?}\ninformers = [\"pods\"]\n{plugin}"
    )
}

impl Subject {
    pub(super) fn process(&self) -> &Process {
        match self {
            Subject::Informant(daemon) => daemon.process(),
            Subject::Other(process) => process,
        }
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        usage::of(self.process().id().context("the subject has ended")?)
    }

    /// The calls of its handler so far. Informant's include the filtered ones.
    pub(super) async fn counts(&self) -> Result<HandlerCounts> {
        match self {
            Subject::Informant(daemon) => {
                let count = async |metric: &str, label: &str| -> Result<u64> {
                    let value = daemon.metric(metric, &[label]).await?;
                    Ok(value.unwrap_or_default() as u64)
                };
                Ok(HandlerCounts {
                    adds: count("informant_handler_events_total", "event=\"add\"").await?,
                    updates: count("informant_handler_events_total", "event=\"update\"").await?,
                    lists: 1 + count("informant_reflector_relists_total", "").await?,
                })
            }
            Subject::Other(process) => {
                let lines = process.lines(0, counts_line);
                let last = |pick: fn(&CountsLine) -> Option<u64>| lines.iter().rev().find_map(pick).unwrap_or_default();
                Ok(HandlerCounts {
                    adds: last(|line| line.adds),
                    updates: last(|line| line.updates),
                    lists: last(|line| line.lists),
                })
            }
        }
    }

    /// The lags that it reported so far.
    pub(super) fn lags(&self) -> Vec<Lags> {
        self.process().lines(0, |line| match self {
            Subject::Informant(_) => {
                let line: Value = serde_json::from_str(line).ok()?;
                serde_json::from_str(line.get("fields")?.get("message")?.as_str()?).ok()
            }
            Subject::Other(_) => serde_json::from_str(line).ok(),
        })
    }
}

fn counts_line(line: &str) -> Option<CountsLine> {
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_a_name_and_a_command() {
        let Program::Other { name, command } = Program::parse("client-go=/tmp/bench --typed").expect("a program")
        else {
            panic!("it is not Informant");
        };
        assert_eq!((name.as_str(), command.len()), ("client-go", 2));
        assert!(Program::parse("client-go").is_err());
        assert!(Program::parse("client-go= ").is_err());
    }

    #[test]
    fn line_may_omit_unchanged_numbers() {
        let line = counts_line(r#"{"updates":7}"#).expect("a line");
        assert_eq!((line.adds, line.updates, line.lists), (None, Some(7), None));
    }
}
