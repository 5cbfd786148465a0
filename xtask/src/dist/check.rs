//! Checks a release as `cargo xtask test --full` does.
//!
//! Proven: two checkouts in different folders, each compiled from scratch with a target folder of its own, give equal
//! files on this machine for its architecture; the other architecture builds; and the program runs the demo from the
//! unpacked image as another user, with a read-only root. Not proven: that another machine gives these files. Both
//! checkouts get the same Python runner, two builds of which differ: see `docs/contributing/releasing.md`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Args, Target, build, ensure_committed, git, packer};
use crate::{cargo, demo, python_runner, report, workspace};

/// A handler in Python.
const PYTHON_SCRIPT: &str = "from informant import on\n\n\n@on.add(\"v1\", \"Pod\")\ndef handle(pod):\n    pass\n";

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
    let runner = std::path::absolute(python_runner::build()?)?;
    let args = |target, name: &str| Args {
        targets: vec![target],
        base: Some(base.clone()),
        python_runner: Some(runner.clone()),
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
    super::missing().or((!may_mount)
        .then_some("this user may not mount (`unshare --mount`): only root may change the root folder of a process"))
}

/// Runs the demo with the program in the image of [`files`], and a Python script in the other image.
pub(crate) fn image() -> Result<()> {
    // What the demo writes, and Informant reads.
    let shared = std::path::absolute(workspace::target()?.join("demo"))?;
    let temporary = shared.join("tmp");
    std::fs::create_dir_all(&temporary).with_context(|| format!("failed to create {}", temporary.display()))?;
    inspect_python_script(&unpacked("image-python", &shared)?, &shared)?;
    let start = unpacked("image", &shared)?;
    demo::build_programs()?;
    let mut demo = Command::new(workspace::target()?.join("debug").join("demo"));
    demo.arg("--once").env("TMPDIR", &temporary);
    // The program has another current folder.
    demo.env("CARGO_TARGET_DIR", std::path::absolute(workspace::target()?)?);
    cargo::run(demo.env("INFORMANT_BINARY", start))
}

/// Unpacks an image of [`files`], and returns the script that starts its program.
fn unpacked(image: &str, shared: &Path) -> Result<PathBuf> {
    let (root, image) = (folder()?.join("root"), folder()?.join("first").join(image));
    ensure!(image.is_dir(), "{} was not built", image.display());
    empty(&root)?;
    let mut unpack = packer()?;
    unpack.arg("unpack").arg(image).arg(&root);
    cargo::run(unpack.arg("--share").arg(shared))?;
    Ok(root.with_extension("start"))
}

/// Checks that a Python script runs, with the native code in the image.
fn inspect_python_script(start: &Path, shared: &Path) -> Result<()> {
    let script = shared.join("handler.py");
    std::fs::write(&script, PYTHON_SCRIPT).with_context(|| format!("failed to write {}", script.display()))?;
    let output = Command::new(start).args(["plugin", "inspect"]).arg(&script).output();
    let output = output.with_context(|| format!("failed to start {}", start.display()))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    // The program warns of native code that it cannot use.
    ensure!(
        output.status.success() && !stderr.contains("precompiled"),
        "the image with Python does not run {} with its native code: {stderr}",
        script.display()
    );
    Ok(())
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
    command.env_remove("INFORMANT_EMBED_DASHBOARD");
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
    let paths = [
        ("--base", &args.base),
        ("--python-runner", &args.python_runner),
        ("--out", &args.out),
    ];
    for (option, path) in paths {
        command.arg(option).args(path);
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
