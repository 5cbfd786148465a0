//! The log: structured lines on stderr, plain or JSON.
//!
//! Lines carry no target: the internal module path is only for `--log-level`. Lines of guests come through the plugin
//! host as events with a `plugin` field. Secrets and tokens are never logged: no code logs objects, request headers or
//! kubeconfigs.

mod dev;
mod filter;
mod json;
mod plain;
mod recent;

use std::borrow::Cow;
use std::fmt;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{self, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::escape::{Escaped, Form};
use crate::status_line;
use dev::DevLines;
use filter::LogFilter;
pub(crate) use filter::{level, set_level};
use informant_plugin_host::GUEST_TARGET;
use json::JsonLines;
use plain::PlainFields;
use recent::KeepRecent;
pub(crate) use recent::{RecentLine, recent_lines};

/// The level without `--log-level`, and with an empty one.
const LEVEL_DEFAULT: &str = "info";

/// The default of commands that are no servers.
const LEVEL_OF_COMMANDS: &str = "warn";

/// The level of `informant dev` without `--log-level`: what plugins do, and what becomes of their files.
const LEVEL_OF_DEV: &str = "warn,informant::daemon::plugin_supervisor=info,informant::guest=debug,\
                            informant_plugin_host::component::runner=info";

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Log")]
pub(crate) struct LogFlags {
    /// Set the log level, optionally per crate, as in "info,informant_informer=debug"
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "INFORMANT_LOG",
        hide_env_values = true,
        default_value = LEVEL_DEFAULT
    )]
    log_level: String,
    /// Set the format of log lines
    #[arg(long, global = true, value_name = "FORMAT", value_enum, default_value = "plain")]
    log_format: LogFormat,
}

/// The target of lines that say who did what through the admin port. No filter removes them: a user who may change the
/// log level must not be able to act unseen.
pub(crate) const AUDIT_TARGET: &str = "informant::audit";

/// The target of the lines of `informant dev` itself: calls and effects of plugins, builds.
pub(crate) const DEV_TARGET: &str = "informant::dev";

/// What kube's client logs for each connection whose certificate is not verified. Informant logs it once per cluster.
const REDUNDANT_MESSAGE: &str = "Server cert bypassed";

/// The host functions of wasmtime: at level `trace` they log their arguments, such as the path of a request, which may
/// be a secret. No filter shows them.
const SECRET_TARGET: &str = "wasmtime_wasi";

/// The field of a guest's line with those of the guest's own: a JSON object.
const GUEST_FIELDS: &str = "fields";

/// The field of a line about a dead letter with the command that redelivers it.
const COMMAND_FIELD: &str = "redeliver";

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Plain,
    /// One JSON object per line, for machines.
    Json,
    /// For people that write a plugin.
    #[value(skip)]
    Dev,
}

/// Whether colors and bold are written to `stream`: to a terminal, unless the user set `NO_COLOR`.
pub(crate) fn shows_styles(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Starts logging to stderr.
pub(crate) fn start(flags: &LogFlags) -> Result<()> {
    begin(subscriber(
        flags,
        shows_styles(&std::io::stderr()),
        status_line::stderr,
    )?);
    if flags.log_format == LogFormat::Plain {
        status_line::allow();
    }
    Ok(())
}

/// Starts logging to stderr for a command whose result is on stdout: by default, only what is wrong.
pub(crate) fn start_for_command(flags: &LogFlags) -> Result<()> {
    let flags = LogFlags {
        log_level: level_or(&flags.log_level, LEVEL_OF_COMMANDS).to_owned(),
        log_format: flags.log_format,
    };
    start(&flags)
}

/// Starts logging to stdout for `informant dev`, whose result the log is. Its plain lines are [`DevLines`].
pub(crate) fn start_for_dev(flags: &LogFlags) -> Result<()> {
    let flags = for_dev(flags);
    begin(subscriber(&flags, shows_styles(&std::io::stdout()), std::io::stdout)?);
    Ok(())
}

fn for_dev(flags: &LogFlags) -> LogFlags {
    let level = level_or(&flags.log_level, LEVEL_OF_DEV);
    LogFlags {
        log_level: format!("{level},{DEV_TARGET}=info"),
        log_format: match flags.log_format {
            LogFormat::Plain => LogFormat::Dev,
            format => format,
        },
    }
}

fn level_or<'l>(level: &'l str, default: &'l str) -> &'l str {
    match level {
        "" | LEVEL_DEFAULT => default,
        level => level,
    }
}

fn begin((subscriber, filter): (Dispatch, LogFilter)) {
    // A second start within one process, as in tests, keeps the first log.
    if subscriber.try_init().is_ok() {
        filter.keep();
    }
}

/// The admin server of `informant dev`, whose port is another one each time: commands in its lines name it.
static DEV_ADMIN: OnceLock<SocketAddr> = OnceLock::new();

/// Lets the commands that `informant dev` logs name its admin server.
pub(crate) fn set_dev_admin(address: SocketAddr) {
    // There is one in a process.
    let _ = DEV_ADMIN.set(address);
}

/// The value of a field, for people: of a command, one that reaches the admin server.
fn for_admin<'v>(name: &str, value: &'v str, admin: Option<&SocketAddr>) -> Cow<'v, str> {
    match admin {
        Some(admin) if name == COMMAND_FIELD => format!("{value} --admin {admin}").into(),
        _ => value.into(),
    }
}

