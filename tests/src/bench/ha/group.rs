//! Replicas on one cluster, each a process with a folder and a name of its own.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::bench::cores::Cores;
use crate::bench::subject::wait_until_it_runs;
use crate::bench::swap;
use crate::bench::usage::{self, Usage};
use crate::bench::waits::Handled;
use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::{guests, wait};

/// The replicas of a group.
pub(super) const REPLICAS: usize = 3;

/// The deadline for what a replica does after another one has ended: three times as long as a Lease lasts.
const ACTS_WITHIN: Duration = Duration::from_secs(45);

/// The deadline for the end of a process.
const ENDS_WITHIN: Duration = Duration::from_secs(20);

/// One replica.
pub(super) struct Replica {
    command: ReplicaCommand,
    pub(super) daemon: Daemon,
    /// What it handled before it was started again.
    handled: Vec<Handled>,
}

struct ReplicaCommand {
    name: String,
    under: Vec<String>,
    kubeconfig: PathBuf,
    config: PathBuf,
}

/// All replicas.
pub(super) struct Group {
    pub(super) replicas: Vec<Replica>,
}

/// The replica that follows one that has ended.
pub(super) struct Successor {
    pub(super) number: usize,
    /// When its handler was called first, in microseconds since 1970.
    pub(super) first_call_us: u64,
}

impl ReplicaCommand {
    async fn start(&self) -> Result<Daemon> {
        let informant = guests::informant()?;
        let mut command = match self.under.split_first() {
            Some((program, rest)) => {
                let mut command = Command::new(program);
                command.args(rest).arg(informant);
                command
            }
            None => Command::new(informant),
        };
        command
            .args(["run", "--log-format=json", "--health-listen=127.0.0.1:0"])
            .arg(format!("--config={}", self.config.display()))
            .arg(format!("--kubeconfig={}", self.kubeconfig.display()))
            .env("HOSTNAME", &self.name);
        Daemon::start_command(command, self.config.clone()).await
    }
}

impl Replica {
    /// Starts it again when it has ended, and waits until it is ready.
    async fn start_again(&mut self) -> Result<()> {
        self.handled.extend(self.daemon.process().lines(0, swap::event));
        self.daemon = self.command.start().await?;
        self.daemon.wait_until_ready().await
    }

    /// All that it handled, with `config = { each = true }`, in each of its processes.
    pub(super) fn handled(&self) -> Vec<Handled> {
        let mut handled = self.handled.clone();
        handled.extend(self.daemon.process().lines(0, swap::event));
        handled
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        usage::of(self.daemon.process().id().context("a replica has ended")?)
    }

    /// The calls of its present process.
    pub(super) async fn calls(&self, event: &str) -> Result<u64> {
        let label = format!("event=\"{event}\"");
        let calls = self.daemon.metric("informant_handler_events_total", &[&label]).await?;
        Ok(calls.unwrap_or_default() as u64)
    }

    /// How many shards it holds.
    pub(super) async fn shards(&self) -> Result<usize> {
        let replicas = self.daemon.json("/api/v1/replicas").await?;
        let shards = replicas["shards"].as_array().into_iter().flatten();
        Ok(shards
            .filter(|shard| shard["holder"] == self.command.name.as_str())
            .count())
    }

