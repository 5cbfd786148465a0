//! The documentation and the tests that guard it agree: `docs/contributing/tests.md` names tests that exist, and has a
//! row for each clause, behavior and invariant that the documentation promises.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use informant_tests::simulation::Clause;

/// Folders that are searched for tests.
const SOURCES: [&str; 7] = [
    "host",
    "plugin-sdk",
    "plugins",
    "tests/src",
    "tests/tests",
    "tests/wake-ups",
    "xtask",
];

/// Every function here counts as a test: scenarios are plain functions that one test runs for each cluster, or names
/// from which a macro makes tests.
const SCENARIOS: [&str; 3] = [
    "tests/tests/end_to_end",
    "tests/tests/conformance",
    "tests/tests/scenarios.rs",
];

/// The page that lists the tests.
const TESTS: &str = "docs/contributing/tests.md";
const CASES: &str = "tests/src/simulation/cases.md";
const DELIVERY: &str = "docs/explanation/delivery.md";
const SEMANTICS: &str = "docs/explanation/client-go-semantics.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// What a row may say instead of naming a test.
const EXPLICIT: [&str; 3] = ["by construction", "not offered", "not built"];

fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().expect("tests is a folder of the project").to_owned()
}

fn read(document: &str) -> String {
    let path = root().join(document);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The name of the function that `line` declares.
fn declared(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let is_declaration = before
        .chars()
        .all(|found| found.is_ascii_alphanumeric() || " (_)".contains(found));
    let end = after.find(|found: char| !found.is_ascii_alphanumeric() && found != '_');
    is_declaration.then(|| &after[..end.unwrap_or(after.len())])
}

/// The tests in one file: functions with `#[test]` or `#[….::test…]`; all functions if it is a file of scenarios.
fn tests_in(text: &str, has_scenarios: bool) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    text.lines().filter_map(move |line| {
        let attribute = line.trim_start();
        is_test |= attribute.starts_with("#[test]") || (attribute.starts_with("#[") && attribute.contains("::test"));
        let name = declared(line)?;
        (std::mem::take(&mut is_test) || has_scenarios).then_some(name)
    })
}

/// The names of all tests in the sources below `folder`.
fn tests_below(folder: &Path, into: &mut BTreeSet<String>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the folder is readable").path();
        let name = path.file_name().expect("an entry has a name");
        if path.is_dir() && name != "node_modules" && name != "target" {
            tests_below(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("sources are text");
            let has_scenarios = SCENARIOS
                .iter()
                .any(|scenarios| path.starts_with(root().join(scenarios)));
            into.extend(tests_in(&text, has_scenarios).map(str::to_owned));
        }
    }
}

fn all_tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for folder in SOURCES {
        tests_below(&root().join(folder), &mut tests);
    }
    tests
}

/// What is between backticks in `text`.
fn code_in(text: &str) -> impl Iterator<Item = &str> {
    // Every other piece is between two backticks.
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// What looks like the name of a test in `text`: in backticks, in lower case, with at least two words.
fn named_in(text: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        let in_lower_case = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        // Metrics begin with the program's name.
        word.chars().all(in_lower_case) && word.contains('_') && !word.starts_with("informant_")
    };
    code_in(text).filter(is_name).collect()
}

/// The part of `text` below `heading`, up to the next heading of its level or above.
fn section<'text>(text: &'text str, heading: &str) -> &'text str {
    let line = format!("\n{heading}\n");
    let begin = text.find(&line).unwrap_or_else(|| panic!("no heading {heading:?}")) + line.len();
    let level = heading.find(' ').expect("a heading has a text");
    let marks = (1..=level).map(|level| format!("\n{} ", "#".repeat(level)));
    let end = marks.filter_map(|mark| text[begin..].find(&mark)).min();
    &text[begin..end.map_or(text.len(), |length| begin + length)]
}

