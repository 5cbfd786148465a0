//! The demo: an embedded API server, `informant run` with two plugins, changes, an index, a swap under way.
//!
//! Every step is seen to hold: what the handler must have reported is computed from what was written, and compared. The exit
//! code is 0 only if all of them held.

#![expect(clippy::print_stdout, reason = "the demo talks to whoever runs it")]

mod reports;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use show::Show;

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

/// Runs the demo.
pub async fn run(args: &Args) -> ExitCode {
    match play(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\nthe demo failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn play(args: &Args) -> Result<()> {
    let mut show = Show::start(args.handler.as_deref()).await?;
    show.crashes_are_reported().await?;
    show.the_index_answers().await?;
    show.a_swap_loses_nothing().await?;
    println!("\nEvery step held.");
    if !args.once {
        show.stay().await?;
    }
    Ok(())
}
