//! What a process has used, from /proc.

use std::time::Duration;

use anyhow::{Context, Result};

/// CPU time of all threads, and memory in use.
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: f64,
}

/// Reads the usage of a process.
pub(super) fn of(process: u32) -> Result<Usage> {
    let mut cpu = Duration::ZERO;
    // In nanoseconds, which /proc/PID/stat is not; threads that have ended are not in it, and Informant's do not end.
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let schedule = std::fs::read_to_string(thread?.path().join("schedstat"))?;
        let nanoseconds = schedule.split_whitespace().next().context("schedstat is empty")?;
        cpu += Duration::from_nanos(nanoseconds.parse()?);
    }
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("/proc/PID/status has no VmRSS")?;
    let kilobytes: f64 = resident.trim().trim_end_matches(" kB").parse()?;
    Ok(Usage {
        cpu,
        resident_bytes: kilobytes * 1024.0,
    })
}
