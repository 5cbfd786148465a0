//! `cargo xtask …`: the only entry point for people who build Informant.

mod bench;
mod build;
mod c_plugins;
mod cargo;
mod cluster_tools;
mod demo;
mod guests;
mod js_plugins;
mod peers;
mod report;
mod script_runner;
mod sim;
mod test;
mod workspace;
mod zig;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Builds, tests and shows Informant.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows Informant at work on an embedded API server, then stays up for your own kubectl.
    Demo(demo::Args),
    /// Builds `informant` with the script runner in it, and says where it is.
    Build(build::Args),
    /// Runs every check this machine has the tools for, and names what it left out (nothing may be, with CI=true).
    Test(test::Args),
    /// Measures CPU per object and per event, memory and lag on a release build, beside client-go and kube-rs.
    Bench(bench::Args),
    /// Runs the simulation: an informer on the embedded API server under seeded faults.
    Sim(sim::Args),
    /// Builds the plugins, the script runner and the test guests to WebAssembly components.
    Guests(guests::Args),
    /// Builds kube-apiserver, kubectl and etcd from tests/go.mod (needs Go).
    ClusterTools,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            report::error(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<ExitCode> {
    match args.command {
        Command::Demo(args) => demo::run(&args),
        Command::Build(args) => build::run(&args),
        Command::Test(args) => test::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Guests(args) => guests::build_all(&args).map(|()| ExitCode::SUCCESS),
        Command::ClusterTools => cluster_tools::build().map(|()| ExitCode::SUCCESS),
    }
}
