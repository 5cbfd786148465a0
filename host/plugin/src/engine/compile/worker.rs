//! The child's side: confines itself, reads a component or script, limits itself, does the work, answers, exits.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use super::compile;
use super::confine::confine;
use super::message::{REQUEST_HEAD_BYTES, RequestHead, Work, answer_head, report};
use crate::engine;
use crate::engine::compile::COMPONENT_BYTES_MAX;
use crate::engine::erase::erase_types;

/// The niceness of the compiler.
#[cfg(unix)]
const NICE: i32 = 10;

/// The highest: the first one to be ended.
#[cfg(target_os = "linux")]
const OOM_SCORE_ADJUSTMENT: &str = "1000";

/// The main function of a program that is run as a [`super::ChildCompiler`]: compiles the component on stdin, or erases
/// the types of a script, within the limits sent with it, and writes the result to stdout. Call it first in `main`,
/// before any thread is created or file opened.
#[must_use]
pub fn compile_worker() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The reader may be gone.
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), String> {
    // Other work comes first. Its niceness may be higher already.
    #[cfg(unix)]
    let _ = rustix::process::nice(NICE);
    // Where memory runs out, the kernel ends this process, and not the one that runs handlers.
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUSTMENT);
    close_inherited();
    // Before the first byte is read. Reported at once, so that nothing in the input can change the report.
    let confinement = confine();
    write_out(&[&report(confinement)])?;
    let mut stdin = std::io::stdin().lock();
    let mut head = [0; REQUEST_HEAD_BYTES];
    stdin
        .read_exact(&mut head)
        .map_err(|error| format!("no work on stdin ({error}): Informant runs this command itself"))?;
    let head = RequestHead::of_bytes(head);
    // Before the first byte of the input is read.
    limit_resources(head)?;
    let length = usize::try_from(head.length).unwrap_or(usize::MAX);
    if length > COMPONENT_BYTES_MAX {
        return Err(format!("the input is too large: {length} bytes"));
    }
    let mut input = vec![0; length];
    stdin
        .read_exact(&mut input)
        .map_err(|error| format!("the input is incomplete: {error}"))?;
    drop(stdin);
    std::thread::Builder::new()
        .name("end-of-input".to_owned())
        .spawn(exit_when_stdin_closes)
        .map_err(|error| format!("failed to spawn a thread: {error}"))?;
    let answer = match head.work {
        Work::Compile => {
            // Without the pool: its address space would exceed the limit, and the code does not depend on it.
            let engine = engine::on_demand().map_err(|error| format!("{error:#}"))?;
            compile(&engine, &input)
        }
        Work::EraseTypes => erase_types(&input).map(String::into_bytes),
    };
    let text = match &answer {
        Ok(artifact) => artifact.as_slice(),
        Err(words) => words.as_bytes(),
    };
    write_out(&[&answer_head(&answer), text])
}

/// Closes what the parent did not mean to pass on, besides the three pipes. Before a thread or a file could own any.
fn close_inherited() {
    #[cfg(target_os = "linux")]
    #[expect(
        unsafe_code,
        reason = "descriptors that somebody owned would be closed; nothing here has any yet"
    )]
    // It fails before Linux 5.9.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
    }
}

fn write_out(parts: &[&[u8]]) -> Result<(), String> {
    let mut stdout = std::io::stdout().lock();
    parts
        .iter()
        .try_for_each(|part| stdout.write_all(part))
        .and_then(|()| stdout.flush())
        .map_err(|error| format!("cannot write to stdout: {error}"))
}

/// Exits when the parent is gone: the parent keeps stdin open while it waits.
fn exit_when_stdin_closes() {
    let mut byte = [0];
    let _ = std::io::stdin().read(&mut byte);
    std::process::exit(1);
}

/// Permanently drops permissions and resources that compiling does not need.
#[cfg(unix)]
fn limit_resources(head: RequestHead) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    // Reaching a limit ends the process, as intended. It opens and writes no files.
    let limits = [
        (Resource::As, head.memory_bytes),
        (Resource::Cpu, head.cpu_seconds),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, 32),
    ];
    for (resource, limit) in limits {
        let both = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        setrlimit(resource, both)
            .map_err(|error| format!("the compiler cannot limit itself ({resource:?}): {error}"))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn limit_resources(_head: RequestHead) -> Result<(), String> {
    Ok(())
}
