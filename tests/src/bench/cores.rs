//! Which CPUs run what: the subject has its own, on which neither the API server nor the load runs.
//!
//! CPUs are given by `taskset` before a program begins, so that it sees as many as it has: tokio starts as many
//! workers, and Go sets GOMAXPROCS to it, as they would on a machine of that size.

use std::fmt;
use std::process::Command;

use anyhow::{Context, Result};

/// From how many CPUs on the load has one of its own, apart from the API server's.
const LOAD_APART_FROM: usize = 4;

/// Which CPUs run what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// Numbers of CPUs.
    Apart {
        server: Vec<u32>,
        load: Vec<u32>,
        subject: Vec<u32>,
        /// Some CPU of the subject is the other half of one that it should not share.
        siblings: bool,
    },
    /// Everything runs everywhere.
    Together { because: &'static str },
}

impl Cores {
    /// Shares out the CPUs that this process may use, and takes its own.
    pub(super) fn share_out() -> Result<Cores> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let allowed = numbers(list.context("/proc/self/status has no Cpus_allowed_list")?)?;
        let cores = Cores::of(&allowed, siblings);
        let Cores::Apart { load, .. } = &cores else {
            return Ok(cores);
        };
        let own = std::process::id().to_string();
        let pin = Command::new("taskset")
            .args(["-a", "-p", "-c", &text(load), &own])
            .output();
        match pin {
            Ok(output) if output.status.success() => Ok(cores),
            _ => Ok(Cores::Together {
                because: "taskset (util-linux) is missing or may not do it",
            }),
        }
    }

    fn of(allowed: &[u32], siblings: impl Fn(u32) -> Vec<u32>) -> Cores {
        let (server, load, subject) = match allowed {
            [] | [_] => {
                return Cores::Together {
                    because: "there is one CPU only",
                };
            }
            [server, load, subject @ ..] if allowed.len() >= LOAD_APART_FROM => (vec![*server], vec![*load], subject),
            [server, subject @ ..] => (vec![*server], vec![*server], subject),
        };
        let others = server.iter().chain(&load).flat_map(|cpu| siblings(*cpu));
        let shared = others.into_iter().any(|cpu| subject.contains(&cpu));
        Cores::Apart {
            server,
            load,
            subject: subject.to_vec(),
            siblings: shared,
        }
    }

    /// What to start the API server by.
    pub(super) fn server(&self) -> Vec<String> {
        match self {
            Cores::Apart { server, .. } => taskset(server),
            Cores::Together { .. } => Vec::new(),
        }
    }

    /// What to start a subject by.
    pub(super) fn subject(&self) -> Vec<String> {
        match self {
            Cores::Apart { subject, .. } => taskset(subject),
            Cores::Together { .. } => Vec::new(),
        }
    }

    /// Whether what this process uses is taken from what the API server has.
    pub(super) fn load_beside_server(&self) -> bool {
        match self {
            Cores::Apart { server, load, .. } => server == load,
            Cores::Together { .. } => true,
        }
    }

    /// Puts the calling thread where the subject is.
    pub(super) fn join_subject(&self) -> Result<()> {
        let Cores::Apart { subject, .. } = self else {
            return Ok(());
        };
        let thread = std::fs::read_link("/proc/thread-self")?;
        let thread = thread.file_name().context("/proc/thread-self names no thread")?;
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
            Cores::Apart {
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
                    f.write_str(" (the same core's other thread: their caches are shared)")?;
                }
                Ok(())
            }
            Cores::Together { because } => write!(
                f,
                "API server, load and subject share all CPUs, because {because}: CPU figures hold, rates and lags are too bad"
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

/// The CPUs that are threads of the same core, itself among them.
fn siblings(cpu: u32) -> Vec<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let list = std::fs::read_to_string(path).unwrap_or_default();
    numbers(&list).unwrap_or_default()
}

/// What the kernel writes as `0-2,5`.
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
    fn the_subject_shares_no_cpu_with_the_api_server_nor_the_load() {
        let alone = |cpu| vec![cpu];
        assert_eq!(
            Cores::of(&[0, 1], alone).to_string(),
            "API server and load on CPU 0, subject on CPU 1"
        );
        assert_eq!(
            Cores::of(&[0, 1, 2, 3, 4], alone).to_string(),
            "API server on CPU 0, load on CPU 1, subject on CPU 2,3,4"
        );
        assert!(matches!(Cores::of(&[3], alone), Cores::Together { .. }));
    }

    #[test]
    fn a_core_that_is_shared_all_the_same_is_said() {
        let pairs = |cpu: u32| vec![cpu & !1, cpu | 1];
        assert!(Cores::of(&[0, 1], pairs).to_string().contains("other thread"));
        assert!(!Cores::of(&[0, 1, 2, 3], pairs).to_string().contains("other thread"));
    }

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(numbers("\t0-2,5\n").expect("a list"), [0, 1, 2, 5]);
        assert!(numbers("").is_err());
    }
}
