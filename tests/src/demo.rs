//! The demo: an embedded API server, `informant run` with two plugins, changes, an index, a swap under load.
//!
//! Every step is verified: the reports that the handler must make are computed from what was written, and compared. The
//! exit code is 0 only if all steps pass.

#![expect(clippy::print_stdout, reason = "the demo prints to its user")]

mod reports;
mod show;
mod terminal;

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
    /// Check that docs/images/demo.svg shows this run
    #[arg(long, requires = "once")]
    pub check_picture: bool,
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
    match play(setup, args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nthis step failed: {error:#}");
            ExitCode::from(STEP_FAILED)
        }
    }
}

async fn play(setup: Setup, args: &Args) -> Result<()> {
    let mut show = Demo::start(setup).await?;
    show.crashes_are_reported().await?;
    show.the_index_answers().await?;
    show.a_swap_loses_nothing().await?;
    show.a_script_runs_when_it_is_saved().await?;
    show.terminal.say("\nEvery step passed.");
    // Without the script runner, a step is missing.
    if args.check_picture && show.script.is_some() {
        show.terminal.check_picture()?;
    }
    if !args.once {
        show.stay().await?;
    }
    Ok(())
}
