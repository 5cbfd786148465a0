//! What Informant costs, measured on a release build.

use std::process::ExitCode;

use anyhow::Result;

use crate::{cargo, guests, peers, report, workspace};

/// What is measured; passed on to the benchmark.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measures Informant alone, not client-go (which needs Go) and kube-rs beside it.
    #[arg(long)]
    without_peers: bool,
    /// Measures the crates instead, as a Rust program uses them: a store under 40 threads that read it, and 100 native
    /// handlers on one informer.
    #[arg(long, conflicts_with = "without_peers")]
    library: bool,
    /// Passed on (`--objects N,N --events N --rounds N --sync list,watch-list --tls --swaps N --report FILE …`;
    /// `--help` lists all).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds Informant with optimization and measures it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.library {
        return library();
    }
    report::step("building the plugins and a release of informant");
    guests::add_target()?;
    guests::build_packages(&["crash-loop".to_owned(), "guest-measured".to_owned()])?;
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--release", "--package", "informant"]))?;
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--workspace", "--bins"]))?;
    let target = workspace::target()?;
    let mut command = std::process::Command::new(target.join("debug").join("bench"));
    if !args.without_peers {
        for (name, program) in peers::build()? {
            command.arg("--program").arg(format!("{name}={}", program.display()));
        }
    }
    command
        .args(&args.rest)
        .env("INFORMANT_BINARY", target.join("release").join("informant"));
    let status = cargo::status(&mut command)?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// What the examples of the crates measure. Each says by its exit code whether what is promised is kept.
fn library() -> Result<ExitCode> {
    let mut is_kept = true;
    for (package, example) in [
        ("informant-cache", "store_under_readers"),
        ("informant-informer", "many_handlers"),
    ] {
        report::step(&format!("{example}, with optimization"));
        let run = [
            "run",
            "--locked",
            "--release",
            "--package",
            package,
            "--example",
            example,
        ];
        is_kept &= cargo::status(cargo::cargo()?.args(run))?.success();
    }
    Ok(if is_kept { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
