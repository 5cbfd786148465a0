//! The log: structured lines on stderr, plain or JSON.
//!
//! Guests' lines come through the plugin host as events with a `plugin` field. Secrets and tokens are never logged:
//! nobody logs objects, requests' headers or kubeconfigs.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// What is logged, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log")]
pub struct LogFlags {
    /// What is logged: a level, or per module as in "info,informant_informer=debug"
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "INFORMANT_LOG",
        hide_env_values = true,
        default_value = "info"
    )]
    log_level: String,
    /// How lines look
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value = "plain")]
    log_format: LogFormat,
}

/// What kube's client says of each failed request, which is said again, with what it means, where the failure is met.
/// Named in `--log-level` it is heard.
const SAID_AGAIN: &str = "kube_client::client::builder";

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Plain,
    /// One JSON object a line, for machines.
    Json,
}

/// Starts logging to stderr.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(flags: &LogFlags) -> Result<()> {
    let silence = if flags.log_level.contains("kube_client") {
        String::new()
    } else {
        format!("{SAID_AGAIN}=off,")
    };
    let filter = EnvFilter::builder()
        .parse(format!("{silence}{}", flags.log_level))
        .with_context(|| format!("--log-level (or INFORMANT_LOG) \"{}\" cannot be read", flags.log_level))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::NONE);
    // A second start within one process, as in tests, keeps the first log.
    let _ = match flags.log_format {
        LogFormat::Plain => {
            let colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
            builder.with_ansi(colors).try_init()
        }
        LogFormat::Json => builder.json().with_current_span(false).with_span_list(false).try_init(),
    };
    Ok(())
}
