//! Packs the files of a release: archives of the program, the C SDK and the book, the runner of Python scripts, two
//! images, an SBOM, release notes, a krew manifest and checksums.
//!
//! `cargo xtask dist` builds the programs and starts this one, which is a package of its own so that `cargo xtask demo`
//! does not build its libraries. Everything that it writes depends on its arguments and inputs only: no clock, no
//! random numbers, no order of a folder or a hash map.

mod archive;
mod book;
mod c_sdk;
mod checksums;
mod completions;
mod image;
mod krew;
mod notes;
mod platform;
mod program;
mod python;
mod release;
mod sbom;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use crate::image::{Layout, Variant};
use crate::program::Program;
use crate::python::{Part, PythonRunner};
use crate::release::Release;

/// Pack the files of a release
#[derive(Parser)]
#[command(name = "informant-dist", disable_help_subcommand = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Pack the programs that `cargo xtask dist` has built
    Pack(Box<Pack>),
    /// Write a base image for tests: user, certificates and glibc of this machine
    TestBase {
        /// The folder for the image layout
        folder: PathBuf,
    },
    /// Unpack the image for this machine into a folder, and write a script that starts it
    Unpack {
        /// The image layout
        layout: PathBuf,
        /// The new root folder; the script is next to it, with the extension `start`
        root: PathBuf,
        /// A folder that the started program shares with this machine
        #[arg(long)]
        share: PathBuf,
    },
}

#[derive(clap::Args)]
struct Pack {
    #[command(flatten)]
    release: Release,
    /// The folder to write; it is emptied first
    #[arg(long)]
    out: PathBuf,
    /// The root of the repository
    #[arg(long)]
    repository: PathBuf,
    /// A built program, as TARGET=FILE
    #[arg(long = "program", required = true, value_parser = Program::parse)]
    programs: Vec<Program>,
    /// The folder of the built book
    #[arg(long)]
    book: PathBuf,
    /// The built runner of Python scripts
    #[arg(long)]
    python_runner: PathBuf,
    /// A package in it, as pkg:TYPE/NAME@VERSION=LICENSE
    #[arg(long = "python-part", value_parser = Part::parse)]
    python_parts: Vec<Part>,
    /// A folder of this machine whose path must not be in a program
    #[arg(long = "private")]
    private: Vec<PathBuf>,
    /// The image layout to build the image from
    #[arg(long)]
    base: Option<PathBuf>,
}

#[expect(
    clippy::print_stderr,
    reason = "the only line that this program writes to the terminal"
)]
fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Pack(args) => pack(&args),
        Command::TestBase { folder } => image::write_test_base(&folder),
        Command::Unpack { layout, root, share } => image::unpack(&Layout::open(&layout)?, &root, &share),
    }
}

fn pack(args: &Pack) -> Result<()> {
    let Pack { release, out, .. } = args;
    release.check_tag()?;
    for program in &args.programs {
        program.check(&args.private)?;
    }
    // Not all private folders: componentize-py's makers have compiled parts of the runner in folders of theirs, which
    // may be called like ours.
    let runner = PythonRunner::read(&args.python_runner, args.python_parts.clone(), &args.repository)?;
    let changelog = read_text(&args.repository.join("CHANGELOG.md"))?;
    let notes = notes::of(&changelog, release)?;
    if out.exists() {
        std::fs::remove_dir_all(out).with_context(|| format!("failed to empty {}", out.display()))?;
    }
    std::fs::create_dir_all(out).with_context(|| format!("failed to create {}", out.display()))?;

    let completions = completions::generate(&args.programs)?;
    let mut archives = Vec::new();
    for program in &args.programs {
        archives.push(archive::write(program, &args.repository, &completions, release, out)?);
    }
    c_sdk::write(&args.repository, release, out)?;
    book::write(&args.book, release, out)?;
    write(&out.join(python::FILE), &runner.bytes)?;
    if let Some(source) = &release.source {
        write(
            &out.join("informant-krew.yaml"),
            krew::manifest(&archives, source, release),
        )?;
    }
    let sbom = sbom::generate(&args.repository, &args.programs, &runner, release)?;
    write(&out.join(format!("informant-{}.cdx.json", release.version)), sbom)?;
    write(&out.join("release-notes.md"), notes)?;
    if let Some(base) = &args.base {
        images(&Layout::open(base)?, &args.programs, &runner, release, out)?;
    }
    checksums::write(out)
}

/// Writes the image, and the one with the Python runner, each as a folder and as one file.
fn images(base: &Layout, programs: &[Program], runner: &PythonRunner, release: &Release, out: &Path) -> Result<()> {
    for variant in [Variant::Plain, Variant::Python(runner)] {
        let suffix = variant.suffix();
        let folder = out.join(format!("image{suffix}"));
        if let Some(layout) = image::build(base, programs, &variant, release, &folder)? {
            let file = out.join(format!("informant-{}-image{suffix}.tar", release.version));
            write(&file, layout.as_archive(release.epoch)?)?;
        }
    }
    Ok(())
}

fn read_text(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("failed to read {}", file.display()))
}

fn write(file: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(file, content).with_context(|| format!("failed to write {}", file.display()))
}
