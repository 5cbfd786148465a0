//! The command line: what can be said, and where each command is.
//!
//! ```text
//! informant run | check | get | status | apiserver | plugin inspect, list, resume, requeue
//! ```
//!
//! Flags that kubectl has are called as kubectl calls them. Answers go to stdout, everything else to stderr. Exit codes
//! are those of [`Exit`].

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "what help texts put in brackets are sections of config.toml; only rustdoc knows this lint, so nothing can be expected"
)]

mod apiserver;
mod check;
mod client;
mod exit;
mod get;
mod inspect;
mod output;
mod plugin;
mod rbac;
mod run;
mod source_columns;
mod status;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use informant_plugin_host::{Compiler, compile_worker};

pub use exit::Exit;

use crate::cluster::ClusterFlags;
use crate::logging::{self, LogFlags};
use crate::version::LONG_VERSION;

/// Runs Kubernetes informers once, natively, and calls handlers and index functions that are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "informant", version, long_version = LONG_VERSION, max_term_width = 100, subcommand_required = true)]
#[command(after_help = EXIT_CODES)]
pub struct Cli {
    #[command(flatten)]
    log: LogFlags,
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done; for run: stopped by one SIGINT or SIGTERM, in order
  1    failed; for get and plugin requeue: not found
  2    the command line is wrong
  3    the configuration is refused
  4    not ready: for get, the index is not attached, or --at-least not seen in time
  5    for get: not synced, the first list is not in the cache
  130  run was ended at once by a second SIGINT (143: SIGTERM)";

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the informers and plugins of a configuration
    Run(run::RunArgs),
    /// Judges a configuration: the file, its components, and what the cluster says to it
    Check(check::CheckArgs),
    /// Shows objects out of the cache of a running `informant run`
    Get(get::GetArgs),
    /// Shows how a running `informant run` fares: configuration, informers, plugins
    Status(status::StatusArgs),
    /// Prints the least rights in the cluster that a configuration needs, as YAML to apply
    Rbac(rbac::RbacArgs),
    /// Serves the embedded API server, for trying things out without a cluster
    Apiserver(apiserver::ApiserverArgs),
    /// Works on plugins
    Plugin {
        #[command(subcommand)]
        command: PluginCommand,
    },
    /// Compiles one component, from stdin to stdout: what Informant starts itself as
    #[command(name = COMPILE, hide = true)]
    Compile,
}

/// The command that compiles in a process of its own.
const COMPILE: &str = "compile-component";

/// Components are compiled by this program, in a process of their own with little memory and little time.
pub(crate) fn compiler() -> Result<Compiler> {
    Compiler::this_program([COMPILE])
        .context("this program's own file is not known, so that no component can be compiled")
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Shows what a component is: its roles, its imports, its manifest
    Inspect(inspect::InspectArgs),
    /// Shows the plugins of a running `informant run`
    List(plugin::ListArgs),
    /// Ends a plugin's quarantine
    Resume(plugin::ResumeArgs),
    /// Has a plugin told again of what it failed on, or of one object
    Requeue(plugin::RequeueArgs),
}

/// The configuration when none is named.
const CONFIG_DEFAULT: &str = "config.toml";

/// Where the configuration is.
#[derive(Debug, Args)]
struct ConfigFlag {
    /// The configuration
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    config: PathBuf,
}

/// Which cluster; comes before `[cluster]` in the configuration. Of several, [cluster.NAME], those that name no
/// kubeconfig take the flag's.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct ClusterArgs {
    /// The kubeconfig [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: [cluster] in the configuration, the kubeconfig's current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl ClusterArgs {
    fn flags(&self) -> ClusterFlags {
        ClusterFlags {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        }
    }
}

impl Cli {
    /// Does what the command line says.
    #[must_use]
    pub fn run(self) -> ExitCode {
        if let Err(error) = logging::start(&self.log) {
            output::error(&error);
            return Exit::Usage.into();
        }
        let done = match self.command {
            Command::Run(args) => run::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Get(args) => get::run(&args),
            Command::Status(args) => status::run(&args),
            Command::Rbac(args) => rbac::run(&args),
            Command::Apiserver(args) => apiserver::run(&args),
            Command::Plugin { command } => match command {
                PluginCommand::Inspect(args) => inspect::run(&args),
                PluginCommand::List(args) => plugin::list(&args),
                PluginCommand::Resume(args) => plugin::resume(&args),
                PluginCommand::Requeue(args) => plugin::requeue(&args),
            },
            Command::Compile => return compile_worker(),
        };
        done.unwrap_or_else(|error| {
            output::error(&error);
            exit::of(&error)
        })
        .into()
    }
}

#[cfg(test)]
mod tests;
