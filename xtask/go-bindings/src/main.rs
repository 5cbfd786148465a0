//! The tools of the Go SDK that need crates of the component model.
//!
//! - `informant-go-bindings generate CONTRACT HTTP FOLDER` reads the folders with WIT, and writes `FOLDER/contract`,
//!   with the roles and functions of every plugin, and `FOLDER/http`, for plugins that send HTTP requests.
//! - `informant-go-bindings component CONTRACT HTTP MODULE COMPONENT` makes a component of a core module that Go has
//!   built from the SDK.
//!
//! `cargo xtask` starts this program, which is a package of its own so that `cargo xtask demo` does not build it.

mod component;
mod generate;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wit_bindgen_core_for_go::wit_parser::{Resolve, WorldId};

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
    match &arguments[..] {
        [what, contract, http, folder] if what == Path::new("generate") => generate::run(contract, http, folder),
        [what, contract, http, module, component] if what == Path::new("component") => {
            component::make(contract, http, module, component)
        }
        _ => bail!(
            "usage: informant-go-bindings {{generate CONTRACT HTTP FOLDER | component CONTRACT HTTP MODULE COMPONENT}}"
        ),
    }
}

/// The world in the folder `wit`. Without a name, the folder has only one.
fn read(wit: &Path, world: Option<&str>) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let read = resolve.push_path(wit);
    let (package, _) = read.with_context(|| format!("failed to read {}", wit.display()))?;
    let world = resolve.select_world(&[package], world)?;
    Ok((resolve, world))
}
