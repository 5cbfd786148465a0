//! The end-to-end suites on each older kube-apiserver that is supported. On the newest one, of `tests/go.mod`, they are
//! part of the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{cargo, cluster_tools, go_tools, report, workspace};

/// The older minor versions of Kubernetes that are supported, by a patch version of each. Each has a Go module of its
/// own, `tests/kube-apiserver/MINOR`. `docs/guides/upgrade.md` names the first and the last supported one.
const OLDER: [&str; 3] = ["v1.33.13", "v1.34.4", "v1.35.4"];

/// The suites that use a real kube-apiserver, with the features that they need, and that are off by default in one of
/// these versions. Without WatchList, as in 1.33, Informant lists: so it runs in the second suite.
const SUITES: [(&str, &str); 2] = [("conformance", "WatchList=true"), ("end_to_end", "ImageVolume=true")];

/// What of them does not use it, or depends on the newest version, in the names of tests: charts are rendered without
/// one, and versions differ in the columns of `kubectl get`.
const SKIPPED: [&str; 3] = [
    "embedded_api_server",
    "rendered_manifests_are_valid",
    "kubectl_prints_the_columns_of_every_kind",
];

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this minor version, such as 1.33.
    #[arg(long, value_name = "MINOR")]
    only: Option<String>,
    /// Build kube-apiserver, and run nothing.
    #[arg(long)]
    build_only: bool,
    /// Only tests whose name contains this text.
    #[arg(value_name = "TEXT")]
    filter: Option<String>,
}

/// Builds and tests with each version, or the one that is chosen.
pub(crate) fn run(args: &Args) -> Result<()> {
    let chosen = |version: &&&str| args.only.as_deref().is_none_or(|only| minor(version) == only);
    let versions: Vec<_> = OLDER.iter().filter(chosen).collect();
    ensure!(
        !versions.is_empty(),
        "{} is not one of {OLDER:?}; the newest version is that of `cargo xtask test`",
        args.only.as_deref().unwrap_or_default()
    );
    cluster_tools::build()?;
    for version in versions {
        report::step(&format!("kube-apiserver {version}"));
        let tools = build(version)?;
        if !args.build_only {
            test(&tools, args.filter.as_deref())?;
        }
    }
    Ok(())
}

/// All versions and all tests.
pub(crate) fn run_all() -> Result<()> {
    run(&Args {
        only: None,
        build_only: false,
        filter: None,
    })
}

/// Builds kube-apiserver into a folder of its own, next to kubectl and etcd of the newest version.
fn build(version: &str) -> Result<PathBuf> {
    let minor = minor(version);
    let target = std::path::absolute(workspace::target()?)?;
    let folder = target.join(format!("cluster-tools-{minor}"));
    let module = workspace::root()?.join("tests/kube-apiserver").join(minor);
    let flags = cluster_tools::linker_flags(version);
    go_tools::build_module(&module, &["-ldflags", &flags], &folder)?;
    for tool in ["kubectl", "etcd"] {
        cluster_tools::link(&target.join("cluster-tools").join(tool), &folder.join(tool))?;
    }
    Ok(folder)
}

fn test(tools: &Path, filter: Option<&str>) -> Result<()> {
    let mut failed = Vec::new();
    for (suite, features) in SUITES {
        let mut command: Command = cargo::cargo()?;
        command.args(["test", "--locked", "--package", "informant-tests", "--test", suite]);
        command.arg("--").args(filter);
        command.args(SKIPPED.iter().flat_map(|name| ["--skip", name]));
        command.env("INFORMANT_CLUSTER_TOOLS_DIR", tools);
        if !cargo::status(command.env("INFORMANT_FEATURE_GATES", features))?.success() {
            failed.push(suite);
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// `1.33` of `v1.33.13`.
fn minor(version: &str) -> &str {
    let version = version.trim_start_matches('v');
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_has_the_version_of_its_folder() {
        let root = workspace::root().unwrap();
        for version in OLDER {
            let path = root.join("tests/kube-apiserver").join(minor(version)).join("go.mod");
            let module = std::fs::read_to_string(path).unwrap();
            assert!(module.contains(&format!("k8s.io/kubernetes {version} ")), "{version}");
        }
    }

    #[test]
    fn documented_versions_are_the_tested_ones() {
        let page = std::fs::read_to_string(workspace::root().unwrap().join("docs/guides/upgrade.md")).unwrap();
        let newest = minor(cluster_tools::KUBERNETES_VERSION);
        let range = format!("kube-apiserver {} to {newest}.", minor(OLDER[0]));
        assert!(page.contains(&range), "{range}");
    }
}
