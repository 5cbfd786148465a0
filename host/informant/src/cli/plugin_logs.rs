//! `informant plugin logs`: the last log lines about a plugin, and those that follow.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::Result;
use clap::Args;

use super::client::AdminArgs;
use super::plugin::path;
use super::{Exit, output};
use crate::admin::{LogLineView, LogsView};

/// With `--follow`, how long after an answer the next lines are asked for: 1 s.
const FOLLOW_EVERY: Duration = Duration::from_secs(1);

/// `informant plugin logs`.
#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// Plugin name, as in the configuration
    name: String,
    /// Show the last lines only, so many of them
    #[arg(long, value_name = "LINES")]
    tail: Option<usize>,
    /// Keep printing lines as they are logged
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn run(args: &LogsArgs) -> Result<Exit> {
    let path = path(&args.name, "logs");
    args.admin.with_client(async |client| {
        let mut logs: LogsView = client.read(&path).await?;
        client.note_part();
        let skipped = args.tail.map_or(0, |tail| logs.items.len().saturating_sub(tail));
        logs.items.drain(..skipped);
        if logs.items.is_empty() && !args.follow {
            output::note(&format!("plugin/{} has logged nothing", args.name));
        }
        loop {
            if !print(&logs.items)? || !args.follow {
                return Ok(Exit::Done);
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
            logs = client.read(&format!("{path}?from={}", logs.next)).await?;
            if logs.dropped > 0 {
                output::note(&format!("{} lines were dropped before they were read", logs.dropped));
            }
        }
    })
}

/// `false` if stdout was closed.
fn print(lines: &[LogLineView]) -> Result<bool> {
    let mut out = output::stdout(crate::escape::Form::Text);
    let written = lines
        .iter()
        .try_for_each(|line| output::line(&mut out, &shown(line)))
        .and_then(|()| out.flush());
    let is_closed = matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe);
    output::ignore_broken_pipe(written)?;
    Ok(!is_closed)
}

/// As in the log: `2026-03-01T09:30:00Z  WARN plugin instance lost plugin=greeter`.
fn shown(line: &LogLineView) -> String {
    format!("{} {:>5} {}", line.time, line.level, line.line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_as_in_the_log() {
        let line = LogLineView {
            time: "2026-03-01T09:30:00Z".into(),
            level: "WARN".into(),
            line: "plugin instance lost plugin=greeter".into(),
        };
        assert_eq!(
            shown(&line),
            "2026-03-01T09:30:00Z  WARN plugin instance lost plugin=greeter"
        );
    }
}
