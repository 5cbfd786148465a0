//! Layers inside crates: no host crate imports against the order of modules that it states, and none has a circle of
//! more than a few files.

use std::fmt::Write as _;

use informant_structure::circles::{self, CIRCLE_FILES_MAX};
use informant_structure::imports::{self, Import};
use informant_structure::order;
use informant_structure::sources::{self, Crate};

/// What to do about a finding.
const HELP: &str = "\
An import against the order: move what both need into the lower module, or pass it in as an argument or as a
trait of the lower module. If the order is wrong, change it in the documentation of lib.rs.
A circle: find the import that surprises most, and turn it round the same way.
";

#[test]
fn imports_follow_the_stated_order_without_circles() {
    let mut report = String::new();
    for one in &sources::host_crates(&sources::repository()).unwrap() {
        let imports = imports::of(one);
        for finding in order::findings(one, &imports) {
            let _ = writeln!(report, "{finding}\n");
        }
        for circle in circles::above(one.files.len(), &imports, CIRCLE_FILES_MAX) {
            describe(&mut report, one, &imports, &circle);
        }
    }
    assert!(report.is_empty(), "\n\n{report}{HELP}");
}

/// Lists the imports of a circle, one for each pair of files.
fn describe(report: &mut String, one: &Crate, imports: &[Import], circle: &[usize]) {
    let _ = writeln!(
        report,
        "{}: a circle of {} files, {CIRCLE_FILES_MAX} are allowed:",
        one.folder,
        circle.len()
    );
    let mut last = None;
    let inside = imports
        .iter()
        .filter(|import| circle.contains(&import.from) && circle.contains(&import.to));
    let mut inside: Vec<&Import> = inside.collect();
    inside.sort_by_key(|import| (import.from, import.to, import.line));
    for import in inside {
        if last.replace((import.from, import.to)) == Some((import.from, import.to)) {
            continue;
        }
        let _ = writeln!(
            report,
            "  {}:{}: imports `{}` of {}",
            one.files[import.from].path.display(),
            import.line,
            import.path,
            one.files[import.to].path.display()
        );
    }
    let _ = writeln!(report);
}
