//! The tests that the documentation names are there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where tests are looked for.
const SOURCES: [&str; 6] = ["host", "plugin-sdk", "plugins", "tests/src", "tests/tests", "xtask"];

fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.parent().expect("tests is a folder of the project").to_owned()
}

/// The names of all functions in the sources below `folder`.
fn functions_below(folder: &Path, into: &mut BTreeSet<String>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("a folder can be read to its end").path();
        if path.is_dir() {
            if path
                .file_name()
                .is_some_and(|name| name != "node_modules" && name != "target")
            {
                functions_below(&path, into);
            }
            continue;
        }
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("sources are text");
        let after_fn = text.split("fn ").skip(1);
        let name = |rest: &str| {
            let end = rest.find(|found: char| !found.is_ascii_alphanumeric() && found != '_');
            rest[..end.unwrap_or(rest.len())].to_owned()
        };
        into.extend(after_fn.map(name));
    }
}

/// What looks like the name of a test in `text`: in backticks, in lower case, with at least three words.
fn named_in(text: &str) -> BTreeSet<&str> {
    let is_name = |word: &&str| {
        let in_lower_case = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        // Metrics begin with the program's name.
        let is_metric = word.starts_with("informant_");
        word.chars().all(in_lower_case) && word.matches('_').count() >= 2 && !is_metric
    };
    // Every other piece is between two backticks.
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(is_name)
        .collect()
}

fn check(document: &str) {
    let text = std::fs::read_to_string(root().join(document)).expect("the document exists");
    let mut functions = BTreeSet::new();
    for folder in SOURCES {
        functions_below(&root().join(folder), &mut functions);
    }
    let named = named_in(&text);
    assert!(named.len() >= 10, "{document} names {} tests only", named.len());
    let missing: Vec<_> = named.into_iter().filter(|name| !functions.contains(*name)).collect();
    assert!(missing.is_empty(), "{document} names what is not there: {missing:#?}");
}

#[test]
fn the_tests_that_the_delivery_contract_names_exist() {
    check("docs/delivery.md");
}

#[test]
fn the_tests_that_the_comparison_with_client_go_names_exist() {
    check("docs/semantics.md");
}

#[test]
fn the_tests_that_the_fault_cases_name_exist() {
    check("tests/src/simulation/cases.md");
}
