//! Builds the book of `docs/` with mdBook, and checks its links.
//!
//! ```text
//! docs/README.md ──contents──▶ parts and pages ──stage──▶ Markdown, SUMMARY.md ──mdBook──▶ HTML ──check──▶ links
//! ```
//!
//! `cargo xtask book` starts this program, which is a package of its own so that `cargo xtask demo` does not build
//! mdBook. The files depend on the arguments and the repository only. Nothing is fetched: links to other sites are not
//! checked.

mod check;
mod contents;
mod links;
mod llms;
mod stage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;

use crate::contents::Contents;

/// How mdBook makes the pages. A chapter has the name that `docs/README.md` gives it, without a number.
const CONFIG: &str = r#"
[book]
title = "Informant"
language = "en"
src = "."

[build]
create-missing = false
use-default-preprocessors = false

[output.html]
no-section-label = true
preferred-dark-theme = "navy"
input-404 = ""

[output.html.fold]
enable = true

[output.html.playground]
runnable = false
"#;

/// Build the book of docs/ and check its links
#[derive(Parser)]
#[command(name = "informant-book")]
struct Args {
    /// The root of the repository
    #[arg(long)]
    repository: PathBuf,
    /// The folder to write; it is emptied first
    #[arg(long)]
    out: PathBuf,
    /// The address of the book
    #[arg(long, default_value = env!("CARGO_PKG_HOMEPAGE"))]
    site: String,
    /// The address of the repository, which each page links to
    #[arg(long)]
    source: Option<String>,
}

#[expect(
    clippy::print_stderr,
    reason = "the only line that this program writes to the terminal"
)]
fn main() -> ExitCode {
    match build(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn build(args: &Args) -> Result<()> {
    let staged = args.out.with_extension("source");
    empty(&staged)?;
    empty(&args.out)?;
    let mut contents = Contents::read(&args.repository)?;
    stage::write_all(&args.repository, &mut contents, &staged)?;

    let mut config: Config = CONFIG.parse()?;
    config.build.build_dir = std::path::absolute(&args.out)?;
    if let Some(source) = &args.source {
        config.set("output.html.git-repository-url", source)?;
    }
    MDBook::load_with_config(&staged, config)?.build()?;
    let site = args.site.trim_end_matches('/');
    write(&args.out.join("llms.txt"), llms::text(&contents, site))?;

    check::links(&args.out)?;
    check::runbooks(&args.repository, site, &args.out)
}

/// Makes an empty folder.
fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("failed to empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))
}

/// Writes a file, and the folders that lead to it.
fn write(file: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let folder = file.parent().context("a file is in a folder")?;
    std::fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    std::fs::write(file, content).with_context(|| format!("failed to write {}", file.display()))
}
