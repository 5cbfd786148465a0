//! Builds the book of `docs/` into `target/book`, and checks its links.
//!
//! The program is the package `informant-book`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::{cargo, report, workspace};

/// How to build it.
#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// The address of the book [default: `homepage` in Cargo.toml].
    #[arg(long, value_name = "URL")]
    site: Option<String>,
    /// The address of the repository, which each page links to.
    #[arg(long, value_name = "URL")]
    source: Option<String>,
}

impl Args {
    /// The book with links to this repository.
    pub(crate) fn linking_to(source: Option<&str>) -> Self {
        Self {
            site: None,
            source: source.map(str::to_owned),
        }
    }
}

/// Builds the program and the book. Returns the folder of the book.
pub(crate) fn build(args: &Args) -> Result<PathBuf> {
    let mut command = cargo::cargo()?;
    command.args(["run", "--locked", "--quiet", "--package", "informant-book", "--"]);
    build_with(command, args)
}

/// Builds the book with the program that the build of the workspace has left.
pub(crate) fn check() -> Result<()> {
    let program = workspace::target()?.join("debug").join("informant-book");
    ensure!(program.is_file(), "{} was not built", program.display());
    build_with(Command::new(program), &Args::default()).map(drop)
}

fn build_with(mut command: Command, args: &Args) -> Result<PathBuf> {
    let out = std::path::absolute(workspace::target()?.join("book"))?;
    command
        .arg("--repository")
        .arg(workspace::root()?)
        .arg("--out")
        .arg(&out);
    for (option, address) in [("--site", &args.site), ("--source", &args.source)] {
        if let Some(address) = address {
            command.args([option, address.trim_end_matches('/')]);
        }
    }
    cargo::run(&mut command)?;
    report::step(&out.join("index.html").display().to_string());
    Ok(out)
}
