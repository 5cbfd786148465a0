//! What `export!` makes, looked at from outside: components of the guests that are built with this SDK.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use wasmparser::{Parser, Payload};

/// The folder of built guests: `INFORMANT_GUESTS_DIR`, or else built here, once.
fn guests() -> &'static Path {
    static GUESTS: OnceLock<PathBuf> = OnceLock::new();
    GUESTS.get_or_init(|| match std::env::var_os("INFORMANT_GUESTS_DIR") {
        Some(folder) => folder.into(),
        None => build(),
    })
}

fn build() -> PathBuf {
    // Beside the folder of this build, whose lock another cargo may hold.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--target", "wasm32-wasip2", "--target-dir"])
        .arg(&target)
        .args(["-p", "guest-recorder", "-p", "guest-index", "-p", "guest-both"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo runs");
    assert!(
        status.success(),
        "the guests do not build; is the target there (rustup target add wasm32-wasip2)?"
    );
    target.join("wasm32-wasip2/debug")
}

/// The names that a component imports and exports, of Informant's packages only.
fn names(guest: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let path = guests().join(guest).with_extension("wasm");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut imports, mut exports) = (BTreeSet::new(), BTreeSet::new());
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(&bytes) {
        match payload.expect("a valid component") {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                imports.extend(
                    section
                        .into_iter()
                        .map(|import| import.expect("an import").name.name.to_owned()),
                );
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                exports.extend(
                    section
                        .into_iter()
                        .map(|export| export.expect("an export").name.name.to_owned()),
                );
            }
            _ => {}
        }
    }
    imports.retain(|name| !name.starts_with("wasi:"));
    (imports, exports)
}

fn check(guest: &str, imports: &[&str], exports: &[&str]) {
    let full = |names: &[&str]| {
        names
            .iter()
            .map(|name| format!("informant:plugin/{name}@0.1.0"))
            .collect()
    };
    assert_eq!(names(guest), (full(imports), full(exports)), "{guest}");
}

#[test]
fn a_component_exports_exactly_the_roles_that_are_named() {
    check(
        "guest_recorder",
        &["log", "store", "types"],
        &["event-handler", "lifecycle", "sync-handler"],
    );
    check("guest_index", &["log", "store", "types"], &["index-funcs", "lifecycle"]);
    check(
        "guest_both",
        &["log", "types"],
        &["event-handler", "index-funcs", "lifecycle", "sync-handler"],
    );
}
