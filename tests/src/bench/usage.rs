//! What a process has used, from /proc.

use std::time::Duration;

use anyhow::{Context, Result};

/// CPU time in user and kernel mode, children waited for included, and memory in use.
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: f64,
}

/// The kernel's clock ticks a second; 100 on every Linux there is.
const TICKS_PER_SECOND: u64 = 100;

/// Reads the usage of a process.
pub(super) fn of(process: u32) -> Result<Usage> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The program's name, in parentheses, may hold spaces; the fields that follow are counted from 3.
    let (_, fields) = stat.rsplit_once(") ").context("/proc/PID/stat has another form")?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: u64 = fields
        .get(11..15)
        .context("/proc/PID/stat is short")?
        .iter()
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let resident = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .context("/proc/PID/status has no VmRSS")?;
    let kilobytes: f64 = resident.trim().trim_end_matches(" kB").parse()?;
    Ok(Usage {
        cpu: Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND),
        resident_bytes: kilobytes * 1024.0,
    })
}
