//! What is started to have one handler, or ten.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio::process::Command;

use super::running::{Kind, Running};
use crate::bench::Args;
use crate::bench::rig::Rig;
use crate::bench::subject::Program;
use crate::daemon::Daemon;
use crate::guests;
use crate::process::Process;

/// What a handler reads of a pod. Only the same is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reads {
    /// An annotation, the node, the phase, and the containers' restarts.
    Fields,
    /// Only the annotation: metadata is enough.
    Metadata,
}

/// One way to run handlers.
pub(super) struct Setup {
    pub(super) name: String,
    pub(super) reads: Reads,
    how: How,
}

enum How {
    Informant,
    /// A process for each handler.
    Processes(Vec<String>),
    Kopf {
        packages: PathBuf,
        is_tuned: bool,
    },
    ShellOperator {
        program: String,
        is_tuned: bool,
    },
}

/// All that are measured: those whose programs `args` name, and Informant.
pub(super) fn all(args: &Args) -> Result<Vec<Setup>> {
    let mut all = vec![setup("Informant", Reads::Fields, How::Informant)];
    for text in &args.programs {
        let Program::Other { name, command } = Program::parse(text)? else {
            continue;
        };
        match name.as_str() {
            "client-go" => all.extend(client_go(&command, args.tuned)),
            "shell-operator" => all.extend(tunings(args.tuned).map(|is_tuned| {
                let program = command.join(" ");
                setup(
                    &named("shell-operator", is_tuned),
                    Reads::Fields,
                    How::ShellOperator { program, is_tuned },
                )
            })),
            _ => all.push(setup(&name, Reads::Fields, How::Processes(command))),
        }
    }
    if let Some(packages) = &args.kopf {
        all.extend(tunings(args.tuned).map(|is_tuned| {
            let packages = packages.clone();
            setup(
                &named("Kopf", is_tuned),
                Reads::Fields,
                How::Kopf { packages, is_tuned },
            )
        }));
    }
    if args.tuned {
        all.push(setup("Informant, metadata only", Reads::Metadata, How::Informant));
    }
    // Those that read the same stand together; the sort keeps the order otherwise.
    all.sort_by_key(|setup| (setup.reads, !setup.name.starts_with("Informant")));
    Ok(all)
}

fn setup(name: &str, reads: Reads, how: How) -> Setup {
    Setup {
        name: name.to_owned(),
        reads,
        how,
    }
}

fn named(name: &str, is_tuned: bool) -> String {
    format!("{name}{}", if is_tuned { ", tuned" } else { "" })
}

fn tunings(with_tuned: bool) -> impl Iterator<Item = bool> {
    [false, true]
        .into_iter()
        .filter(move |is_tuned| with_tuned || !is_tuned)
}

fn client_go(command: &[String], with_tuned: bool) -> Vec<Setup> {
    let with = |option: &str| How::Processes([command, &[option.to_owned()]].concat());
    let mut all = vec![setup("client-go", Reads::Fields, How::Processes(command.to_vec()))];
    if with_tuned {
        all.push(setup(
            "client-go without managedFields",
            Reads::Fields,
            with("--drop-managed-fields"),
        ));
        all.push(setup(
            "client-go, metadata only",
            Reads::Metadata,
            with("--metadata-only"),
        ));
    }
    all
}

impl Setup {
    /// Whether it is compared with a bound, so that it has to be measured.
    pub(super) fn has_bounds(&self) -> bool {
        ["Informant", "client-go"].contains(&self.name.as_str())
    }

    /// Starts it with this number of handlers.
    pub(super) async fn start(&self, rig: &Rig, handlers: u32) -> Result<Running> {
        let (under, kubeconfig) = (rig.cores.subject(), rig.cluster.kubeconfig());
        let folder = rig.cluster.folder().join("handlers");
        tokio::fs::create_dir_all(&folder).await?;
        let kind = match &self.how {
            How::Informant => {
                let config = config(self.reads, &guests::component("guest-measured")?, handlers);
                Kind::Informant(Box::new(
                    Daemon::start_under(&under, &folder, &kubeconfig, &config).await?,
                ))
            }
            How::Processes(command) => {
                let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
                let arguments = || command[1..].iter().chain([&kubeconfig]);
                let start = |_| Process::start_under(&under, Path::new(&command[0]), arguments());
                Kind::Processes((0..handlers).map(start).collect::<Result<_>>()?)
            }
            How::Kopf { packages, is_tuned } => {
                let mut command = kopf(&under, handlers, *is_tuned)?;
                command.env("KUBECONFIG", kubeconfig).env("PYTHONPATH", packages);
                Kind::Processes(vec![Process::start_command(command)?])
            }
            How::ShellOperator { program, is_tuned } => {
                let (hooks, calls) = hooks(&folder, handlers).await?;
                let mut command = words(&under, &[program, "start"])?;
                command.args(["--listen-address=127.0.0.1", "--listen-port=0", "--log-level=error"]);
                command.arg(format!("--kube-config={}", kubeconfig.display()));
                command.arg(format!("--hooks-dir={}", hooks.display()));
                command.arg(format!("--tmp-dir={}", folder.join("tmp").display()));
                let binding = if *is_tuned { "tuned.yaml" } else { "default.yaml" };
                command
                    .env("BINDING", peers().join("shell-operator").join(binding))
                    .env("CALLS", &calls);
                let process = Box::new(Process::start_command(command)?);
                Kind::Hooks { process, calls }
            }
        };
        Ok(Running { handlers, kind })
    }
}

/// One informer, and a plugin for each handler.
fn config(reads: Reads, component: &Path, handlers: u32) -> String {
    let informer = match reads {
        Reads::Fields => "\n[informer.pods.index]\nnode = \"/spec/nodeName\"\n",
        Reads::Metadata => "metadata-only = true\n",
    };
    let plugins = (1..=handlers).map(|number| {
        format!(
            "\n[plugin.measured-{number}]\ncomponent = {component:?}\ninformers = [\"pods\"]\nconfig = {{ first = true }}\n"
        )
    });
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n{informer}{}",
        plugins.collect::<String>()
    )
}

fn kopf(under: &[String], handlers: u32, is_tuned: bool) -> Result<Command> {
    let mut command = words(under, &["python3", "-m", "kopf", "run", "--all-namespaces"])?;
    if is_tuned {
        command.args(["--standalone", "--quiet"]).env("TUNED", "yes");
    }
    command.env("HANDLERS", handlers.to_string());
    command.arg(peers().join("kopf").join("pods.py"));
    Ok(command)
}

/// The folder with a hook for each handler, and the empty file to which they write their calls.
async fn hooks(folder: &Path, handlers: u32) -> Result<(PathBuf, PathBuf)> {
    let (hooks, calls) = (folder.join("hooks"), folder.join("calls"));
    for folder in [&hooks, &folder.join("tmp")] {
        if folder.exists() {
            tokio::fs::remove_dir_all(folder).await?;
        }
        tokio::fs::create_dir_all(folder).await?;
    }
    for number in 1..=handlers {
        let hook = hooks.join(format!("hook-{number}.sh"));
        tokio::fs::copy(peers().join("shell-operator").join("hook.sh"), hook).await?;
    }
    tokio::fs::write(&calls, "").await?;
    Ok((hooks, calls))
}

fn peers() -> PathBuf {
    guests::workspace_folder().join("tests").join("peers")
}

/// A command that `under` starts.
fn words(under: &[String], command: &[&str]) -> Result<Command> {
    let mut words = under.iter().map(String::as_str).chain(command.iter().copied());
    let mut command = Command::new(words.next().context("a program")?);
    command.args(words);
    Ok(command)
}