    /// How many objects it has.
    pub(super) async fn objects(&self) -> Result<u64> {
        let objects = self
            .daemon
            .metric("informant_store_objects", &[r#"informer="pods""#])
            .await?;
        Ok(objects.unwrap_or_default() as u64)
    }

    /// Whether one of its sources has other shards than it is to have, so that it lists.
    pub(super) async fn lists(&self) -> Result<bool> {
        let sources = self.daemon.json("/api/v1/sources").await?;
        let sources = sources["items"].as_array().context("no sources")?;
        Ok(sources.iter().any(|source| !source["reconfiguring"].is_null()))
    }

    async fn acts(&self) -> Result<bool> {
        let replicas = self.daemon.json("/api/v1/replicas").await?;
        Ok(replicas["standing"] == "acting")
    }

    fn first_call_us(&self) -> Option<u64> {
        self.daemon.process().lines(0, first_call).pop()
    }
}

impl Group {
    /// Starts all replicas with this configuration, to which a section `[ha]` is added, and waits until they are ready.
    pub(super) async fn start(
        cores: &Cores,
        cluster: &Cluster,
        name: &str,
        speed: &str,
        config: &str,
    ) -> Result<Group> {
        let mut group = Group { replicas: Vec::new() };
        for _ in 0..REPLICAS {
            group
                .add(cores, cluster, (name, &format!("speed = {speed:?}")), config)
                .await?;
        }
        wait_until_it_runs(&group.holder().await?.daemon).await?;
        Ok(group)
    }

    /// Starts one more replica of the group, with these lines in its section `[ha]`, and waits until it is ready.
    pub(super) async fn add(
        &mut self,
        cores: &Cores,
        cluster: &Cluster,
        (group, ha): (&str, &str),
        config: &str,
    ) -> Result<()> {
        let config = format!(
            "[admin]\nlisten = \"127.0.0.1:0\"\n\n[ha]\ngroup = {group:?}\nnamespace = \"default\"\n{ha}\n\n{config}"
        );
        let name = format!("{group}-{}", self.replicas.len());
        let folder = cluster.folder().join(&name);
        tokio::fs::create_dir_all(&folder).await?;
        let path = folder.join("config.toml");
        tokio::fs::write(&path, &config).await?;
        let command = ReplicaCommand {
            name,
            under: cores.subject(),
            kubeconfig: cluster.kubeconfig(),
            config: path,
        };
        let daemon = command.start().await?;
        daemon.wait_until_ready().await?;
        self.replicas.push(Replica {
            command,
            daemon,
            handled: Vec::new(),
        });
        Ok(())
    }

    /// The number of the replica that acts.
    pub(super) async fn acting(&self) -> Result<usize> {
        wait::until("a replica that acts", ACTS_WITHIN, async || {
            for (number, replica) in self.replicas.iter().enumerate() {
                if replica.acts().await.map_err(|error| format!("{error:#}"))? {
                    return Ok(number);
                }
            }
            Err("none".to_owned())
        })
        .await
    }

    /// The replica that acts.
    pub(super) async fn holder(&self) -> Result<&Replica> {
        Ok(&self.replicas[self.acting().await?])
    }

    /// Ends the replica that acts by this signal, and waits for the first call of its successor. Returns when the
    /// signal was sent, in microseconds since 1970, and the successor. The replica is started again.
    pub(super) async fn succeed(&mut self, signal: &str) -> Result<(u64, Successor)> {
        let at = self.acting().await?;
        let ended_us = self.end(at, signal).await?;
        let successor = self.successor(at).await?;
        self.replicas[at].start_again().await?;
        Ok((ended_us, successor))
    }

    /// Ends a replica. Returns when the signal was sent.
    pub(super) async fn end(&mut self, number: usize, signal: &str) -> Result<u64> {
        let ended_us = crate::bench::since_1970_us();
        let daemon = &mut self.replicas[number].daemon;
        daemon.process().signal(signal).await?;
        daemon.process_mut().wait_for_end(ENDS_WITHIN).await?;
        Ok(ended_us)
    }

    pub(super) async fn start_again(&mut self, number: usize) -> Result<()> {
        self.replicas[number].start_again().await
    }

    /// The replica that is called after `ended` has ended. Each replica that has acted was started again since.
    pub(super) async fn successor(&self, ended: usize) -> Result<Successor> {
        wait::until("the first call of a successor", ACTS_WITHIN, async || {
            let replicas = self.replicas.iter().enumerate();
            let mut others = replicas.filter(|(number, _)| *number != ended);
            let called = others.find_map(|(number, replica)| {
                let first_call_us = replica.first_call_us()?;
                Some(Successor { number, first_call_us })
            });
            called.ok_or_else(|| "none".to_owned())
        })
        .await
    }
}

/// Waits until `replica` has handled `adds` objects. More are an error.
pub(super) async fn called_once(replica: &Replica, adds: u32) -> Result<()> {
    let adds = u64::from(adds);
    wait::until("a call for each object", crate::bench::DONE_WITHIN, async || {
        let calls = replica.calls("add").await.map_err(|error| format!("{error:#}"))?;
        match calls >= adds {
            true => Ok(()),
            false => Err(format!("{calls} of {adds}")),
        }
    })
    .await?;
    let (calls, updates) = (replica.calls("add").await?, replica.calls("update").await?);
    ensure!(
        calls == adds && updates == 0,
        "{calls} adds and {updates} updates of {adds} objects that did not change"
    );
    Ok(())
}

fn first_call(line: &str) -> Option<u64> {
    if !line.contains("first_us") {
        return None;
    }
    let line: Value = serde_json::from_str(line).ok()?;
    let call: Value = serde_json::from_str(line["fields"]["message"].as_str()?).ok()?;
    call["first_us"].as_u64()
}

#[cfg(test)]
mod tests {
    #[test]
    fn first_call_is_found_among_other_lines() {
        let line = r#"{"level":"INFO","fields":{"message":"{\"first_us\":5}","plugin":"measured"}}"#;
        assert_eq!(super::first_call(line), Some(5));
        assert_eq!(super::first_call(r#"{"fields":{"message":"plugin reloaded"}}"#), None);
    }
}
