//! Programs of other toolchains: present, recent enough, and run.

use std::io::{self, ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Error, Result, anyhow, bail, ensure};

use crate::status_line;

/// A major and a minor version.
pub(super) type Version = (u32, u32);

/// A program that is missing, does not work, or is too old: no change of the sources helps.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(in crate::cli) struct ToolUnusable(pub(super) String);

/// A program that builds plugins of one language.
pub(super) struct Tool {
    /// What messages call it.
    pub(super) name: &'static str,
    /// What it does: `compiles Go`.
    pub(super) purpose: &'static str,
    /// How to install it.
    pub(super) install: &'static str,
    /// The oldest version that is known to work.
    pub(super) oldest: Version,
}

impl Tool {
    /// Checks the version that `command` prints.
    ///
    /// # Errors
    /// If the program is absent, fails or is too old for the plugin at `path`.
    pub(super) fn check_version(&self, command: &mut Command, path: &Path) -> Result<()> {
        let output = self.started(command.stdin(Stdio::null()).output(), path)?;
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        ensure!(
            output.status.success(),
            ToolUnusable(format!(
                "{} does not work: `{}` fails: {}",
                self.name,
                shown(command),
                text.trim()
            ))
        );
        match version_in(&text) {
            Some(found) if found < self.oldest => Err(self.too_old(found, path)),
            // A version that is no number is one of a developer's own build.
            _ => Ok(()),
        }
    }

    /// Runs `command` with its messages on the terminal. Returns what it writes to stdout.
    ///
    /// # Errors
    /// If it cannot be started or fails: `what` is the end of "… cannot build", and `remedy` what to do.
    pub(super) fn run(&self, command: &mut Command, path: &Path, remedy: &str) -> Result<Vec<u8>> {
        status_line::step(&self.announcement(path));
        command.stdin(Stdio::null()).stderr(Stdio::inherit());
        let output = self.started(command.output(), path)?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(self.failed(path, remedy)),
        }
    }

    /// Runs `command`, and returns its messages, which are shown on the terminal when it has ended, too.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn run_and_read(&self, command: &mut Command, path: &Path) -> Result<Output> {
        status_line::step(&self.announcement(path));
        let output = self.started(command.stdin(Stdio::null()).output(), path)?;
        // The result matters more than the messages.
        let _ = io::stderr().write_all(&output.stderr);
        Ok(output)
    }

    /// The program, which may be silent for long, is about to start.
    fn announcement(&self, path: &Path) -> String {
        format!("{} builds {}", self.name, path.display())
    }

    /// The error of a build that failed.
    pub(super) fn failed(&self, path: &Path, remedy: &str) -> Error {
        let remedy = if remedy.is_empty() {
            String::new()
        } else {
            format!(" ({remedy})")
        };
        anyhow!(
            "{} cannot build {}; its messages are above{remedy}",
            self.name,
            path.display()
        )
    }

    /// The error of a program that is not installed.
    pub(super) fn missing(&self, path: &Path) -> Error {
        let Tool {
            name, purpose, install, ..
        } = self;
        let message = format!("{name} is not installed, which {purpose} {}: {install}", path.display());
        ToolUnusable(message).into()
    }

    fn too_old(&self, found: Version, path: &Path) -> Error {
        let ((major, minor), (oldest_major, oldest_minor)) = (found, self.oldest);
        let message = format!(
            "{} {major}.{minor} is too old for {}, which needs {oldest_major}.{oldest_minor}: {}",
            self.name,
            path.display(),
            self.install
        );
        ToolUnusable(message).into()
    }

    fn started(&self, started: io::Result<Output>, path: &Path) -> Result<Output> {
        match started {
            Ok(output) => Ok(output),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(self.missing(path)),
            Err(error) => Err(error).with_context(|| format!("cannot run {}", self.name)),
        }
    }
}

/// Whether a program can be started.
pub(super) fn is_there(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Reads what a build has written.
///
/// # Errors
/// If it has written nothing.
pub(super) fn read_result(file: &Path, tool: &Tool) -> Result<Vec<u8>> {
    match std::fs::read(file) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!("{} has ended without an error, but wrote no module", tool.name)
        }
        Err(error) => {
            Err(error).with_context(|| format!("cannot read {}, the result of {}", file.display(), tool.name))
        }
    }
}

/// A folder for what a build writes on the way. It is removed when it is dropped.
pub(super) fn scratch_folder() -> Result<tempfile::TempDir> {
    let folder = tempfile::Builder::new().prefix("informant-build-").tempdir();
    folder.context("cannot create a folder for the files of the build; check TMPDIR")
}

/// The first version in a text: `(1, 26)` in "go version go1.26.8 linux/amd64".
fn version_in(text: &str) -> Option<Version> {
    let mut words = text.split(|character: char| !character.is_ascii_digit() && character != '.');
    words.find_map(|word| {
        let mut numbers = word.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => Some((major, minor)),
            _ => None,
        }
    })
}

/// A command as one writes it.
fn shown(command: &Command) -> String {
    let words = [command.get_program()].into_iter().chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOL: Tool = Tool {
        name: "go",
        purpose: "compiles",
        install: "install Go 1.26 or newer from https://go.dev/dl",
        oldest: (1, 26),
    };

    #[test]
    fn versions_are_found_in_what_programs_print() {
        for (text, expected) in [
            ("go version go1.26.8 linux/amd64", Some((1, 26))),
            ("rustc 1.95.0 (59807616e 2026-04-14)", Some((1, 95))),
            ("0.17.0\n", Some((0, 17))),
            ("componentize-py 0.25.1", Some((0, 25))),
            ("0.18.0-dev.12+abc", Some((0, 18))),
            ("devel +f1e2d3", None),
            ("", None),
        ] {
            assert_eq!(version_in(text), expected, "{text}");
        }
    }

    #[test]
    fn absent_and_old_programs_are_named_with_the_remedy() {
        let path = Path::new("greeter/go.mod");
        let absent = TOOL.check_version(&mut Command::new("informant-absent-program"), path);
        insta::assert_snapshot!(absent.unwrap_err(), @"go is not installed, which compiles greeter/go.mod: install Go 1.26 or newer from https://go.dev/dl");
        let old = TOOL.check_version(Command::new("echo").arg("go version go1.21.3"), path);
        insta::assert_snapshot!(old.unwrap_err(), @"go 1.21 is too old for greeter/go.mod, which needs 1.26: install Go 1.26 or newer from https://go.dev/dl");
        TOOL.check_version(Command::new("echo").arg("go version go1.30"), path)
            .unwrap();
    }

    #[test]
    fn a_build_is_announced_with_its_program() {
        insta::assert_snapshot!(TOOL.announcement(Path::new("greeter/go.mod")), @"go builds greeter/go.mod");
    }

    #[test]
    fn a_failed_build_names_the_project() {
        let failed = TOOL.run(&mut Command::new("false"), Path::new("greeter"), "see above");
        insta::assert_snapshot!(failed.unwrap_err(), @"go cannot build greeter; its messages are above (see above)");
    }
}
