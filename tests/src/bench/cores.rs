//! Assigns CPUs: the subject has its own, on which neither the API server nor the load runs.
//!
//! `taskset` sets the CPUs before a program starts, so that the program sees only those: tokio then starts as many
//! workers, and Go sets GOMAXPROCS, as on a machine of that size.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};

/// From this number of CPUs on, the load has a CPU of its own, separate from the API server's.
const SEPARATE_LOAD_FROM: usize = 4;

/// Which CPUs run what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// CPU numbers.
    Separate {
        server: Vec<u32>,
        load: Vec<u32>,
        subject: Vec<u32>,
        /// One of the subject's CPUs is a hyper-thread sibling of a CPU that it should not share.
        siblings: bool,
    },
    /// All programs share all CPUs.
    Shared { because: &'static str },
}

impl Cores {
    /// Divides the CPUs that this process may use, and pins this process to its own.
    pub(super) fn assign() -> Result<Cores> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = numbers(list.context("/proc/self/status has no Cpus_allowed_list")?)?;
        let cores = Cores::of(&allowed, siblings);
        let Cores::Separate { load, .. } = &cores else {
            return Ok(cores);
        };
        let own = std::process::id().to_string();
        let pin = Command::new("taskset")
            .args(["-a", "-p", "-c", &text(load), &own])
            .output();
        match pin {
            Ok(output) if output.status.success() => Ok(cores),
            _ => Ok(Cores::Shared {
                because: "taskset (util-linux) is missing or not permitted",
            }),
        }
    }

    fn of(allowed: &[u32], siblings: impl Fn(u32) -> Vec<u32>) -> Cores {
        let (server, load, subject) = match allowed {
            [] | [_] => {
                return Cores::Shared {
                    because: "there is only one CPU",
                };
            }
            [server, load, subject @ ..] if allowed.len() >= SEPARATE_LOAD_FROM => {
                (vec![*server], vec![*load], subject)
            }
            [server, subject @ ..] => (vec![*server], vec![*server], subject),
        };
        let others = server.iter().chain(&load).flat_map(|cpu| siblings(*cpu));
        let shared = others.into_iter().any(|cpu| subject.contains(&cpu));
        Cores::Separate {
            server,
            load,
            subject: subject.to_vec(),
            siblings: shared,
        }
    }

    /// The command prefix that starts the API server.
    pub(super) fn server(&self) -> Vec<String> {
        match self {
            Cores::Separate { server, .. } => taskset(server),
            Cores::Shared { .. } => Vec::new(),
        }
    }

    /// The command prefix that starts a subject.
    pub(super) fn subject(&self) -> Vec<String> {
        match self {
            Cores::Separate { subject, .. } => taskset(subject),
            Cores::Shared { .. } => Vec::new(),
        }
    }

    /// The command prefix that starts a program that may use all CPUs.
    pub(super) fn all(&self) -> Vec<String> {
        match self {
            Cores::Separate {
                server, load, subject, ..
            } => taskset(&[server.as_slice(), load, subject].concat()),
            Cores::Shared { .. } => Vec::new(),
        }
    }

    /// Whether this process shares the API server's CPU.
    pub(super) fn load_beside_server(&self) -> bool {
        match self {
            Cores::Separate { server, load, .. } => server == load,
            Cores::Shared { .. } => true,
        }
    }

    /// Pins the calling thread to the subject's CPUs.
    pub(super) fn join_subject(&self) -> Result<()> {
        let Cores::Separate { subject, .. } = self else {
            return Ok(());
        };
        let thread = std::fs::read_link("/proc/thread-self")?;
        let thread = thread.file_name().context("/proc/thread-self has no thread ID")?;
        let pin = Command::new("taskset")
            .args(["-p", "-c", &text(subject)])
            .arg(thread)
            .output()?;
        anyhow::ensure!(pin.status.success(), "taskset could not move a thread");
        Ok(())
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cores::Separate {
                server,
                load,
                subject,
                siblings,
            } => {
                if server == load {
                    write!(f, "API server and load on CPU {}", text(server))?;
                } else {
                    write!(f, "API server on CPU {}, load on CPU {}", text(server), text(load))?;
                }
                write!(f, ", subject on CPU {}", text(subject))?;
                if *siblings {
                    f.write_str(" (a hyper-thread of the same core: their caches are shared)")?;
                }
                Ok(())
            }
            Cores::Shared { because } => write!(
                f,
                "API server, load and subject share all CPUs, because {because}: CPU figures are valid, rates and lags are too pessimistic"
            ),
        }
    }
}

fn taskset(cpus: &[u32]) -> Vec<String> {
    vec!["taskset".to_owned(), "-c".to_owned(), text(cpus)]
}

fn text(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    cpus.join(",")
}

/// The hyper-threads of the CPU's core, including itself.
fn siblings(cpu: u32) -> Vec<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    numbers(&list).unwrap_or_default()
}

/// Parses the kernel's list format, as in `0-2,5`.
fn numbers(list: &str) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        all.extend(first.parse::<u32>()?..=last.parse::<u32>()?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_shares_no_cpu_with_the_load() {
        let alone = |cpu| vec![cpu];
        assert_eq!(
            Cores::of(&[0, 1], alone).to_string(),
            "API server and load on CPU 0, subject on CPU 1"
        );
        assert_eq!(
            Cores::of(&[0, 1, 2, 3, 4], alone).to_string(),
            "API server on CPU 0, load on CPU 1, subject on CPU 2,3,4"
        );
        assert!(matches!(Cores::of(&[3], alone), Cores::Shared { .. }));
    }

    #[test]
    fn shared_cores_are_reported() {
        let pairs = |cpu: u32| vec![cpu & !1, cpu | 1];
        assert!(Cores::of(&[0, 1], pairs).to_string().contains("hyper-thread"));
        assert!(!Cores::of(&[0, 1, 2, 3], pairs).to_string().contains("hyper-thread"));
    }

    #[test]
    fn cpu_lists_are_parsed_in_the_kernel_format() {
        assert_eq!(numbers("\t0-2,5\n").expect("a list"), [0, 1, 2, 5]);
        assert!(numbers("").is_err());
    }
}
