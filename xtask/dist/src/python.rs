//! The runner of Python scripts: a file of the release, and part of an image of its own, which has it compiled.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::platform::Platform;
use crate::program::{Program, path_below};

/// The name under which `informant` looks for the runner.
pub(crate) const FILE: &str = "informant-runner-python.wasm";

/// The folder next to it in which `informant` looks for its native code.
pub(crate) const COMPILED: &str = "compiled";

/// The built runner.
pub(crate) struct PythonRunner {
    pub(crate) bytes: Vec<u8>,
    /// The packages in it.
    pub(crate) parts: Vec<Part>,
}

/// A package in the runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Its package URL.
    pub(crate) url: String,
    /// In SPDX's notation.
    pub(crate) license: String,
}

/// Files of an image: their paths below the runner's folder, and their contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

impl Part {
    /// Reads `pkg:TYPE/NAME@VERSION=LICENSE`.
    pub(crate) fn parse(text: &str) -> Result<Part> {
        let parsed = text.split_once('=').and_then(|(url, license)| {
            let (package, version) = url.strip_prefix("pkg:")?.split_once('@')?;
            let (_, name) = package.split_once('/')?;
            Some(Part {
                name: name.to_owned(),
                version: version.to_owned(),
                url: url.to_owned(),
                license: license.to_owned(),
            })
        });
        parsed.with_context(|| format!("`{text}` is not pkg:TYPE/NAME@VERSION=LICENSE"))
    }
}

impl PythonRunner {
    /// Reads the runner in `file`.
    ///
    /// # Errors
    /// If it is no component, or contains a path of `checkout`, the only folder of this machine whose files it is made
    /// from.
    pub(crate) fn read(file: &Path, parts: Vec<Part>, checkout: &Path) -> Result<PythonRunner> {
        let bytes = std::fs::read(file).with_context(|| format!("failed to read {}", file.display()))?;
        // The version and the layer of components.
        ensure!(
            bytes.starts_with(b"\0asm\x0d\0\x01\0"),
            "{} is not a component: `cargo xtask python-runner` builds it",
            file.display()
        );
        if let Some(found) = path_below(&bytes, checkout) {
            bail!("{} contains a path of this machine: {found}", file.display());
        }
        Ok(PythonRunner { bytes, parts })
    }

    /// The runner and its native code for `platform`, by the program for this machine. None without such a program.
    pub(crate) fn compiled(&self, programs: &[Program], platform: Platform) -> Result<Option<Files>> {
        let here = Platform::of_this_machine();
        let Some(program) = programs.iter().find(|program| Some(program.platform) == here) else {
            return Ok(None);
        };
        let folder = tempfile::tempdir().context("failed to create a temporary folder")?;
        let runner = folder.path().join(FILE);
        crate::write(&runner, &self.bytes)?;
        let output = Command::new(&program.file)
            .args(["plugin", "compile", "--target", platform.architecture()])
            .arg(&runner)
            .env_clear()
            .output()
            .with_context(|| format!("failed to start {}", program.file.display()))?;
        ensure!(
            output.status.success(),
            "`informant plugin compile` failed with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let mut files = vec![(FILE.to_owned(), self.bytes.clone())];
        for file in crate::tree::files_below(&folder.path().join(COMPILED))? {
            let path = folder.path().join(COMPILED).join(&file);
            let content = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
            files.push((format!("{COMPILED}/{}", file.display()), content));
        }
        Ok(Some(files))
    }
}

#[cfg(test)]
pub(crate) fn runner() -> PythonRunner {
    PythonRunner {
        bytes: b"\0asm\x0d\0\x01\0".to_vec(),
        parts: vec![Part::parse("pkg:pypi/pyyaml@6.0.3=MIT").unwrap()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_package_url_and_a_license() {
        let part = Part::parse("pkg:generic/cpython@3.14.0=PSF-2.0").unwrap();
        assert_eq!((part.name.as_str(), part.version.as_str()), ("cpython", "3.14.0"));
        assert_eq!(part.license, "PSF-2.0");
        insta::assert_snapshot!(Part::parse("cpython=PSF-2.0").unwrap_err(), @"`cpython=PSF-2.0` is not pkg:TYPE/NAME@VERSION=LICENSE");
    }

    #[test]
    fn a_runner_is_a_component_without_paths_of_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let why = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            let read = PythonRunner::read(&file, Vec::new(), Path::new("/home/me"));
            let why = read.map_or_else(|error| error.to_string(), |_| "released".to_owned());
            why.replace(&folder.path().display().to_string(), "FOLDER")
        };
        let answers = [
            why(b"\0asm\x0d\0\x01\0 /0/informant.py"),
            why(b"\0asm\x01\0\0\0"),
            why(b"\0asm\x0d\0\x01\0 /home/me/informant.py"),
        ];
        insta::assert_snapshot!(answers.join("\n"), @"
        released
        FOLDER/informant-runner-python.wasm is not a component: `cargo xtask python-runner` builds it
        FOLDER/informant-runner-python.wasm contains a path of this machine: /home/me/informant.py
        ");
    }
}
