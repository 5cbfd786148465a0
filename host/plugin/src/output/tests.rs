mod fuzz;

use std::sync::Arc;

use tracing::subscriber::with_default;

use super::*;
use crate::testing::LogLines;

fn lines_of(write: impl FnOnce(&Output)) -> (Vec<String>, Counter) {
    let log = LogLines::default();
    let dropped = Counter::default();
    with_default(log.clone(), || {
        write(&Output::new(Arc::from("greeter"), dropped.clone()))
    });
    (log.take(), dropped)
}

#[test]
fn output_is_logged_line_by_line() {
    let (lines, _) = lines_of(|output| {
        for piece in ["hel", "lo\nwor", "ld\n\nand"] {
            output.stream(Stream::Stdout).write(bytes::Bytes::from(piece)).unwrap();
        }
        output.log(Level::Error, "oh", &[], Some("east"));
        output.end_call();
    });
    insta::assert_snapshot!(lines.join("\n"), @r#"
    INFO hello plugin="greeter" stream="stdout"
    INFO world plugin="greeter" stream="stdout"
    ERROR oh plugin="greeter" cluster="east" stream="log"
    INFO and plugin="greeter" stream="stdout"
    "#);
}

#[test]
fn output_above_the_call_limit_is_counted() {
    let (lines, dropped) = lines_of(|output| {
        for _ in 0..1_000 {
            output.log(Level::Info, &"x".repeat(999), &[], None);
        }
        output.end_call();
        output.log(Level::Info, "the next call", &[], None);
    });
    let kept = CALL_BYTES_MAX / 1_000;
    assert_eq!(lines.len(), kept + 2);
    assert_eq!(dropped.get(), (1_000 - kept as u64) * 999);
    insta::assert_snapshot!(lines[kept..].join("\n"), @r#"
    WARN plugin log truncated plugin="greeter" dropped_bytes=934065 bytes_max=65536
    INFO the next call plugin="greeter" stream="log"
    "#);
}

#[test]
fn fields_are_logged_as_json_within_the_limits() {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let (lines, dropped) = lines_of(|output| {
        let fields = [
            field("restarts", "3"),
            field("node", "worker 1"),
            field("tags", "[\"a\"]"),
        ];
        output.log(Level::Info, "restarted", &fields, None);
        let long = "z".repeat(LINE_BYTES_MAX);
        output.log(
            Level::Info,
            "long",
            &[field("all", &long), field("short", "true")],
            None,
        );
        let many: Vec<_> = (0..FIELDS_MAX + 2)
            .map(|number| field(&format!("f{number}"), "0"))
            .collect();
        output.log(Level::Info, "many", &many, None);
    });
    insta::assert_snapshot!(lines[..2].join("\n"), @r#"
    INFO restarted plugin="greeter" stream="log" fields="{\"node\":\"worker 1\",\"restarts\":3,\"tags\":[\"a\"]}"
    INFO long plugin="greeter" stream="log" fields="{\"short\":true}"
    "#);
    assert!(lines[2].contains("f31") && !lines[2].contains("f32"), "{}", lines[2]);
    assert_eq!(dropped.get(), (LINE_BYTES_MAX + 3 + 2 * 4) as u64);
}

#[test]
fn an_endless_line_is_cut_and_charged() {
    let (lines, dropped) = lines_of(|output| {
        let mut stderr = output.stream(Stream::Stderr);
        for _ in 0..100 {
            stderr.write(bytes::Bytes::from(vec![b'y'; 60_000])).unwrap();
        }
        output.end_call();
        output.log(Level::Info, "the next call", &[], None);
    });
    assert!(lines.iter().map(String::len).sum::<usize>() < CALL_BYTES_MAX);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(dropped.get() > 5_900_000);
}

#[test]
fn the_tail_holds_the_last_lines_of_the_current_call() {
    let output = Output::new(Arc::from("greeter"), Counter::default());
    output.log(Level::Error, "of the call before", &[], None);
    output.end_call();
    for line in 0..100 {
        output
            .stream(Stream::Stderr)
            .write(bytes::Bytes::from(format!("line {line}\n")))
            .unwrap();
    }
    output.log(Level::Info, "not an error", &[], None);
    output.log(Level::Error, "an error", &[], None);
    output
        .stream(Stream::Stderr)
        .write(bytes::Bytes::from("unfinished"))
        .unwrap();
    let tail = output.take_tail();
    assert_eq!(tail.len(), TAIL_LINES_MAX);
    assert_eq!(tail[TAIL_LINES_MAX - 3..], ["line 99", "an error", "unfinished"]);
}

#[test]
fn invalid_utf8_is_replaced_in_the_log() {
    let (lines, _) = lines_of(|output| {
        output
            .stream(Stream::Stderr)
            .write(bytes::Bytes::from_static(b"\xff\xfe\n"))
            .unwrap();
        output.end_call();
    });
    insta::assert_snapshot!(lines.join("\n"), @r#"WARN �� plugin="greeter" stream="stderr""#);
}

#[test]
fn a_long_message_is_cut_not_dropped() {
    let (lines, dropped) = lines_of(|output| {
        output.log(Level::Info, &"x".repeat(100_000), &[], None);
        output.end_call();
        output.log(Level::Info, "the next call", &[], None);
    });
    assert!(lines[0].starts_with("INFO xxx"), "{lines:?}");
    assert!(lines[0].contains("x…"), "{lines:?}");
    assert_eq!(dropped.get(), (100_000 - LINE_BYTES_MAX) as u64);
    assert!(lines.last().is_some_and(|line| line.contains("the next call")));
}

#[test]
fn stderr_of_a_trap_is_only_in_its_report() {
    let (lines, _) = lines_of(|output| {
        let mut stderr = output.stream(Stream::Stderr);
        stderr.write(bytes::Bytes::from("a warning\n")).unwrap();
        output.log(Level::Info, "working", &[], None);
        stderr.write(bytes::Bytes::from("panicked at src/lib.rs:7\n")).unwrap();
        assert_eq!(output.take_tail(), ["a warning", "panicked at src/lib.rs:7"]);
        output.end_call();
    });
    insta::assert_snapshot!(lines.join("\n"), @r#"
    WARN a warning plugin="greeter" stream="stderr"
    INFO working plugin="greeter" stream="log"
    "#);
}

#[test]
fn stderr_without_a_trap_is_logged_when_the_call_ends() {
    let (lines, _) = lines_of(|output| {
        let mut stderr = output.stream(Stream::Stderr);
        for line in 0..TAIL_LINES_MAX + 5 {
            stderr.write(bytes::Bytes::from(format!("line {line}\n"))).unwrap();
        }
        output.end_call();
    });
    assert_eq!(lines.len(), TAIL_LINES_MAX + 5);
    assert!(
        lines
            .iter()
            .enumerate()
            .all(|(at, line)| line.contains(&format!("line {at} ")))
    );
}
