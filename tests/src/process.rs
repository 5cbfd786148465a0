//! A child process whose output is kept line by line and that ends with its owner.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::wait;

/// The maximum number of output lines kept. The load tests of a minute write some 100,000.
const LINES_KEPT_MAX: usize = 1_000_000;

/// The deadline for reading the rest of an ended process's output.
const READ_WITHIN: Duration = Duration::from_secs(10);

/// How many lines of a child's output an error message shows.
const LINES_SHOWN: usize = 30;

#[derive(Default)]
struct Output {
    lines: VecDeque<String>,
    /// The number of lines dropped from the front.
    dropped: usize,
}

/// A running child. Killed when dropped.
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Mutex<Output>>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts `program`.
    ///
    /// # Errors
    /// If the program cannot be started; the message names it.
    pub fn start<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(args);
        Self::start_command(command)
    }

    /// Starts `program` with another program that replaces itself with the command in its last arguments, as `taskset
    /// -c 1` and `nice` do. With an empty `under`, `program` starts directly.
    ///
    /// # Errors
    /// If neither can be started.
    pub fn start_under<A: AsRef<OsStr>>(
        under: &[String],
        program: &Path,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Self> {
        let Some((first, rest)) = under.split_first() else {
            return Self::start(program, args);
        };
        let mut command = Command::new(first);
        command.args(rest).arg(program).args(args);
        let mut process = Self::start_command(command)?;
        process.name = name_of(program);
        Ok(process)
    }

    /// Starts a prepared command and captures its standard streams.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start_command(mut command: Command) -> Result<Self> {
        let program = PathBuf::from(command.as_std().get_program());
        let name = name_of(&program);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        let output = Arc::new(Mutex::new(Output::default()));
        let stdout = child
            .stdout
            .take()
            .map(|stream| tokio::spawn(keep_lines(stream, output.clone())));
        let stderr = child
            .stderr
            .take()
            .map(|stream| tokio::spawn(keep_lines(stream, output.clone())));
        Ok(Self {
            name,
            child,
            output,
            readers: stdout.into_iter().chain(stderr).collect(),
        })
    }

    /// Applies `pick` to each line that was written so far, from line `from` on (counted from the process's start).
    pub fn lines<T>(&self, from: usize, mut pick: impl FnMut(&str) -> Option<T>) -> Vec<T> {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = from.saturating_sub(output.dropped);
        output.lines.iter().skip(skip).filter_map(|line| pick(line)).collect()
    }

    /// The number of lines written so far.
    pub fn line_count(&self) -> usize {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        output.dropped + output.lines.len()
    }

    /// Waits for a line for which `pick` returns a value.
    ///
    /// # Errors
    /// After `deadline`, or when the process has ended; the error contains its last lines.
    pub async fn wait_for_line<T>(
        &mut self,
        what: &str,
        deadline: Duration,
        mut pick: impl FnMut(&str) -> Option<T>,
    ) -> Result<T> {
        let mut seen = 0;
        let waited = wait::until(what, deadline, async || {
            let ended = self.child.try_wait().map_err(|error| error.to_string())?;
            if ended.is_some() {
                self.read_to_the_end().await;
            }
            let count = self.line_count();
            let found = self.lines(seen, &mut pick).into_iter().next();
            seen = count;
            match (found, ended) {
                (Some(found), _) => Ok(Ok(found)),
                (None, Some(status)) => Ok(Err(anyhow!("{} ended with {status} before {what}", self.name))),
                (None, None) => Err("no such line yet".to_owned()),
            }
        })
        .await;
        waited.and_then(|found| found).with_context(|| self.tail())
    }

    /// Waits for a line after line `from` for which `pick` returns a value.
    ///
    /// # Errors
    /// After `deadline`; the error contains the last lines.
    pub async fn wait_for_line_after<T>(
        &self,
        from: usize,
        what: &str,
        deadline: Duration,
        mut pick: impl FnMut(&str) -> Option<T>,
    ) -> Result<T> {
        let found = wait::until(what, deadline, async || {
            let mut found = self.lines(from, &mut pick);
            match found.is_empty() {
                true => Err("no such line yet".to_owned()),
                false => Ok(found.swap_remove(0)),
            }
        });
        found.await.with_context(|| self.tail())
    }

    /// Waits for `condition` as long as the process runs.
    ///
    /// # Errors
    /// The error of `condition`, or that the process has ended; both with its last lines.
    pub async fn while_running<T>(&mut self, condition: impl Future<Output = Result<T>>) -> Result<T> {
        let waited = tokio::select! {
            biased;
            waited = condition => waited,
            status = self.child.wait() => Err(anyhow!("{} ended: {}", self.name, status?)),
        };
        if waited.is_err() && !self.is_running() {
            self.read_to_the_end().await;
        }
        waited.with_context(|| self.tail())
    }

    /// The process id, while the process runs.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Sends a signal by name ("TERM", "KILL", "STOP", "CONT").
    ///
    /// # Errors
    /// If the process is gone or `kill` cannot be run.
    pub async fn signal(&self, signal: &str) -> Result<()> {
        let id = self.id().with_context(|| format!("{} has ended already", self.name))?;
        let status = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(id.to_string())
            .status()
            .await?;
        anyhow::ensure!(status.success(), "kill -{signal} {id} ({}) failed", self.name);
        Ok(())
    }

    /// Waits for the end and returns the exit code (none if a signal ended it).
    ///
    /// # Errors
    /// After `deadline`.
    pub async fn wait_for_end(&mut self, deadline: Duration) -> Result<Option<i32>> {
        match tokio::time::timeout(deadline, self.child.wait()).await {
            Ok(status) => {
                self.read_to_the_end().await;
                Ok(status?.code())
            }
            Err(_) => Err(anyhow!(
                "{} did not end within {deadline:?}\n{}",
                self.name,
                self.tail()
            )),
        }
    }

    /// Waits until all output of an ended process is read. A child that it started may hold its output open for longer.
    async fn read_to_the_end(&mut self) {
        for reader in self.readers.drain(..) {
            let _ = tokio::time::timeout(READ_WITHIN, reader).await;
        }
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The last lines it wrote, for messages.
    pub fn tail(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let skip = output.lines.len().saturating_sub(LINES_SHOWN);
        let shown: Vec<&str> = output.lines.iter().skip(skip).map(String::as_str).collect();
        format!("last lines of {}:\n{}", self.name, shown.join("\n"))
    }
}

fn name_of(program: &Path) -> String {
    program.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

async fn keep_lines(stream: impl AsyncRead + Unpin, output: Arc<Mutex<Output>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        if output.lines.len() == LINES_KEPT_MAX {
            output.lines.pop_front();
            output.dropped += 1;
        }
        output.lines.push_back(line);
    }
}
