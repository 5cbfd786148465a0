//! The table of languages in `docs/reference/languages.md`: what the kit found. With `INFORMANT_TESTS_UPDATE=1` the
//! tests write it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{env, fs};

use super::BEHAVIORS;
use super::languages;

pub(super) const INDEXES: &str = "indexes are computed, and an object that fails has no values";
pub(super) const HTTP: &str = "HTTP requests are sent as far as they are granted";
pub(super) const WRITES: &str = "a write goes to the object of the event, in its cluster";
pub(super) const DEFERRED: &str = "deferred writes are sent in order when the call succeeds";
pub(super) const DENIED: &str = "a write that is not granted is denied";
pub(super) const RECONCILED: &str = "an object is reconciled when it, or one that it owns, has changed";
pub(super) const GONE: &str = "an object that is gone is reconciled once, without it";
pub(super) const CHILDREN: &str = "children are created, updated and pruned, and those of others stay";
pub(super) const STATUS: &str = "a status and its conditions are written if they differ";
pub(super) const FINALIZER: &str = "a finalizer is removed after the cleanup";
pub(super) const TIMERS: &str = "timers run when they are due, and a failed run is retried";
pub(super) const EVENTS: &str = "Kubernetes Events are sent after success only, and need a grant";
pub(super) const MANIFEST: &str = "the manifest has no member at its default";
pub(super) const RECONCILER_MANIFEST: &str = "the manifest of a reconciler has none, either";
pub(super) const SOAK: &str = "memory stays bounded while payloads change their size";
pub(super) const LOAD: &str = "a swap under load loses no event, and counts none twice";

/// The rows after those of the behaviors.
const OTHERS: [&str; 16] = [
    INDEXES,
    HTTP,
    WRITES,
    DEFERRED,
    DENIED,
    RECONCILED,
    GONE,
    CHILDREN,
    STATUS,
    FINALIZER,
    TIMERS,
    EVENTS,
    MANIFEST,
    RECONCILER_MANIFEST,
    SOAK,
    LOAD,
];

/// What is around the table.
const BEGIN: &str = "<!-- written by the conformance kit -->\n";
const END: &str = "<!-- end -->\n";

/// If set, the tests write the table.
const UPDATE: &str = "INFORMANT_TESTS_UPDATE";

/// One test writes at a time.
static WRITING: Mutex<()> = Mutex::new(());

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/languages.md")
}

/// All rows, in their order.
fn features() -> impl Iterator<Item = &'static str> {
    BEHAVIORS.iter().map(|behavior| behavior.name).chain(OTHERS)
}

/// The text before the table, the cells of its lines, and the text after it.
fn read() -> (String, Vec<Vec<String>>, String) {
    let text = fs::read_to_string(page()).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    let cells = |line: &str| {
        line.trim_matches('|')
            .split('|')
            .map(|cell| cell.trim().to_owned())
            .collect()
    };
    (before.to_owned(), table.lines().map(cells).collect(), after.to_owned())
}

/// Writes the table with these cells of the row `feature`. Rows that are not known yet have empty cells.
fn write(feature: &str, cells: &[String]) {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let (before, lines, after) = read();
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines {
        if let Some((name, cells)) = line.split_first() {
            known.insert(name.clone(), cells.to_vec());
        }
    }
    known.insert(feature.to_owned(), cells.to_vec());
    let names = languages::names();
    let empty = vec![String::new(); names.len()];
    let row = |name: &str, cells: &[String]| format!("| {name} | {} |\n", cells.join(" | "));
    let mut table = row("", &names.map(str::to_owned)) + &row("---", &names.map(|_| "---".to_owned()));
    table.extend(features().map(|feature| row(feature, known.get(feature).unwrap_or(&empty))));
    fs::write(
        page(),
        [before.as_str(), BEGIN, table.as_str(), END, after.as_str()].concat(),
    )
    .unwrap();
}

/// Compares what the kit found about `feature` with its row.
pub(super) fn compare(feature: &str, found: &[(&str, bool)]) {
    assert!(features().any(|known| known == feature), "{feature:?} is not a row");
    let word = |passed: bool| if passed { "yes" } else { "no" }.to_owned();
    if env::var_os(UPDATE).is_some() {
        assert_eq!(
            found.len(),
            languages::names().len(),
            "to write the table, build every language"
        );
        write(
            feature,
            &found.iter().map(|(_, passed)| word(*passed)).collect::<Vec<_>>(),
        );
        return;
    }
    let (_, lines, _) = read();
    let row = lines.iter().find(|cells| cells[0] == feature);
    let row = row.unwrap_or_else(|| panic!("{} has no row {feature:?}: set {UPDATE}=1", page().display()));
    for (language, passed) in found {
        let column = lines[0].iter().position(|name| name == language).unwrap();
        let passed = word(*passed);
        assert_eq!(
            row[column], passed,
            "{feature}: {language}; a failure is above, a new result is written with {UPDATE}=1"
        );
    }
}

#[test]
fn the_table_has_every_feature_and_language() {
    if env::var_os(UPDATE).is_some() {
        return;
    }
    let (_, lines, _) = read();
    assert_eq!(lines[0][1..], languages::names());
    let rows: Vec<&str> = lines[2..].iter().map(|cells| cells[0].as_str()).collect();
    assert_eq!(rows, features().collect::<Vec<_>>());
}
