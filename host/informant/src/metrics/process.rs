//! What the process uses of the system, under the names that every Prometheus client library gives it.
//!
//! Read from `/proc` at each scrape; where there is none, only the time of the start is there.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use rustix::process::{Resource, getrlimit};

/// The unit of time in `/proc/PID/stat`: the kernel's for user space, independent of its own tick.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// Collects what the process uses. Its registry has no prefix.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    started: SystemTime,
}

impl ProcessCollector {
    /// For a process that starts now.
    pub(super) fn new() -> Self {
        Self {
            started: SystemTime::now(),
        }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let started = self.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let gauges = [
            (
                "process_start_time_seconds",
                "Start time of the process, in seconds since 1970",
                Some(started.as_secs_f64()),
            ),
            (
                "process_resident_memory_bytes",
                "Resident memory of the process",
                bytes(&status, "VmRSS:"),
            ),
            (
                "process_virtual_memory_bytes",
                "Virtual memory of the process, most of which is address space for plugins",
                bytes(&status, "VmSize:"),
            ),
            ("process_open_fds", "Open file descriptors", open_fds()),
            (
                "process_max_fds",
                "How many file descriptors may be open",
                getrlimit(Resource::Nofile).current.map(|max| max as f64),
            ),
        ];
        for (name, help, value) in gauges {
            if let Some(value) = value {
                ConstGauge::new(value).encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
            }
        }
        if let Some(cpu) = std::fs::read_to_string("/proc/self/stat")
            .ok()
            .as_deref()
            .and_then(cpu_time)
        {
            let help = "CPU time of the process, in user and system mode";
            let encoder = encoder.encode_descriptor("process_cpu_seconds", help, None, MetricType::Counter)?;
            ConstCounter::new(cpu.as_secs_f64()).encode(encoder)?;
        }
        Ok(())
    }
}

/// The resident memory of this process. None if the system does not tell (not Linux).
pub(crate) fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    bytes(&status, "VmRSS:").map(|bytes| bytes as u64)
}

/// A field of `/proc/PID/status`, which counts in units of 1,024 bytes.
fn bytes(status: &str, field: &str) -> Option<f64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: f64 = value.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kilobytes * 1024.0)
}

/// Open files, without the directory that is being read.
fn open_fds() -> Option<f64> {
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count();
    Some(count.saturating_sub(1) as f64)
}

/// `utime` and `stime` in `/proc/PID/stat`, the 14th and 15th field.
fn cpu_time(stat: &str) -> Option<Duration> {
    // The second field is a name in parentheses, which may contain spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<u32>);
    let (user, system) = (ticks.next()?.ok()?, ticks.next()?.ok()?);
    Some(CLOCK_TICK * user.saturating_add(system))
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;
    use prometheus_client::registry::Registry;

    use super::*;

    #[test]
    fn name_with_spaces_does_not_shift_the_cpu_fields() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 9 9 20 0 1 0 100 1000 10";
        assert_eq!(cpu_time(stat), Some(Duration::from_secs(2)));
        assert_eq!(cpu_time("7 (a) S 1"), None);
    }

    #[test]
    fn own_process_has_every_metric_without_a_prefix() {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(ProcessCollector::new()));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.unwrap_or_else(|| panic!("{name} is missing:\n{text}"))
                .parse()
                .unwrap()
        };
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
        assert!(value("process_resident_memory_bytes") > 0.0);
        assert!((3.0..=value("process_max_fds")).contains(&value("process_open_fds")));
        assert!(value("process_start_time_seconds") > 1.7e9);
    }
}
