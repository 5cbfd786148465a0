//! Writes the bindings.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use wit_bindgen_core_for_go::Files;

/// The import path of the folder with the bindings.
const INTERNAL: &str = "informant.example/plugin-sdk/go/internal";

/// The run-time that generated code imports. The SDK has its own: that of wit-bindgen allocates in `cabi_realloc`,
/// which traps when the garbage collector starts there. A `replace` in `go.mod` would not do, because Go ignores those
/// of dependencies.
const RUN_TIME: &str = "go.bytecodealliance.org/pkg/wit/";

pub(crate) fn run(contract: &Path, http: &Path, folder: &Path) -> Result<()> {
    write(&folder.join("contract"), &generate(contract, Some("full"), "contract")?)?;
    let mut client = generate(http, None, "http")?;
    // A client exports nothing.
    client.remove("exports/wit_exports/wit_exports.go");
    write(&folder.join("http"), &client)
}

/// The bindings of a world in the folder `wit`, for the folder `name`.
fn generate(wit: &Path, world: Option<&str>, name: &str) -> Result<Files> {
    let (mut resolve, world) = crate::read(wit, world)?;
    let mut generated = Files::default();
    let options = wit_bindgen_go::Opts {
        pkg_name: Some(format!("{INTERNAL}/gen/{name}")),
        quiet: true,
        ..Default::default()
    };
    options.build().generate(&mut resolve, world, &mut generated)?;
    let mut files = Files::default();
    for (path, content) in generated.iter() {
        let text = std::str::from_utf8(content).with_context(|| format!("{path} is not UTF-8"))?;
        // An interface without functions has an empty package, which nothing imports.
        if !text.contains("package ") || text.contains("\nfunc ") || text.contains("\ntype ") {
            files.push(path, rewritten(path, text).as_bytes());
        }
    }
    Ok(files)
}

/// A generated file with the imports of the SDK: its own run-time, and one package for all exports.
fn rewritten(path: &str, text: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(rewritten_line).collect();
    if path.ends_with(".go") {
        // These bindings call Informant, which native tests replace.
        lines.insert(0, "//go:build wasip1\n".to_owned());
    }
    lines.join("\n") + "\n"
}

fn rewritten_line(line: &str) -> String {
    let line = line.replace(RUN_TIME, &format!("{INTERNAL}/wit/"));
    match line.trim().strip_prefix(&format!("\"{INTERNAL}/gen/contract/exports/")) {
        Some(name) => format!("\t{} \"{INTERNAL}/exports\"", name.trim_end_matches('"')),
        None => line,
    }
}

/// Makes `files` the content of `folder`. A file that has not changed is not written, so that its time stays.
fn write(folder: &Path, files: &Files) -> Result<()> {
    let failed = |path: &Path| format!("failed to write {}", path.display());
    let mut expected = BTreeSet::new();
    for (name, content) in files.iter() {
        let path = folder.join(name);
        if !std::fs::read(&path).is_ok_and(|present| present == content) {
            let parent = path.parent().unwrap_or(folder);
            std::fs::create_dir_all(parent).with_context(|| failed(parent))?;
            std::fs::write(&path, content).with_context(|| failed(&path))?;
        }
        expected.insert(path);
    }
    remove_others(folder, &expected).with_context(|| failed(folder))
}

/// Removes files that the generator no longer writes.
fn remove_others(folder: &Path, expected: &BTreeSet<std::path::PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, expected)?;
        } else if !expected.contains(&path) {
            std::fs::remove_file(path)?;
        }
    }
    if std::fs::read_dir(folder)?.next().is_none() {
        std::fs::remove_dir(folder)?;
    }
    Ok(())
}
