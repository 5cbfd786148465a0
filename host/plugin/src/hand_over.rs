//! What one version remembers, handed to the next.
//!
//! ```text
//! old instance ──save──▶ bytes (at most [`STATE_BYTES_MAX`]) ──restore──▶ new instance
//! ```
//!
//! Happens in the actor that owns the old instance, between two events: nothing is delivered from `save` until the swap
//! is made or refused. The host does not look into the bytes.

use crate::bindings::informant::plugin::types::Failure;
use crate::error::Problem;
use crate::instance::{Called, Instance};
use crate::limiter::Mib;
use crate::place::Place;
use crate::shared::message_of;

/// Bytes of a state: 16 MiB. A longer one refuses the swap; what is as large belongs in a cache that can be built again
/// (`on-reload = "replay"`).
pub const STATE_BYTES_MAX: usize = 16 << 20;

/// Hands what the instance in `old` remembers to `new`. Returns how many bytes that was; None if there is nothing to
/// hand over: one of them has not the role, or the old instance is lost, and its memory with it.
///
/// # Errors
/// [`Problem::State`]. `old` can go on: what it did not survive, it makes good as after any trap.
pub(crate) async fn hand_over(old: &mut Place, new: Option<&mut Instance>) -> Result<Option<usize>, Problem> {
    let Some(new) = new.filter(|new| new.has_state()) else {
        return Ok(None);
    };
    // Between two events nobody else keeps the clock running that ends a loop.
    let _running = old.shared.host.ticker.clock().run_guests();
    let plugin = old.shared.counters.plugin().clone();
    let Some(instance) = &mut old.instance else {
        if old.version.component.roles.state {
            tracing::warn!(%plugin, "a plugin's state is lost with its instance; the new version begins without");
        }
        return Ok(None);
    };
    let Some(called) = instance.save().await else {
        return Ok(None);
    };
    if let Err(report) = &called {
        old.lose(report);
    }
    let state = answer("save", called)?;
    if state.len() > STATE_BYTES_MAX {
        let (bytes, max) = (Mib(state.len()), Mib(STATE_BYTES_MAX));
        return Err(Problem::State(format!(
            "save returned {bytes}, and a state may have {max}"
        )));
    }
    match new.restore(&state).await {
        Some(called) => answer("restore", called)?,
        None => return Ok(None),
    }
    tracing::debug!(%plugin, bytes = state.len(), "a plugin's state is handed over");
    Ok(Some(state.len()))
}

/// What `function` answered.
fn answer<T>(function: &'static str, called: Called<Result<T, Failure>>) -> Result<T, Problem> {
    Err(Problem::State(match called {
        Ok(Ok(answer)) => return Ok(answer),
        Ok(Err(failure)) => format!("{function} failed: {}", message_of(failure)),
        Err(report) => report.to_string(),
    }))
}