/// The rows of all tables in `text`, without their headers: the first cell without emphasis, and the rest.
fn rows(text: &str) -> Vec<(String, &str)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_header = |index: usize| lines.get(index + 1).is_some_and(|next| next.starts_with("|---"));
    let row = |(index, line): (usize, &&'_ str)| {
        let cells = lines[index].strip_prefix("| ")?;
        let (first, rest) = cells.split_once(" | ")?;
        (!line.starts_with("|---") && !is_header(index)).then(|| (first.trim_matches('*').to_owned(), rest))
    };
    lines.iter().enumerate().filter_map(row).collect()
}

/// The first cells of all rows in `text`; each may be there once.
fn ids(text: &str, what: &str) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for (id, _) in rows(text) {
        assert!(ids.insert(id.clone()), "{what}: two rows are called {id:?}");
    }
    ids
}

/// Below `heading` the page of tests has a row for each of `promised`, and each row has a test that exists, or
/// says explicitly why it has none.
fn check(heading: &str, promised: &BTreeSet<String>) {
    assert!(promised.len() >= 6, "{heading}: only {promised:?} are promised");
    let (page, tests) = (read(TESTS), all_tests());
    let guarded = section(&page, heading);
    let missing: Vec<_> = promised.difference(&ids(guarded, heading)).cloned().collect();
    assert!(missing.is_empty(), "{TESTS}, {heading}: no row for {missing:?}");
    for (id, row) in rows(guarded) {
        let has_test = named_in(row).into_iter().any(|name| tests.contains(name));
        let is_explicit = EXPLICIT.iter().any(|text| row.contains(text));
        assert!(has_test || is_explicit, "{TESTS}, {heading}: no test for {id}: {row}");
    }
}

fn check_names(document: &str) {
    let (text, tests) = (read(document), all_tests());
    let named = named_in(&text);
    assert!(named.len() >= 10, "{document} names {} tests only", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !tests.contains(*name)).collect();
    assert!(
        missing.is_empty(),
        "{document} names tests that do not exist: {missing:#?}"
    );
}

#[test]
fn the_tests_on_the_page_of_tests_exist() {
    check_names(TESTS);
}

#[test]
fn the_tests_of_the_fault_cases_exist() {
    check_names(CASES);
}

#[test]
fn the_paths_on_the_page_of_tests_exist() {
    let page = read(TESTS);
    let is_path = |code: &&str| {
        let is_ours = SOURCES.iter().any(|folder| code.starts_with(&format!("{folder}/")));
        is_ours && !code.contains(' ')
    };
    let missing: Vec<_> = code_in(&page)
        .filter(is_path)
        .filter(|path| !root().join(path).exists())
        .collect();
    assert!(
        missing.is_empty(),
        "{TESTS} names files that do not exist: {missing:#?}"
    );
}

#[test]
fn every_clause_of_the_delivery_contract_has_tests() {
    let page = read(DELIVERY);
    check("### Promises", &ids(section(&page, "## Promises"), DELIVERY));
    check(
        "### Across a restart",
        &ids(section(&page, "## Across a restart"), DELIVERY),
    );
}

#[test]
fn every_clause_of_the_checker_is_promised() {
    let page = read(DELIVERY);
    let promised = ids(section(&page, "## Promises"), DELIVERY);
    let promised: BTreeSet<String> = promised.iter().map(|clause| clause.to_lowercase()).collect();
    let missing: Vec<_> = Clause::ALL
        .iter()
        .filter(|clause| !promised.contains(clause.as_str()))
        .collect();
    assert!(missing.is_empty(), "{DELIVERY} does not promise {missing:?}");
}

#[test]
fn every_behavior_compared_with_client_go_has_tests() {
    check("## client-go's behavior", &ids(&read(SEMANTICS), SEMANTICS));
}

#[test]
fn every_invariant_of_the_architecture_has_tests() {
    let page = read(ARCHITECTURE);
    check("## Invariants", &ids(section(&page, "## Invariants"), ARCHITECTURE));
}
