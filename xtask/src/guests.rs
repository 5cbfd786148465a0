//! Builds the plugins and the test guests as components.

use anyhow::{Context, Result};

use crate::{c_plugins, cargo, go_plugins, js_tools, npm, report, script_runner, workspace, zig};

/// The target of plugins.
pub(crate) const TARGET: &str = "wasm32-wasip2";

/// What to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build only the components in these languages.
    #[arg(value_enum)]
    only: Vec<Language>,
}

/// The language of a component.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Language {
    /// Plugins and test guests in Rust.
    Rust,
    /// The script runner, for scripts and components in JavaScript.
    Script,
    /// Plugins in C.
    C,
    /// Plugins in Go.
    Go,
}

/// Builds all components and installs the tools for tests, or builds those that `args` select. Reports those that it
/// skips because a tool is missing.
pub(crate) fn build_all(args: &Args) -> Result<()> {
    let wants = |language| args.only.is_empty() || args.only.contains(&language);
    if wants(Language::Rust) {
        build()?;
    }
    build_with_zig(&wants)?;
    match go_plugins::missing() {
        _ if !wants(Language::Go) => {}
        Some(why) => report::skipped("plugins in Go", why),
        None => go_plugins::build_components()?,
    }
    match npm::missing() {
        _ if !args.only.is_empty() => Ok(()),
        Some(why) => {
            report::skipped("tools for tests of JavaScript", why);
            Ok(())
        }
        None => js_tools::install(),
    }
}

fn build_with_zig(wants: &impl Fn(Language) -> bool) -> Result<()> {
    if !wants(Language::Script) && !wants(Language::C) {
        return Ok(());
    }
    if let Some(why) = zig::missing() {
        report::skipped("script runner and plugins in C", why);
        return Ok(());
    }
    if wants(Language::Script) {
        script_runner::build()?;
    }
    if wants(Language::C) {
        c_plugins::build()?;
    }
    Ok(())
}

/// Builds every package in `plugins/`, the examples of the Rust SDK, and `tests/guests/`.
pub(crate) fn build() -> Result<()> {
    add_target(TARGET)?;
    build_packages(
        &[
            workspace::packages_below("plugins", "")?,
            workspace::packages_below("plugin-sdk/rust/examples", "")?,
            workspace::packages_below("tests/guests", "guest-")?,
        ]
        .concat(),
    )
}

/// Builds the packages as components.
pub(crate) fn build_packages(packages: &[String]) -> Result<()> {
    let mut command = cargo::cargo()?;
    command.args(["build", "--locked", "--profile", "plugin", "--target", TARGET]);
    for package in packages {
        command.args(["--package", package]);
    }
    cargo::run(&mut command)
}

/// Adds a target to the active toolchain, if rustup is installed. Without rustup, the distribution must provide it.
pub(crate) fn add_target(target: &str) -> Result<()> {
    if !cargo::is_there("rustup", "--version") {
        return Ok(());
    }
    let mut command = std::process::Command::new("rustup");
    command.current_dir(workspace::root()?).args(["target", "add", target]);
    cargo::run(&mut command).with_context(|| format!("failed to add the target {target}"))
}
