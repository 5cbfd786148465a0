//! Runs the login program of a kubeconfig (`users[].user.exec`): the protocol of `client.authentication.k8s.io`.
//!
//! The program has a deadline, its output is bounded, and it ends with everything it started. No thread that serves
//! anything else waits for it.
//!
//! Source: client-go `plugin/pkg/client/auth/exec`, which has neither a deadline nor a bound.

mod mask;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use kube::config::{ExecConfig, ExecInteractiveMode};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use crate::escape;
use crate::files::Turn;
use crate::sync::lock;

/// How long a login program may run.
pub(super) const LOGIN_MAX: Duration = Duration::from_secs(30);

/// How much a login program may print to standard output.
pub(super) const LOGIN_STDOUT_BYTES_MAX: u64 = 1_024 * 1_024;

/// How much of a login program's standard error an error message shows.
pub(super) const LOGIN_STDERR_BYTES_MAX: u64 = 4 * 1_024;

/// Shorter lines of a private key reveal nothing, and may be words.
const KEY_LINE_BYTES_MIN: usize = 8;

/// The versions of the protocol.
const VERSIONS: [&str; 2] = [
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
];

/// Why a login program yields no credentials.
#[derive(Debug, thiserror::Error)]
#[error("login program `{command}` (users[].user.exec of the kubeconfig): {problem}")]
pub struct ExecError {
    command: String,
    problem: ExecProblem,
}

#[derive(Debug, thiserror::Error)]
enum ExecProblem {
    #[error("`command` is missing")]
    NoCommand,
    #[error("`apiVersion` is {0:?}; use {v1} or {v1beta1}", v1 = VERSIONS[0], v1beta1 = VERSIONS[1])]
    Version(String),
    #[error("`interactiveMode: Always` needs a terminal, which a daemon does not have; use a login that asks nothing")]
    Interactive,
    #[error("`provideClusterInfo` is set, but the kubeconfig has no cluster")]
    NoClusterInfo,
    #[error("cannot be started: {source}{hint}")]
    Start { source: std::io::Error, hint: String },
    #[error("cannot be run: {0}")]
    Run(#[source] std::io::Error),
    #[error("ended with {status}{stderr}")]
    Failed { status: ExitStatus, stderr: String },
    #[error("was not started within {} s; its file system may hang", .after.as_secs())]
    NotStarted { after: Duration },
    #[error("did not end within {} s and was killed{stderr}", .after.as_secs())]
    Late { after: Duration, stderr: String },
    #[error("printed more than {LOGIN_STDOUT_BYTES_MAX} bytes and was killed")]
    TooLong,
    #[error("its output of {bytes} bytes is not an ExecCredential{stderr}")]
    NotCredential { bytes: usize, stderr: String },
    #[error("printed an ExecCredential of apiVersion {found:?}, but the kubeconfig says {wanted}")]
    OtherVersion { found: String, wanted: String },
    #[error("its ExecCredential has neither `status.token` nor `status.clientCertificateData` with `clientKeyData`")]
    Empty,
    #[error("its `status.expirationTimestamp` is not a time")]
    Expiration,
    #[error("its token contains characters that a header cannot have")]
    Token,
}

pub(super) struct Login {
    pub(super) token: Option<String>,
    pub(super) identity: Option<Identity>,
    pub(super) expires: Option<Timestamp>,
}

/// A client certificate and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExecCredential {
    kind: Option<String>,
    api_version: Option<String>,
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

impl ExecError {
    fn new(exec: &ExecConfig, problem: ExecProblem) -> Self {
        // Not the arguments, which may contain a password.
        let command = escape::line(exec.command.as_deref().unwrap_or_default()).into_owned();
        Self { command, problem }
    }

