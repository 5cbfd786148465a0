//! Text that people read is plain English: documentation, help, errors, log lines, snapshots, comments and WIT.
//!
//! Each line of every text file is held against a list of phrases that readers from outside had to decode. Code spans
//! (between backticks) and fenced blocks of Markdown are exempt. Prose and comments wrap at 120 columns, and the names
//! of tests have at most ten words. A public type name stands for one thing across the host crates.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};

/// A phrase as a regular expression, and what to write instead.
const PHRASES: [(&str, &str); 34] = [
    (r"told", "receives, is notified of, is reported; redelivered"),
    (r"(goes|went|go|going|gone) on", "continues"),
    (r"runs on", "keeps running"),
    (r"judg(e|es|ed|ing|ement|ment)", "validates, checks, authorizes"),
    (r"slips?", "a typo, an error"),
    (r"taken (in|over)", "applied"),
    (r"comes? before both", "overrides, takes precedence over"),
    (r"fares?", "status"),
    (r"anew", "again, from scratch, is recreated"),
    (r"for want of", "without, for lack of"),
    (r"can not", "cannot"),
    (r"no more", "no longer"),
    (r"nobody", "no handler, no client; name the actor"),
    (r"whoever", "you, a caller"),
    (r"who (asks|passes|embeds)", "a caller that …, if you …"),
    (r"(is|are|was|were) said( to be)?", "is reported (as)"),
    (r"sa(ys|id) so", "reports it"),
    (r"makes no client", "cannot build a client"),
    (r"(this|per|pure|of) rooms?", "crate, module"),
    (r"keepers?", "supervisor"),
    (r"for ever", "forever"),
    (r"time and again", "repeatedly"),
    (r"beside", "next to, with, in addition to"),
    (
        r"[a-z]*(behaviour|neighbour|colour|honour|favour)[a-z]*",
        "American spelling",
    ),
    (
        r"[a-z]*(serialis|optimis|initialis|recognis|normalis|organis|summaris|minimis|authoris)[a-z]+",
        "American spelling",
    ),
    (r"artefacts?|licence", "American spelling"),
    (r"hears? of", "is notified of"),
    (r"what (ran|runs) before", "the previous version"),
    (
        r"is shown (the cache|everything|all of it|it all)",
        "receives a replay of the cache",
    ),
    (r"names no", "does not name a …, is not a …"),
    (r"counts no", "does not count"),
    (r"can be had", "is available"),
    (r"all the same", "even so, still"),
    (r"made up for", "recovered, repeated"),
];

/// What a phrase of the list may be a part of.
const ALLOWED: [&str; 2] = ["no more than", "informant_plugin_artefacts"];

/// Folders and files that are not ours, or generated, or quote what must not be said.
const SKIPPED: [&str; 8] = [
    ".git",
    "target",
    "node_modules",
    "corpus",
    "gen",
    "tests/tests/prose.rs",
    "package-lock.json",
    "go.sum",
];

const EXTENSIONS: [&str; 14] = [
    "md", "rs", "wit", "toml", "yaml", "js", "mjs", "ts", "c", "h", "go", "snap", "sh", "json",
];

/// How long a line of prose or of a comment may be.
const COLUMNS_MAX: usize = 120;

/// How many words the name of a test may have.
const TEST_NAME_WORDS_MAX: usize = 10;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests is a folder of the project")
}

/// All text files of the project, as paths below its root with their texts.
fn texts() -> Vec<(PathBuf, String)> {
    let mut texts = Vec::new();
    texts_below(root(), &mut texts);
    assert!(texts.len() > 500, "only {} files were found", texts.len());
    texts
}

fn texts_below(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder can be read to its end").path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let below = path.strip_prefix(root()).expect("it is below the root").to_owned();
        if SKIPPED
            .iter()
            .any(|skipped| *skipped == name || Path::new(skipped) == below)
            || path.is_symlink()
        {
            continue;
        }
        if path.is_dir() {
            texts_below(&path, into);
        } else if path
            .extension()
            .is_some_and(|found| EXTENSIONS.iter().any(|extension| found == *extension))
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            into.push((below, text));
        }
    }
}

/// The lines of a text with their numbers; of Markdown without fenced blocks.
fn lines<'t>(path: &Path, text: &'t str) -> Vec<(usize, &'t str)> {
    let is_markdown = path.extension().is_some_and(|extension| extension == "md");
    let mut is_fenced = false;
    let numbered = text.lines().enumerate().map(|(at, line)| (at + 1, line));
    numbered
        .filter(|(_, line)| {
            let is_fence = is_markdown && line.trim_start().starts_with("```");
            is_fenced ^= is_fence;
            !is_fence && !is_fenced
        })
        .collect()
}

