//! The log events in docs/reference/logs.md are the ones in the code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Where log events are.
const SOURCES: [&str; 5] = ["informant", "informer", "plugin", "state", "apiserver"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests is a folder of the project")
}

/// All sources below `folder` that are not tests, with their code up to inline tests.
fn code_below(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder can be read to its end").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !["tests", "testing"].contains(&name.as_str()) {
            code_below(&path, into);
        } else if name.ends_with(".rs") && !["tests.rs", "testing.rs"].contains(&name.as_str()) {
            let text = std::fs::read_to_string(&path).expect("sources are text");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let is_comment = |line: &&str| line.trim_start().starts_with("//");
            let code: Vec<&str> = code.lines().filter(|line| !is_comment(line)).collect();
            into.push((path, code.join("\n")));
        }
    }
}

/// The arguments of the macro call whose opening parenthesis stands before `rest`.
fn arguments(rest: &str) -> &str {
    let (mut depth, mut in_string, mut escaped) = (1_u32, false, false);
    for (at, letter) in rest.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            '(' if !in_string => depth += 1,
            ')' if !in_string => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &rest[..at];
        }
    }
    rest
}

/// The message of an event: the literal that is an argument of its own, not the value of a field.
fn message(arguments: &str) -> Option<String> {
    let literal = Regex::new(r#"(?:^|,)\s*"((?:[^"\\]|\\.)*)""#).expect("a regular expression");
    let found = literal.captures_iter(arguments).last()?;
    Some(found[1].replace("\\\"", "\""))
}

/// The messages at level info and above.
fn messages() -> BTreeSet<String> {
    let mut sources = Vec::new();
    for folder in SOURCES {
        code_below(&root().join("host").join(folder).join("src"), &mut sources);
    }
    let level = "(?:info|warn|error)";
    let event = format!(r"\b(?:tracing::{level}!\(|log!\(\s*{level},|log_unless!\(\s*[^,]+,\s*{level},)");
    let event = Regex::new(&event).expect("a regular expression");
    let mut messages = BTreeSet::new();
    for (_, code) in &sources {
        let calls = event.find_iter(code);
        messages.extend(calls.filter_map(|call| message(arguments(&code[call.end()..]))));
    }
    // A message that is computed is none that could be listed word by word.
    messages.retain(|message| !message.starts_with('{'));
    messages
}

/// The messages in the second column of the tables of events.
fn documented() -> BTreeSet<String> {
    let page = std::fs::read_to_string(root().join("docs/reference/logs.md")).expect("the page exists");
    let (_, events) = page.split_once("\n## Events\n").expect("the page lists events");
    let rows = events.lines().filter_map(|line| {
        let mut cells = line.split('|').map(str::trim);
        let level = cells.nth(1)?;
        let cell = cells.next()?;
        ["info", "warn", "error"]
            .iter()
            .any(|known| level.contains(known))
            .then_some(cell)
    });
    let mut documented = BTreeSet::new();
    for cell in rows {
        // A message with backticks in it stands between double ones.
        if let Some(inner) = cell.strip_prefix("`` ").or_else(|| cell.strip_prefix("``")) {
            documented
                .insert(inner.trim_end_matches('`').trim().to_owned() + if inner.ends_with("` ``") { "`" } else { "" });
        } else {
            documented.extend(cell.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    documented
}

#[test]
fn documented_log_events_match_the_code() {
    let (in_code, documented) = (messages(), documented());
    assert!(in_code.len() > 60, "only {} events were found", in_code.len());
    let missing: Vec<_> = in_code.difference(&documented).collect();
    let gone: Vec<_> = documented.difference(&in_code).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "in the code, and not in docs/reference/logs.md: {missing:#?}\nonly in docs/reference/logs.md: {gone:#?}"
    );
}

#[test]
fn codes_of_log_events_have_runbooks() {
    let mut sources = Vec::new();
    for folder in SOURCES {
        code_below(&root().join("host").join(folder).join("src"), &mut sources);
    }
    let code = Regex::new(r#"\bcode = "([a-z-]+)","#).expect("a regular expression");
    let codes: BTreeSet<&str> = sources
        .iter()
        .flat_map(|(_, text)| code.captures_iter(text))
        .filter_map(|found| Some(found.get(1)?.as_str()))
        .collect();
    assert!(codes.len() > 5, "only {codes:?} were found");
    for code in codes {
        let page = root().join(format!("docs/runbooks/{code}.md"));
        assert!(page.is_file(), "{code} has no runbook");
    }
}

#[test]
fn the_message_is_the_literal_without_a_name() {
    assert_eq!(
        message(r#"plugin = %name, text = "a", "plugin \"x\" loaded""#).as_deref(),
        Some(r#"plugin "x" loaded"#)
    );
    assert_eq!(arguments(r#"a = (1), "b)") + c"#), r#"a = (1), "b)""#);
}
