//! Benchmarks of a release build.

use std::process::ExitCode;

use anyhow::Result;

use crate::{base, cargo, guests, peers, report, workspace};

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Measure only Informant, without client-go (which requires Go) and kube-rs.
    #[arg(long)]
    without_peers: bool,
    /// Measure the crates as a library instead: a store with 40 reader threads, and 100 native handlers on one
    /// informer.
    #[arg(long, conflicts_with = "without_peers")]
    library: bool,
    /// Compare with the release build of an earlier commit, instead of with other programs: five rounds, one after the
    /// other on the same pods. Fails if CPU per object or per event grew by more than 5 %.
    #[arg(long, value_name = "COMMIT", conflicts_with = "library")]
    against: Option<String>,
    /// Arguments for the benchmark (`--objects N,N --events N --rounds N --sync list,watch-list --tls --swaps N
    /// --report FILE …`; `-- --help` lists all).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds a release of Informant and measures it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.library {
        return library();
    }
    report::step("building the plugins and a release build of informant");
    guests::add_target()?;
    guests::build_packages(&["crash-loop".to_owned(), "guest-measured".to_owned()])?;
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--release", "--package", "informant"]))?;
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--workspace", "--bins"]))?;
    let target = workspace::target()?;
    let mut command = std::process::Command::new(target.join("debug").join("bench"));
    if let Some(commit) = &args.against {
        command.arg("--against").arg(base::build(commit)?);
        // Given again, an option of the same name overrides these.
        command.args(["--rounds", "5", "--sync", "list", "--swaps", "0"]);
    } else if !args.without_peers {
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

/// Runs the examples that measure the crates. Each exits with an error if it misses its limits.
fn library() -> Result<ExitCode> {
    let mut within_limits = true;
    for (package, example) in [
        ("informant-cache", "store_under_readers"),
        ("informant-informer", "many_handlers"),
    ] {
        report::step(&format!("{example} (release build)"));
        let run = [
            "run",
            "--locked",
            "--release",
            "--package",
            package,
            "--example",
            example,
        ];
        within_limits &= cargo::status(cargo::cargo()?.args(run))?.success();
    }
    Ok(if within_limits {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
