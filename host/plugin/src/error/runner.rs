//! What is wrong with the runner of a script.

use std::path::{Path, PathBuf};
use std::time::Duration;

use informant_spec::Suffix;

use super::LoadProblem;
use crate::bindings::CONTRACT;

/// Why a script has no runner. The text follows the name of the script's file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunnerProblem {
    #[error(
        "this Informant was built without its script runner; build it with `cargo xtask`, which includes it, or set INFORMANT_SCRIPT_RUNNER to the runner's file"
    )]
    NotBuiltIn,
    /// The suffix of the file stands for no language.
    #[error(
        "no script runner is known for .{suffix} files; scripts end in {known}; to add a runner, set in config.toml: [script-runners] {suffix} = \"FILE\""
    )]
    UnknownSuffix { suffix: Suffix, known: String },
    /// A file of the release that is not installed.
    #[error(
        "the runner of {} scripts is not installed: there is no {}; put the file {file} of Informant {} there, or set its path in config.toml: [script-runners] {suffix} = \"FILE\"",
        language(suffix),
        listed(places),
        env!("CARGO_PKG_VERSION")
    )]
    NotInstalled {
        suffix: Suffix,
        /// The file's name in the release.
        file: &'static str,
        /// Where it is looked for.
        places: Vec<PathBuf>,
    },
    #[error("its runner, {}, cannot be read: {cause}; correct [script-runners] in config.toml", runner.display())]
    Unreadable { runner: PathBuf, cause: String },
    #[error(
        "its runner, {}, cannot be read: its file system has not answered within {} s; its scripts are tried again when it does",
        runner.display(),
        within.as_secs()
    )]
    ReadTimeout { runner: PathBuf, within: Duration },
    #[error(
        "its runner, {}, is no script runner: it has no section informant:runner; set [script-runners] in config.toml to the file of a runner, such as informant-runner-python.wasm",
        runner.display()
    )]
    NoSection { runner: PathBuf },
    #[error(
        "its runner, {}, runs scripts in {found} ({}), not .{suffix} files; correct [script-runners] in config.toml",
        runner.display(),
        dotted(suffixes)
    )]
    OtherLanguage {
        runner: PathBuf,
        found: String,
        /// Those that it runs.
        suffixes: Vec<String>,
        suffix: Suffix,
    },
    #[error(
        "its runner, {} ({version}), was built for contract {found}, but this Informant supports {CONTRACT}; use the runner of Informant {}",
        runner.display(),
        env!("CARGO_PKG_VERSION")
    )]
    Contract {
        runner: PathBuf,
        /// The runner's version.
        version: String,
        /// The contract that it was built for.
        found: String,
    },
    /// A plugin's component is a script runner.
    #[error(
        "a script runner, not a plugin; name it in [script-runners] of config.toml, and a script as the plugin: script = \"FILE\""
    )]
    IsPlugin,
    /// The file has the section, but cannot run as a plugin.
    #[error("its runner, {}: {problem}", runner.display())]
    Refused { runner: PathBuf, problem: Box<LoadProblem> },
}

impl RunnerProblem {
    /// Whether another file of the runner would solve it, so that the same script may be accepted later.
    #[must_use]
    pub fn is_of_file(&self) -> bool {
        match self {
            RunnerProblem::NotInstalled { .. }
            | RunnerProblem::Unreadable { .. }
            | RunnerProblem::ReadTimeout { .. }
            | RunnerProblem::NoSection { .. }
            | RunnerProblem::OtherLanguage { .. }
            | RunnerProblem::Contract { .. }
            | RunnerProblem::Refused { .. } => true,
            RunnerProblem::NotBuiltIn | RunnerProblem::UnknownSuffix { .. } | RunnerProblem::IsPlugin => false,
        }
    }
}

/// The language of files with this suffix, as messages name it.
pub(crate) fn language(suffix: &Suffix) -> String {
    suffix.language().map_or_else(|| format!(".{suffix}"), str::to_owned)
}

/// `.js, .mjs`.
fn dotted(suffixes: &[String]) -> String {
    let suffixes: Vec<String> = suffixes.iter().map(|suffix| format!(".{suffix}")).collect();
    suffixes.join(", ")
}

fn listed(places: &[PathBuf]) -> String {
    let places: Vec<String> = places.iter().map(|place| Path::display(place).to_string()).collect();
    places.join(" or ")
}
