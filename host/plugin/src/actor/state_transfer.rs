//! The transfer of a version's state to the next one.
//!
//! ```text
//! old instance ──save──▶ bytes (at most [`STATE_BYTES_MAX`]) ──restore──▶ new instance
//! ```
//!
//! Happens in the actor that owns the old instance, between two events: nothing is delivered between `save` and the end
//! of the swap. The host does not interpret the bytes.

use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use crate::actor::message_of;
use crate::actor::slot::InstanceSlot;
use crate::bindings::informant::plugin::types::Failure;
use crate::component::roles::Role;
use crate::engine::limiter::Mib;
use crate::engine::trap::TrapKind;
use crate::error::LoadProblem;
use crate::instance::Instance;

/// Bytes of a state: 16 MiB. With a larger one the swap fails; state of that size should be rebuilt from a replay
/// (`on-reload = "replay"`).
pub(crate) const STATE_BYTES_MAX: usize = 16 << 20;

/// Bytes of the states of all instances together: 64 MiB. The host holds them from the first save to the last restore.
pub(crate) const STATES_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferredState {
    /// Nothing to transfer: a version lacks the role, or the old instance was lost before.
    None,
    /// The new version restored this many bytes.
    Bytes(usize),
    /// `save` trapped or timed out, which lost the old instance and its state.
    LostInSave,
}

impl TransferredState {
    pub(crate) fn bytes(self) -> Option<usize> {
        match self {
            TransferredState::Bytes(bytes) => Some(bytes),
            TransferredState::None | TransferredState::LostInSave => None,
        }
    }
}

enum Saved {
    None,
    State(Vec<u8>),
    Lost,
}

/// Transfers the states of the instances in `old` to `new`, which are as many, or none: all save, then all restore.
/// Errors: [`LoadProblem::State`]: `save` returned a failure, or `restore` failed or trapped. All of `old` stay in use.
pub(crate) async fn transfer_states(
    old: &mut [&mut InstanceSlot],
    new: &mut [Instance],
) -> Result<TransferredState, LoadProblem> {
    let has_state = !new.is_empty() && new.iter().all(Instance::has_state);
    let Some(first) = old.first().filter(|_| has_state) else {
        return Ok(TransferredState::None);
    };
    // Between two events no other guard keeps the clock running that ends a loop.
    let clock = std::sync::Arc::clone(first.context.runtime.ticker.clock());
    let _running = clock.run_guests();
    let plugin = first.context.counters.plugin().clone();
    let (mut saved, mut bytes) = (Vec::new(), 0);
    for slot in old.iter_mut() {
        match save(slot, &plugin).await? {
            Saved::Lost => return Ok(TransferredState::LostInSave),
            Saved::None => saved.push(None),
            Saved::State(state) => {
                bytes += state.len();
                saved.push(Some(state));
            }
        }
        if bytes > STATES_BYTES_MAX {
            let (bytes, max) = (Mib(bytes), Mib(STATES_BYTES_MAX));
            return Err(LoadProblem::State(format!(
                "the first {} instances saved {bytes}; all states together may have at most {max}",
                saved.len()
            )));
        }
    }
    if saved.iter().all(Option::is_none) {
        return Ok(TransferredState::None);
    }
    for (instance, state) in new.iter_mut().zip(saved) {
        let Some(state) = state else { continue };
        if seeded_bug(SeededBug::SavedStateNotRestored) {
            continue;
        }
        match instance.restore(&state).await {
            Some(Ok(answer)) => result_of("restore", answer)?,
            Some(Err(report)) => return Err(LoadProblem::State(report.to_string())),
            None => {}
        }
    }
    tracing::debug!(%plugin, bytes, "plugin state transferred");
    Ok(TransferredState::Bytes(bytes))
}

/// Calls `save` of the instance in `old`.
async fn save(old: &mut InstanceSlot, plugin: &str) -> Result<Saved, LoadProblem> {
    let Some(instance) = &mut old.instance else {
        if old.version.component.roles.has(Role::State) {
            tracing::warn!(
                plugin,
                "plugin state lost with its instance; the new version starts without it"
            );
            old.context.counters.state_lost.inc();
        }
        return Ok(Saved::None);
    };
    let Some(called) = instance.save().await else {
        return Ok(Saved::None);
    };
    let state = match called {
        // The plugin stops.
        Err(report) if report.kind == TrapKind::Aborted => return Err(LoadProblem::State(report.to_string())),
        Err(report) => {
            old.drop_lost(&report);
            tracing::warn!(
                plugin,
                error = %report,
                "plugin state lost in save; the new version starts without it and receives a replay"
            );
            old.context.counters.state_lost.inc();
            return Ok(Saved::Lost);
        }
        Ok(answer) => result_of("save", answer)?,
    };
    if state.len() > STATE_BYTES_MAX {
        let (bytes, max) = (Mib(state.len()), Mib(STATE_BYTES_MAX));
        return Err(LoadProblem::State(format!(
            "save returned {bytes}; a state may have at most {max}"
        )));
    }
    Ok(Saved::State(state))
}

fn result_of<T>(function: &'static str, answer: Result<T, Failure>) -> Result<T, LoadProblem> {
    answer.map_err(|failure| LoadProblem::State(format!("{function} failed: {}", message_of(failure))))
}
