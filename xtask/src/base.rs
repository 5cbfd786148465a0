//! Builds the release of an earlier commit, for comparison.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, report, workspace};

/// Builds `informant` of `commit` in a folder of its own and returns the program's path. The sources and the build stay
/// in `target/base`, so that the next comparison with any commit compiles little.
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
    if program.is_file() {
        return Ok(program);
    }
    report::step(&format!("building a release of informant at {id}"));
    if !sources.is_dir() {
        extract(&id, &sources)?;
    }
    let target = folder.join("target");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(&sources).env("CARGO_TARGET_DIR", &target);
    cargo::run(command.args(["build", "--locked", "--release", "--package", "informant"]))?;
    let programs = folder.join("programs");
    std::fs::create_dir_all(&programs).with_context(|| format!("failed to create {}", programs.display()))?;
    let built = target.join("release").join("informant");
    std::fs::copy(&built, &program).with_context(|| format!("failed to copy {}", built.display()))?;
    Ok(program)
}

/// Writes the files of a commit to a new folder.
fn extract(id: &str, sources: &std::path::Path) -> Result<()> {
    std::fs::create_dir_all(sources).with_context(|| format!("failed to create {}", sources.display()))?;
    let archive = sources.with_extension("tar");
    let mut git = Command::new("git");
    git.current_dir(workspace::root()?);
    cargo::run(git.args(["archive", "--format=tar", "--output"]).arg(&archive).arg(id))?;
    let mut tar = Command::new("tar");
    cargo::run(tar.arg("-xf").arg(&archive).arg("-C").arg(sources))?;
    std::fs::remove_file(&archive).with_context(|| format!("failed to remove {}", archive.display()))
}
