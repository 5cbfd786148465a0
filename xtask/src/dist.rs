//! Builds the files of a release into `target/dist`.
//!
//! This module builds the programs; the package `informant-dist` packs them. The bytes depend on the commit only: see
//! `docs/contributing/releasing.md`.

mod build;
pub(crate) mod check;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::build::Build;
use crate::{book, c_bindings, cargo, python_runner, report, workspace, zig};

/// What to build.
#[derive(clap::Args, Clone, Default)]
pub(crate) struct Args {
    /// Build only for these targets.
    #[arg(long = "target", value_enum)]
    targets: Vec<Target>,
    /// Base the image on this OCI image layout. Without it, no image is written.
    #[arg(long, value_name = "FOLDER")]
    base: Option<PathBuf>,
    /// Release this runner of Python scripts instead of building one: two builds of it differ.
    #[arg(long, value_name = "FILE")]
    python_runner: Option<PathBuf>,
    /// Check that this tag is the version's, and that CHANGELOG.md has a section for it.
    #[arg(long)]
    tag: Option<String>,
    /// The address of the repository, for the krew manifest, the image's labels and links. Without it, no krew manifest
    /// is written.
    #[arg(long, value_name = "URL")]
    source: Option<String>,
    /// Write into this folder, which is emptied first.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// A system that Informant is released for.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// Linux on x86-64.
    Amd64,
    /// Linux on arm64.
    Arm64,
}

impl Target {
    /// Every target.
    const ALL: [Target; 2] = [Target::Amd64, Target::Arm64];

    /// The name on the command line.
    fn name(self) -> &'static str {
        match self {
            Target::Amd64 => "amd64",
            Target::Arm64 => "arm64",
        }
    }

    /// Rust's name.
    fn triple(self) -> &'static str {
        match self {
            Target::Amd64 => "x86_64-unknown-linux-gnu",
            Target::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// Why a release cannot be built, if a tool is missing.
pub(crate) fn missing() -> Option<&'static str> {
    zig::missing().or_else(python_runner::missing)
}

/// Builds and packs.
pub(crate) fn run(args: &Args) -> Result<()> {
    if let Some(why) = missing() {
        bail!("cannot build a release: {why}");
    }
    if args.tag.is_some() {
        ensure_committed()?;
    }
    let runner = match &args.python_runner {
        Some(file) => file.clone(),
        None => {
            report::step("building the runner of Python scripts");
            python_runner::build()?
        }
    };
    let targets = if args.targets.is_empty() {
        &Target::ALL[..]
    } else {
        &args.targets
    };
    let build = Build::prepare(commit_time()?, targets)?;
    let mut programs = Vec::new();
    for target in targets {
        report::step(&format!("building informant for {}", target.triple()));
        programs.push((target.triple(), build.program(*target)?));
    }
    report::step("generating the bindings of the C SDK");
    c_bindings::generate()?;
    report::step("building the book");
    let book = book::build(&book::Args::linking_to(args.source.as_deref()))?;
    report::step("packing");
    let out = match &args.out {
        Some(folder) => std::path::absolute(folder)?,
        None => std::path::absolute(workspace::target()?.join("dist"))?,
    };
    let mut command = packer()?;
    command.arg("pack").arg("--out").arg(&out);
    command.arg("--repository").arg(workspace::root()?);
    command.arg("--book").arg(book);
    command.args([
        "--version",
        env!("CARGO_PKG_VERSION"),
        "--revision",
        &git(&["rev-parse", "HEAD"])?,
    ]);
    command.args(["--epoch", &build.epoch().to_string()]);
    for (triple, program) in programs {
        command.arg("--program").arg(format!("{triple}={}", program.display()));
    }
    command.arg("--python-runner").arg(std::path::absolute(runner)?);
    for part in python_runner::parts() {
        command.args(["--python-part", &part]);
    }
    for folder in build.private_folders() {
        command.arg("--private").arg(folder);
    }
    match &args.base {
        Some(base) => _ = command.arg("--base").arg(std::path::absolute(base)?),
        None => report::skipped("image", "no --base"),
    }
    match &args.source {
        Some(source) => _ = command.args(["--source", source.trim_end_matches('/')]),
        None => report::skipped("krew manifest", "no --source"),
    }
    if let Some(tag) = &args.tag {
        command.args(["--tag", tag]);
    }
    cargo::run(&mut command)?;
    report::step(&out.display().to_string());
    Ok(())
}

/// The program that packs, without arguments.
fn packer() -> Result<Command> {
    let mut command = cargo::cargo()?;
    command.args(["run", "--locked", "--quiet", "--package", "informant-dist", "--"]);
    Ok(command)
}

/// The time of all files, in seconds since 1970: `SOURCE_DATE_EPOCH`, or that of the commit.
fn commit_time() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => git(&["log", "-1", "--format=%ct"])?,
    };
    text.parse()
        .with_context(|| format!("`{text}` is not a time in seconds since 1970; correct SOURCE_DATE_EPOCH"))
}

/// # Errors
/// If a tracked file differs from the commit, whose name and time the files of a release have.
fn ensure_committed() -> Result<()> {
    let changed = git(&["status", "--porcelain", "--untracked-files=no"])?;
    ensure!(
        changed.is_empty(),
        "a release has what is committed; commit or revert first:\n{changed}"
    );
    Ok(())
}

/// What git answers, in one line.
fn git(args: &[&str]) -> Result<String> {
    let mut command = Command::new("git");
    let output = command.current_dir(workspace::root()?).args(args).output();
    let output = output.context("failed to start git, which knows the commit")?;
    ensure!(
        output.status.success(),
        "`git {}` failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
