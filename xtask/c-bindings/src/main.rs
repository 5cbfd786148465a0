//! Generates the C bindings of the contract: `informant-c-bindings CONTRACT HTTP SDK` reads the folders with WIT, and
//! writes `SDK/gen`, with the roles and functions of every plugin, and `SDK/gen-http`, for plugins that send HTTP
//! requests.
//!
//! `cargo xtask` starts this program, which is a package of its own so that `cargo xtask demo` does not build the
//! generator. A file that has not changed is not written, so that its time stays.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;

#[expect(
    clippy::print_stderr,
    reason = "the only line that this program writes to the terminal"
)]
fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [contract, http, sdk] = &arguments[..] else {
        bail!("usage: informant-c-bindings CONTRACT HTTP SDK");
    };
    write(&sdk.join("gen"), &generate(contract, Some("full"), "contract")?)?;
    write(&sdk.join("gen-http"), &generate(http, None, "http_client")?)
}

/// The bindings of a world in the folder `wit`, which are named `name`. Without a world, the folder has only one.
fn generate(wit: &Path, world: Option<&str>, name: &str) -> Result<Files> {
    let mut resolve = Resolve::default();
    let read = resolve.push_path(wit);
    let (package, _) = read.with_context(|| format!("failed to read {}", wit.display()))?;
    let world = resolve.select_world(&[package], world)?;
    let mut files = Files::default();
    let options = wit_bindgen_c::Opts {
        rename_world: Some(name.to_owned()),
        ..Default::default()
    };
    options.build().generate(&mut resolve, world, &mut files)?;
    Ok(files)
}

/// Makes `files` the content of `folder`.
fn write(folder: &Path, files: &Files) -> Result<()> {
    let failed = |path: &Path| format!("failed to write {}", path.display());
    std::fs::create_dir_all(folder).with_context(|| failed(folder))?;
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name).collect();
    for entry in std::fs::read_dir(folder).with_context(|| failed(folder))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !names.contains(name.as_ref()) {
            std::fs::remove_file(&path).with_context(|| failed(&path))?;
        }
    }
    for (name, content) in files.iter() {
        let path = folder.join(name);
        if !std::fs::read(&path).is_ok_and(|present| present == content) {
            std::fs::write(&path, content).with_context(|| failed(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bindings_of_the_draft_roles_are_generated() {
        let wit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
        let both = tempfile::tempdir().unwrap();
        for file in ["informant.wit", "draft/roles.wit"] {
            let name = Path::new(file).file_name().unwrap();
            std::fs::copy(wit.join(file), both.path().join(name)).unwrap();
        }
        let files = generate(both.path(), Some("draft"), "draft").unwrap();
        let names: Vec<&str> = files.iter().map(|(name, _)| name).collect();
        assert!(names.contains(&"draft.h"), "{names:?}");
    }
}
