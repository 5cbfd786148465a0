//! Builds kube-apiserver, kubectl and etcd from `tests/go.mod`, without downloading binaries.

use std::path::Path;

use anyhow::{Context, Result};

use crate::{go_tools, workspace};

/// The version in `tests/go.mod`, which the binaries report.
pub(crate) const KUBERNETES_VERSION: &str = "v1.36.3";

/// Builds the tools into `target/cluster-tools`. Go caches the build.
pub(crate) fn build() -> Result<()> {
    let folder = workspace::target()?.join("cluster-tools");
    let module = workspace::root()?.join("tests");
    go_tools::build_module(&module, &["-ldflags", &linker_flags(KUBERNETES_VERSION)], &folder)?;
    // The package of etcd is named `server`.
    link(&folder.join("server"), &folder.join("etcd"))
}

/// Lets `to` be the program `from`, also while the one that it was runs.
pub(crate) fn link(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_file(to).with_context(|| format!("failed to remove {}", to.display()))?;
    }
    std::fs::hard_link(from, to).with_context(|| format!("failed to link {} to {}", from.display(), to.display()))
}

/// What makes a program of Kubernetes report `version`.
pub(crate) fn linker_flags(version: &str) -> String {
    let package = "k8s.io/component-base/version";
    let mut numbers = version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    format!("-s -w -X {package}.gitVersion={version} -X {package}.gitMajor={major} -X {package}.gitMinor={minor}")
}
