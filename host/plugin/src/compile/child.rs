//! This process's side: starts the child, hands it the component, waits, and says what became of it.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use informant_cache::Environment;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use super::message::{ANSWER_HEAD_BYTES, RequestHead, answer_of};
use super::{ARTIFACT_BYTES_MAX, COMPILE_THREADS_MAX, ChildCompiler};
use crate::limiter::Mib;

/// Bytes kept of what a child says on stderr.
const WORDS_BYTES_MAX: u64 = 16 * 1_024;

/// What an ended child left.
struct Left {
    answer: Vec<u8>,
    words: String,
    status: ExitStatus,
}

/// Compiles `component` in a child, which is killed when its time is over or this future is dropped, and reaped in any
/// case.
///
/// # Errors
/// Why there is no artifact, for people.
pub(super) async fn compile(
    compiler: ChildCompiler,
    env: Arc<dyn Environment>,
    component: Arc<[u8]>,
) -> Result<Vec<u8>, String> {
    let limits = compiler.limits;
    let late = env.sleep(limits.time);
    let mut child = spawn(&compiler).map_err(|error| {
        format!(
            "the compiler, {}, cannot be started: {error}",
            compiler.program.display()
        )
    })?;
    let left = tokio::select! {
        biased;
        left = talk(&mut child, &compiler, &component) => left.map_err(|error| format!("the compiler cannot be talked to: {error}"))?,
        () = late => {
            // Ends when it is reaped.
            let _ = child.kill().await;
            return Err(format!("it takes longer than {:?}, the limit for compiling one component", limits.time));
        }
    };
    if left.answer.len() > ARTIFACT_BYTES_MAX {
        return Err(format!(
            "its native code is longer than {}, the limit for one component",
            Mib(ARTIFACT_BYTES_MAX)
        ));
    }
    match answer_of(left.answer) {
        Some(answer) if left.status.success() => answer,
        _ => Err(no_answer(left.status, &left.words, limits.memory_bytes)),
    }
}

fn spawn(compiler: &ChildCompiler) -> std::io::Result<Child> {
    let mut command = Command::new(&compiler.program);
    command
        .args(&compiler.arguments)
        // It needs nothing of ours, and secrets may stand there.
        .env_clear()
        .env("RAYON_NUM_THREADS", threads().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    command
        .current_dir("/")
        // A Ctrl-C at the terminal is for us, and we end what we started.
        .process_group(0);
    command.spawn()
}

/// Hands over the component and waits for the end.
async fn talk(child: &mut Child, compiler: &ChildCompiler, component: &[u8]) -> std::io::Result<Left> {
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(std::io::Error::other("it has no pipes"));
    };
    let head = RequestHead {
        memory_bytes: compiler.limits.memory_bytes,
        cpu_seconds: compiler.limits.time.as_secs().saturating_add(1) * threads() as u64,
        length: component.len() as u64,
    };
    let send = async {
        // A child that ends before it has read everything says why by its status.
        if stdin.write_all(&head.to_bytes()).await.is_ok() {
            let _ = stdin.write_all(component).await;
            let _ = stdin.flush().await;
        }
    };
    let longest = ARTIFACT_BYTES_MAX as u64 + ANSWER_HEAD_BYTES as u64 + 1;
    let ((), answer, words) = tokio::join!(send, read(stdout, longest), read(stderr, WORDS_BYTES_MAX));
    // Only now: the end of its input tells the child that nobody waits any more.
    drop(stdin);
    Ok(Left {
        answer: answer?,
        words: String::from_utf8_lossy(&words?).into_owned(),
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
    std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(COMPILE_THREADS_MAX)
}

/// Why a child ended without an answer.
fn no_answer(status: ExitStatus, words: &str, memory_bytes: u64) -> String {
    let said = words.lines().rev().map(str::trim).find(|line| !line.is_empty());
    // Rust's words for an allocation that failed, the operating system's for a mapping.
    let no_memory = [
        "memory allocation of",
        "Cannot allocate memory",
        "out of memory",
        "failed to spawn",
    ];
    if no_memory.iter().any(|sign| words.contains(sign)) {
        let limit = Mib(usize::try_from(memory_bytes).unwrap_or(usize::MAX));
        return format!("it needs more than {limit} of memory, the limit for compiling one component");
    }
    match said {
        Some(said) => format!("the compiler ended with {status}: {said}"),
        None => format!("the compiler ended with {status} and no word"),
    }
}

#[cfg(all(test, unix))]
mod tests;
