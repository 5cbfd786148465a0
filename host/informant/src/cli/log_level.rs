//! `informant log-level`: shows or changes the log level of a running daemon.

use anyhow::Result;
use clap::Args;

use super::client::AdminArgs;
use super::{Exit, output};
use crate::admin::{ConfigurationView, LogLevelRequest, LogLevelView};

/// `informant log-level`.
#[derive(Debug, Args)]
pub(super) struct LogLevelArgs {
    /// New log level, optionally per crate, as in "info,informant_informer=debug" [default: show the present one]
    #[arg(value_name = "FILTER")]
    level: Option<String>,
    #[command(flatten)]
    admin: AdminArgs,
}

pub(super) fn run(args: &LogLevelArgs) -> Result<Exit> {
    args.admin.with_client(async |client| {
        let Some(level) = args.level.clone() else {
            return match client.read::<ConfigurationView>("/api/v1/configuration").await? {
                Ok(configuration) => show(&configuration.log_level),
                Err(error) => Ok(output::refused(&error)),
            };
        };
        match client
            .post::<LogLevelView>("/api/v1/loglevel", &LogLevelRequest { level })
            .await?
        {
            Ok(LogLevelView { level, previous }) => {
                show(&format!("{level} (was {previous}); until the daemon restarts"))
            }
            Err(error) => Ok(output::refused(&error)),
        }
    })
}

fn show(line: &str) -> Result<Exit> {
    output::to_stdout(|out| output::line(out, line))?;
    Ok(Exit::Done)
}
