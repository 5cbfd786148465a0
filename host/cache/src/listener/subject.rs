//! Subjects: what a slot is about.
//!
//! To add one: a variant here with how it is looked up, what its slot shows ([`What`]), and which
//! lane it belongs to.

use informant_object::{KeyRef, SourceId};

use crate::delivery::lanes::{Lane, LaneMap};
use crate::listener::state::{State, What};

/// Timers are called in the first lane.
pub(super) const TIMER_LANE: Lane = 0;

/// A subject, as it is looked up. A slot stores no key: it reads its subject from its states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Subject<'a> {
    /// An object of a source.
    Object(SourceId, KeyRef<'a>),
    /// The end of a list or a replay of a source, for one lane.
    Synced(SourceId, Lane),
    /// A timer, by its name.
    Timer(&'a str),
}

impl<'a> Subject<'a> {
    /// What `state` of `source` is about; `lane`, if it has no key.
    pub(super) fn of(source: SourceId, lane: Lane, state: &'a State) -> Subject<'a> {
        match (state.key(), &state.what) {
            (Some(key), _) => Subject::Object(source, key),
            (None, What::Tick(tick)) => Subject::Timer(&tick.timer),
            (None, _) => Subject::Synced(source, lane),
        }
    }

    /// The lane in which it is called.
    pub(super) fn lane(self, lanes: &LaneMap) -> Lane {
        match self {
            Subject::Object(source, key) => lanes.of(source, key),
            Subject::Synced(_, lane) => lane,
            Subject::Timer(_) => TIMER_LANE,
        }
    }
}
