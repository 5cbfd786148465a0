//! Builds the programs that benchmarks compare with Informant: the same work with client-go, kube-rs and Kopf, from
//! `tests/peers/`. shell-operator is not built: it is measured where it is installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, pip, report, workspace};

const SHELL_OPERATOR: &str = "shell-operator";

/// Builds the programs. Returns their names and paths.
pub(crate) fn build() -> Result<Vec<(&'static str, PathBuf)>> {
    report::step("building the programs for client-go and kube-rs");
    let folder = folder()?;
    Ok(vec![("client-go", client_go(&folder)?), ("kube-rs", kube_rs(&folder)?)])
}

/// As [`build`], without those whose tools are missing, and with shell-operator if it is installed.
pub(crate) fn build_those_possible() -> Result<Vec<(&'static str, PathBuf)>> {
    let folder = folder()?;
    let mut programs = Vec::new();
    match has_go() {
        true => programs.push(("client-go", client_go(&folder)?)),
        false => report::skipped("client-go", "Go is not installed"),
    }
    programs.push(("kube-rs", kube_rs(&folder)?));
    let needed = [(SHELL_OPERATOR, "version"), ("jq", "--version")];
    match needed
        .iter()
        .find(|(program, argument)| !cargo::is_there(program, argument))
    {
        None => programs.push((SHELL_OPERATOR, SHELL_OPERATOR.into())),
        Some((missing, _)) => report::skipped(SHELL_OPERATOR, &format!("{missing} is not installed")),
    }
    Ok(programs)
}

fn folder() -> Result<PathBuf> {
    let folder = std::path::absolute(workspace::target()?.join("peers"))?;
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    Ok(folder)
}

/// Installs Kopf. Returns the folder of its packages; none without Python.
pub(crate) fn kopf() -> Result<Option<PathBuf>> {
    if !pip::is_there() {
        report::skipped("Kopf", "there is no Python with pip");
        return Ok(None);
    }
    report::step("installing Kopf");
    let folder = std::path::absolute(workspace::target()?.join("peers").join("kopf"))?;
    let requirements = workspace::root()?.join("tests/peers/kopf/requirements.txt");
    pip::install_all(&requirements, &folder)?;
    Ok(Some(folder))
}

fn client_go(folder: &Path) -> Result<PathBuf> {
    ensure!(
        has_go(),
        "Go is not installed; use --without-peers to measure only Informant"
    );
    let program = folder.join("client-go");
    let mut command = Command::new("go");
    command.current_dir(workspace::root()?.join("tests/peers/client-go"));
    command.args(["build", "-mod=readonly", "-o"]).arg(&program).arg(".");
    // Modules are checked against go.sum, and no other toolchain is fetched.
    command.env("GOTOOLCHAIN", "local");
    cargo::run(&mut command)?;
    Ok(program)
}

fn has_go() -> bool {
    cargo::is_there("go", "version")
}

fn kube_rs(folder: &Path) -> Result<PathBuf> {
    let target = folder.join("kube-rs");
    let manifest = workspace::root()?.join("tests/peers/kube-rs/Cargo.toml");
    let mut command = cargo::cargo()?;
    command.args(["build", "--locked", "--release", "--manifest-path"]);
    cargo::run(command.arg(manifest).arg("--target-dir").arg(&target))?;
    Ok(target.join("release").join("peer-kube-rs"))
}
