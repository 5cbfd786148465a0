//! A run of a timer.

use std::sync::Arc;

use informant_object::SourceId;

/// The source of a [`Tick`]'s slot: none that exists. IDs of sources are given in order and never get here.
pub(crate) const TIMER_SOURCE: SourceId = SourceId(u32::MAX);

/// A run of a timer that is due. Of one timer at most one is in flight, and one is pending: those that are due
/// meanwhile become part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    /// The name of the timer.
    pub timer: Arc<str>,
    /// When it was due or asked for, in milliseconds since 1970.
    pub scheduled_ms: i64,
    /// The last time of the schedule that it stands for, likewise. None: it was only asked for.
    pub due_ms: Option<i64>,
    /// How many earlier runs it stands for.
    pub missed: u32,
}

impl Tick {
    /// This run and the `newer` one as one run.
    pub(crate) fn then(&self, newer: &Tick) -> Tick {
        Tick {
            due_ms: newer.due_ms.or(self.due_ms),
            missed: self.missed.saturating_add(newer.missed).saturating_add(1),
            ..newer.clone()
        }
    }
}
