//! Rewrites expectations in a scenario's file, and nothing else in it.

use std::ops::Range;

use serde_json::Value;

use super::flow::{LINE_CHARS_MAX, flow, text_of};
use super::scenario::Expect;

/// A change of a file: these bytes become this text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) bytes: Range<usize>,
    pub(super) text: String,
}

/// The change that makes `value` the value of the member `name`. None if the expectation does not have it, or shares it
/// with another place by an anchor.
pub(super) fn edit(text: &str, expect: &Expect, name: &str, value: &Value) -> Option<Edit> {
    let (_, key, old) = expect.members.iter().find(|(member, ..)| member == name)?;
    let line_start = text[..key.start].rfind('\n').map_or(0, |at| at + 1);
    let before = &text[line_start..key.start];
    // Inside of `{ }` a line break would end nothing, but is not how people write it.
    let is_block = before.chars().all(|c| c == ' ' || c == '-');
    let indent = before.chars().count();
    let one_line = flow(value);
    let colon = key.end + text[key.end..].find(':')? + 1;
    let is_short = indent + name.len() + 2 + one_line.chars().count() <= LINE_CHARS_MAX;
    let written = match value {
        Value::Array(values) if is_block && !is_short => {
            let lines = values
                .iter()
                .map(|value| format!("\n{:indent$}  - {}", "", flow(value)));
            lines.collect()
        }
        Value::Object(members) if is_block && !is_short => {
            let lines = members
                .iter()
                .map(|(name, value)| format!("\n{:indent$}  {}: {}", "", text_of(name), flow(value)));
            lines.collect()
        }
        _ => format!(" {one_line}"),
    };
    Some(Edit {
        bytes: colon..old.end.max(colon),
        text: written,
    })
}

/// The text with all edits, which do not overlap.
pub(super) fn apply(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|edit| edit.bytes.start);
    let mut edited = text.to_owned();
    for edit in edits.into_iter().rev() {
        edited.replace_range(edit.bytes, &edit.text);
    }
    edited
}

#[cfg(test)]
mod tests {
    use informant_config::SourceFile;
    use serde_json::json;

    use super::*;
    use crate::cli::test::scenario::Scenario;

    #[test]
    fn comments_and_other_members_stay() {
        let text = "\
# a scenario
steps:
  - apply: { apiVersion: v1, kind: Pod, metadata: { name: a } } # a pod
    expect:
      # what it does
      calls:
        - on-add v1/pods default/a # once
        - on-add v1/pods default/b
      log: [] # nothing
  - expect: { log: [a], calls: [] }
";
        let scenario = Scenario::parse(SourceFile::new("a.scenario.yaml", text)).unwrap();
        let expects: Vec<_> = scenario.steps.iter().filter_map(|step| step.expect.as_ref()).collect();
        let long: Vec<String> = (0..9).map(|number| format!("a message, number {number}")).collect();
        let edits = [
            edit(text, expects[0], "calls", &json!(["on-add v1/pods default/c"])),
            edit(text, expects[0], "log", &json!(long)),
            edit(
                text,
                expects[1],
                "log",
                &json!([{ "level": "warn", "message": "a: b" }]),
            ),
            edit(text, expects[1], "writes", &json!([])),
        ];
        assert_eq!(edits[3], None);
        let lines: String = long.iter().map(|line| format!("\n        - \"{line}\"")).collect();
        let expected = format!(
            "\
# a scenario
steps:
  - apply: {{ apiVersion: v1, kind: Pod, metadata: {{ name: a }} }} # a pod
    expect:
      # what it does
      calls: [on-add v1/pods default/c]
      log:{lines} # nothing
  - expect: {{ log: [{{ level: warn, message: \"a: b\" }}], calls: [] }}
"
        );
        assert_eq!(apply(text, edits.into_iter().flatten().collect()), expected);
    }

    #[test]
    fn block_scalars_are_replaced_with_the_lines_that_are_theirs() {
        let text = "\
steps:
  - expect:
      kv:
        last: |
          one
          two

  - wait: 1s
";
        let scenario = Scenario::parse(SourceFile::new("a.scenario.yaml", text)).unwrap();
        let expect = scenario.steps[0].expect.as_ref().unwrap();
        let edit = edit(text, expect, "kv", &json!({ "last": "three" })).unwrap();
        let updated = apply(text, vec![edit]);
        assert_eq!(
            updated,
            "steps:\n  - expect:\n      kv: { last: three }\n\n  - wait: 1s\n"
        );
    }

    #[test]
    fn what_an_anchor_shares_is_not_rewritten() {
        let text = "\
steps:
  - expect: &e { calls: [] }
  - expect: *e
  - expect: { calls: &c [], log: [] }
  - expect: { calls: *c }
";
        let scenario = Scenario::parse(SourceFile::new("a.scenario.yaml", text)).unwrap();
        let expects: Vec<_> = scenario.steps.iter().filter_map(|step| step.expect.as_ref()).collect();
        let edits = expects
            .iter()
            .filter_map(|expect| edit(text, expect, "calls", &json!(["save"])));
        assert_eq!(edits.count(), 0);
        assert!(edit(text, expects[2], "log", &json!(["a"])).is_some());
    }
}
