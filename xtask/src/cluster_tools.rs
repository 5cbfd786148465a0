//! Builds kube-apiserver, kubectl and etcd from `tests/go.mod`, without downloading binaries.

use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo, workspace};

/// The version in `tests/go.mod`, which the binaries report.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// Builds the tools into `target/cluster-tools`. Go caches the build.
pub(crate) fn build() -> Result<()> {
    let folder = workspace::target()?.join("cluster-tools");
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let mut command = Command::new("go");
    command.current_dir(workspace::root()?.join("tests"));
    command
        .args(["build", "-mod=readonly", "-ldflags", &linker_flags(), "-o"])
        .arg(&folder)
        .arg("tool");
    // Modules are checked against go.sum, and no other toolchain is fetched.
    command.env("GOTOOLCHAIN", "local");
    cargo::run(&mut command)?;
    // The package of etcd is named `server`.
    std::fs::copy(folder.join("server"), folder.join("etcd")).context("failed to copy etcd")?;
    Ok(())
}

/// Whether Go is installed, which builds the tools.
pub(crate) fn can_build() -> bool {
    cargo::is_there("go", "version")
}

fn linker_flags() -> String {
    let version = "k8s.io/component-base/version";
    let (major, minor) = ("1", "36");
    format!(
        "-s -w -X {version}.gitVersion={KUBERNETES_VERSION} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    )
}
