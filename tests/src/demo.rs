//! The demo: an embedded API server, `informant run` with two plugins, changes, an index, a swap under load.
//!
//! Every step is verified: the reports that the handler must make are computed from what was written, and compared. The
//! exit code is 0 only if all steps pass.

#![expect(clippy::print_stdout, reason = "the demo prints to its user")]

mod reports;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use show::{Demo, Setup};

/// Run the demo
#[derive(clap::Parser)]
pub struct Args {
    /// Exit after the last step instead of staying up
    #[arg(long)]
    pub once: bool,
    /// Use this component instead of the crash-loop handler
    #[arg(long, value_name = "FILE")]
    pub handler: Option<PathBuf>,
}

/// The exit code when a step fails.
const STEP_FAILED: u8 = 3;

/// Runs the demo: 0 if every step passed, 3 if one failed, 1 if the demo could not start.
pub async fn run(args: &Args) -> ExitCode {
    let setup = match Setup::prepare(args.handler.as_deref()).await {
        Ok(setup) => setup,
        Err(error) => {
            println!("\nthe demo cannot start: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    match play(setup, args.once).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nthis step failed: {error:#}");
            ExitCode::from(STEP_FAILED)
        }
    }
}

async fn play(setup: Setup, once: bool) -> Result<()> {
    let mut show = Demo::start(setup).await?;
    show.crashes_are_reported().await?;
    show.the_index_answers().await?;
    show.a_swap_loses_nothing().await?;
    show.a_script_runs_when_it_is_saved().await?;
    println!("\nEvery step passed.");
    if !once {
        show.stay().await?;
    }
    Ok(())
}
