//! A subject that runs: its handlers' calls, and what its processes use.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

use super::sockets;
use crate::bench::figure::median;
use crate::bench::subject::Lags;
use crate::bench::usage;
use crate::daemon::Daemon;
use crate::process::Process;

pub(super) struct Running {
    pub(super) handlers: u32,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Informant(Box<Daemon>),
    /// They write lines as `subject.rs` describes.
    Processes(Vec<Process>),
    /// Hooks that append a line for each run to a file.
    Hooks {
        process: Box<Process>,
        calls: PathBuf,
    },
}

/// Calls since the start, of all handlers together.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(super) struct Calls {
    pub(super) adds: u64,
    pub(super) updates: u64,
}

/// One run of a hook.
#[derive(Deserialize)]
struct HookRun {
    #[serde(flatten)]
    calls: Calls,
    lags_us: Vec<f64>,
}

/// CPU time so far. Idle threads end at times, so each is compared with itself.
#[derive(Default)]
pub(super) struct Cpu {
    threads: BTreeMap<OsString, Duration>,
    children: Duration,
}

/// Where the output of each process ends at some time.
pub(super) struct Mark(Vec<usize>);

impl Cpu {
    /// What was used since `earlier`.
    pub(super) fn since(&self, earlier: &Cpu) -> Duration {
        let threads = self.threads.iter().map(|(thread, now)| {
            let before = earlier.threads.get(thread).copied();
            now.saturating_sub(before.unwrap_or_default())
        });
        threads.sum::<Duration>() + self.children.saturating_sub(earlier.children)
    }
}

impl Running {
    fn processes(&self) -> Vec<&Process> {
        match &self.kind {
            Kind::Informant(daemon) => vec![daemon.process()],
            Kind::Processes(processes) => processes.iter().collect(),
            Kind::Hooks { process, .. } => vec![process],
        }
    }

    fn ids(&self) -> Result<Vec<u32>> {
        let ids = self.processes().into_iter().map(|process| {
            let id = process.id();
            id.with_context(|| format!("a subject has ended\n{}", process.tail()))
        });
        ids.collect()
    }

    /// CPU time of all its processes, and of those that they started and that have ended.
    pub(super) fn cpu(&self) -> Result<Cpu> {
        let mut cpu = Cpu::default();
        for id in self.ids()? {
            cpu.children += usage::children(id)?;
            cpu.threads.extend(usage::each_thread(id)?);
        }
        Ok(cpu)
    }

    /// Whether processes run that it started. Their CPU time is not in its own before they end.
    pub(super) fn has_children(&self) -> Result<bool> {
        Ok(self.ids()?.into_iter().any(|id| !usage::descendants(id).is_empty()))
    }

    /// Its part of the memory: what its processes share counts once.
    pub(super) fn memory(&self) -> Result<f64> {
        let mut sum = 0.0;
        for id in self.ids()? {
            sum += usage::proportional(id)?;
            // Those that end just now do not count.
            let children = usage::descendants(id).into_iter();
            sum += children
                .filter_map(|child| usage::proportional(child).ok())
                .sum::<f64>();
        }
        Ok(sum)
    }

    /// Bytes received from the API server over connections that are open. None without `ss`.
    pub(super) async fn received(&self, port: u16) -> Result<Option<u64>> {
        sockets::received(port, &self.ids()?).await
    }

    /// Sends a signal to all processes.
    pub(super) async fn signal(&self, signal: &str) -> Result<()> {
        let all = self.processes().into_iter().map(|process| process.signal(signal));
        futures::future::try_join_all(all).await.map(drop)
    }

    pub(super) async fn calls(&self) -> Result<Calls> {
        match &self.kind {
            Kind::Informant(daemon) => {
                let count = async |event: &str| -> Result<u64> {
                    let value = daemon.metric("informant_handler_events_total", &[event]).await?;
                    Ok(value.unwrap_or_default() as u64)
                };
                Ok(Calls {
                    adds: count("event=\"add\"").await?,
                    updates: count("event=\"update\"").await?,
                })
            }
            Kind::Processes(processes) => Ok(sum(processes.iter().map(|process| {
                let mut lines = process.lines(0, counted);
                lines.pop().unwrap_or_default()
            }))),
            Kind::Hooks { calls, .. } => Ok(sum(runs(calls, 0)?.into_iter().map(|run| run.calls))),
        }
    }

