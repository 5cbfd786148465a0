//! Dependencies between crates: a host crate uses the crates that the table in ARCHITECTURE.md names, and no others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use informant_structure::sources;

/// The folders of crates below `host/`, each with those that it uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

const PREFIX: &str = "informant-";

/// The rows of the table: `| folder | crate | owns | uses |`.
fn documented(root: &Path) -> Uses {
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is text");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let folder = cells.get(1)?.strip_prefix("`host/")?.strip_suffix("/`")?.to_owned();
        let uses = cells.get(4)?.split(", ").filter(|name| !name.is_empty());
        Some((folder, uses.map(str::to_owned).collect()))
    };
    let mut table: Uses = page.lines().filter_map(row).collect();
    // The program: "all of host but client-go".
    let all_but_it = |name: &&String| !["client-go", "informant"].contains(&name.as_str());
    let all: BTreeSet<String> = table.keys().filter(all_but_it).cloned().collect();
    for uses in table.values_mut() {
        if uses.remove("all of host but client-go") {
            uses.extend(all.iter().cloned());
        }
    }
    table
}

/// The crates of this repository in `[dependencies]` of each manifest.
fn actual(root: &Path) -> Uses {
    let mut crates = Uses::new();
    for entry in fs::read_dir(root.join("host")).expect("host is a folder") {
        let folder = entry.expect("a folder can be read to its end").path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let dependencies = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
        let dependencies = dependencies.take_while(|line| !line.starts_with('['));
        let used = dependencies.filter_map(|line| line.strip_prefix(PREFIX)?.split(['.', ' ']).next());
        // `informant-plugin-host` is in `host/plugin`.
        let used = used.map(|name| name.trim_end_matches("-host").to_owned());
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        crates.insert(name, used.collect());
    }
    crates
}

#[test]
fn host_crates_use_what_the_architecture_names() {
    let root = sources::repository();
    let (documented, actual) = (documented(&root), actual(&root));
    assert!(actual.values().any(|uses| !uses.is_empty()));
    assert_eq!(
        actual, documented,
        "left: Cargo.toml, right: the table in ARCHITECTURE.md; a new dependency between crates is a design change"
    );
}
