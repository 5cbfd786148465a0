//! Checks the imports and exports of components that are built with this SDK.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use informant_plugin_sdk::CONTRACT;
use wasmparser::{Parser, Payload};

/// The component of a guest, from `INFORMANT_GUESTS_DIR` or the output folder of `cargo xtask guests`.
fn component(guest: &str) -> Vec<u8> {
    let folder = std::env::var_os("INFORMANT_GUESTS_DIR").map_or_else(
        || {
            let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
                || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"),
                PathBuf::from,
            );
            target.join("wasm32-wasip2/plugin")
        },
        PathBuf::from,
    );
    let path = folder.join(guest).with_extension("wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: run `cargo xtask guests`", path.display()))
}

/// The names of a component's imports and exports, without WASI.
fn names(guest: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut imports, mut exports) = (BTreeSet::new(), BTreeSet::new());
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(&component(guest)) {
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
            .map(|name| format!("informant:plugin/{name}@{CONTRACT}"))
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
    check(
        "guest_timers",
        &["log", "recorder", "store", "types"],
        &["lifecycle", "timer-handler"],
    );
    check("guest_index", &["log", "store", "types"], &["index-funcs", "lifecycle"]);
    check(
        "guest_both",
        &["log", "types"],
        &["event-handler", "index-funcs", "lifecycle", "sync-handler"],
    );
}

#[test]
fn a_component_names_its_sdk_and_contract() {
    let component = component("guest_recorder");
    let sections: Vec<&[u8]> = Parser::new(0)
        .parse_all(&component)
        .filter_map(|payload| match payload.expect("a valid component") {
            Payload::CustomSection(section) if section.name() == "informant-sdk" => Some(section.data()),
            _ => None,
        })
        .collect();
    let expected = format!(
        r#"{{"language":"rust","sdk":"{}","contract":"{CONTRACT}"}}"#,
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(sections, [expected.as_bytes()]);
}
