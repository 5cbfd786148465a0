//! What counts as an import, a circle, an order and a test, on crates of a few lines.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use informant_structure::sources::Crate;
use informant_structure::{circles, imports, lines, order};

const ORDER: &str = "//! Two modules.\n//!\n//! ```layers\n//! low\n//! high\n//! ```\nmod high;\nmod low;\n";

/// The crate whose files, by their names below `src/`, have these texts.
fn made_up(files: &[(&str, &str)]) -> Crate {
    let texts: BTreeMap<PathBuf, String> = files
        .iter()
        .map(|(name, text)| (PathBuf::from("host/toy/src").join(name), (*text).to_owned()))
        .collect();
    Crate::parse("host/toy", &texts).unwrap()
}

/// The imports between the files of a crate, without lines.
fn imports_of(one: &Crate) -> Vec<String> {
    let module = |file: usize| one.files[file].module.join("::");
    let mut shown: Vec<String> = imports::of(one)
        .iter()
        .map(|import| format!("{} -> {}", module(import.from), module(import.to)))
        .collect();
    shown.sort();
    shown.dedup();
    shown
}

fn findings(files: &[(&str, &str)]) -> Vec<String> {
    let one = made_up(files);
    order::findings(&one, &imports::of(&one))
}

fn circle_sizes(one: &Crate, files_max: usize) -> Vec<usize> {
    let circles = circles::above(one.files.len(), &imports::of(one), files_max);
    circles.iter().map(Vec::len).collect()
}

#[test]
fn upward_import_is_reported_with_its_place() {
    let found = findings(&[
        ("lib.rs", ORDER),
        ("low.rs", "//! Low.\n\nuse crate::high::High;\n"),
        ("high.rs", "use crate::low::Low;"),
    ]);
    assert_eq!(
        found,
        [
            "host/toy/src/low.rs:3: imports `crate::high::High` of host/toy/src/high.rs, but `low` is below `high` in the \
             order of host/toy/src/lib.rs"
        ]
    );
}

