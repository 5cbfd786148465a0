//! Scripts: whether the program under test can run any, and what they log.

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::guests;

/// Whether the `informant` under test has a script runner: `cargo xtask` includes it where there is a C compiler for
/// WebAssembly.
///
/// # Errors
/// If it has none in CI, or if it cannot be run.
pub async fn can_run() -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("handler.js");
    std::fs::write(&script, "export function onAdd() {}")?;
    let mut command = tokio::process::Command::new(guests::informant()?);
    let output = command.args(["plugin", "inspect"]).arg(&script).output().await?;
    let said = String::from_utf8_lossy(&output.stderr);
    let lacks = said.contains("without its script runner");
    ensure!(output.status.success() || lacks, "informant plugin inspect: {said}");
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    ensure!(!(lacks && in_ci), "{said}");
    Ok(!lacks)
}

/// The message that the script of `plugin` wrote in a line of Informant's log.
pub fn said(line: &str, plugin: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    // Lines of guests have a stream: `log`, `stdout` or `stderr`.
    let is_its = line.pointer("/fields/plugin")? == plugin && line.pointer("/fields/stream").is_some();
    let message = line.pointer("/fields/message")?.as_str()?;
    is_its.then(|| message.to_owned())
}
