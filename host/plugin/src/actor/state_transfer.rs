//! The transfer of a version's state to the next one.
//!
//! ```text
//! old instance ──save──▶ bytes (at most [`STATE_BYTES_MAX`]) ──restore──▶ new instance
//! ```
//!
//! Happens in the actor that owns the old instance, between two events: nothing is delivered between `save` and the end
//! of the swap. The host does not interpret the bytes.

use crate::actor::message_of;
use crate::actor::slot::InstanceSlot;
use crate::engine::limiter::Mib;
use crate::error::LoadProblem;
use crate::instance::bindings::informant::plugin::types::Failure;
use crate::instance::{Called, Instance};

/// Bytes of a state: 16 MiB. With a larger one the swap fails; state of that size should be rebuilt from a replay
/// (`on-reload = "replay"`).
pub const STATE_BYTES_MAX: usize = 16 << 20;

/// Transfers the state of the instance in `old` to `new`. Returns its size in bytes; None if there is nothing to
/// transfer: one of them lacks the role, or the old instance was lost together with its memory.
///
/// # Errors
/// [`LoadProblem::State`]. `old` stays in use; if `save` cost it its instance, that is rebuilt as after any
/// trap.
pub(crate) async fn transfer_state(
    old: &mut InstanceSlot,
    new: Option<&mut Instance>,
) -> Result<Option<usize>, LoadProblem> {
    let Some(new) = new.filter(|new| new.has_state()) else {
        return Ok(None);
    };
    // Between two events no other guard keeps the clock running that ends a loop.
    let _running = old.context.host.ticker.clock().run_guests();
    let plugin = old.context.counters.plugin().clone();
    let Some(instance) = &mut old.instance else {
        if old.version.component.roles.state {
            tracing::warn!(%plugin, "plugin state lost with its instance; the new version starts without it");
        }
        return Ok(None);
    };
    let Some(called) = instance.save().await else {
        return Ok(None);
    };
    if let Err(report) = &called {
        old.record_loss(report);
    }
    let state = answer("save", called)?;
    if state.len() > STATE_BYTES_MAX {
        let (bytes, max) = (Mib(state.len()), Mib(STATE_BYTES_MAX));
        return Err(LoadProblem::State(format!(
            "save returned {bytes}; a state may have at most {max}"
        )));
    }
    match new.restore(&state).await {
        Some(called) => answer("restore", called)?,
        None => return Ok(None),
    }
    tracing::debug!(%plugin, bytes = state.len(), "plugin state transferred");
    Ok(Some(state.len()))
}

/// The result of `function`.
fn answer<T>(function: &'static str, called: Called<Result<T, Failure>>) -> Result<T, LoadProblem> {
    Err(LoadProblem::State(match called {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(failure)) => format!("{function} failed: {}", message_of(failure)),
        Err(report) => report.to_string(),
    }))
}
