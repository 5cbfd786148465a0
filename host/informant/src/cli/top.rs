//! `informant top`: what a running daemon does now, on a screen that follows it, or as tables.
//!
//! ```text
//! admin server ──event stream──▶ Link: reconnects ──updates──▶ Known: rows, overview ──▶ screen, or plain tables
//! ```
//!
//! A terminal gets the [`screen`]. Everything else, such as a pipe, gets [`plain`] tables once rates are there.

mod columns;
mod head;
mod keys;
mod known;
mod link;
mod plain;
mod screen;
mod terminal;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use self::columns::SortBy;
use self::link::Link;
use super::Exit;
use super::client::AdminArgs;
use super::plugin::Format;
use crate::logging;

/// `informant top`.
#[derive(Debug, Args)]
pub(super) struct TopArgs {
    /// Column that sorts the plugins
    #[arg(long, value_name = "COLUMN", value_enum, default_value = "calls")]
    sort: SortBy,
    /// Sort in the opposite order
    #[arg(long)]
    reverse: bool,
    /// Print tables instead of following on the screen, this many times [default without a terminal: 1]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    iterations: Option<u32>,
    /// Seconds between two tables
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    interval: u64,
    /// Output format; json is not for the screen
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value = "table")]
    output: Format,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn run(args: &TopArgs) -> Result<Exit> {
    let is_plain = args.iterations.is_some() || args.output == Format::Json || !io::stdout().is_terminal();
    args.admin.with_client(async |client| {
        // What is wrong from the beginning is an error of the command, and not shown on a screen that looks alive.
        let link = Link::open(&args.admin, client).await?;
        let order = (args.sort, args.reverse);
        match is_plain {
            true => plain::print(args, link, order).await,
            false => screen::follow(link, order, logging::shows_styles(&io::stdout())).await,
        }
    })
}

impl TopArgs {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.interval)
    }
}
