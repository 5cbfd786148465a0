//! This process's side: starts the child, sends it the component, and returns its result.

use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Once};

use informant_cache::Environment;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::confine::Confinement;
use super::message::{ANSWER_HEAD_BYTES, REPORT_BYTES, RequestHead, Work, answer_of, take_report};
use super::{ARTIFACT_BYTES_MAX, COMPILE_THREADS_MAX, ChildCompiler, processors};
use crate::engine::limiter::Mib;

/// Bytes kept of a child's stderr.
const STDERR_BYTES_MAX: u64 = 16 * 1_024;

/// The output of a child that ended.
struct ChildOutput {
    answer: Vec<u8>,
    stderr_text: String,
    status: ExitStatus,
}

/// Does `work` on `input` in a child, which is killed at its time limit or when this future is dropped, and reaped in
/// any case.
/// Errors: why there is no result, as a message.
pub(super) async fn run(
    work: Work,
    compiler: ChildCompiler,
    env: Arc<dyn Environment>,
    input: Arc<[u8]>,
) -> Result<Vec<u8>, String> {
    let limits = compiler.limits;
    let late = env.sleep(limits.time);
    let mut child = spawn(&compiler)
        .map_err(|error| format!("cannot start the compiler, {}: {error}", compiler.program.display()))?;
    let output = tokio::select! {
        biased;
        output = communicate(&mut child, work, &compiler, &input) => output.map_err(|error| format!("cannot communicate with the compiler: {error}"))?,
        () = late => {
            // Ends when it is reaped.
            let _ = child.kill().await;
            return Err(format!("it takes longer than {:?}, the limit for {}", limits.time, work.as_str()));
        }
    };
    let ChildOutput {
        mut answer,
        stderr_text,
        status,
    } = output;
    let Some(confinement) = take_report(&mut answer) else {
        return Err(exit_error(work, status, &stderr_text, limits.memory_bytes));
    };
    log_once(confinement);
    if answer.len() > ARTIFACT_BYTES_MAX {
        return Err(format!(
            "its native code is larger than {}, the limit for one component",
            Mib(ARTIFACT_BYTES_MAX)
        ));
    }
    match answer_of(answer) {
        Some(answer) if status.success() => answer,
        _ => Err(exit_error(work, status, &stderr_text, limits.memory_bytes)),
    }
}

/// Logs what holds in the compiler's process, once: it is the same in each. Where no system call filter exists, nothing
/// can be done about it.
fn log_once(confinement: Confinement) {
    static LOGGED: Once = Once::new();
    LOGGED.call_once(|| {
        if confinement.is_complete() || !cfg!(target_os = "linux") {
            let landlock = format!("{:?}", confinement.landlock).to_lowercase();
            let (no_new_privs, seccomp) = (confinement.no_new_privs, confinement.seccomp);
            tracing::debug!(no_new_privs, landlock, seccomp, "compiler confined");
        } else {
            tracing::warn!(missing = confinement.missing(), "compiler not fully confined");
        }
    });
}

fn spawn(compiler: &ChildCompiler) -> std::io::Result<Child> {
    let mut command = Command::new(&compiler.program);
    command
        .args(&compiler.arguments)
        // It needs no variables, and the environment may contain secrets.
        .env_clear()
        .env("RAYON_NUM_THREADS", threads().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command
        .current_dir("/")
        // A Ctrl-C at the terminal is for this process, which ends its children itself.
        .process_group(0);
    command.spawn()
}

/// Sends the input and waits for the end.
async fn communicate(
    child: &mut Child,
    work: Work,
    compiler: &ChildCompiler,
    input: &[u8],
) -> std::io::Result<ChildOutput> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(std::io::Error::other("it has no pipes"));
    };
    let head = RequestHead {
        work,
        memory_bytes: compiler.limits.memory_bytes,
        cpu_seconds: compiler.limits.time.as_secs().saturating_add(1) * threads() as u64,
        length: input.len() as u64,
    };
    let send = async {
        // If a child ends before it has read everything, its status says why.
        if stdin.write_all(&head.to_bytes()).await.is_ok() {
            let _ = stdin.write_all(input).await;
            let _ = stdin.flush().await;
        }
    };
    let longest = (REPORT_BYTES + ARTIFACT_BYTES_MAX + ANSWER_HEAD_BYTES + 1) as u64;
    let ((), answer, stderr_text) = tokio::join!(send, read(stdout, longest), read(stderr, STDERR_BYTES_MAX));
    // Only now: at the end of its input the child exits.
    drop(stdin);
    Ok(ChildOutput {
        answer: answer?,
        stderr_text: String::from_utf8_lossy(&stderr_text?).into_owned(),
        status: child.wait().await?,
    })
}

/// Up to `max` bytes; closes the pipe then.
async fn read(pipe: impl AsyncRead + Unpin, max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(max).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

fn threads() -> usize {
    processors().min(COMPILE_THREADS_MAX)
}

/// Explains why a child ended without an answer.
fn exit_error(work: Work, status: ExitStatus, stderr_text: &str, memory_bytes: u64) -> String {
    let last_line = stderr_text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    // Rust's messages for an allocation that failed, the operating system's for a mapping.
    let no_memory = [
        "memory allocation of",
        "Cannot allocate memory",
        "out of memory",
        "failed to spawn",
    ];
    if no_memory.iter().any(|sign| stderr_text.contains(sign)) {
        let limit = Mib(usize::try_from(memory_bytes).unwrap_or(usize::MAX));
        return format!("it needs more than {limit} of memory, the limit for {}", work.as_str());
    }
    if work == Work::EraseTypes && stderr_text.contains("overflowed its stack") {
        return "it is nested too deeply to be parsed".to_owned();
    }
    match last_line {
        Some(last_line) => format!("the compiler ended with {status}: {last_line}"),
        None => format!("the compiler ended with {status} and no message"),
    }
}

#[cfg(all(test, unix))]
mod tests;
