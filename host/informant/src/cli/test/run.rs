//! Runs one scenario, on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use informant_config::FilePosition;

use super::check::{Check, Failure};
use super::prepare::Prepared;
use super::recorder::Recorder;
use super::scenario::Step;
use super::update::Edit;
use super::world::World;

/// How long a scenario may take: 60 s of real time. One whose plugin never comes to rest would never end.
const SCENARIO_MAX: Duration = Duration::from_secs(60);

/// What became of a scenario.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) failures: Vec<Failure>,
    /// What would let its expectations match.
    pub(super) edits: Vec<Edit>,
    /// Warnings and errors of Informant.
    pub(super) notes: Vec<String>,
}

/// Runs a scenario to its end.
///
/// # Errors
/// If it cannot be run at all.
pub(super) fn run(prepared: &Arc<Prepared>) -> Result<Outcome> {
    let (sender, receiver) = mpsc::channel();
    let of_thread = Arc::clone(prepared);
    let running = thread::Builder::new()
        .name("scenario".to_owned())
        .spawn(move || {
            let outcome = run_here(&of_thread);
            // The last one removes the folder of the run: that is the caller.
            drop(of_thread);
            // It is not received once the time is over.
            let _ = sender.send(outcome);
        })
        .context("cannot start a thread")?;
    match receiver.recv_timeout(SCENARIO_MAX) {
        Ok(outcome) => {
            // It has nothing left to do.
            let _ = running.join();
            outcome
        }
        Err(RecvTimeoutError::Timeout) => {
            // The thread may never end.
            prepared.remove_folder();
            let mut outcome = Outcome::default();
            let title = format!(
                "the scenario did not end within {} s: the plugin does something again and again without letting time \
                 pass",
                SCENARIO_MAX.as_secs()
            );
            outcome.fail(first(&prepared.scenario.steps), title);
            Ok(outcome)
        }
        Err(RecvTimeoutError::Disconnected) => anyhow::bail!("the thread of the scenario panicked"),
    }
}

fn first(steps: &[Step]) -> FilePosition {
    steps
        .first()
        .map_or(FilePosition { line: 1, column: 1 }, |step| step.position)
}

fn run_here(prepared: &Prepared) -> Result<Outcome> {
    let recorder = Recorder::default();
    let _log = tracing::subscriber::set_default(recorder.subscriber());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .context("cannot start the async runtime")?;
    let outcome = runtime.block_on(play(prepared, &recorder));
    // Does not wait for a guest that spins, which ends by itself.
    runtime.shutdown_background();
    let mut outcome = outcome?;
    outcome.notes = recorder.notes();
    prepared.hide_folder(&mut outcome);
    Ok(outcome)
}

async fn play(prepared: &Prepared, recorder: &Recorder) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let steps = &prepared.scenario.steps;
    let mut world = World::start(prepared, recorder.clone()).await?;
    if let Some(reason) = unexpected(&world, steps.first().filter(|step| step.action.is_none())) {
        outcome.fail(first(steps), format!("the plugin was refused: {reason}"));
        return Ok(outcome);
    }
    for (number, step) in steps.iter().enumerate() {
        if let Some(action) = &step.action {
            let done = world.act(action, prepared.versions.get(&number)).await;
            if let Err(error) = done {
                outcome.fail(step.position, format!("{error:#}"));
                return Ok(outcome);
            }
            if let Some(reason) = unexpected(&world, Some(step)) {
                outcome.fail(step.position, format!("the new version was refused: {reason}"));
                return Ok(outcome);
            }
        }
        if let Some(expect) = &step.expect {
            let mut check = Check {
                world: &mut world,
                text: prepared.scenario.file.text(),
                failures: Vec::new(),
                edits: Vec::new(),
            };
            check.run(expect);
            outcome.failures.extend(check.failures);
            outcome.edits.extend(check.edits);
        }
    }
    Ok(outcome)
}

/// Why a version was refused, unless the step expects that.
fn unexpected(world: &World, step: Option<&Step>) -> Option<String> {
    let expects_it = step.and_then(|step| step.expect.as_ref()?.refused.as_ref()).is_some();
    world.refused.clone().filter(|_| !expects_it)
}

impl Outcome {
    pub(super) fn fail(&mut self, position: FilePosition, title: String) {
        self.failures.push(Failure {
            position,
            title,
            lines: Vec::new(),
            is_updated: false,
        });
    }
}
