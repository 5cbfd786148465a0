//! The log: structured lines on stderr, plain or JSON.
//!
//! Lines carry no target: the internal module path is only for `--log-level`. Lines of guests come through the plugin
//! host as events with a `plugin` field. Secrets and tokens are never logged: no code logs objects, request headers or
//! kubeconfigs.

use std::io::IsTerminal;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tracing::Dispatch;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The flags of the log.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log")]
pub struct LogFlags {
    /// Set the log level, optionally per module, as in "info,informant_informer=debug"
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "INFORMANT_LOG",
        hide_env_values = true,
        default_value = "info"
    )]
    log_level: String,
    /// Set the format of log lines
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value = "plain")]
    log_format: LogFormat,
}

/// The target of kube's client for failed requests. It is off by default, because Informant logs each failure itself,
/// with its consequence. Naming it in `--log-level` turns it on.
const REDUNDANT_TARGET: &str = "kube_client::client::builder";

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Plain,
    /// One JSON object per line, for machines.
    Json,
}

/// Starts logging to stderr.
///
/// # Errors
/// When the filter is invalid.
pub fn start(flags: &LogFlags) -> Result<()> {
    let colors = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    let subscriber = subscriber(flags, colors, std::io::stderr)?;
    // A second start within one process, as in tests, keeps the first log.
    let _ = subscriber.try_init();
    Ok(())
}

fn subscriber(
    flags: &LogFlags,
    colors: bool,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> Result<Dispatch> {
    let redundant = if flags.log_level.contains("kube_client") {
        String::new()
    } else {
        format!("{REDUNDANT_TARGET}=off,")
    };
    let filter = EnvFilter::builder()
        .parse(format!("{redundant}{}", flags.log_level))
        .with_context(|| format!("invalid --log-level (or INFORMANT_LOG) \"{}\"", flags.log_level))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_target(false);
    Ok(match flags.log_format {
        LogFormat::Plain => Dispatch::new(builder.with_ansi(colors).finish()),
        LogFormat::Json => Dispatch::new(builder.json().with_current_span(false).with_span_list(false).finish()),
    })
}

/// The `cluster` field of a log line: left out for the only cluster, which has no name.
pub(crate) fn cluster_field(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::{Value, json};

    use super::*;

    /// Collects what is logged.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is logged in `format` with the filter `level`.
    fn logged(format: LogFormat, level: &str) -> String {
        let output = Output::default();
        let writer = output.clone();
        let flags = LogFlags {
            log_level: level.to_owned(),
            log_format: format,
        };
        let subscriber = subscriber(&flags, false, move || writer.clone()).unwrap();
        tracing::dispatcher::with_default(&subscriber, || {
            tracing::info!(cluster = cluster_field("east"), undelivered = 2, "informer stopped");
            tracing::info!(cluster = cluster_field(""), "informer started");
            tracing::debug!(plugin = "recorder", "plugin stopped");
            tracing::debug!(target: "informant_informer::reflector", informer = "pods", "watch started");
        });
        let bytes = output.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// The plain lines without their timestamps.
    fn plain(level: &str) -> Vec<String> {
        let text = logged(LogFormat::Plain, level);
        let without_time = |line: &str| line.split_once(' ').unwrap().1.trim().to_owned();
        text.lines().map(without_time).collect()
    }

    #[test]
    fn plain_lines_have_no_target_and_no_empty_fields() {
        assert_eq!(
            plain("info"),
            [
                r#"INFO informer stopped cluster="east" undelivered=2"#,
                "INFO informer started",
            ]
        );
    }

    #[test]
    fn json_lines_have_no_target_and_no_empty_fields() {
        let text = logged(LogFormat::Json, "info");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let expected = [
            json!({ "message": "informer stopped", "cluster": "east", "undelivered": 2 }),
            json!({ "message": "informer started" }),
        ];
        for (line, fields) in lines.iter().zip(expected) {
            assert_eq!((&line["level"], &line["fields"]), (&json!("INFO"), &fields));
            assert!(line["timestamp"].is_string() && line.get("target").is_none(), "{line}");
        }
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn filter_by_module_applies_to_the_hidden_target() {
        assert_eq!(
            plain("warn,informant_informer=debug"),
            [r#"DEBUG watch started informer="pods""#]
        );
    }

    #[test]
    fn invalid_filter_is_refused() {
        let flags = LogFlags {
            log_level: "pods=loud".to_owned(),
            log_format: LogFormat::Plain,
        };
        let error = subscriber(&flags, false, std::io::sink).unwrap_err();
        assert_eq!(
            error.to_string(),
            r#"invalid --log-level (or INFORMANT_LOG) "pods=loud""#
        );
    }
}
