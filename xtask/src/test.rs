//! Runs every check, fast ones first.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail, ensure};

use crate::{
    book, browser, c_plugins, cargo, chart, cluster_tools, compat, dashboard, demo, deny, dist, go_plugins, go_tools,
    guests, js_tools, npm, python_runner, report, schema, script_runner, sim, workspace, zig,
};

/// How to run the checks.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Continue after a failed step.
    #[arg(long)]
    keep_going: bool,
    /// Also run the long checks, which CI does not: 200 kills of a durable daemon, 100 kills with example plugins on
    /// kube-apiserver, the end-to-end suites on older kube-apiservers, 10,000 seeds of the simulation and 10,000 more
    /// with shards, fuzzing, the files of a release, the alert rules in promtool, and generated files in git.
    #[arg(long)]
    full: bool,
    /// Run only the steps whose name contains this text, with what earlier runs have built.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

impl Args {
    fn wants(&self, step: &Step) -> bool {
        self.only.as_deref().is_none_or(|only| step.what.contains(only))
    }
}

/// One check.
struct Step {
    what: &'static str,
    /// Why the step cannot run, if a tool is missing.
    missing: fn() -> Option<&'static str>,
    run: fn(&Args) -> Result<()>,
}

const STEPS: &[Step] = &[
    Step {
        what: "format",
        missing: no_rustfmt,
        run: |_| format(),
    },
    Step {
        what: "dependencies (cargo-deny)",
        missing: none,
        run: |_| deny::check(),
    },
    Step {
        what: "kube-apiserver, kubectl and etcd",
        missing: no_go,
        run: |_| cluster_tools::build(),
    },
    Step {
        what: "helm and kubeconform",
        missing: no_go,
        run: |_| chart_tools(),
    },
    Step {
        what: "plugins and test guests",
        missing: none,
        run: |_| guests::build(),
    },
    Step {
        what: "script runner",
        missing: zig::missing,
        run: |_| script_runner::build(),
    },
    Step {
        what: "Python SDK and its script runner",
        missing: python_runner::missing,
        run: |_| python_runner::build_and_test(),
    },
    Step {
        what: "plugins in C",
        missing: zig::missing,
        run: |_| c_plugins::build(),
    },
    Step {
        what: "plugins in Go",
        missing: go_plugins::missing,
        run: |_| go_plugins::build(),
    },
    Step {
        what: "esbuild, TypeScript, and the JavaScript test kit",
        missing: npm::missing,
        run: |_| js_tools::install_and_test(),
    },
    Step {
        what: "dashboard",
        missing: npm::missing,
        run: |_| dashboard::build().map(drop),
    },
    Step {
        what: "browser",
        missing: browser::missing,
        run: |_| browser::install_if_missing(),
    },
    Step {
        what: "build",
        missing: none,
        run: |_| build(),
    },
    Step {
        what: "manifests rendered from the chart",
        missing: no_go,
        run: |_| chart::check(),
    },
    Step {
        what: "book, and its links",
        missing: none,
        run: |_| book::check(),
    },
    Step {
        what: "tests",
        missing: none,
        run: tests,
    },
    Step {
        what: "wake-ups between threads, under loom",
        missing: none,
        run: wake_ups,
    },
    Step {
        what: "demo",
        missing: none,
        run: |_| demo_succeeds(),
    },
    Step {
        what: "demo with a truncated handler (must fail)",
        missing: none,
        run: |_| demo_fails_when_truncated(),
    },
    Step {
        what: "demo with a handler that loses events (must fail)",
        missing: none,
        run: |_| demo_fails_when_losing_events(),
    },
    Step {
        what: "clippy",
        missing: no_clippy,
        run: |_| clippy(),
    },
    Step {
        what: "documentation",
        missing: none,
        run: |_| documentation(),
    },
];

/// The steps of `--full` that its tests need, before the others.
const FULL_BUILDS: &[Step] = &[Step {
    what: "promtool",
    missing: no_go,
    run: |_| go_tools::build("promtool").map(drop),
}];

/// The steps of `--full`, after the others.
const FULL_STEPS: &[Step] = &[
    Step {
        what: "schema of Kubernetes' protocol buffers",
        missing: no_go,
        run: |_| schema::check(),
    },
    Step {
        what: "end-to-end suites on older kube-apiservers",
        missing: no_go,
        run: |_| compat::run_all(),
    },
    Step {
        what: "simulation of 10,000 seeds",
        missing: none,
        run: |_| long_simulation(&[]),
    },
    Step {
        what: "simulation of 10,000 seeds with shards",
        missing: none,
        run: |_| long_simulation(&["--shards"]),
    },
    Step {
        what: "fuzzing, 30 s for each target",
        missing: none,
        run: |_| fuzz(),
    },
    Step {
        what: "files of a release, from two checkouts",
        missing: dist::missing,
        run: |_| dist::check::files(),
    },
    Step {
        what: "demo from the image of the release",
        missing: dist::check::cannot_start_image,
        run: |_| dist::check::image(),
    },
];

