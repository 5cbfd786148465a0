//! Renders `deploy/informant.yaml`, `deploy/kustomize/` and the generated files of `deploy/example/` from the chart.
//!
//! ```text
//! deploy/example/config.toml ──informant rbac──▶ deploy/example/{values,rbac}.yaml ─┐
//! deploy/chart ────────────────────────────────────────────────────────────────────┴─helm template─┐
//!                                                            deploy/informant.yaml, deploy/kustomize/ ◀┘
//! ```
//!
//! It also writes the address of the book, `homepage` in Cargo.toml, into the alerts, which link to runbooks.
//!
//! The results are committed. CI runs this with `--check`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use crate::{cargo, go_tools, report, workspace};

/// How to render.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing, and fail if a committed file is not current. Does not build informant.
    #[arg(long)]
    check: bool,
}

/// The release that is rendered, and its namespace.
const NAME: &str = "informant";

const KUBERNETES_VERSION: &str = "1.36";

/// The templates of the plain manifests, in the order in which they are applied. `rbac.yaml` and `configmap.yaml` are
/// not part of the base of kustomize: they depend on the configuration.
const TEMPLATES: [&str; 9] = [
    "serviceaccount.yaml",
    "rbac.yaml",
    "lease.yaml",
    "configmap.yaml",
    "networkpolicy.yaml",
    "service.yaml",
    "poddisruptionbudget.yaml",
    "statefulset.yaml",
    "access-roles.yaml",
];

/// What `informant rbac` or kustomize make instead of these templates.
const OF_CONFIGURATION: [&str; 3] = ["serviceaccount.yaml", "rbac.yaml", "configmap.yaml"];

/// The files that link to runbooks, from `deploy/`.
const ALERTS: [&str; 2] = ["chart/files/alerts.yaml", "../tests/alerts/alerts.test.yaml"];

/// Where the book has the runbooks.
const RUNBOOKS: &str = "/runbooks/";

const PLAIN_HEADER: &str = "\
# Informant in a cluster, with one handler written in JavaScript: kubectl apply -f deploy/informant.yaml
#
# Set the image (below) to the one you built with deploy/Containerfile. `cargo xtask chart` rendered this file from
# deploy/chart and deploy/example. For a configuration of your own, use the chart or deploy/kustomize:
# docs/guides/install.md.
";

const NAMESPACE: &str = "\
apiVersion: v1
kind: Namespace
metadata:
  name: informant
  labels:
    pod-security.kubernetes.io/enforce: restricted
";

const KUSTOMIZATION: &str = "\
# Informant without a configuration and its permissions: deploy/example adds them. `cargo xtask chart` rendered these
# files from deploy/chart.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
";

/// The chart is released together with the program.
fn check_versions() -> Result<()> {
    let file = workspace::root()?.join("deploy").join("chart").join("Chart.yaml");
    let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
    let version = env!("CARGO_PKG_VERSION");
    for line in [format!("version: {version}"), format!("appVersion: {version}")] {
        ensure!(
            text.lines().any(|present| present == line),
            "{} lacks `{line}`: it has the version in Cargo.toml",
            file.display()
        );
    }
    Ok(())
}

/// Renders everything.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    report::step("building helm");
    let helm = go_tools::build("helm")?;
    check_versions()?;
    if !args.check {
        report::step("building informant");
        cargo::run(cargo::cargo()?.args(["build", "--locked", "--package", "informant"]))?;
    }
    let deploy = workspace::root()?.join("deploy");
    let handle = if args.check { compare } else { write };
    // helm reads what these write.
    handle(&deploy, &from_configuration(&deploy.join("example"))?)?;
    handle(&deploy, &with_runbooks(&deploy)?)?;
    let templates = render(&helm, &deploy)?;
    let mut files = kustomize_base(&templates)?;
    files.insert(PathBuf::from("informant.yaml"), plain(&templates)?);
    handle(&deploy, &files)?;
    Ok(ExitCode::SUCCESS)
}

/// Fails unless what is committed is current.
pub(crate) fn check() -> Result<()> {
    run(&Args { check: true }).map(|_| ())
}

/// Files below `deploy/`, with their texts.
type Files = BTreeMap<PathBuf, String>;

