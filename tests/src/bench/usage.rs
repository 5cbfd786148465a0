//! The resources a process has used, read from /proc: the same for every subject, and without cost to it.

use std::time::Duration;

use anyhow::{Context, Result};

/// The unit of time in /proc/PID/stat: the kernel's for user space, independent of its own tick.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// CPU time of all threads and of children that have ended, and memory.
#[derive(Clone, Copy)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    pub(super) resident_bytes: f64,
    /// The maximum so far.
    pub(super) peak_bytes: f64,
}

/// Reads the usage of a process.
pub(super) fn of(process: u32) -> Result<Usage> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    Ok(Usage {
        cpu: threads(process)? + children(process)?,
        resident_bytes: bytes(&status, "VmRSS:")?,
        peak_bytes: bytes(&status, "VmHWM:")?,
    })
}

/// CPU time of the live threads. In nanoseconds, unlike /proc/PID/stat; threads that have ended are missing, but none
/// of the subjects' busy threads end.
pub(super) fn threads(process: u32) -> Result<Duration> {
    let mut cpu = Duration::ZERO;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let Ok(schedule) = std::fs::read_to_string(thread?.path().join("schedstat")) else {
            continue;
        };
        let nanoseconds = schedule.split_whitespace().next().context("schedstat is empty")?;
        cpu += Duration::from_nanos(nanoseconds.parse()?);
    }
    Ok(cpu)
}

/// `cutime` and `cstime`, the 16th and 17th field.
fn children(process: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is a name in parentheses, which may contain spaces.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has no name")?;
    let ticks = fields.split_whitespace().skip(13).take(2).map(str::parse::<u32>);
    let ticks: u32 = ticks.sum::<Result<u32, _>>()?;
    Ok(CLOCK_TICK * ticks)
}

fn bytes(status: &str, field: &str) -> Result<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field));
    let value = value.with_context(|| format!("/proc/PID/status has no {field}"))?;
    let kilobytes: f64 = value.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_process_can_read_its_own_usage() {
        let own = super::of(std::process::id()).expect("/proc");
        assert!(own.resident_bytes > 0.0 && own.peak_bytes >= own.resident_bytes);
    }
}
