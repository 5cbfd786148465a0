//! The command line: its commands and flags.
//!
//! ```text
//! informant run | dev | check | get | status | top | why | dashboard | replicas | explain | log-level | rbac
//! informant apiserver | completions
//! informant state copy
//! informant plugin new | build | test | compile | inspect | list | effects | logs
//! informant plugin dead-letters | retries | requeue | trigger | capture | pause | resume | restart
//! ```
//!
//! Flags that kubectl has too keep kubectl's names. Results go to stdout, everything else to stderr. Exit codes are
//! those of [`Exit`].

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "brackets in help texts are sections of config.toml; only rustdoc knows this lint, so `expect` cannot be used"
)]

mod apiserver;
mod build;
mod capture;
mod check;
mod client;
mod compile;
mod completions;
mod dashboard;
mod dev;
mod effects;
mod examples;
mod explain;
mod failures;
mod finalizers;
mod get;
mod inspect;
mod kubectl;
mod log_level;
mod new;
mod output;
mod plugin;
mod plugin_logs;
mod rbac;
mod replicas;
mod requeue;
mod run;
mod schema;
mod state;
mod status;
mod table;
mod test;
mod top;
mod why;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use informant_plugin_host::compile_worker;
use tokio::runtime::Runtime;

use crate::LONG_VERSION;
use crate::cluster::ClusterFlags;
pub use crate::exit::Exit;
use crate::guests::COMPILE;
use crate::logging::{self, LogFlags};
use crate::phrase::{count, in_cluster};

/// Run Kubernetes informers natively, and call handlers and index functions written as WebAssembly components or
/// scripts.
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
  0    success; for run: stopped cleanly by one SIGINT or SIGTERM
  1    failure; for get, plugin requeue and plugin trigger: not found
  2    invalid command line
  3    invalid configuration
  4    not ready: for get, the index is not attached, or --at-least was not seen in time
  5    for get: not synced, the first list is not in the cache yet
  6    for run: the stop hung and was ended after 11 s; the log names what hung
  7    partial: replicas that hold some shards did not answer
  130  run was ended immediately by a second SIGINT (143: SIGTERM)";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the informers and plugins of a configuration
    Run(run::RunArgs),
    /// Run a plugin while you write it: rebuild it on save, and show its calls, effects and log
    Dev(dev::DevArgs),
    /// Validate a configuration, its plugins, and the permissions it needs
    Check(check::CheckArgs),
    /// Show objects from the cache of a running `informant run`
    Get(get::GetArgs),
    /// Show the status of a running `informant run`: configuration, informers, plugins
    Status(status::StatusArgs),
    /// Follow what plugins and sources of a running `informant run` do now, like top
    Top(top::TopArgs),
    /// Open the dashboard of a running `informant run` in a browser
    Dashboard(dashboard::DashboardArgs),
    /// Show what plugins did to an object, or what one plugin did, and because of what
    Why(why::WhyArgs),
    /// Show the replicas of a running `informant run` with [ha], and which of them acts
    Replicas(replicas::ReplicasArgs),
    /// Print what to do about a problem, by its code in the log, in `informant status` and in alerts
    Explain(explain::ExplainArgs),
    /// Show or change the log level of a running `informant run`
    LogLevel(log_level::LogLevelArgs),
    /// Print least-privilege RBAC as YAML
    Rbac(rbac::RbacArgs),
    /// Run the embedded API server, to try Informant without a cluster
    Apiserver(apiserver::ApiserverArgs),
    /// Copy what plugins remember
    State {
        #[command(subcommand)]
        command: state::StateCommand,
    },
    /// Inspect and manage plugins
    Plugin {
        #[command(subcommand)]
        command: PluginCommand,
    },
    /// Print a script that completes commands and flags in your shell
    Completions(completions::CompletionsArgs),
    /// Compile one component, from stdin to stdout (Informant starts itself with this command)
    #[command(name = COMPILE, hide = true)]
    Compile,
}

#[derive(Debug, Subcommand)]
enum PluginCommand {
    /// Create a folder with a handler, its test and a configuration to try it
    New(new::NewArgs),
    /// Build a component or a script from the sources of a plugin
    Build(build::BuildArgs),
    /// Run scenarios against a plugin, without a cluster
    Test(test::TestArgs),
    /// Compile a script runner ahead of time, for an image
    Compile(compile::CompileArgs),
    /// Show a component's roles, imports and manifest
    Inspect(inspect::InspectArgs),
    /// Print the JSON schema of a plugin's manifest, or of the context that it receives
    Schema(schema::SchemaArgs),
    /// List the plugins of a running `informant run`
    List(plugin::ListArgs),
    /// List the events on which a plugin failed for good
    DeadLetters(failures::FailuresArgs),
    /// List the objects on which a plugin failed and that it is called for again
    Retries(failures::FailuresArgs),
    /// Show the last log lines of a plugin
    Logs(plugin_logs::LogsArgs),
    /// Pause a plugin: changes wait, merged by object
    Pause(plugin::NameArgs),
    /// End a plugin's pause or quarantine
    Resume(plugin::NameArgs),
    /// Replace a plugin's instances by new ones of the same version
    Restart(plugin::NameArgs),
    /// Redeliver dead-lettered events to a plugin
    Requeue(requeue::RequeueArgs),
    /// Call a plugin's handler for live objects, although nothing changed
    Trigger(requeue::TriggerArgs),
    /// Write the next call for an object, which this asks for, as a scenario
    Capture(capture::CaptureArgs),
    /// List what a plugin in dry run would have done
    Effects(effects::EffectsArgs),
    /// List the objects that have the finalizer of a plugin, or remove it from them
    Finalizers(finalizers::FinalizersArgs),
}

