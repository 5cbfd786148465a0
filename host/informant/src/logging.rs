//! The log: structured lines on stderr, plain or JSON.
//!
//! Lines carry no target: the internal module path is only for `--log-level`. Lines of guests come through the plugin
//! host as events with a `plugin` field. Secrets and tokens are never logged: no code logs objects, request headers or
//! kubeconfigs.

mod dev;
mod json;
mod recent;

use std::borrow::Cow;
use std::fmt;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, OnceLock};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::layer::{self, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer, reload};

use informant_spec::suggest::did_you_mean;

use crate::escape::{self, Escaped, Form};
use crate::status_line;
use crate::sync::lock;
use dev::DevLines;
use informant_plugin_host::GUEST_TARGET;
use json::JsonLines;
use recent::KeepRecent;
pub(crate) use recent::{RecentLine, recent_lines};

/// Informant's crates, whose names begin the targets of their lines.
const CRATES: [&str; 10] = [
    "informant",
    "informant_apiserver",
    "informant_cache",
    "informant_config",
    "informant_informer",
    "informant_lease",
    "informant_object",
    "informant_plugin_host",
    "informant_spec",
    "informant_state",
];

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

/// The target of kube's client for failed requests. It is off by default, because Informant logs each failure itself,
/// with its consequence. Naming it in `--log-level` turns it on.
const REDUNDANT_TARGET: &str = "kube_client::client::builder";

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
        let _ = FILTER.set(filter);
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

/// The filter of the log of this process, once it was started.
static FILTER: OnceLock<LogFilter> = OnceLock::new();

/// The filter of a log, which can be replaced while it is written.
struct LogFilter {
    text: Mutex<String>,
    replace: Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>,
}

impl LogFilter {
    fn text(&self) -> MutexGuard<'_, String> {
        lock(&self.text)
    }

    /// Returns the previous filter.
    fn set(&self, text: &str, user: Option<&str>) -> Result<String> {
        let filter = parse(text)?;
        let mut current = self.text();
        tracing::info!(target: AUDIT_TARGET, level = text, previous = *current, user, "log level changed");
        (self.replace)(filter).context("the log cannot be changed")?;
        Ok(std::mem::replace(&mut current, text.to_owned()))
    }
}

/// The filter of the log; none if the log was not started.
pub(crate) fn level() -> Option<String> {
    FILTER.get().map(|filter| filter.text().clone())
}

/// Replaces the filter of the log, on behalf of `user` if that is known. Returns the previous one.
/// Errors: when the filter is invalid, or the log was not started.
pub(crate) fn set_level(text: &str, user: Option<&str>) -> Result<String> {
    FILTER
        .get()
        .context("this process has no log of its own")?
        .set(text, user)
}

fn parse(level: &str) -> Result<EnvFilter> {
    let advice = || format!("\"{level}\" is not a log level or filter; examples: debug, info,informant_informer=debug");
    // A directive of the same target could name fields, too, and then overrides the one below.
    if level.contains(AUDIT_TARGET) {
        bail!("\"{level}\" names {AUDIT_TARGET}: who did what on the admin port is always logged");
    }
    if let Some(word) = level.split(',').find(|part| is_unknown_word(part)) {
        let error = anyhow!("\"{word}\" is none of off, error, warn, info, debug, trace; a crate needs a level, too");
        return Err(error.context(advice()));
    }
    if let Some(unknown) = level.split(',').find_map(unknown_crate) {
        let hint = did_you_mean(unknown, &CRATES, "crates");
        return Err(anyhow!("\"{unknown}\" is no crate of Informant; {hint}").context(advice()));
    }
    let redundant = if level.contains("kube_client") {
        String::new()
    } else {
        format!("{REDUNDANT_TARGET}=off,")
    };
    let filter = EnvFilter::builder().parse(format!("{redundant}{level},{AUDIT_TARGET}=info"));
    filter.with_context(advice)
}

/// Whether a part of a filter is a bare word that is no level. The library takes one for the name of a crate, so that a
/// typo would silence all others.
fn is_unknown_word(part: &str) -> bool {
    !part.contains(['=', '[', ']', '{', '}']) && (part.is_empty() || part.parse::<LevelFilter>().is_err())
}

