//! Tables for pipes and files.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt as _;
use tokio::time::{Instant, sleep_until};

use super::TopArgs;
use super::columns::{self, Column, OF_PLUGINS, OF_SOURCES, SortBy};
use super::head;
use super::known::Known;
use super::link::{Link, Update};
use crate::cli::plugin::Format;
use crate::cli::{Exit, output, table};

/// Before the first table: 2.5 s. Rates are differences of rows, which the daemon computes every 2 s.
const FIRST_AFTER: Duration = Duration::from_millis(2_500);

/// Prints so many tables as `args` say. A lost connection is an error.
pub(super) async fn print(args: &TopArgs, link: Link<'_>, order: (SortBy, bool)) -> Result<Exit> {
    let (mut known, mut updates) = (Known::default(), link.updates());
    let mut due = Instant::now() + args.interval().max(FIRST_AFTER);
    for number in 0..args.iterations.unwrap_or(1) {
        loop {
            tokio::select! {
                biased;
                Some(update) = updates.next() => {
                    if let Update::Lost(why) = update {
                        bail!("the connection to the daemon is lost: {why}");
                    }
                    known.apply(update)?;
                }
                () = sleep_until(due), if known.is_complete() => break,
            }
        }
        due += args.interval();
        match args.output {
            Format::Json => output::json(&known.document(order))?,
            Format::Table => output::to_stdout(|out| {
                if number > 0 {
                    writeln!(out)?;
                }
                write(out, &known, order)
            })?,
        }
    }
    Ok(Exit::Done)
}

/// The head, plugins and sources.
pub(super) fn write(out: &mut dyn Write, known: &Known, order: (SortBy, bool)) -> io::Result<()> {
    for line in head::lines(known).into_iter().chain(head::alert(known)) {
        output::line(out, &line)?;
    }
    let plugins = known.plugins(order);
    let sources = known.sources();
    write_table(out, "PLUGIN", &plugins, |row| row.name.clone(), &OF_PLUGINS)?;
    write_table(out, "SOURCE", &sources, columns::source, &OF_SOURCES)
}

fn write_table<R>(
    out: &mut dyn Write,
    first: &'static str,
    rows: &[&R],
    name: fn(&R) -> String,
    columns: &[Column<R>],
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let headings: Vec<&str> = std::iter::once(first)
        .chain(columns.iter().map(|column| column.heading))
        .collect();
    let cells = |row: &&R| {
        let others = columns.iter().map(|column| (column.cell)(row));
        std::iter::once(name(row)).chain(others).collect()
    };
    table::write_columns(out, &headings, rows.iter().map(cells).collect())
}
