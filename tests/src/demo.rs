//! The demo: an embedded API server, `informant run` with two plugins, changes, an index, a swap under way.
//!
//! Every step is seen to hold: what the handler must have reported is computed from what was written, and compared. The
//! exit code is 0 only if all of them held.

#![expect(clippy::print_stdout, reason = "the demo talks to whoever runs it")]

mod reports;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use show::{Show, Stage};

/// How the demo runs.
#[derive(clap::Parser)]
pub struct Args {
    /// Ends after the last step instead of staying up.
    #[arg(long)]
    pub once: bool,
    /// Shows this component instead of the crash-loop handler.
    #[arg(long, value_name = "FILE")]
    pub handler: Option<PathBuf>,
}

/// The exit code when a step was not seen to hold.
const STEP_FAILED: u8 = 3;

/// Runs the demo: 0 if every step was seen to hold, 3 if one was not, 1 if there was nothing to see.
pub async fn run(args: &Args) -> ExitCode {
    let stage = match Stage::set(args.handler.as_deref()).await {
        Ok(stage) => stage,
        Err(error) => {
            println!("\nthe demo cannot be shown: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    match play(stage, args.once).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nthis step does not hold: {error:#}");
            ExitCode::from(STEP_FAILED)
        }
    }
}

async fn play(stage: Stage, once: bool) -> Result<()> {
    let mut show = Show::start(stage).await?;
    show.crashes_are_reported().await?;
    show.the_index_answers().await?;
    show.a_swap_loses_nothing().await?;
    show.a_script_runs_when_it_is_saved().await?;
    println!("\nEvery step held.");
    if !once {
        show.stay().await?;
    }
    Ok(())
}