/// Runs the steps. With CI=true a skipped step is an error.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let (mut failed, mut skipped, mut passed) = (Vec::new(), Vec::new(), 0_u32);
    let (builds, full) = if args.full {
        (FULL_BUILDS, FULL_STEPS)
    } else {
        Default::default()
    };
    let steps: Vec<&Step> = builds
        .iter()
        .chain(STEPS)
        .chain(full)
        .filter(|step| args.wants(step))
        .collect();
    ensure!(
        !steps.is_empty(),
        "no step has {:?} in its name; the steps of --full are found only with it",
        args.only.as_deref().unwrap_or_default()
    );
    for step in steps {
        report::step(step.what);
        if let Some(why) = (step.missing)() {
            report::skipped(step.what, why);
            skipped.push(step.what);
            continue;
        }
        let begin = Instant::now();
        match (step.run)(args) {
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
        "{} steps failed: {}",
        failed.len(),
        failed.join(", ")
    );
    if in_ci && !skipped.is_empty() {
        bail!(
            "steps were skipped, which CI=true does not allow: {}; install the missing tools",
            skipped.join(", ")
        );
    }
    report::step(&format!("{passed} steps passed, {} skipped", skipped.len()));
    Ok(ExitCode::SUCCESS)
}

fn none() -> Option<&'static str> {
    None
}

fn no_go() -> Option<&'static str> {
    (!go_tools::can_build()).then_some("Go is not installed; it builds the real kube-apiserver for the tests")
}

fn no_rustfmt() -> Option<&'static str> {
    (!cargo::is_there("cargo-fmt", "--version")).then_some("rustfmt is not installed (rustup component add rustfmt)")
}

fn no_clippy() -> Option<&'static str> {
    (!cargo::is_there("cargo-clippy", "--version")).then_some("clippy is not installed (rustup component add clippy)")
}

fn chart_tools() -> Result<()> {
    go_tools::build("helm")?;
    go_tools::build("kubeconform").map(drop)
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
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--workspace", "--all-targets"]))?;
    match python_runner::missing() {
        Some(_) => Ok(()),
        None => python_runner::compile(),
    }
}

fn long_simulation(more: &[&str]) -> Result<()> {
    let seeds = sim::Args::of(&[&["--seeds", "10000"], more].concat());
    ensure!(
        sim::run(&seeds)? == ExitCode::SUCCESS,
        "the simulation found violations"
    );
    Ok(())
}

/// Seconds for each fuzz target. Those of one crate run side by side.
const FUZZ_SECONDS: &str = "30";

/// Generates inputs for the fuzz targets for a fixed time. Their tests are called `fuzz` or are in `payloads`.
fn fuzz() -> Result<()> {
    for (tests, name) in [
        (["--package", "informant-plugin-host", "--lib"], "fuzz::"),
        (["--package", "informant-object", "--tests"], "payloads::"),
    ] {
        let mut command = cargo::cargo()?;
        command.arg("test").arg("--locked").args(tests).arg(name);
        cargo::run(command.env("INFORMANT_FUZZ_SECONDS", FUZZ_SECONDS))?;
    }
    Ok(())
}

/// All tests. Without Go, zig, Python or npm, the tests that need them are skipped and report that.
fn tests(args: &Args) -> Result<()> {
    let mut command = cargo::cargo()?;
    command.args(["test", "--locked", "--workspace", "--no-fail-fast"]);
    if args.full {
        command.env("INFORMANT_TESTS_FULL", "1");
    }
    if no_go().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_CLUSTER", "1");
    }
    if go_plugins::missing().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_GO", "1");
    }
    if zig::missing().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_SCRIPTS", "1");
    }
    if python_runner::missing().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_PYTHON", "1");
    }
    if npm::missing().is_some() {
        command.env("INFORMANT_TESTS_WITHOUT_JAVASCRIPT", "1");
    }
    if !browser::is_there() {
        command.env("INFORMANT_TESTS_WITHOUT_BROWSER", "1");
    }
    cargo::run(&mut command)
}

/// A crate outside the workspace: loom would turn on features of crates that the program uses.
fn wake_ups(_: &Args) -> Result<()> {
    let manifest = workspace::root()?.join("tests").join("wake-ups").join("Cargo.toml");
    let mut command = cargo::cargo()?;
    command.args(["test", "--locked", "--manifest-path"]).arg(manifest);
    cargo::run(command.arg("--target-dir").arg(workspace::target()?.join("wake-ups")))
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

/// The exit code of the demo if a step failed, as opposed to a demo that could not run.
const STEP_FAILED: i32 = 3;

fn demo_with(handler: Option<&Path>) -> Result<Option<i32>> {
    let mut command = demo::program()?;
    command.arg("--once");
    match handler {
        Some(handler) => command.arg("--handler").arg(handler),
        None => command.arg("--check-picture"),
    };
    Ok(cargo::status(&mut command)?.code())
}

fn demo_succeeds() -> Result<()> {
    let code = demo_with(None)?;
    ensure!(code == Some(0), "the demo exited with {code:?}");
    Ok(())
}

/// Checks that the demo detects the error in `handler`.
fn demo_fails_with(handler: &Path) -> Result<()> {
    ensure!(handler.is_file(), "{} was not built", handler.display());
    let code = demo_with(Some(handler))?;
    ensure!(
        code == Some(STEP_FAILED),
        "the demo exited with {code:?} instead of {STEP_FAILED}, with {}",
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

fn demo_fails_when_losing_events() -> Result<()> {
    demo_fails_with(
        &workspace::target()?
            .join(guests::TARGET)
            .join("plugin")
            .join("guest_swallow_tenth.wasm"),
    )
}