fn subscriber(
    flags: &LogFlags,
    colors: bool,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> Result<(Dispatch, LogFilter)> {
    // An empty variable is what a template makes of a value that is not set.
    let level = Some(flags.log_level.as_str()).filter(|level| !level.is_empty());
    let level = level.unwrap_or(LEVEL_DEFAULT);
    let filter = filter::parse(level).context("invalid --log-level (or INFORMANT_LOG)")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    Ok(match flags.log_format {
        LogFormat::Plain => {
            let builder = builder
                .fmt_fields(PlainFields)
                .with_ansi(colors)
                .with_writer(writer)
                .with_filter_reloading();
            let handle = builder.reload_handle();
            let replace = move |filter| handle.reload(filter);
            (
                Dispatch::new(builder.finish().with(WithoutUnwanted).with(KeepRecent)),
                LogFilter::new(level, replace),
            )
        }
        LogFormat::Dev => {
            let builder = builder
                .fmt_fields(PlainFields)
                .with_ansi(colors)
                .event_format(DevLines)
                .with_writer(writer)
                .with_filter_reloading();
            let handle = builder.reload_handle();
            let replace = move |filter| handle.reload(filter);
            (
                Dispatch::new(builder.finish().with(WithoutUnwanted).with(KeepRecent)),
                LogFilter::new(level, replace),
            )
        }
        LogFormat::Json => {
            let builder = builder
                .event_format(JsonLines)
                .with_writer(JsonWriter(writer))
                .with_filter_reloading();
            let handle = builder.reload_handle();
            let replace = move |filter| handle.reload(filter);
            (
                Dispatch::new(builder.finish().with(WithoutUnwanted).with(KeepRecent)),
                LogFilter::new(level, replace),
            )
        }
    })
}

/// Escapes what JSON does not, but a terminal or a reader could take for something else.
struct JsonWriter<M>(M);

impl<'w, M: MakeWriter<'w>> MakeWriter<'w> for JsonWriter<M> {
    type Writer = Escaped<M::Writer>;

    fn make_writer(&'w self) -> Self::Writer {
        Escaped::new(self.0.make_writer(), Form::Json)
    }
}

/// Drops events with [`REDUNDANT_MESSAGE`], and those with arguments of host functions.
struct WithoutUnwanted;

impl<S: Subscriber> Layer<S> for WithoutUnwanted {
    fn event_enabled(&self, event: &Event<'_>, _: layer::Context<'_, S>) -> bool {
        let metadata = event.metadata();
        if metadata.target().starts_with(SECRET_TARGET) && *metadata.level() == Level::TRACE {
            return false;
        }
        struct IsRedundant(bool);
        impl Visit for IsRedundant {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                self.0 |= field.name() == "message" && format!("{value:?}") == REDUNDANT_MESSAGE;
            }
        }
        if !metadata.target().starts_with("kube_client::client::tls") {
            return true;
        }
        let mut redundant = IsRedundant(false);
        event.record(&mut redundant);
        !redundant.0
    }
}

/// The `cluster` field of a log line: left out for the only cluster, which has no name.
pub(crate) fn cluster_field(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
