//! What it costs to see what happens: answers of `why` with a full record, the dashboard's first view, and clients of
//! its stream.

mod page;
mod streams;
mod why;

use std::fmt::Display;

use anyhow::Result;

use super::cores::Cores;
use super::targets;

/// Measures all parts, or `only` one, in `rounds` rounds, and prints them. Returns whether all targets are met.
pub(super) async fn measure(cores: &Cores, only: Option<Seen>, rounds: u32) -> Result<bool> {
    let wants = |part| only.is_none_or(|only| only == part);
    let mut is_met = true;
    if wants(Seen::Why) {
        is_met &= why::measure(cores).await?;
    }
    if wants(Seen::Page) {
        is_met &= page::measure(cores, rounds).await?;
    }
    if wants(Seen::Streams) {
        is_met &= streams::measure(cores, rounds).await?;
    }
    Ok(is_met)
}

/// A part that is measured on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Seen {
    /// Answers of `why`.
    Why,
    /// The first view of the dashboard.
    Page,
    /// Clients of its stream.
    Streams,
}

/// Prints a figure next to the most that it may be, of which `text` is the words. Returns whether it is at most that.
fn print(figure: impl Display, text: &str, value: f64, most: f64) -> bool {
    let is_met = value <= most;
    println!("{figure}: {text}, at most {most}: {}", targets::word(is_met));
    is_met
}
