//! A running `informant run` and its admin API.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use crate::guests;
use crate::process::Process;
use crate::wait;

/// The deadline for a daemon to listen: with a cold artifact cache it compiles its plugins first.
const LISTENS_WITHIN: Duration = Duration::from_secs(60);

/// The deadline for a daemon to be ready once it listens.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// `informant run`, killed when dropped.
pub struct Daemon {
    process: Process,
    address: String,
    /// `host:port` of the health server; none for earlier commits.
    health: Option<String>,
    config: PathBuf,
    http: Client<HttpConnector, Empty<bytes::Bytes>>,
}

impl Daemon {
    /// Writes `config` into `folder` as config.toml, starts `informant run` with it and waits until its admin API
    /// listens. `[admin] listen = "127.0.0.1:0"` is added.
    ///
    /// # Errors
    /// If it ends before it listens; the error contains its last lines.
    pub async fn start(folder: &Path, kubeconfig: &Path, config: &str) -> Result<Self> {
        Self::start_under(&[], folder, kubeconfig, config).await
    }

    /// As [`start`](Self::start), started by another program: see [`Process::start_under`].
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub async fn start_under(under: &[String], folder: &Path, kubeconfig: &Path, config: &str) -> Result<Self> {
        Self::start_program(under, &guests::informant()?, folder, kubeconfig, config).await
    }

    /// As [`start_under`](Self::start_under), for the `informant` of an earlier commit.
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub async fn start_program(
        under: &[String],
        program: &Path,
        folder: &Path,
        kubeconfig: &Path,
        config: &str,
    ) -> Result<Self> {
        let path = folder.join("config.toml");
        tokio::fs::write(&path, with_admin(config)).await?;
        let mut args = vec![
            "run".to_owned(),
            format!("--config={}", path.display()),
            format!("--kubeconfig={}", kubeconfig.display()),
            "--log-format=json".to_owned(),
        ];
        if has_health_port(program).await? {
            args.push("--health-listen=127.0.0.1:0".to_owned());
        }
        Self::listening(Process::start_under(under, program, args)?, path).await
    }

    /// Starts a prepared command of `informant run` with the configuration at `config`, and JSON lines as its log.
    ///
    /// # Errors
    /// See [`start`](Self::start).
    pub async fn start_command(command: tokio::process::Command, config: PathBuf) -> Result<Self> {
        Self::listening(Process::start_command(command)?, config).await
    }

    async fn listening(mut process: Process, config: PathBuf) -> Result<Self> {
        let address = process
            .wait_for_line("the admin API's address", LISTENS_WITHIN, admin_address)
            .await?;
        let health = process.lines(0, health_address).pop();
        let http = Client::builder(TokioExecutor::new()).build_http();
        Ok(Self {
            process,
            address,
            health,
            config,
            http,
        })
    }

    /// Waits until `/readyz` succeeds.
    ///
    /// # Errors
    /// If it does not in time; the error contains its last answer and the last lines of the log.
    pub async fn wait_until_ready(&self) -> Result<()> {
        let ready = wait::until("informant to be ready", READY_WITHIN, async || {
            let (status, text) = self
                .health_get("/readyz?verbose")
                .await
                .map_err(|error| format!("{error:#}"))?;
            if status == StatusCode::OK {
                Ok(())
            } else {
                Err(format!("{status}: {text}"))
            }
        });
        ready.await.with_context(|| self.process.tail())
    }

    /// GET on the admin API.
    ///
    /// # Errors
    /// If there is no answer.
    pub async fn http_get(&self, path: &str) -> Result<(StatusCode, String)> {
        self.http_get_from(&self.address, path).await
    }

    /// GET of a probe or of metrics. The admin API may require TLS.
    pub(crate) async fn health_get(&self, path: &str) -> Result<(StatusCode, String)> {
        self.http_get_from(self.health_address(), path).await
    }

    async fn http_get_from(&self, address: &str, path: &str) -> Result<(StatusCode, String)> {
        let uri: http::Uri = format!("http://{address}{path}").parse()?;
        let answer = self.http.get(uri).await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }

