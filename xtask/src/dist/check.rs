//! Checks a release as `cargo xtask test --full` does.
//!
//! Proven: two checkouts in different folders, each compiled from scratch with a target folder of its own, give equal
//! files on this machine for its architecture; the other architecture builds; and the program runs the demo from the
//! unpacked image as another user, with a read-only root. Not proven: that another machine gives these files.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Args, Target, build, ensure_committed, git, packer};
use crate::{cargo, demo, report, workspace, zig};

/// The address that the checked files name.
const SOURCE: &str = "https://example.com/informant";

/// Builds the files from two checkouts and compares them, then those for the other architecture.
pub(crate) fn files() -> Result<()> {
    ensure_committed()?;
    let folder = folder()?;
    // Without what an earlier build left, which the second checkout does not have either.
    empty(&build::folder()?)?;
    empty(&folder)?;
    let base = folder.join("base");
    cargo::run(packer()?.arg("test-base").arg(&base))?;
    let args = |target, name: &str| Args {
        targets: vec![target],
        base: Some(base.clone()),
        source: Some(SOURCE.to_owned()),
        out: Some(folder.join(name)),
        tag: None,
    };
    let here = here();
    super::run(&args(here, "first"))?;
    in_second_checkout(&folder.join("checkout"), &args(here, "second"))?;
    let mut compare = Command::new("diff");
    compare
        .arg("--recursive")
        .arg(folder.join("first"))
        .arg(folder.join("second"));
    cargo::run(&mut compare).context("two builds of the same commit differ")?;
    for other in Target::ALL.into_iter().filter(|target| *target != here) {
        super::run(&args(other, "other"))?;
    }
    Ok(())
}

/// Why an unpacked image cannot be built or started here.
pub(crate) fn cannot_start_image() -> Option<&'static str> {
    // What the script of `informant-dist unpack` does first.
    let may_mount = Command::new("unshare").args(["--mount", "true"]).output();
    let may_mount = may_mount.is_ok_and(|output| output.status.success());
    zig::missing().or((!may_mount)
        .then_some("this user may not mount (`unshare --mount`): only root may change the root folder of a process"))
}

/// Runs the demo with the program in the image of [`files`].
pub(crate) fn image() -> Result<()> {
    let folder = folder()?;
    let (root, image) = (folder.join("root"), folder.join("first").join("image"));
    ensure!(image.is_dir(), "the image of the release was not built");
    empty(&root)?;
    // What the demo writes, and Informant reads.
    let shared = std::path::absolute(workspace::target()?.join("demo"))?;
    let temporary = shared.join("tmp");
    std::fs::create_dir_all(&temporary).with_context(|| format!("failed to create {}", temporary.display()))?;
    let mut unpack = packer()?;
    unpack.arg("unpack").arg(image).arg(&root);
    cargo::run(unpack.arg("--share").arg(&shared))?;
    demo::build_programs()?;
    let mut demo = Command::new(workspace::target()?.join("debug").join("demo"));
    demo.arg("--once").env("TMPDIR", &temporary);
    // The program has another current folder.
    demo.env("CARGO_TARGET_DIR", std::path::absolute(workspace::target()?)?);
    cargo::run(demo.env("INFORMANT_BINARY", root.with_extension("start")))
}

/// Runs `cargo xtask dist` in a clone.
fn in_second_checkout(checkout: &Path, args: &Args) -> Result<()> {
    report::step(&format!("a second checkout in {}", checkout.display()));
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet"]).arg(workspace::root()?).arg(checkout);
    cargo::run(&mut clone)?;
    let mut commit = Command::new("git");
    commit
        .current_dir(checkout)
        .args(["checkout", "--quiet", "--detach", &git(&["rev-parse", "HEAD"])?]);
    cargo::run(&mut commit)?;
    // Only the tools are shared.
    let target = checkout.join("target");
    std::fs::create_dir_all(&target)?;
    symlink(
        std::path::absolute(workspace::target()?.join("tools"))?,
        target.join("tools"),
    )?;
    let mut command = cargo::cargo()?;
    command.current_dir(checkout).env("CARGO_TARGET_DIR", &target);
    command.env_remove("INFORMANT_EMBED_SCRIPT_RUNNER");
    command.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "xtask",
        "--",
        "dist",
        "--source",
        SOURCE,
    ]);
    for target in &args.targets {
        command.args(["--target", target.name()]);
    }
    for (option, folder) in [("--base", &args.base), ("--out", &args.out)] {
        command.arg(option).args(folder);
    }
    cargo::run(&mut command)?;
    std::fs::remove_dir_all(checkout).with_context(|| format!("failed to remove {}", checkout.display()))
}

/// Removes a folder, if it is there.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("failed to empty {}", folder.display()))?;
    }
    Ok(())
}

fn here() -> Target {
    match cfg!(target_arch = "aarch64") {
        true => Target::Arm64,
        false => Target::Amd64,
    }
}

fn folder() -> Result<PathBuf> {
    Ok(std::path::absolute(workspace::target()?.join("dist-check"))?)
}