    pub(super) fn invalid_token(exec: &ExecConfig) -> Self {
        Self::new(exec, ExecProblem::Token)
    }
}

/// Runs the program and reads the credentials that it prints.
/// Errors: [`ExecError`]. Of standard error it contains only what [`shown`] leaves.
pub(super) async fn run(exec: &ExecConfig, deadline: Duration) -> Result<Login, ExecError> {
    let failed = |problem| ExecError::new(exec, problem);
    let (command, version) = command(exec).map_err(failed)?;
    let output = output(command, exec, deadline).await.map_err(failed)?;
    credentials(&output, &version).map_err(failed)
}

/// The command, and the version of the protocol.
fn command(exec: &ExecConfig) -> Result<(Command, String), ExecProblem> {
    let program = exec.command.as_ref().ok_or(ExecProblem::NoCommand)?;
    let version = exec.api_version.clone().unwrap_or_default();
    if !VERSIONS.contains(&version.as_str()) {
        return Err(ExecProblem::Version(version));
    }
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(ExecProblem::Interactive);
    }
    let mut info = json!({ "kind": "ExecCredential", "apiVersion": version, "spec": { "interactive": false } });
    if exec.provide_cluster_info {
        info["spec"]["cluster"] = json!(exec.cluster.as_ref().ok_or(ExecProblem::NoClusterInfo)?);
    }
    let mut command = Command::new(program);
    command
        .args(exec.args.iter().flatten())
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .process_group(0);
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    Ok((command, version))
}

struct Output {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

async fn output(mut command: Command, exec: &ExecConfig, deadline: Duration) -> Result<Output, ExecProblem> {
    let (mut stdout, mut stderr, mut started) = (Vec::new(), Vec::new(), false);
    let program = command.as_std().get_program().to_owned();
    let run = async {
        // Starting waits for the file system that has the program.
        let child = Turn::of(Path::new(&program))
            .run(move || command.spawn().map(Running::new))
            .await;
        started = true;
        let child = child.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let mut child = child.map_err(|source| ExecProblem::Start {
            hint: install_hint(exec),
            source,
        })?;
        child.communicate(&mut stdout, &mut stderr).await
    };
    match tokio::time::timeout(deadline, run).await {
        Ok(Ok(status)) => Ok(Output { status, stdout, stderr }),
        Ok(Err(problem)) => Err(problem),
        Err(_) if !started => Err(ExecProblem::NotStarted { after: deadline }),
        Err(_) => Err(ExecProblem::Late {
            after: deadline,
            stderr: shown(&stderr, &stdout, parse(&stdout).as_ref()),
        }),
    }
}

fn install_hint(exec: &ExecConfig) -> String {
    let hint = exec.install_hint.as_deref().unwrap_or_default().trim();
    match hint {
        "" => String::new(),
        hint => format!("; {}", escape::line(hint)),
    }
}

/// The process groups of login programs that run.
static RUNNING: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn running() -> MutexGuard<'static, BTreeSet<i32>> {
    lock(&RUNNING)
}

/// Kills all login programs: the process is about to end.
pub(crate) fn end_login_programs() {
    for group in std::mem::take(&mut *running()) {
        kill(group);
    }
}

fn kill(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        // It may have ended.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// A running program, killed with its process group when dropped.
struct Running {
    child: Child,
    group: Option<i32>,
}

impl Running {
    fn new(child: Child) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        running().extend(group);
        Self { child, group }
    }

    /// Waits for its end, and collects what it prints meanwhile.
    async fn communicate(&mut self, stdout: &mut Vec<u8>, stderr: &mut Vec<u8>) -> Result<ExitStatus, ExecProblem> {
        let (Some(out), Some(err)) = (self.child.stdout.take(), self.child.stderr.take()) else {
            return Err(ExecProblem::Run(std::io::Error::other("it has no pipes")));
        };
        tokio::try_join!(read(out, stdout), async {
            drain(err, stderr).await.map_err(ExecProblem::Run)
        })?;
        self.child.wait().await.map_err(ExecProblem::Run)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // What it started in the background is not needed once it has printed its credentials.
            kill(group);
            running().remove(&group);
        }
    }
}

/// All of its standard output.
async fn read(pipe: impl AsyncRead + Unpin, bytes: &mut Vec<u8>) -> Result<(), ExecProblem> {
    let mut pipe = pipe.take(LOGIN_STDOUT_BYTES_MAX + 1);
    pipe.read_to_end(bytes).await.map_err(ExecProblem::Run)?;
    if bytes.len() as u64 > LOGIN_STDOUT_BYTES_MAX {
        return Err(ExecProblem::TooLong);
    }
    Ok(())
}

