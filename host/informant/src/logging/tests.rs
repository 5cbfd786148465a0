//! The lines of the log, and which of them are shown.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::*;
use crate::escape;

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
        let error = filter::parse(level).unwrap_err().to_string();
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
