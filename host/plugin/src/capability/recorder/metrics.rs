//! Metrics of Events.

use prometheus_client::metrics::counter::Counter;

use crate::bindings::informant::plugin::types::ErrorCode;
use crate::series::{FamilyOf, Labeled, SeriesSet};

/// What became of an Event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EventResult {
    Created,
    /// A series was sent.
    Updated,
    /// It is part of a series that is sent later.
    Counted,
    /// Its object has too many.
    Limited,
    /// The API server has not accepted it.
    Lost,
    /// A write of its call failed, or too many waited.
    Dropped,
    /// Withheld in a dry run.
    Withheld,
}

/// The series of one plugin.
pub(crate) struct RecorderSeries {
    events: Labeled<1, Counter>,
}

impl Default for RecorderSeries {
    fn default() -> RecorderSeries {
        RecorderSeries {
            events: Labeled::new(["result"]),
        }
    }
}

impl SeriesSet for RecorderSeries {
    const FAMILIES: &'static [FamilyOf<RecorderSeries>] = &[FamilyOf::new(
        "plugin_kubernetes_events",
        "Kubernetes Events that plugins have recorded, by what became of them",
        |of| &of.events,
    )];
}

impl EventResult {
    const fn as_str(self) -> &'static str {
        match self {
            EventResult::Created => "created",
            EventResult::Updated => "updated",
            EventResult::Counted => "counted",
            EventResult::Limited => "limited",
            EventResult::Lost => "lost",
            EventResult::Dropped => "dropped",
            EventResult::Withheld => "withheld",
        }
    }
}

impl RecorderSeries {
    pub(super) fn count(&self, result: EventResult, events: u64) {
        self.events.of([result.as_str()]).inc_by(events);
    }

    /// The call to record it was refused.
    pub(super) fn count_refused(&self, code: ErrorCode) {
        let result = match code {
            ErrorCode::Denied => "denied",
            ErrorCode::TooLarge => "too-large",
            _ => "invalid",
        };
        self.events.of([result]).inc();
    }
}