/// The crate of Informant's that a part of a filter names, if there is none. The library ignores such a part.
fn unknown_crate(part: &str) -> Option<&str> {
    let target = part.split(['=', '[']).next().unwrap_or_default();
    let named = target.split("::").next().unwrap_or_default().trim();
    // What a target begins with is enough.
    let is_known = CRATES.iter().any(|known| known.starts_with(named));
    (named.starts_with(CRATES[0]) && !is_known).then_some(named)
}

fn subscriber(
    flags: &LogFlags,
    colors: bool,
    writer: impl for<'w> MakeWriter<'w> + Send + Sync + 'static,
) -> Result<(Dispatch, LogFilter)> {
    // An empty variable is what a template makes of a value that is not set.
    let level = Some(flags.log_level.as_str()).filter(|level| !level.is_empty());
    let level = level.unwrap_or(LEVEL_DEFAULT);
    let filter = parse(level).context("invalid --log-level (or INFORMANT_LOG)")?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    let text = Mutex::new(level.to_owned());
    Ok(match flags.log_format {
        LogFormat::Plain => {
            let builder = builder
                .fmt_fields(PlainFields)
                .with_ansi(colors)
                .with_writer(writer)
                .with_filter_reloading();
            let handle = builder.reload_handle();
            let replace = Box::new(move |filter| handle.reload(filter));
            (
                Dispatch::new(builder.finish().with(WithoutUnwanted).with(KeepRecent)),
                LogFilter { text, replace },
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
            let replace = Box::new(move |filter| handle.reload(filter));
            (
                Dispatch::new(builder.finish().with(WithoutUnwanted).with(KeepRecent)),
                LogFilter { text, replace },
            )
        }
        LogFormat::Json => {
            let builder = builder
                .event_format(JsonLines)
                .with_writer(JsonWriter(writer))
                .with_filter_reloading();
            let handle = builder.reload_handle();
            let replace = Box::new(move |filter| handle.reload(filter));
            (
                Dispatch::new(builder.finish().with(WithoutUnwanted).with(KeepRecent)),
                LogFilter { text, replace },
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

/// Formats the message and the fields of a plain line: `plugin reloaded plugin=hello error="not found"`. A value is
/// bare if it is one word, whether it was recorded as a string or by its `Display`.
struct PlainFields;

impl<'w> FormatFields<'w> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = PlainVisitor {
            writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct PlainVisitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl PlainVisitor<'_> {
    fn write(&mut self, field: &Field, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        let writer = &mut self.writer;
        let value = for_admin(field.name(), value, DEV_ADMIN.get());
        let value = &*value;
        match field.name() {
            // Those of a guest, which must not be taken for Informant's own.
            GUEST_FIELDS => write_guest_fields(writer, value),
            // A message is one line, whatever its source.
            "message" => writer.write_str(&escape::line(value)),
            name if writer.has_ansi_escapes() => {
                write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
                write_value(writer, value)
            }
            name => {
                write!(writer, "{name}=")?;
                write_value(writer, value)
            }
        }
    }
}

impl Visit for PlainVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self.write(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Writes the fields of a guest's line, a JSON object: `fields.restarts=3 fields.node=worker-1`.
fn write_guest_fields(writer: &mut Writer<'_>, object: &str) -> fmt::Result {
    let Ok(Value::Object(members)) = serde_json::from_str(object) else {
        return write!(writer, "fields={}", escape::line(object));
    };
    for (number, (name, value)) in members.iter().enumerate() {
        let text = match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let separator = if number == 0 { "" } else { " " };
        write!(writer, "{separator}fields.")?;
        write_value(writer, name)?;
        writer.write_char('=')?;
        write_value(writer, &text)?;
    }
    Ok(())
}

fn write_value(writer: &mut Writer<'_>, value: &str) -> fmt::Result {
    let needs_quotes = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '=');
    if value.is_empty() || value.contains(needs_quotes) || !escape::is_harmless(value) {
        writer.write_str(&escape::line(&format!("{value:?}")))
    } else {
        writer.write_str(value)
    }
}

/// The `cluster` field of a log line: left out for the only cluster, which has no name.
pub(crate) fn cluster_field(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use serde_json::json;

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
        logged_by(format, level, || {
            tracing::info!(cluster = cluster_field("east"), undelivered = 2, "informer stopped");
            tracing::info!(cluster = cluster_field(""), "informer started");
            tracing::debug!(plugin = "recorder", "plugin stopped");
            tracing::debug!(target: "informant_informer::reflector", informer = "pods", "watch started");
        })
    }

    /// What `log` logs in `format` with the filter `level`.
    fn logged_by(format: LogFormat, level: &str, log: impl FnOnce()) -> String {
        let output = Output::default();
        let writer = output.clone();
        let flags = LogFlags {
            log_level: level.to_owned(),
            log_format: format,
        };
        let (subscriber, _) = subscriber(&flags, false, move || writer.clone()).unwrap();
        tracing::dispatcher::with_default(&subscriber, log);
        let bytes = output.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    /// The plain lines without their timestamps.
    fn plain(level: &str) -> Vec<String> {
        without_times(&logged(LogFormat::Plain, level))
    }

    fn without_times(text: &str) -> Vec<String> {
        let without_time = |line: &str| line.split_once(' ').unwrap().1.trim().to_owned();
        text.lines().map(without_time).collect()
    }

    #[test]
    fn plain_lines_have_no_target_and_no_empty_fields() {
        assert_eq!(
            plain("info"),
            [
                "INFO informer stopped cluster=east undelivered=2",
                "INFO informer started",
            ]
        );
    }

    #[test]
    fn plain_values_are_quoted_only_if_needed() {
        let text = logged_by(LogFormat::Plain, "info", || {
            let name = "greeter";
            tracing::info!(plugin = name, error = "not found", "a");
            tracing::info!(plugin = %name, error = %"not found", "b");
            tracing::info!(
                empty = "",
                pair = "a=b",
                quoted = r#"say "x""#,
                lines = "a\nb",
                "c\x1b[31m"
            );
        });
        assert_eq!(
            without_times(&text),
            [
                r#"INFO a plugin=greeter error="not found""#,
                r#"INFO b plugin=greeter error="not found""#,
                r#"INFO c\u{1b}[31m empty="" pair="a=b" quoted="say \"x\"" lines="a\nb""#,
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
    fn commands_name_the_admin_server_of_dev() {
        let admin = SocketAddr::from(([127, 0, 0, 1], 4711));
        let command = "informant plugin requeue greeter --all";
        let named = for_admin("redeliver", command, Some(&admin));
        assert_eq!(named, "informant plugin requeue greeter --all --admin 127.0.0.1:4711");
        assert_eq!(for_admin("redeliver", command, None), command);
        assert_eq!(for_admin("plugin", command, Some(&admin)), command);
    }

    #[test]
    fn lines_of_dev_are_escaped_and_traces_below_them() {
        let flags = for_dev(&LogFlags {
            log_level: LEVEL_DEFAULT.to_owned(),
            log_format: LogFormat::Plain,
        });
        let text = logged_by(LogFormat::Dev, &flags.log_level, || {
            let (plugin, about) = ("greeter", "add v1/pods web/a in 0.4 ms");
            tracing::info!(target: DEV_TARGET, plugin, about, "call");
            tracing::info!(target: DEV_TARGET, plugin, about, error = "failed\u{1b}[31m\nat line 3", "call");
            tracing::info!(target: DEV_TARGET, plugin, about = "kv set seen 12 B", "effect");
            tracing::info!(target: DEV_TARGET, "built greeter.wasm");
            tracing::warn!(target: DEV_TARGET, error = "no such file", "not built");
            let fields = r#"{"restarts":3}"#;
            tracing::debug!(target: GUEST_TARGET, plugin, stream = "log", fields, "web/a restarted\n");
            let fields = r#"{"stack":"main.greet(...)\n\t/greeter/handler.go:7\n","tries":2}"#;
            let stream = "log";
            tracing::error!(target: GUEST_TARGET, plugin, stream, fields, "panic in on-add: no\u{1b}[31m\nphase");
            tracing::info!(target: "informant_informer", "informer started");
            tracing::warn!(target: "informant_informer", informer = "pods", "watch stale");
        });
        let time = text.find(' ').unwrap() + 1;
        let shown: Vec<&str> = text
            .lines()
            .map(|line| if line.starts_with(' ') { line } else { &line[time..] })
            .collect();
        let expected = [
            "call    greeter add v1/pods web/a in 0.4 ms",
            r"call    greeter add v1/pods web/a in 0.4 ms: failed\u{1b}[31m",
            "  at line 3",
            "effect  greeter kv set seen 12 B",
            "dev     built greeter.wasm",
            "warning not built: no such file",
            "log     greeter DEBUG web/a restarted fields.restarts=3",
            r"log     greeter ERROR panic in on-add: no\u{1b}[31m fields.tries=2",
            "  phase",
            "  fields.stack:",
            "    main.greet(...)",
            "    \t/greeter/handler.go:7",
            "warning watch stale informer=pods",
        ];
        assert_eq!(shown, expected);
        let json = logged_by(LogFormat::Json, &flags.log_level, || {
            tracing::info!(target: DEV_TARGET, plugin = "greeter", about = "kv set seen 12 B", "effect");
        });
        assert!(
            json.contains(r#""message":"effect""#) && json.contains("kv set seen"),
            "{json}"
        );
    }

    #[test]
    fn fields_of_a_guest_are_its_own() {
        let log = || {
            let fields = r#"{"nodes":["a","b"],"plugin":"x y","restarts":3}"#;
            tracing::info!(plugin = "greeter", stream = "log", fields, "restarted");
        };
        assert_eq!(
            without_times(&logged_by(LogFormat::Plain, "info", log)),
            [
                r#"INFO restarted plugin=greeter stream=log fields.nodes="[\"a\",\"b\"]" fields.plugin="x y" fields.restarts=3"#
            ]
        );
        let line: Value = serde_json::from_str(&logged_by(LogFormat::Json, "info", log)).unwrap();
        assert_eq!(
            line["fields"],
            json!({ "message": "restarted", "plugin": "greeter", "stream": "log",
                "fields": { "nodes": ["a", "b"], "plugin": "x y", "restarts": 3 } })
        );
    }

    #[test]
    fn hostile_text_in_json_lines_is_escaped() {
        let hostile = "a\u{9b}31m\u{202e}b\u{7f}\u{2028}é";
        let text = logged_by(LogFormat::Json, "info", || {
            tracing::info!(error = hostile, "plugin stopped")
        });
        assert!(text.ends_with('\n') && escape::is_harmless(text.trim_end()), "{text}");
        let line: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["fields"]["error"], hostile);
    }

    #[test]
    fn filter_by_module_applies_to_the_hidden_target() {
        assert_eq!(
            plain("warn,informant_informer=debug"),
            ["DEBUG watch started informer=pods"]
        );
    }

    #[test]
    fn empty_level_is_the_default() {
        assert_eq!(plain(""), plain(LEVEL_DEFAULT));
    }

    #[test]
    fn invalid_filter_is_refused() {
        let flags = LogFlags {
            log_level: "pods=loud".to_owned(),
            log_format: LogFormat::Plain,
        };
        let error = subscriber(&flags, false, std::io::sink).err().unwrap();
        assert_eq!(
            format!("{error:#}").split(';').next(),
            Some(r#"invalid --log-level (or INFORMANT_LOG): "pods=loud" is not a log level or filter"#)
        );
    }

    #[test]
    fn bare_word_that_is_no_level_is_refused() {
        for level in [
            "debgu",
            "verbose",
            "",
            "bogus,,",
            "info,",
            "informant_informer",
            "informant_lease",
            "debgu,a[b{c=1,d}]=info",
        ] {
            let error = format!("{:#}", parse(level).unwrap_err());
            assert!(
                error.contains("is not a log level or filter; examples: debug"),
                "{error}"
            );
        }
        insta::assert_snapshot!(format!("{:#}", parse("info,debgu").unwrap_err()), @r#""info,debgu" is not a log level or filter; examples: debug, info,informant_informer=debug: "debgu" is none of off, error, warn, info, debug, trace; a crate needs a level, too"#);
        for level in [
            "DEBUG",
            "off",
            "3",
            "warn,informant_informer=debug",
            "info,a[b]=debug",
            "[a]",
        ] {
            parse(level).unwrap();
        }
    }

    #[test]
    fn an_unknown_crate_in_a_filter_is_refused() {
        let refused = |level| format!("{:#}", parse(level).unwrap_err());
        insta::assert_snapshot!(refused("info,informant_informr=debug"), @r#""info,informant_informr=debug" is not a log level or filter; examples: debug, info,informant_informer=debug: "informant_informr" is no crate of Informant; did you mean `informant_informer`?"#);
        assert!(refused("informant_nosuch::a[b]=debug").contains("is no crate of Informant"));
        for level in [
            "informant=debug",
            "info,informant_inform=trace",
            "hyper=debug,informant::admin=debug",
        ] {
            parse(level).unwrap();
        }
    }

    #[test]
    fn each_crate_of_the_program_is_known_to_filters() {
        let manifests = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let names = manifests.map(|folder| {
            let manifest = std::fs::read_to_string(folder.unwrap().path().join("Cargo.toml")).unwrap();
            let name = manifest
                .lines()
                .find_map(|line| line.strip_prefix("name = \""))
                .unwrap();
            name.trim_end_matches('"').replace('-', "_")
        });
        let mut names: Vec<String> = names.filter(|name| name != "informant_client_go").collect();
        names.sort();
        assert_eq!(names, CRATES);
    }

    #[test]
    fn arguments_of_host_functions_are_never_logged() {
        for level in [
            "trace",
            "trace,wasmtime_wasi_http=trace",
            "off,wasmtime_wasi_http[{a}]=trace",
        ] {
            let text = logged_by(LogFormat::Plain, level, || {
                tracing::trace!(target: "wasmtime_wasi_http::p2::bindings", a = "/secret?path", "call");
                tracing::warn!(target: "wasmtime_wasi_http::p2", "warned");
            });
            assert!(!text.contains("secret"), "{text}");
        }
    }

    #[test]
    fn no_filter_removes_lines_of_the_audit_target() {
        for level in [
            "off",
            "error,informant=off",
            "off,informant::audi[{user}]=off",
            "off,[{user}]=off",
        ] {
            let text = logged_by(LogFormat::Plain, level, || {
                tracing::info!(target: AUDIT_TARGET, user = "alice", "plugin paused");
                tracing::info!("plugin loaded");
            });
            assert_eq!(without_times(&text), ["INFO plugin paused user=alice"], "{level}");
        }
        for level in ["info,informant::audit=off", "off,informant::audit[{user}]=off"] {
            let error = parse(level).unwrap_err().to_string();
            assert!(error.ends_with("is always logged"), "{error}");
        }
    }

    #[test]
    fn filter_is_replaced_while_the_log_is_written() {
        for format in [LogFormat::Plain, LogFormat::Json] {
            let output = Output::default();
            let writer = output.clone();
            let flags = LogFlags {
                log_level: "warn".to_owned(),
                log_format: format,
            };
            let (subscriber, filter) = subscriber(&flags, false, move || writer.clone()).unwrap();
            tracing::dispatcher::with_default(&subscriber, || {
                for level in ["debug", "off", "loud=loud", "info"] {
                    let _ = filter.set(level, None);
                    tracing::debug!(level, "fine");
                    tracing::info!(level, "coarse");
                }
            });
            assert_eq!(*filter.text(), "info");
            let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
            let lines = ["log level changed", "fine", "coarse"];
            let logged: Vec<_> = text
                .lines()
                .flat_map(|line| lines.iter().filter(|part| line.contains(**part)))
                .collect();
            // Each change is logged, whatever the filter before.
            let expected = [
                "log level changed",
                "fine",
                "coarse",
                "log level changed",
                "log level changed",
                "coarse",
            ];
            assert_eq!(logged.into_iter().copied().collect::<Vec<_>>(), expected, "{text}");
        }
    }
}
