//! Measures what one call of a plugin costs, in this process and on one thread, through the whole plugin host. `cargo
//! xtask bench plugins` runs it.
//!
//! 1. A table of the languages (`languages`): CPU of an event, linear memory, and private memory of further instances.
//! 2. The calls for many events of one key within `min-interval`, and a handler that waits 10 ms in each call, with
//!    several instances (`waits`).
//!
//! Exits with an error if a figure with a bound is beyond it.

#![expect(clippy::print_stdout, reason = "it prints its results")]

mod handler;
mod languages;
#[path = "../shared/setup.rs"]
mod setup;
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
    /// Print the table of the languages only
    #[arg(long)]
    languages: bool,
    /// Measure only this component or script that handles pods, with pods of 300 bytes and of 5 KiB
    #[arg(conflicts_with = "languages")]
    handler: Option<PathBuf>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode> {
    let args = Args::parse();
    let folder = tempfile::tempdir()?;
    let mut missed = languages::measure(&args, folder.path()).await?;
    if args.handler.is_none() && !args.languages {
        missed.extend(waits::count_calls_within_interval(folder.path()).await?);
        missed.extend(waits::measure_instances(folder.path()).await?);
    }
    missed.iter().for_each(|line| println!("missed: {line}"));
    Ok(match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}
