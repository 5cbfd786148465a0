//! Every check there is, in the order in which they fail soonest.

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::{c_plugins, cargo, cluster_tools, guests, js_plugins, report, script_runner, workspace, zig};

/// How the checks run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Goes on after a failed step.
    #[arg(long)]
    keep_going: bool,
}

/// One check.
struct Step {
    what: &'static str,
    /// Why it cannot run here, if so.
    missing: fn() -> Option<&'static str>,
    run: fn() -> Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        what: "format",
        missing: no_rustfmt,
        run: format,
    },
    Step {
        what: "kube-apiserver, kubectl and etcd",
        missing: no_go,
        run: cluster_tools::build,
    },
    Step {
        what: "plugins and test guests",
        missing: nothing,
        run: guests::build,
    },
    Step {
        what: "script runner",
        missing: zig::missing,
        run: script_runner::build,
    },
    Step {
        what: "plugins in C",
        missing: zig::missing,
        run: c_plugins::build,
    },
    Step {
        what: "plugins in JavaScript",
        missing: js_plugins::missing,
        run: js_plugins::build,
    },
    Step {
        what: "build",
        missing: nothing,
        run: build,
    },
    Step {
        what: "tests",
        missing: nothing,
        run: tests,
    },
    Step {
        what: "demo",
        missing: nothing,
        run: demo_holds,
    },
    Step {
        what: "demo with a truncated handler",
        missing: nothing,
        run: demo_fails_when_truncated,
    },
    Step {
        what: "demo with a handler that swallows events",
        missing: nothing,
        run: demo_fails_when_swallowing,
    },
    Step {
        what: "clippy",
        missing: no_clippy,
        run: clippy,
    },
    Step {
        what: "documentation",
        missing: nothing,
        run: documentation,
    },
];

/// Runs the steps; with CI=true none may be left out.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let (mut failed, mut left_out, mut passed) = (Vec::new(), Vec::new(), 0_u32);
    for step in STEPS {
        report::step(step.what);
        if let Some(why) = (step.missing)() {
            report::left_out(step.what, why);
            left_out.push(step.what);
            continue;
        }
        let begin = Instant::now();
        match (step.run)() {
            Ok(()) => {
                passed += 1;
                report::done(step.what, begin.elapsed());
            }
            Err(error) => {
                report::failed(step.what, &error);
                failed.push(step.what);
                if !args.keep_going {
                    break;
                }
            }
        }
    }
    ensure!(
        failed.is_empty(),
        "{} of the steps failed: {}",
        failed.len(),
        failed.join(", ")
    );
    if in_ci && !left_out.is_empty() {
        bail!("CI=true, and these were left out: {}", left_out.join(", "));
    }
    report::step(&format!("{passed} steps passed, {} left out", left_out.len()));
    Ok(ExitCode::SUCCESS)
}

fn nothing() -> Option<&'static str> {
    None
}

fn no_go() -> Option<&'static str> {
    (!cluster_tools::can_build()).then_some("Go is not installed, so there is no real kube-apiserver to test against")
}

fn no_rustfmt() -> Option<&'static str> {
    (!cargo::is_there("cargo-fmt", "--version")).then_some("rustfmt is not installed (rustup component add rustfmt)")
}

fn no_clippy() -> Option<&'static str> {
    (!cargo::is_there("cargo-clippy", "--version")).then_some("clippy is not installed (rustup component add clippy)")
}

fn format() -> Result<()> {
    cargo::run(cargo::cargo()?.args(["fmt", "--all", "--check"]))
}

fn clippy() -> Result<()> {
    cargo::run(cargo::cargo()?.args([
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))
}

fn build() -> Result<()> {
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--workspace", "--all-targets"]))
}

/// All tests. Those that need the real cluster are left out where it could not be built, which their own output says.
fn tests() -> Result<()> {
    let mut command = cargo::cargo()?;
    command.args(["test", "--locked", "--workspace", "--no-fail-fast"]);
    if no_go().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_CLUSTER", "1");
    }
    if zig::missing().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_SCRIPTS", "1");
    }
    if js_plugins::missing().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_JAVASCRIPT", "1");
    }
    cargo::run(&mut command)
}

fn documentation() -> Result<()> {
    let mut command = cargo::cargo()?;
    command.args([
        "doc",
        "--locked",
        "--workspace",
        "--no-deps",
        "--document-private-items",
    ]);
    cargo::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

/// How the demo says that a step was not seen to hold, as opposed to a demo that could not be shown.
const STEP_FAILED: i32 = 3;

fn demo(handler: Option<&Path>) -> Result<Option<i32>> {
    let mut command = Command::new(workspace::target()?.join("debug").join("demo"));
    command.arg("--once");
    if let Some(handler) = handler {
        command.arg("--handler").arg(handler);
    }
    Ok(cargo::status(&mut command)?.code())
}

fn demo_holds() -> Result<()> {
    let code = demo(None)?;
    ensure!(code == Some(0), "the demo ended with {code:?}");
    Ok(())
}

/// The demo must notice what is wrong with `handler`.
fn demo_fails_with(handler: &Path) -> Result<()> {
    ensure!(handler.is_file(), "{} was not built", handler.display());
    let code = demo(Some(handler))?;
    ensure!(
        code == Some(STEP_FAILED),
        "the demo ended with {code:?}, not {STEP_FAILED}, with {}",
        handler.display()
    );
    Ok(())
}

fn demo_fails_when_truncated() -> Result<()> {
    let built = workspace::target()?
        .join(guests::TARGET)
        .join("plugin")
        .join("crash_loop.wasm");
    let bytes = std::fs::read(&built)?;
    let truncated = workspace::target()?.join("truncated.wasm");
    std::fs::write(&truncated, &bytes[..bytes.len() / 2])?;
    demo_fails_with(&truncated)
}

fn demo_fails_when_swallowing() -> Result<()> {
    demo_fails_with(
        &workspace::target()?
            .join(guests::TARGET)
            .join("plugin")
            .join("guest_swallow_tenth.wasm"),
    )
}
