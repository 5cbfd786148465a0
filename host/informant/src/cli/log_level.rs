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
            let configuration: ConfigurationView = client.read("/api/v1/configuration").await?;
            return output::done(&configuration.log_level);
        };
        let LogLevelView { level, previous } = client.post("/api/v1/loglevel", &LogLevelRequest { level }).await?;
        output::done(&format!("{level} (was {previous}); until the daemon restarts"))
    })
}
