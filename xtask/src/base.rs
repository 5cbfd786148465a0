//! Builds the release of an earlier commit and its handlers, for comparison.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, guests, report, workspace};

/// The packages of the benchmark's handlers.
const HANDLERS: [&str; 2] = ["guest-measured", "crash-loop"];

/// Builds `informant` of `commit` in a folder of its own and returns the program's path. The sources and the build stay
/// in `target/base`, so that the next comparison with any commit compiles little. Next to the program, in the folder
/// `PROGRAM.handlers`, are the commit's handlers: its plugin contract may be another one.
pub(crate) fn build(commit: &str) -> Result<PathBuf> {
    let root = workspace::root()?;
    let output = Command::new("git")
        .current_dir(&root)
        .args(["rev-parse", "--verify", "--short=12"])
        .arg(format!("{commit}^{{commit}}"))
        .output()
        .context("failed to start git, which checks out the commit to compare with")?;
    ensure!(
        output.status.success(),
        "`{commit}` is not a commit of this repository: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let id = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let folder = std::path::absolute(workspace::target()?.join("base"))?;
    let sources = folder.join(&id);
    let program = folder.join("programs").join(&id);
    let handlers = program.with_extension("handlers");
    if program.is_file() && handlers.is_dir() {
        return Ok(program);
    }
    report::step(&format!("building a release of informant at {id}"));
    if !sources.is_dir() {
        extract(&id, &sources)?;
    }
    let target = folder.join("target");
    let cargo_build = || {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&sources).env("CARGO_TARGET_DIR", &target);
        command.args(["build", "--locked"]);
        command
    };
    cargo::run(cargo_build().args(["--release", "--package", "informant"]))?;
    guests::add_target(guests::TARGET)?;
    let mut components = cargo_build();
    components.args(["--profile", "plugin", "--target", guests::TARGET]);
    cargo::run(components.args(HANDLERS.iter().flat_map(|package| ["--package", package])))?;
    std::fs::create_dir_all(&handlers).with_context(|| format!("failed to create {}", handlers.display()))?;
    for package in HANDLERS {
        let file = format!("{}.wasm", package.replace('-', "_"));
        copy(
            &target.join(guests::TARGET).join("plugin").join(&file),
            &handlers.join(&file),
        )?;
    }
    copy(&target.join("release").join("informant"), &program)?;
    Ok(program)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).with_context(|| format!("failed to copy {}", from.display()))?;
    Ok(())
}

/// Writes the files of a commit to a new folder.
fn extract(id: &str, sources: &Path) -> Result<()> {
    std::fs::create_dir_all(sources).with_context(|| format!("failed to create {}", sources.display()))?;
    let archive = sources.with_extension("tar");
    let mut git = Command::new("git");
    git.current_dir(workspace::root()?);
    cargo::run(git.args(["archive", "--format=tar", "--output"]).arg(&archive).arg(id))?;
    let mut tar = Command::new("tar");
    cargo::run(tar.arg("-xf").arg(&archive).arg("-C").arg(sources))?;
    std::fs::remove_file(&archive).with_context(|| format!("failed to remove {}", archive.display()))
}
