//! The reports of the crash-loop plugin: which pod was OOM-killed, at which restart.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::process::Process;

/// Pod and restarts, and how often that was reported.
pub(super) type Reports = BTreeMap<(String, u32), usize>;

/// All reports of OOM kills in the daemon's log from line `from` on.
pub(super) fn out_of_memory(process: &Process, from: usize) -> Reports {
    let mut reports = Reports::new();
    for report in process.lines(from, |line| out_of_memory_in(&message(line, "crash-loop")?)) {
        *reports.entry(report).or_default() += 1;
    }
    reports
}

/// The message of a plugin's log line.
pub(super) fn message(line: &str, plugin: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let fields = line.get("fields")?;
    let is_its = fields.get("plugin")?.as_str()? == plugin;
    is_its
        .then(|| fields.get("message").and_then(Value::as_str).map(str::to_owned))
        .flatten()
}

/// Why Informant refused a plugin's new file.
pub(super) fn refusal(line: &str, plugin: &str) -> Option<String> {
    let is_refusal = message(line, plugin)?.contains("refused");
    let line: Value = serde_json::from_str(line).ok()?;
    let error = line.pointer("/fields/error")?.as_str()?;
    is_refusal.then(|| error.to_owned())
}

/// `default/web-3: container app was OOM-killed: exit code 137, seen once, 6 restarts` → web-3, 6.
fn out_of_memory_in(message: &str) -> Option<(String, u32)> {
    let (pod, news) = message.split_once(": ")?;
    if !news.contains("was OOM-killed") {
        return None;
    }
    let (_, count) = news.rsplit_once(", ")?;
    let restarts = count.split_whitespace().next()?.parse().ok()?;
    Some((pod.strip_prefix("default/")?.to_owned(), restarts))
}

#[cfg(test)]
mod tests {
    use super::out_of_memory_in;

    #[test]
    fn a_report_names_pod_and_restarts() {
        let line = "default/web-3: container app was OOM-killed: exit code 137, seen once, 6 restarts";
        assert_eq!(out_of_memory_in(line), Some(("web-3".to_owned(), 6)));
        assert_eq!(
            out_of_memory_in("default/web-3: container app is crash-looping: 6 restarts"),
            None
        );
    }
}