fn write(deploy: &Path, files: &Files) -> Result<()> {
    for (path, text) in files {
        let path = deploy.join(path);
        std::fs::write(&path, text).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

fn compare(deploy: &Path, files: &Files) -> Result<()> {
    for (path, text) in files {
        let path = deploy.join(path);
        let found = std::fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
        ensure!(
            found == *text,
            "{} is not current: run `cargo xtask chart`",
            path.display()
        );
    }
    Ok(())
}

/// The alerts and their tests, with the address at which the book has the runbooks.
fn with_runbooks(deploy: &Path) -> Result<Files> {
    let mut files = Files::new();
    for path in ALERTS {
        let file = deploy.join(path);
        let text = std::fs::read_to_string(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let mut current = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            match line.split_once("runbook_url: ").zip(line.split_once(RUNBOOKS)) {
                Some(((indent, _), (_, page))) => {
                    let home = env!("CARGO_PKG_HOMEPAGE");
                    current.extend([indent, "runbook_url: ", home, RUNBOOKS, page]);
                }
                None => current.push_str(line),
            }
        }
        files.insert(PathBuf::from(path), current);
    }
    Ok(files)
}

/// What `informant rbac` prints for the example.
fn from_configuration(example: &Path) -> Result<Files> {
    let program = std::path::absolute(workspace::target()?.join("debug").join("informant"))?;
    ensure!(
        program.is_file(),
        "{} does not exist: run `cargo xtask build`",
        program.display()
    );
    let rbac = |format: &str| {
        let mut command = Command::new(&program);
        command.current_dir(example).args(["rbac", "-o", format]);
        output(&mut command)
    };
    Ok(Files::from([
        (PathBuf::from("example/values.yaml"), rbac("helm-values")?),
        (PathBuf::from("example/rbac.yaml"), rbac("yaml")?),
    ]))
}

/// How helm begins a document; the name of the template follows.
const DOCUMENT: &str = "---\n# Source: informant/templates/";

/// The rendered templates by name, without the lines in which helm names each.
fn render(helm: &Path, deploy: &Path) -> Result<BTreeMap<String, String>> {
    let mut command = Command::new(helm);
    // Without a cluster, helm has to know the version of one.
    command.args([
        "template",
        NAME,
        "--namespace",
        NAME,
        "--kube-version",
        KUBERNETES_VERSION,
    ]);
    command.args(["--no-hooks", "--values"]);
    command
        .arg(deploy.join("example").join("values.yaml"))
        .arg(deploy.join("chart"));
    // helm indents empty lines. The hash of the example's sections is not that of what a user writes into these files.
    let rendered: String = output(&mut command)?
        .lines()
        .filter(|line| !line.contains("checksum/"))
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect();
    let mut templates = BTreeMap::<String, String>::new();
    for document in rendered.split(DOCUMENT).filter(|document| !document.is_empty()) {
        let (name, text) = document
            .split_once('\n')
            .context("helm names the template of each document")?;
        let template = templates.entry(name.to_owned()).or_default();
        let separator = if template.is_empty() { "" } else { "---\n" };
        template.push_str(separator);
        template.push_str(text);
    }
    if let Some(name) = templates.keys().find(|name| !TEMPLATES.contains(&name.as_str())) {
        bail!("xtask/src/chart.rs does not list the template {name}");
    }
    Ok(templates)
}

fn template<'t>(templates: &'t BTreeMap<String, String>, name: &str) -> Result<&'t str> {
    let text = templates
        .get(name)
        .with_context(|| format!("helm did not render {name}"))?;
    Ok(text)
}

fn plain(templates: &BTreeMap<String, String>) -> Result<String> {
    let mut text = format!("{PLAIN_HEADER}{NAMESPACE}");
    for name in TEMPLATES {
        text.push_str("---\n");
        text.push_str(template(templates, name)?);
    }
    Ok(text)
}

fn kustomize_base(templates: &BTreeMap<String, String>) -> Result<Files> {
    let folder = Path::new("kustomize");
    let mut kustomization = format!("{KUSTOMIZATION}  - namespace.yaml\n");
    let mut files = Files::from([(folder.join("namespace.yaml"), NAMESPACE.to_owned())]);
    for name in TEMPLATES.into_iter().filter(|name| !OF_CONFIGURATION.contains(name)) {
        writeln!(kustomization, "  - {name}")?;
        files.insert(folder.join(name), template(templates, name)?.to_owned());
    }
    files.insert(folder.join("kustomization.yaml"), kustomization);
    Ok(files)
}

/// Runs a program to its end; returns its stdout.
fn output(command: &mut Command) -> Result<String> {
    let output = command
        .output()
        .with_context(|| format!("failed to start {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
