//! What the compiler's process gives up before it reads its first byte: files, network, other programs and processes.
//!
//! Three layers, each as far as the system has it: no new privileges, Landlock, and a filter of system calls (seccomp).
//! Nothing of it depends on the others. A compiler needs memory, threads, the clock and its three pipes, so whatever
//! takes over the process can make no use of the rest. All of it is inherited by threads, so it is applied first.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux;

/// What holds in the compiler's process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Confinement {
    /// A program that it starts would get no further rights.
    pub(super) no_new_privs: bool,
    pub(super) landlock: Landlock,
    pub(super) seccomp: bool,
}

/// How much of Landlock the kernel has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Landlock {
    #[default]
    Absent,
    /// Files only: Linux before 6.12.
    Partial,
    Full,
}

impl Confinement {
    /// Whether each layer is there. The filter of system calls includes what a partial Landlock lacks.
    pub(super) fn is_complete(self) -> bool {
        self.no_new_privs && self.seccomp && self.landlock != Landlock::Absent
    }

    pub(super) fn missing(self) -> String {
        let layers = [
            ("no_new_privs", self.no_new_privs),
            ("landlock", self.landlock != Landlock::Absent),
            ("seccomp", self.seccomp),
        ];
        let missing: Vec<&str> = layers
            .into_iter()
            .filter_map(|(name, is)| (!is).then_some(name))
            .collect();
        missing.join(", ")
    }
}

/// Confines the calling thread and those that it will create, as far as the system can.
pub(super) fn confine() -> Confinement {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    return linux::confine();
    #[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
    return Confinement::default();
}
