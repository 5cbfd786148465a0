//! A built program, and what a release may contain.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::platform::Platform;

/// The newest glibc that a program may need: that of RHEL 8 and its relatives, supported until 2029.
const GLIBC_MAX: (u32, u32) = (2, 28);

/// The program for one platform.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) platform: Platform,
    pub(crate) file: PathBuf,
}

impl Program {
    /// Reads `TARGET=FILE`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let (target, file) = text.split_once('=').context("a program is TARGET=FILE")?;
        Ok(Self {
            platform: Platform::of_target(target)?,
            file: PathBuf::from(file),
        })
    }

    /// The program's bytes.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        std::fs::read(&self.file).with_context(|| format!("failed to read {}", self.file.display()))
    }

    /// Checks that the program is for its platform, is stripped, runs with glibc 2.28, and contains no path of
    /// `private` folders.
    pub(crate) fn check(&self, private: &[PathBuf]) -> Result<()> {
        check(&self.read()?, self.platform, private)
            .with_context(|| format!("{} cannot be released", self.file.display()))
    }
}

fn check(bytes: &[u8], platform: Platform, private: &[PathBuf]) -> Result<()> {
    let machine = bytes.get(18..20).map(|found| u16::from_le_bytes([found[0], found[1]]));
    ensure!(
        bytes.starts_with(b"\x7fELF") && machine == Some(platform.elf_machine()),
        "it is not a program for {}",
        platform.target()
    );
    ensure!(
        !contains(bytes, b"\0.symtab\0"),
        "it contains debug symbols; the profile `dist` in Cargo.toml strips them"
    );
    let newest = glibc_versions(bytes).max().context("it is not linked with glibc")?;
    let shown = |(major, minor)| format!("{major}.{minor}");
    ensure!(
        newest <= GLIBC_MAX,
        "it needs glibc {}; releases run with {}",
        shown(newest),
        shown(GLIBC_MAX)
    );
    for folder in private {
        if let Some(found) = path_below(bytes, folder) {
            bail!("it contains a path of this machine, so another one builds other bytes: {found}");
        }
    }
    Ok(())
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    position(bytes, part).is_some()
}

fn position(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// The versions of glibc that the program's symbols name, as `GLIBC_2.28`.
fn glibc_versions(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    const PREFIX: &[u8] = b"GLIBC_";
    let starts = bytes.windows(PREFIX.len()).enumerate();
    let starts = starts.filter(|(_, window)| *window == PREFIX);
    starts.filter_map(|(start, _)| {
        let rest = &bytes[start + PREFIX.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let mut numbers = std::str::from_utf8(&rest[..end]).ok()?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    })
}

/// The first path below `folder` in the program, up to 200 characters of it.
pub(crate) fn path_below(bytes: &[u8], folder: &Path) -> Option<String> {
    let wanted = format!("{}/", folder.display());
    let start = position(bytes, wanted.as_bytes())?;
    let text = &bytes[start..bytes.len().min(start + 200)];
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_graphic())
        .unwrap_or(text.len());
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Program, check};
    use crate::platform::Platform;

    fn program(machine: u8, strings: &str) -> Vec<u8> {
        let mut bytes = b"\x7fELF".to_vec();
        bytes.resize(18, 0);
        bytes.extend([machine, 0]);
        bytes.extend(strings.as_bytes());
        bytes
    }

    #[test]
    fn only_stripped_portable_programs_are_released() {
        let why = |bytes: &[u8]| {
            let private = [PathBuf::from("/home/me")];
            check(bytes, Platform::Amd64, &private).map_or_else(|error| error.to_string(), |()| "released".to_owned())
        };
        let answers = [
            why(&program(62, "\0GLIBC_2.3.4\0GLIBC_2.28\0GLIBC_PRIVATE\0")),
            why(&program(183, "\0GLIBC_2.28\0")),
            why(b"#!/bin/sh"),
            why(&program(62, "\0GLIBC_2.9\0GLIBC_2.34\0")),
            why(&program(62, "\0")),
            why(&program(62, "\0GLIBC_2.28\0.symtab\0")),
            why(&program(62, "\0GLIBC_2.28\0/home/me/.cargo/registry/src/a.rs\0")),
            why(&program(62, "\0GLIBC_2.28\0/home/meg/a.rs\0")),
        ];
        insta::assert_snapshot!(answers.join("\n"), @"
        released
        it is not a program for x86_64-unknown-linux-gnu
        it is not a program for x86_64-unknown-linux-gnu
        it needs glibc 2.34; releases run with 2.28
        it is not linked with glibc
        it contains debug symbols; the profile `dist` in Cargo.toml strips them
        it contains a path of this machine, so another one builds other bytes: /home/me/.cargo/registry/src/a.rs
        released
        ");
    }

    #[test]
    fn program_is_named_with_its_target() {
        assert_eq!(
            Program::parse("aarch64-unknown-linux-gnu=/a").unwrap().platform,
            Platform::Arm64
        );
        insta::assert_snapshot!(Program::parse("riscv=/a").unwrap_err(), @"`riscv` is not a target of releases: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu");
    }
}
