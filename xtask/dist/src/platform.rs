//! What Informant is released for.

use anyhow::{Context, Result};
use oci_spec::image::Arch;

/// A Linux with glibc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Platform {
    Amd64,
    Arm64,
}

impl Platform {
    const ALL: [Platform; 2] = [Platform::Amd64, Platform::Arm64];

    /// The platform of Rust's target `triple`.
    pub(crate) fn of_target(triple: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|platform| platform.target() == triple);
        let known = Self::ALL.map(Platform::target).join(", ");
        found.with_context(|| format!("`{triple}` is not a target of releases: {known}"))
    }

    /// The platform of this machine, if releases support it.
    pub(crate) fn of_this_machine() -> Option<Self> {
        let name = std::env::consts::ARCH;
        let is_this = |platform: &Platform| platform.target().starts_with(name);
        Self::ALL
            .into_iter()
            .find(is_this)
            .filter(|_| cfg!(target_os = "linux"))
    }

    /// Rust's name.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Platform::Amd64 => "x86_64-unknown-linux-gnu",
            Platform::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The name in images, in Kubernetes and in file names.
    pub(crate) fn architecture(self) -> &'static str {
        match self {
            Platform::Amd64 => "amd64",
            Platform::Arm64 => "arm64",
        }
    }

    /// The name in the types of images.
    pub(crate) fn arch(self) -> Arch {
        match self {
            Platform::Amd64 => Arch::Amd64,
            Platform::Arm64 => Arch::ARM64,
        }
    }

    /// The number of the machine in the header of a program.
    pub(crate) fn elf_machine(self) -> u16 {
        match self {
            Platform::Amd64 => 62,
            Platform::Arm64 => 183,
        }
    }
}
