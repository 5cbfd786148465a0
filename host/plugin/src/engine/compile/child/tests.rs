//! With stand-ins for the compiler; the real one is tested with the program that contains it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::engine::compile::CompileLimits;
use crate::testing::TokioTime;

/// Compiles with a shell script, after its report.
async fn with(script: &str, time: Duration) -> Result<Vec<u8>, String> {
    with_output(
        &format!(r"printf 'confined\017\000\000\000\000\000\000\000'; {script}"),
        time,
    )
    .await
}

/// Compiles with a shell script.
async fn with_output(script: &str, time: Duration) -> Result<Vec<u8>, String> {
    let compiler = ChildCompiler {
        program: PathBuf::from("/bin/sh"),
        arguments: vec!["-c".into(), script.into()],
        limits: CompileLimits {
            time,
            memory_bytes: 64 << 20,
        },
    };
    run(
        Work::Compile,
        compiler,
        Arc::new(TokioTime),
        Arc::from(&b"component"[..]),
    )
    .await
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_childs_answer_is_the_artifact() {
    let script = r"head -c 41 >/dev/null; printf 'artifact\005\000\000\000\000\000\000\000bytes'";
    assert_eq!(with(script, LONG).await, Ok(b"bytes".to_vec()));
    let script = r"printf 'refused!\002\000\000\000\000\000\000\000no'";
    assert_eq!(with(script, LONG).await, Err("no".to_owned()));
}

#[tokio::test]
async fn a_child_that_fails_is_reported_with_its_last_line() {
    let mut reports = Vec::new();
    for script in [
        "exit 3",
        "echo 'thread panicked at lib.rs' >&2; exit 101",
        "echo 'memory allocation of 4096 bytes failed' >&2; kill -ABRT $$",
        "kill -SEGV $$",
        // No answer, or only part of one.
        "echo running 0 tests",
        r"printf 'artifact\005\000\000\000\000\000\000\000by'",
        // An answer from one that then fails is none.
        r"printf 'artifact\005\000\000\000\000\000\000\000bytes'; exit 1",
    ] {
        reports.push(with(script, LONG).await.unwrap_err());
    }
    // Without a report it is not the compiler.
    let script = r"printf 'artifact\005\000\000\000\000\000\000\000bytes'";
    reports.push(with_output(script, LONG).await.unwrap_err());
    insta::assert_snapshot!(reports.join("\n"), @"
    the compiler ended with exit status: 3 and no message
    the compiler ended with exit status: 101: thread panicked at lib.rs
    it needs more than 64 MiB of memory, the limit for compiling one component
    the compiler ended with signal: 11 (SIGSEGV) and no message
    the compiler ended with exit status: 0 and no message
    the compiler ended with exit status: 0 and no message
    the compiler ended with exit status: 1 and no message
    the compiler ended with exit status: 0 and no message
    ");
}

#[tokio::test]
async fn a_child_that_never_ends_is_killed_and_reaped() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let script = format!("echo $$ >{}; exec sleep 1000", pid_file.display());
    let refused = with(&script, Duration::from_secs(2)).await.unwrap_err();
    insta::assert_snapshot!(refused, @"it takes longer than 2s, the limit for compiling one component");
    let pid = std::fs::read_to_string(pid_file).unwrap();
    assert!(
        !Path::new("/proc").join(pid.trim()).exists(),
        "process {pid} is still there"
    );
}

#[tokio::test]
async fn a_child_is_killed_when_its_future_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let pid_file = dir.path().join("pid");
    let script = format!("echo $$ >{}; exec sleep 1000", pid_file.display());
    let work = tokio::spawn(async move { with(&script, LONG).await });
    let pid = eventually(|| {
        std::fs::read_to_string(&pid_file)
            .ok()
            .filter(|pid| pid.ends_with('\n'))
    })
    .await;
    work.abort();
    eventually(|| (!Path::new("/proc").join(pid.trim()).exists()).then_some(())).await;
}

#[tokio::test]
async fn a_child_sees_nothing_of_our_environment() {
    let script = "env >&2; exit 1";
    // Cargo sets this one for tests; a child that inherited anything would have it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("environment");
    let written = format!("({script}) 2>{}", file.display());
    with(&written, LONG).await.unwrap_err();
    let names: Vec<String> = std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_once('=').map(|(name, _)| name.to_owned()))
        // What the shell itself sets.
        .filter(|name| !["PWD", "OLDPWD", "SHLVL", "_"].contains(&name.as_str()))
        .collect();
    assert_eq!(names, ["RAYON_NUM_THREADS"]);
}

#[tokio::test]
async fn a_missing_compiler_is_reported() {
    let compiler = ChildCompiler {
        program: PathBuf::from("/no/such/program"),
        arguments: Vec::new(),
        limits: CompileLimits::default(),
    };
    let refused = run(Work::Compile, compiler, Arc::new(TokioTime), Arc::from(&b""[..]))
        .await
        .unwrap_err();
    insta::assert_snapshot!(refused, @"cannot start the compiler, /no/such/program: No such file or directory (os error 2)");
}

/// Waits until `condition` answers.
async fn eventually<T>(condition: impl Fn() -> Option<T>) -> T {
    let deadline = std::time::Instant::now() + LONG;
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(std::time::Instant::now() < deadline, "it never came to that");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
