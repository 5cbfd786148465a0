//! Builds kube-apiserver, kubectl and etcd from `tests/go.mod`, without downloading binaries.

use anyhow::{Context, Result};

use crate::{go_tools, workspace};

/// The version in `tests/go.mod`, which the binaries report.
const KUBERNETES_VERSION: &str = "v1.36.3";

/// Builds the tools into `target/cluster-tools`. Go caches the build.
pub(crate) fn build() -> Result<()> {
    let folder = workspace::target()?.join("cluster-tools");
    let module = workspace::root()?.join("tests");
    go_tools::build_module(&module, &["-ldflags", &linker_flags()], &folder)?;
    // The package of etcd is named `server`.
    std::fs::copy(folder.join("server"), folder.join("etcd")).context("failed to copy etcd")?;
    Ok(())
}

fn linker_flags() -> String {
    let version = "k8s.io/component-base/version";
    let (major, minor) = ("1", "36");
    format!(
        "-s -w -X {version}.gitVersion={KUBERNETES_VERSION} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    )
}
