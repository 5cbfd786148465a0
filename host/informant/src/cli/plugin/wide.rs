//! `informant plugin list -o wide`: what each plugin costs.

use std::io::{self, Write};

use crate::admin::PluginView;
use crate::cli::table::{self, or_dash};

/// Since each plugin was loaded.
pub(super) fn show(out: &mut dyn Write, plugins: &[PluginView]) -> io::Result<()> {
    let headings = [
        "PLUGIN",
        "STATE",
        "EVENTS",
        "CPU",
        "CPU/EVENT",
        "MEMORY",
        "REQUESTS",
        "SENT",
        "RECEIVED",
        "EFFECTS",
    ];
    table::write(out, headings, plugins.iter().map(row))
}

fn row(plugin: &PluginView) -> [String; 10] {
    let loaded = plugin.loaded.as_ref();
    let each = loaded.filter(|loaded| loaded.delivered > 0);
    [
        plugin.name.clone(),
        plugin.state.clone(),
        or_dash(loaded, |loaded| loaded.delivered.to_string()),
        or_dash(loaded, |loaded| table::duration(loaded.cpu_ms)),
        or_dash(each, |loaded| microseconds(loaded.cpu_ms, loaded.delivered)),
        or_dash(loaded, |loaded| bytes(loaded.memory_bytes as u64)),
        or_dash(loaded, |loaded| loaded.kube_requests.to_string()),
        or_dash(loaded, |loaded| bytes(loaded.kube_sent_bytes)),
        or_dash(loaded, |loaded| bytes(loaded.kube_received_bytes)),
        or_dash(loaded, |loaded| loaded.effects.to_string()),
    ]
}

/// The part of a time that is one of `parts`: `41us`, `3.2ms`.
fn microseconds(millis: u64, parts: u64) -> String {
    let micros = millis.saturating_mul(1_000) / parts.max(1);
    match micros {
        0..1_000 => format!("{micros}us"),
        1_000..10_000 => format!("{}.{}ms", micros / 1_000, micros % 1_000 / 100),
        _ => table::duration(micros / 1_000),
    }
}

/// `812B`, `12KiB`, `3.4MiB`.
pub(in crate::cli) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let (mut value, mut unit, mut rest) = (bytes, 0, 0);
    while value >= 1_024 && unit + 1 < UNITS.len() {
        rest = value % 1_024;
        value /= 1_024;
        unit += 1;
    }
    match (unit, value) {
        (1.., 0..10) => format!("{value}.{}{}", rest * 10 / 1_024, UNITS[unit]),
        _ => format!("{value}{}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_parts_have_units() {
        let sizes = [0, 812, 1_024, 12_345, 3_565_158, 17 << 20, 5 << 30].map(bytes);
        assert_eq!(sizes, ["0B", "812B", "1.0KiB", "12KiB", "3.3MiB", "17MiB", "5.0GiB"]);
        let parts = [(41, 1_000), (32, 10), (120_000, 2)].map(|(millis, parts)| microseconds(millis, parts));
        assert_eq!(parts, ["41us", "3.2ms", "60s"]);
    }
}