    /// Whether a handler was called. Asks no program: an answer would be work.
    pub(super) fn is_called(&self) -> Result<bool> {
        Ok(match &self.kind {
            Kind::Informant(daemon) => !daemon
                .process()
                .lines(0, |line| line.contains("first_us").then_some(()))
                .is_empty(),
            Kind::Processes(processes) => processes.iter().any(|process| {
                let calls = process.lines(0, counted);
                calls.iter().any(|calls| calls.adds > 0)
            }),
            Kind::Hooks { calls, .. } => !runs(calls, 0)?.is_empty(),
        })
    }

    pub(super) fn mark(&self) -> Result<Mark> {
        Ok(Mark(match &self.kind {
            Kind::Hooks { calls, .. } => vec![runs(calls, 0)?.len()],
            _ => self.processes().into_iter().map(Process::line_count).collect(),
        }))
    }

    /// The p99 of the lags since then, in microseconds: of hooks, that of all; otherwise the median of those that the
    /// handlers report for each thousand, without the first if there are several.
    pub(super) fn lag_p99(&self, since: &Mark) -> Result<Option<f64>> {
        if let Kind::Hooks { calls, .. } = &self.kind {
            let runs = runs(calls, since.0[0])?.into_iter();
            let mut lags: Vec<f64> = runs.flat_map(|run| run.lags_us).collect();
            lags.sort_by(f64::total_cmp);
            return Ok(lags.get(lags.len().saturating_sub(1) * 99 / 100).copied());
        }
        let mut all = Vec::new();
        for (process, from) in self.processes().into_iter().zip(&since.0) {
            let mut lags = process.lines(*from, reported);
            if lags.len() > self.handlers as usize {
                lags.remove(0);
            }
            all.extend(lags.into_iter().map(|lags| lags.p99_us as f64));
        }
        Ok(median(all))
    }
}

fn sum(all: impl Iterator<Item = Calls>) -> Calls {
    all.fold(Calls::default(), |sum, more| Calls {
        adds: sum.adds + more.adds,
        updates: sum.updates + more.updates,
    })
}

/// The counts in a line of a program's output.
fn counted(line: &str) -> Option<Calls> {
    line.starts_with("{\"adds\"").then(|| serde_json::from_str(line).ok())?
}

/// Lags in a line of a program's output, or in the message of a plugin.
fn reported(line: &str) -> Option<Lags> {
    if line.starts_with("{\"lags\"") {
        return serde_json::from_str(line).ok();
    }
    let line: Value = serde_json::from_str(line).ok()?;
    serde_json::from_str(line.get("fields")?.get("message")?.as_str()?).ok()
}

/// The runs in a file, without the first `from`. The last line may be incomplete.
fn runs(calls: &Path, from: usize) -> Result<Vec<HookRun>> {
    let text = std::fs::read_to_string(calls)?;
    let lines = text.lines().skip(from);
    Ok(lines.filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_counts_and_lags_are_recognized() {
        let line = r#"{"adds":5,"updates":7,"lists":1}"#;
        assert_eq!(counted(line), Some(Calls { adds: 5, updates: 7 }));
        assert_eq!(counted("[2026-01-01] Handler 'handler-1' succeeded."), None);
        let lags = r#"{"lags":1000,"p50_us":3,"p99_us":9,"max_us":12}"#;
        assert_eq!(reported(lags).map(|lags| lags.p99_us), Some(9));
        let logged = serde_json::json!({"level": "INFO", "fields": {"message": lags}});
        assert_eq!(reported(&logged.to_string()).map(|lags| lags.p50_us), Some(3));
        assert_eq!(reported(line), None);
    }

    #[test]
    fn thread_that_ended_takes_nothing_away() {
        let cpu = |threads: &[(&str, u64)]| Cpu {
            threads: threads
                .iter()
                .map(|(id, ms)| ((*id).into(), Duration::from_millis(*ms)))
                .collect(),
            children: Duration::ZERO,
        };
        let (before, after) = (cpu(&[("1", 10), ("2", 90)]), cpu(&[("1", 15), ("3", 4)]));
        assert_eq!(after.since(&before), Duration::from_millis(9));
    }

    #[test]
    fn each_run_of_a_hook_counts_all_its_events() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let first = r#"{"adds":500,"updates":0,"restarts":0,"lags_us":[]}"#;
        let second = r#"{"adds":0,"updates":3,"restarts":1,"lags_us":[10,20,30]}"#;
        std::fs::write(file.path(), format!("{first}\n{second}\n{{\"adds\":0,\"upd")).expect("writable");
        let all = runs(file.path(), 0).expect("readable");
        assert_eq!(sum(all.iter().map(|run| run.calls)), Calls { adds: 500, updates: 3 });
        assert_eq!(runs(file.path(), 1).expect("readable")[0].lags_us, [10.0, 20.0, 30.0]);
    }
}