/// The configuration file if `--config` is absent.
const CONFIG_DEFAULT: &str = "config.toml";

/// Selects the configuration file.
#[derive(Debug, Args)]
struct ConfigFlag {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    config: PathBuf,
}

/// Selects the cluster; overrides `[cluster]` in the configuration. With several clusters, `[cluster.NAME]`, the flag
/// applies to those without a kubeconfig.
#[derive(Debug, Args)]
#[command(next_help_heading = "Cluster")]
struct ClusterArgs {
    /// Kubeconfig file [default: [cluster] in the configuration, $KUBECONFIG, ~/.kube/config, the pod's service
    /// account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Kubeconfig context [default: [cluster] in the configuration, the kubeconfig's current context]
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
    /// Parses the process's arguments, as `informant` or as the kubectl plugin, and runs the command.
    #[must_use]
    pub fn parse_and_run() -> ExitCode {
        let arguments: Vec<_> = std::env::args_os().collect();
        let command = match kubectl::is_plugin(arguments.first()) {
            true => examples::with_examples(kubectl::plugin(Self::command()), kubectl::CALLED),
            false => examples::with_examples(Self::command(), examples::CALLED),
        };
        match Self::try_parse_as(command, arguments) {
            Ok(cli) => cli.run(),
            Err(error) => output::command_line_error(&error).into(),
        }
    }

    fn try_parse_as(
        mut command: clap::Command,
        arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    ) -> clap::error::Result<Self> {
        let parsed = command.try_get_matches_from_mut(arguments);
        let parsed =
            parsed.and_then(|found| Self::from_arg_matches(&found).map_err(|error| error.format(&mut command)));
        parsed.map_err(output::without_misleading_tips)
    }

    #[must_use]
    pub fn run(self) -> ExitCode {
        let start_log = match self.command {
            Command::Dev(_) => logging::start_for_dev,
            Command::Run(_) | Command::Apiserver(_) => logging::start,
            _ => logging::start_for_command,
        };
        if let Err(error) = start_log(&self.log) {
            output::error(&error);
            return Exit::Usage.into();
        }
        let done = match self.command {
            Command::Run(args) => run::run(&args),
            Command::Dev(args) => dev::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Get(args) => get::run(&args),
            Command::Status(args) => status::run(&args),
            Command::Top(args) => top::run(&args),
            Command::Replicas(args) => replicas::run(&args),
            Command::Why(args) => why::run(&args),
            Command::Dashboard(args) => dashboard::run(args),
            Command::Explain(args) => explain::run(&args),
            Command::LogLevel(args) => log_level::run(&args),
            Command::Rbac(args) => rbac::run(&args),
            Command::Apiserver(args) => apiserver::run(&args),
            Command::State { command } => state::run(&command),
            Command::Plugin { command } => match command {
                PluginCommand::New(args) => new::run(&args),
                PluginCommand::Build(args) => build::run(&args),
                PluginCommand::Test(args) => test::run(&args),
                PluginCommand::Compile(args) => compile::run(&args),
                PluginCommand::Inspect(args) => inspect::run(&args),
                PluginCommand::Schema(args) => schema::run(&args),
                PluginCommand::List(args) => plugin::list(&args),
                PluginCommand::DeadLetters(args) => failures::dead_letters(&args),
                PluginCommand::Retries(args) => failures::retries(&args),
                PluginCommand::Logs(args) => plugin_logs::run(&args),
                PluginCommand::Pause(args) => plugin::pause(&args),
                PluginCommand::Resume(args) => plugin::resume(&args),
                PluginCommand::Restart(args) => plugin::restart(&args),
                PluginCommand::Requeue(args) => requeue::requeue(&args),
                PluginCommand::Trigger(args) => requeue::trigger(&args),
                PluginCommand::Capture(args) => capture::run(&args),
                PluginCommand::Effects(args) => effects::run(&args),
                PluginCommand::Finalizers(args) => finalizers::run(&args),
            },
            Command::Completions(args) => completions::run(&args),
            Command::Compile => return compile_worker(),
        };
        done.unwrap_or_else(|error| {
            output::error(&error);
            output::exit_code_of(&error)
        })
        .into()
    }
}

/// A runtime on this thread.
fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().context("cannot start the async runtime")
}

#[cfg(test)]
mod tests;