/// Keeps the beginning of its standard error, and reads the rest so that it does not block.
async fn drain(mut pipe: impl AsyncRead + Unpin, kept: &mut Vec<u8>) -> std::io::Result<()> {
    (&mut pipe).take(LOGIN_STDERR_BYTES_MAX).read_to_end(kept).await?;
    let mut rest = [0; 4_096];
    while pipe.read(&mut rest).await? > 0 {}
    Ok(())
}

fn credentials(output: &Output, wanted: &str) -> Result<Login, ExecProblem> {
    let parsed = parse(&output.stdout);
    let stderr = shown(&output.stderr, &output.stdout, parsed.as_ref());
    if !output.status.success() {
        return Err(ExecProblem::Failed {
            status: output.status,
            stderr,
        });
    }
    let parsed = parsed.ok_or(ExecProblem::NotCredential {
        bytes: output.stdout.len(),
        stderr,
    })?;
    let found = parsed.api_version.unwrap_or_default();
    if found != wanted {
        return Err(ExecProblem::OtherVersion {
            found: found.chars().take(80).collect(),
            wanted: wanted.to_owned(),
        });
    }
    let status = parsed.status.ok_or(ExecProblem::Empty)?;
    let filled = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let token = filled(status.token).map(|token| token.trim().to_owned());
    let identity = match (filled(status.client_certificate_data), filled(status.client_key_data)) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) if token.is_some() => None,
        _ => return Err(ExecProblem::Empty),
    };
    let expires = filled(status.expiration_timestamp).map(|text| text.parse());
    let expires = expires.transpose().map_err(|_| ExecProblem::Expiration)?;
    Ok(Login {
        token,
        identity,
        expires,
    })
}

/// Some print YAML, which client-go accepts, too. The parser's error may quote a token.
fn parse(stdout: &[u8]) -> Option<ExecCredential> {
    let parsed: Option<ExecCredential> = serde_saphyr::from_slice(stdout).ok();
    parsed.filter(|parsed| parsed.kind.as_deref() == Some("ExecCredential"))
}

/// What a message shows of standard error: `; it printed: …`. Without the credentials of standard output: nothing if
/// these cannot be read. A token that is only on standard error is masked if it has a [known form](mask::shapes).
fn shown(stderr: &[u8], stdout: &[u8], credentials: Option<&ExecCredential>) -> String {
    let status = credentials.and_then(|credentials| credentials.status.as_ref());
    if status.is_none() && !stdout.trim_ascii().is_empty() && !stderr.trim_ascii().is_empty() {
        return "; its standard error is not shown, because it may repeat credentials from an output that cannot be \
                read; run the program by hand"
            .to_owned();
    }
    let text = mask::shapes(&without_secrets(stderr, status));
    match text.trim() {
        "" => String::new(),
        text => format!("; it printed: {}", escape::line(text)),
    }
}

/// Replaces the token and the lines of the private key. The end of a text that was cut may be the beginning of one.
fn without_secrets(stderr: &[u8], status: Option<&Status>) -> String {
    let token = status.and_then(|status| status.token.as_deref()).map(str::trim);
    let token = token.filter(|token| !token.is_empty()).map(|token| (token, "[token]"));
    let key = status.and_then(|status| status.client_key_data.as_deref());
    // Line by line, because a program may print it as a JSON string.
    let lines = key.into_iter().flat_map(str::lines).map(str::trim);
    let lines = lines
        .filter(|line| line.len() >= KEY_LINE_BYTES_MIN)
        .map(|line| (line, "[key]"));
    let secrets: Vec<_> = token.into_iter().chain(lines).collect();
    let mut text = String::from_utf8_lossy(stderr).into_owned();
    for (secret, name) in &secrets {
        text = text.replace(secret, name);
    }
    if stderr.len() as u64 >= LOGIN_STDERR_BYTES_MAX {
        let beginnings = secrets.iter().flat_map(|(secret, name)| {
            let beginnings = secret.char_indices().map(|(end, _)| &secret[..end]);
            beginnings.map(move |beginning| (beginning, name))
        });
        let at_the_end = beginnings.filter(|(beginning, _)| text.ends_with(beginning));
        if let Some((beginning, name)) = at_the_end.max_by_key(|(beginning, _)| beginning.len())
            && !beginning.is_empty()
        {
            text.truncate(text.len() - beginning.len());
            text.push_str(name);
        }
    }
    text
}

#[cfg(test)]
mod tests;
