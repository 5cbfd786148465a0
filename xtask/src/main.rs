//! `cargo xtask …`: the build tasks of Informant.

mod base;
mod bench;
mod book;
mod browser;
mod build;
mod c_bindings;
mod c_plugins;
mod cargo;
mod chart;
mod cluster_tools;
mod compat;
mod dashboard;
mod demo;
mod deny;
mod dist;
mod go_bindings;
mod go_plugins;
mod go_tools;
mod guests;
mod js_tools;
mod lines;
mod npm;
mod peers;
mod pictures;
mod pip;
mod python_runner;
mod report;
mod schema;
mod script_runner;
mod sim;
mod test;
mod workspace;
mod zig;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Build, test and demonstrate Informant.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a demo on an embedded API server, then keep running for your own kubectl.
    Demo(demo::Args),
    /// Build `informant` with the script runner, and print its path.
    Build(build::Args),
    /// Build the book of docs/ into target/book, and check its links.
    Book(book::Args),
    /// Replace the pictures in docs/images that tests make, where they are old (requires npm and a browser).
    Pictures,
    /// Build the files of a release into target/dist: programs, images, SBOM, checksums (requires Python, for zig and
    /// componentize-py).
    Dist(dist::Args),
    /// Run every check whose tools are installed, and list the skipped ones (with CI=true, a skipped check is an
    /// error).
    Test(test::Args),
    /// Check the dependencies for known vulnerabilities (fetches a database with git).
    Advisories,
    /// Measure CPU per object and per event, memory and lag of a release build, compared to client-go and kube-rs.
    Bench(bench::Args),
    /// Run the simulation: an informer on the embedded API server with seeded faults.
    Sim(sim::Args),
    /// Build the plugins, the script runner and the test guests as WebAssembly components.
    Guests(guests::Args),
    /// Build the runner of Python scripts, and test the Python SDK (requires Python, which installs componentize-py).
    PythonRunner,
    /// Generate the bindings of the C SDK: plugin-sdk/c/gen and gen-http.
    CBindings,
    /// Generate the bindings of the Go SDK, plugin-sdk/go/internal/gen, which are committed (requires Go, for gofmt).
    GoBindings,
    /// Render deploy/informant.yaml and deploy/kustomize from deploy/chart (requires Go, which builds helm).
    Chart(chart::Args),
    /// Build kube-apiserver, kubectl and etcd from tests/go.mod (requires Go).
    ClusterTools,
    /// Run the end-to-end suites on each older kube-apiserver that is supported (requires Go, which builds them).
    Compat(compat::Args),
    /// Build the Go programs that check deploy/, from tests/tools (requires Go).
    GoTools,
    /// Count the lines of Rust below host/, without tests.
    Lines,
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
        Command::Book(args) => book::build(&args).map(|_| ExitCode::SUCCESS),
        Command::Pictures => pictures::replace().map(|()| ExitCode::SUCCESS),
        Command::Dist(args) => dist::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Test(args) => test::run(&args),
        Command::Advisories => deny::advisories().map(|()| ExitCode::SUCCESS),
        Command::Bench(args) => bench::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Guests(args) => guests::build_all(&args).map(|()| ExitCode::SUCCESS),
        Command::PythonRunner => python_runner::build_and_test().map(|()| ExitCode::SUCCESS),
        Command::CBindings => c_bindings::generate().map(|_| ExitCode::SUCCESS),
        Command::GoBindings => go_bindings::generate().map(|()| ExitCode::SUCCESS),
        Command::Chart(args) => chart::run(&args),
        Command::ClusterTools => cluster_tools::build().map(|()| ExitCode::SUCCESS),
        Command::Compat(args) => compat::run(&args).map(|()| ExitCode::SUCCESS),
        Command::GoTools => go_tools::build_all().map(|()| ExitCode::SUCCESS),
        Command::Lines => lines::run().map(|()| ExitCode::SUCCESS),
    }
}
