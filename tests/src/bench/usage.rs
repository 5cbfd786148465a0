//! The resources a process has used, read from /proc: the same for every subject, and without cost to it.

use std::collections::BTreeMap;
use std::ffi::OsString;
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

/// The proportional set size: memory that several processes share counts for each only in part.
pub(super) fn proportional(process: u32) -> Result<f64> {
    bytes(
        &std::fs::read_to_string(format!("/proc/{process}/smaps_rollup"))?,
        "Pss:",
    )
}

/// The processes that it started, those included that these started. Those that end meanwhile may be missing.
pub(super) fn descendants(process: u32) -> Vec<u32> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    for thread in threads.flatten() {
        let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        for child in children.split_whitespace().filter_map(|id| id.parse().ok()) {
            all.push(child);
            all.extend(descendants(child));
        }
    }
    all
}

/// CPU time of the live threads. In nanoseconds, unlike /proc/PID/stat; threads that have ended are missing, but none
/// of the subjects' busy threads end.
pub(super) fn threads(process: u32) -> Result<Duration> {
    Ok(each_thread(process)?.values().sum())
}

/// As [`threads`], by the thread's number.
pub(super) fn each_thread(process: u32) -> Result<BTreeMap<OsString, Duration>> {
    let mut all = BTreeMap::new();
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        let thread = thread?;
        let Ok(schedule) = std::fs::read_to_string(thread.path().join("schedstat")) else {
            continue;
        };
        let nanoseconds = schedule.split_whitespace().next().context("schedstat is empty")?;
        all.insert(thread.file_name(), Duration::from_nanos(nanoseconds.parse()?));
    }
    Ok(all)
}

/// `cutime` and `cstime`, the 16th and 17th field.
pub(super) fn children(process: u32) -> Result<Duration> {
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
        assert!(super::proportional(std::process::id()).expect("/proc") > 0.0);
    }
}
