//! What a guest may log: the bounds are kept, and everything above them is counted.

use informant_fuzz::{corpus, fuzz};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::*;

/// A text: a part, and how often.
type Repeated = (String, usize);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Write {
    Line(Repeated, Vec<(String, Repeated)>),
    Stdout(Repeated),
    Stderr(Repeated),
}

fn text() -> impl Strategy<Value = Repeated> {
    let part = prop_oneof![
        select(
            &[
                "",
                "x",
                "é😀",
                "a\nb",
                "\n",
                "\u{1b}[31m",
                "{\"a\":1}",
                "[[[",
                "1e999",
                "null"
            ][..]
        )
        .prop_map(str::to_owned),
        ".{0,10}",
    ];
    (
        part,
        prop_oneof![8 => 0_usize..4, 1 => Just(LINE_BYTES_MAX), 1 => Just(CALL_BYTES_MAX)],
    )
}

fn write() -> impl Strategy<Value = Write> {
    let fields =
        prop_oneof![4 => vec((".{0,4}", text()), 0..3), 1 => vec((".{0,4}", text()), FIELDS_MAX..FIELDS_MAX + 3)];
    prop_oneof![
        3 => (text(), fields).prop_map(|(text, fields)| Write::Line(text, fields)),
        1 => text().prop_map(Write::Stdout),
        1 => text().prop_map(Write::Stderr),
    ]
}

fn repeated((part, times): &Repeated) -> String {
    part.repeat(*times)
}

fn perform(output: &Output, write: &Write) {
    let stream = |stream, text: &Repeated| {
        let bytes = repeated(text).into_bytes();
        output.stream(stream).write(bytes.into()).unwrap();
    };
    match write {
        Write::Stdout(text) => stream(Stream::Stdout, text),
        Write::Stderr(text) => stream(Stream::Stderr, text),
        Write::Line(text, fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| (name.clone(), repeated(value)))
                .collect();
            output.log(Level::Info, &repeated(text), &fields, None);
        }
    }
}

#[test]
fn a_call_logs_no_more_than_its_limit() {
    fuzz(corpus!("log"), vec(write(), 0..12), |writes| {
        let (lines, dropped) = lines_of(|output| {
            writes.iter().for_each(|write| perform(output, write));
            output.end_call();
            output.log(Level::Info, "the next call", &[], None);
        });
        let (next, of_call) = lines.split_last().unwrap();
        prop_assert!(next.contains("the next call"), "{next}");
        let logged = of_call.iter().filter(|line| !line.contains(" dropped_bytes="));
        // What Informant adds to a line: the level, the plugin, the stream.
        let own_bytes = 80;
        let bytes: usize = logged.clone().map(|line| line.len().saturating_sub(own_bytes)).sum();
        // A control character in a field takes seven bytes, in JSON and as this log writes it.
        prop_assert!(bytes <= 7 * CALL_BYTES_MAX, "{bytes}");
        prop_assert!(logged.clone().all(|line| line.len() <= 7 * LINE_BYTES_MAX + 200));
        for line in logged {
            if let Some((_, fields)) = line.split_once(" fields=") {
                let fields: String = serde_json::from_str(fields).unwrap_or_default();
                prop_assert!(
                    fields.is_empty() || serde_json::from_str::<Value>(&fields).is_ok_and(|fields| fields.is_object())
                );
            }
        }
        let is_truncated = of_call.iter().any(|line| line.contains(" dropped_bytes="));
        prop_assert_eq!(is_truncated, dropped.get() > 0);
        Ok(())
    });
}
