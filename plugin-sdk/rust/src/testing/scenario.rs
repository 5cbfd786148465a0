//! Runs scenario files, which `informant plugin test` runs, too.
//!
//! ```text
//! FILE.scenario.yaml ──yaml──▶ Node ──format──▶ Scenario ──run: a driver, retries, a clock──▶ what happened
//!                                                                       ──compare, expect──▶ differences
//! ```
//!
//! docs/reference/scenarios.md describes the files.

mod compare;
mod config;
mod entries;
mod expect;
mod format;
mod requests;
mod run;
mod series;
mod start;
mod validate;
mod yaml;

use std::path::Path;

use self::run::Run;
use super::exported::Exported;

/// Runs the scenario in a file, which `informant plugin test` runs, too, against the plugin `P`: the members `path` and
/// `swap` of the file stand for it. The path is relative to the folder in which cargo runs tests, that of the package.
///
/// ```no_run
/// # use informant_plugin_sdk::prelude::*;
/// # #[informant::handler]
/// # fn on_pod(event: &Event, pod: Value) -> Result { Ok(()) }
/// # fn main() {
/// use informant_plugin_sdk::testing::run_scenario;
///
/// run_scenario::<OnPod>("pod-fails.scenario.yaml");
/// # }
/// ```
///
/// Retries, requeues and dead letters are those of Informant, on a clock that only the scenario moves. The back-off has
/// no random part, and the plugin's own clock is that of the machine. Timers run in the step `timer` only. Grants are
/// not compared with each call: without `allow.kube`, `allow.http` and `allow.events` in `config`, all calls are
/// denied.
///
/// # Panics
/// With a line for each difference, which has the place in the file. So does a mistake in the file, and what only
/// `informant plugin test` can do: `replay`, `time`, `after` in an answer, a swap by another version, a trap,
/// `options` of writes, and settings in `config` other than `resource` and `index` of informers and `allow`,
/// `component`, `config`, `informers` and `script` of the plugin. A panic of the plugin ends the test.
#[track_caller]
pub fn run_scenario<P: Exported>(file: impl AsRef<Path>) {
    if let Err(differences) = outcome::<P>(file.as_ref()) {
        panic!("the scenario has failed:\n{differences}");
    }
}

/// # Errors
/// What differs, or what is wrong with the file.
fn outcome<P: Exported>(file: &Path) -> Result<(), String> {
    let scenario = format::read(file)?;
    let differences = match Run::<P>::start(&scenario)? {
        Ok(mut run) => run.all()?,
        Err(refusal) => compare::refused_start(&scenario, refusal),
    };
    match differences.is_empty() {
        true => Ok(()),
        false => Err(differences.join("\n")),
    }
}

#[cfg(test)]
mod tests;
