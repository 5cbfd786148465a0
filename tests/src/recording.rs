//! The records that the guest `guest-recorder` left in Informant's log: one JSON line per call (see its module
//! documentation).

use serde::Deserialize;

use crate::daemon::Daemon;
use crate::process::Process;

/// One recorded call.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Call {
    /// The build of the recorder.
    pub guest: String,
    /// The label of its config.
    #[serde(default)]
    pub label: String,
    /// `init`, `add`, `update`, `delete`, `synced` or `digest`.
    pub event: String,
    /// The handler's result.
    #[serde(default)]
    pub outcome: String,
    /// The reason of the call.
    #[serde(default)]
    pub reason: String,
    /// The attempt, from 0.
    #[serde(default)]
    pub attempt: u32,
    /// The object's namespace.
    #[serde(default)]
    pub namespace: String,
    /// The object's name.
    #[serde(default)]
    pub name: String,
    /// The object's uid.
    #[serde(default)]
    pub uid: String,
    /// The object's resource version.
    #[serde(default)]
    pub version: String,
    /// Whether an old or last state was passed.
    #[serde(default)]
    pub old: bool,
    /// Whether the final state is unknown.
    #[serde(default)]
    pub unknown: bool,
    /// The version in the store during the call, if the recorder is configured to look.
    #[serde(default)]
    pub seen: Option<String>,
    /// The number of keys in its view (`synced`, `digest`).
    #[serde(default)]
    pub keys: Option<u64>,
    /// The digest of its view (`synced`, `digest`).
    #[serde(default)]
    pub digest: Option<String>,
}

impl Call {
    /// The version as a number, to compare the order of calls for one key. 0 if it is not a number.
    pub fn version_number(&self) -> u64 {
        self.version.parse().unwrap_or_default()
    }
}

#[derive(Deserialize)]
struct LogLine {
    fields: LogFields,
}

#[derive(Deserialize)]
struct LogFields {
    message: String,
    plugin: Option<String>,
}

/// The calls that the recorder running as `plugin` recorded from line `from` of the log on.
pub fn calls(daemon: &Daemon, plugin: &str, from: usize) -> Vec<Call> {
    calls_of(daemon.process(), plugin, from)
}

/// As [`calls`], of a process.
pub fn calls_of(process: &Process, plugin: &str, from: usize) -> Vec<Call> {
    process.lines(from, |line| call(line, plugin))
}

/// The digest of a view with these keys and versions, as the recorder computes it.
pub fn digest<'a>(view: impl IntoIterator<Item = (&'a str, &'a str, &'a str)>) -> String {
    let mut lines: Vec<_> = view.into_iter().collect();
    lines.sort_unstable();
    let text: String = lines
        .iter()
        .map(|(namespace, name, version)| format!("{namespace}/{name}={version}\n"))
        .collect();
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

fn call(line: &str, plugin: &str) -> Option<Call> {
    let line: LogLine = serde_json::from_str(line).ok()?;
    if line.fields.plugin.as_deref() != Some(plugin) {
        return None;
    }
    serde_json::from_str(&line.fields.message).ok()
}