#[test]
fn modules_on_one_line_may_import_each_other() {
    let found = findings(&[
        ("lib.rs", "//! ```layers\n//! low high\n//! ```\nmod high;\nmod low;"),
        ("low.rs", "use crate::high::High;"),
        ("high.rs", "use crate::low::Low;"),
    ]);
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_crate_without_an_order_is_reported() {
    let found = findings(&[("lib.rs", "//! Nothing.\nmod low;"), ("low.rs", "")]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("states no order"), "{found:?}");
}

#[test]
fn an_order_names_exactly_the_modules_there_are() {
    let found = findings(&[
        ("lib.rs", "//! ```layers\n//! low gone\n//! ```\nmod high;\nmod low;"),
        ("low.rs", ""),
        ("high.rs", ""),
    ]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("lacks the module `high`"), "{found:?}");
    assert!(found[1].contains("contains `gone`"), "{found:?}");
}

#[test]
fn a_module_can_state_an_order_for_its_own() {
    let found = findings(&[
        ("lib.rs", "//! ```layers\n//! parent\n//! ```\nmod parent;"),
        (
            "parent.rs",
            "//! ```layers\n//! one\n//! two\n//! ```\nmod one;\nmod two;",
        ),
        ("parent/one.rs", "use super::two::Two;"),
        ("parent/two.rs", "use super::one::One;"),
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("`one` is below `two`"), "{found:?}");
}

#[test]
fn five_files_in_a_ring_are_a_circle() {
    let one = made_up(&[
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e; mod f;"),
        ("a.rs", "use crate::b::B;"),
        ("b.rs", "use crate::c::C;"),
        ("c.rs", "use crate::d::D;"),
        ("d.rs", "use crate::e::E;"),
        ("e.rs", "use crate::a::A;"),
        ("f.rs", "use crate::a::A;"),
    ]);
    assert_eq!(circle_sizes(&one, 4), [5]);
    assert_eq!(circle_sizes(&one, 5), [0; 0]);
}

#[test]
fn imports_between_a_module_and_its_descendants_do_not_count() {
    let one = made_up(&[
        ("lib.rs", "mod parent; pub use parent::Parent; pub struct Root;"),
        ("parent.rs", "mod child; use child::Child; pub struct Parent;"),
        ("parent/child.rs", "mod grandchild; use super::Parent; use crate::Root;"),
        (
            "parent/child/grandchild.rs",
            "use crate::parent::Parent; use super::super::Parent as Again;",
        ),
    ]);
    assert_eq!(imports_of(&one), [""; 0]);
}

#[test]
fn code_for_tests_does_not_count() {
    let one = made_up(&[
        ("lib.rs", "mod low; mod high; #[cfg(test)] mod testing;"),
        (
            "low.rs",
            "#[cfg(test)] use crate::high::High;
             #[cfg(all(test, unix))] fn test_only() { crate::high::run(); }
             impl Low { #[cfg(test)] fn test_only() { crate::high::run(); } }
             #[cfg(test)] mod tests { use crate::high::High; }",
        ),
        ("high.rs", ""),
        ("testing.rs", "use crate::high::High;"),
    ]);
    assert_eq!(imports_of(&one), [""; 0]);
}

#[test]
fn code_behind_a_feature_counts() {
    let one = made_up(&[
        ("lib.rs", "mod low; mod high;"),
        (
            "low.rs",
            "#[cfg(any(test, feature = \"simulation\"))] use crate::high::High;",
        ),
        ("high.rs", ""),
    ]);
    assert_eq!(imports_of(&one), ["low -> high"]);
}

#[test]
fn every_path_of_a_nested_group_counts() {
    let one = made_up(&[
        ("lib.rs", "mod user; mod a; mod b; mod c;"),
        ("user.rs", "use crate::{a::{self, A}, b::{inner::{B, Other}}, c::*};"),
        ("a.rs", ""),
        ("b.rs", "pub mod inner { pub struct B; }"),
        ("c.rs", ""),
    ]);
    assert_eq!(imports_of(&one), ["user -> a", "user -> b", "user -> c"]);
}

#[test]
fn paths_in_expressions_types_and_macros_count() {
    let user = "use crate::e;
        fn f(x: crate::a::A) { crate::b::run(); let t = vec![format!(\"{}\", super::c::N)]; \
         matches!(x, self::inner::X); e::run(); }
        mod inner { fn g() { super::super::d::run() } }";
    let one = made_up(&[
        ("lib.rs", "mod user; mod a; mod b; mod c; mod d; mod e;"),
        ("user.rs", user),
        ("a.rs", ""),
        ("b.rs", ""),
        ("c.rs", ""),
        ("d.rs", ""),
        ("e.rs", ""),
    ]);
    assert_eq!(
        imports_of(&one),
        ["user -> a", "user -> b", "user -> c", "user -> d", "user -> e"]
    );
}

#[test]
fn names_of_imported_modules_lead_into_them() {
    let one = made_up(&[
        ("lib.rs", "mod user; mod a;"),
        ("user.rs", "use crate::a; fn f() { a::b::run(); }"),
        ("a.rs", "pub mod b;"),
        ("a/b.rs", ""),
    ]);
    assert_eq!(imports_of(&one), ["user -> a", "user -> a::b"]);
}

#[test]
fn a_re_exported_name_leads_to_the_re_export() {
    let one = made_up(&[
        ("lib.rs", "mod user; mod store; mod index;"),
        ("user.rs", "use crate::store::Index;"),
        ("store.rs", "pub use crate::index::Index;"),
        ("index.rs", "pub struct Index;"),
    ]);
    assert_eq!(imports_of(&one), ["store -> index", "user -> store"]);
}

#[test]
fn a_re_export_of_a_containing_module_is_followed() {
    let one = made_up(&[
        ("lib.rs", "mod low; mod high; pub use high::High;"),
        ("low.rs", "use crate::High;"),
        ("high.rs", "pub struct High;"),
    ]);
    assert_eq!(imports_of(&one), ["low -> high"]);
}

#[test]
fn lines_leave_out_test_modules_wherever_they_are() {
    let one = made_up(&[
        ("lib.rs", "mod low;\n\n#[cfg(test)]\nmod testing;\n"),
        (
            "low.rs",
            "pub struct Low;\n\n#[cfg(test)]\nmod tests {\n    fn t() {}\n}\n",
        ),
        ("testing.rs", "fn t() {}\n"),
    ]);
    // Of lib.rs the first two lines, of low.rs the same.
    assert_eq!(lines::of(&one), 4);
}