/// Without what stands between backticks.
fn without_code_spans(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

fn phrases() -> Vec<(Regex, &'static str)> {
    let compiled = PHRASES.iter().map(|(phrase, instead)| {
        let regex = RegexBuilder::new(&format!(r"\b({phrase})\b"))
            .case_insensitive(true)
            .build();
        (regex.expect("each phrase is a regular expression"), *instead)
    });
    compiled.collect()
}

fn findings_in(line: &str, phrases: &[(Regex, &'static str)]) -> Vec<(String, &'static str)> {
    let mut line = without_code_spans(line);
    for allowed in ALLOWED {
        line = line.replace(allowed, "");
    }
    let found = phrases.iter().filter_map(|(phrase, instead)| {
        let found = phrase.find(&line)?;
        Some((found.as_str().to_owned(), *instead))
    });
    found.collect()
}

#[test]
fn text_uses_no_private_phrases() {
    let phrases = phrases();
    let mut report = String::new();
    for (path, text) in texts() {
        for (number, line) in lines(&path, &text) {
            for (found, instead) in findings_in(line, &phrases) {
                let _ = writeln!(report, "{}:{number}: {found:?}; write: {instead}", path.display());
            }
        }
    }
    assert!(report.is_empty(), "phrases that readers have to decode:\n{report}");
}

#[test]
fn code_spans_and_allowed_phrases_are_exempt() {
    let phrases = phrases();
    let found = |line: &str| findings_in(line, &phrases).len();
    assert_eq!(found("the handler is told of it"), 1);
    assert_eq!(found("the field `told` of it"), 0);
    assert_eq!(found("no more than ten"), 0);
    assert_eq!(found("it is no more"), 1);
    assert_eq!(found("a Slip, judged for ever"), 3);
}

#[test]
fn prose_and_comments_wrap_at_120_columns() {
    let mut report = String::new();
    for (path, text) in texts() {
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        for (number, line) in lines(&path, &text) {
            let is_prose = match extension.as_str() {
                // Tables cannot be wrapped.
                "md" => !line.trim_start().starts_with('|'),
                "rs" | "wit" => line.trim_start().starts_with("//"),
                _ => false,
            };
            let columns = line.chars().count();
            if is_prose && columns > COLUMNS_MAX && !line.contains("://") {
                let _ = writeln!(report, "{}:{number}: {columns} columns", path.display());
            }
        }
    }
    assert!(report.is_empty(), "lines above {COLUMNS_MAX} columns:\n{report}");
}

#[test]
fn test_names_have_at_most_ten_words() {
    let attribute = Regex::new(r"#\[(?:tokio::)?test\b[^\n]*\n(?:\s*(?:#\[|//)[^\n]*\n)*\s*(?:async )?fn (\w+)")
        .expect("a regular expression");
    let mut report = String::new();
    let mut count = 0_usize;
    for (path, text) in texts() {
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        for name in attribute.captures_iter(&text).filter_map(|found| found.get(1)) {
            count += 1;
            let words = name.as_str().split('_').count();
            if words > TEST_NAME_WORDS_MAX {
                let _ = writeln!(report, "{}: {} ({words} words)", path.display(), name.as_str());
            }
        }
    }
    assert!(count > 1_000, "only {count} tests were found");
    assert!(
        report.is_empty(),
        "names of tests with more than {TEST_NAME_WORDS_MAX} words:\n{report}"
    );
}

/// The queue of `informant-client-go` has client-go's names, as that of `informant-cache` has: a program uses one of
/// the two crates.
const SHARED_TYPE_NAMES: [&str; 5] = ["Delta", "DeltaFifo", "DeltaFifoOptions", "DeltaType", "Deltas"];

#[test]
fn public_type_names_are_unique_across_host_crates() {
    let declaration = Regex::new(r"(?m)^\s*pub (?:struct|enum|trait|type) (\w+)").expect("a regular expression");
    let mut places = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (path, text) in texts() {
        let name = path.to_string_lossy().into_owned();
        let is_source = name.starts_with("host/") && name.contains("/src/") && name.ends_with(".rs");
        if is_source && !name.contains("tests") && !name.contains("testing") {
            for found in declaration.captures_iter(&text) {
                places.entry(found[1].to_owned()).or_default().push(name.clone());
            }
        }
    }
    assert!(places.len() > 150, "only {} public types were found", places.len());
    places.retain(|name, files| files.len() > 1 && !SHARED_TYPE_NAMES.contains(&name.as_str()));
    assert!(places.is_empty(), "one name for several public types: {places:#?}");
}