    /// GET of a JSON document on the admin API.
    ///
    /// # Errors
    /// If there is no answer, or it is not 200 or not JSON.
    pub async fn json(&self, path: &str) -> Result<Value> {
        let (status, text) = self.http_get(path).await?;
        ensure!(status == StatusCode::OK, "GET {path}: {status}: {text}");
        serde_json::from_str(&text).with_context(|| format!("GET {path} answered {text}"))
    }

    /// The value of a metric, summed over the series whose labels contain all of `labels` (as `name="value"`). None if
    /// there is no such series.
    ///
    /// # Errors
    /// If `/metrics` does not answer.
    pub async fn metric(&self, name: &str, labels: &[&str]) -> Result<Option<f64>> {
        let (_, text) = self.health_get("/metrics").await?;
        Ok(sum_of(&text, name, labels))
    }

    /// Runs `informant ARGS…` against this daemon's configuration and returns its exit code, stdout and stderr.
    ///
    /// # Errors
    /// If it cannot be started.
    pub async fn command(&self, args: &[&str]) -> Result<(i32, String, String)> {
        let mut command = tokio::process::Command::new(guests::informant()?);
        command.args(args).arg("--admin").arg(&self.address);
        let output = command.output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok((
            output.status.code().unwrap_or(-1),
            text(&output.stdout),
            text(&output.stderr),
        ))
    }

    /// Replaces the configuration by a rename, as deployment tools do; `[admin]` is added as at the start.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub async fn write_config(&self, config: &str) -> Result<()> {
        let temporary = self.config.with_extension("new");
        tokio::fs::write(&temporary, with_admin(config)).await?;
        Ok(tokio::fs::rename(&temporary, &self.config).await?)
    }

    /// The path of its config.toml.
    pub fn config(&self) -> &Path {
        &self.config
    }

    /// `host:port` of probes and metrics.
    pub fn health_address(&self) -> &str {
        self.health.as_ref().unwrap_or(&self.address)
    }

    /// `host:port` of the admin API.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// The process, to end it.
    pub fn process_mut(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// Whether the program has a port for health alone. Earlier commits, which benchmarks compare with, do not.
async fn has_health_port(program: &Path) -> Result<bool> {
    // Asked once for each program: two whose starts are compared are to begin at the same time.
    static KNOWN: Mutex<BTreeMap<PathBuf, bool>> = Mutex::new(BTreeMap::new());
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if program == guests::informant()? {
        return Ok(true);
    }
    if let Some(has_port) = known().get(program) {
        return Ok(*has_port);
    }
    let output = tokio::process::Command::new(program)
        .args(["run", "--help"])
        .output()
        .await?;
    let has_port = String::from_utf8_lossy(&output.stdout).contains("--health-listen");
    known().insert(program.to_owned(), has_port);
    Ok(has_port)
}

fn with_admin(config: &str) -> String {
    format!("[admin]\nlisten = \"127.0.0.1:0\"\n\n{config}")
}

/// The address in the log line that announces the admin API.
fn admin_address(line: &str) -> Option<String> {
    announced(line, "admin")
}

/// The address in the log line that announces the health server.
fn health_address(line: &str) -> Option<String> {
    announced(line, "health server")
}

fn announced(line: &str, server: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields")?;
    if !fields.get("message")?.as_str()?.contains(server) {
        return None;
    }
    fields.get("address")?.as_str().map(str::to_owned)
}

/// The sum of the series of `name` in `text` whose labels contain all of `labels`.
pub(crate) fn sum_of(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut sum = None;
    for line in text.lines() {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let (found, rest) = series.split_once('{').unwrap_or((series, ""));
        if found == name && labels.iter().all(|label| rest.contains(label)) {
            *sum.get_or_insert(0.0) += value.parse::<f64>().unwrap_or_default();
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::sum_of;

    #[test]
    fn metric_is_summed_over_matching_series() {
        let text = "# TYPE x counter\nx_total{a=\"1\",b=\"2\"} 3\nx_total{a=\"1\",b=\"3\"} 4\nx_total{a=\"2\"} 5\ny 6\n# EOF\n";
        assert_eq!(sum_of(text, "x_total", &["a=\"1\""]), Some(7.0));
        assert_eq!(sum_of(text, "x_total", &[]), Some(12.0));
        assert_eq!(sum_of(text, "y", &[]), Some(6.0));
        assert_eq!(sum_of(text, "z", &[]), None);
    }
}
