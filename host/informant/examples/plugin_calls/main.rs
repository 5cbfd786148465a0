//! Measures what one call of a plugin costs, in this process and on one thread, through the whole plugin host. `cargo
//! xtask bench plugins` runs it.
//!
//! 1. A table of the languages (`languages`): CPU of an event, linear memory, and private memory of further instances.
//! 2. The calls for many events of one key within `min-interval`, and a handler that waits 10 ms in each call, with
//!    several instances (`waits`).
//! 3. A table of reconcilers (`reconcilers`), and how long an object takes that leads to another one (`related`).
//! 4. Timers: those of which none is due, and the CPU of a run (`timers`).
//!
//! Exits with an error if a figure with a bound is beyond it.

#![expect(clippy::print_stdout, reason = "it prints its results")]

mod handler;
mod languages;
mod reconcilers;
mod related;
#[path = "../shared/setup.rs"]
mod setup;
mod timers;
mod waits;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measure what one call of a plugin costs
#[derive(Parser)]
struct Args {
    /// Number of calls of a handler in one run; those that read more than 300 bytes get a tenth of it
    #[arg(long, default_value_t = 100_000)]
    calls: usize,
    /// Number of runs; the best one counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Measure only these
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Measure only this component or script that handles pods, with pods of 300 bytes and of 5 KiB
    #[arg(conflicts_with = "only")]
    handler: Option<PathBuf>,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The table of the languages.
    Languages,
    /// Handlers that are not called for each event, or wait in their calls.
    Waits,
    /// Reconcilers.
    Reconcilers,
    /// Timers.
    Timers,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let wants = |part| args.handler.is_none() && (args.only.is_empty() || args.only.contains(&part));
    let mut missed = Vec::new();
    if args.handler.is_some() || wants(Part::Languages) {
        missed.extend(languages::measure(&args, folder).await?);
    }
    if wants(Part::Waits) {
        missed.extend(waits::count_calls_within_interval(folder).await?);
        missed.extend(waits::measure_instances(folder).await?);
    }
    if wants(Part::Reconcilers) {
        missed.extend(reconcilers::measure(args.calls, args.runs, folder).await?);
        missed.extend(related::measure(folder).await?);
    }
    if wants(Part::Timers) {
        missed.extend(timers::measure(args.calls, args.runs, folder).await?);
    }
    missed.iter().for_each(|line| println!("missed: {line}"));
    Ok(match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
