//! Every configuration in the documentation is valid.

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

/// For what a page shows of a plugin's section without its beginning.
const SECTION: &str = "[plugin.handler]\nscript = \"handler.js\"\ninformers = [\"pods\"]\n";

/// What the page has declared elsewhere.
const PODS: &str = "\n[informer.pods]\nresource = \"v1/pods\"\n";

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = vec![root.join("README.md")];
    let mut folders: Vec<PathBuf> = ["docs", "plugin-sdk", "plugins"].map(|name| root.join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("node_modules") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// A block as a reader would complete it.
fn completed(block: &str) -> String {
    let is_key = |line: &str| !line.starts_with('[') && !line.starts_with('#');
    let begins_with_a_key = block.lines().find(|line| !line.is_empty()).is_some_and(is_key);
    let mut text = if begins_with_a_key {
        format!("{SECTION}{block}")
    } else {
        block.to_owned()
    };
    if text.contains("[\"pods\"]") && !text.contains("[informer.pods]") {
        text += PODS;
    }
    text
}

#[test]
fn every_configuration_in_the_documentation_is_valid() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for rest in text.split("```toml\n").skip(1) {
            let block = rest.split("```").next().unwrap();
            // Belongs into a Cargo.toml.
            if block.starts_with("[profile.") {
                continue;
            }
            count += 1;
            if let Err(problems) = parse(&completed(block)) {
                panic!("{}: {problems}\n{block}", page.display());
            }
        }
    }
    assert!(count >= 12, "only {count} configurations were found");
}
