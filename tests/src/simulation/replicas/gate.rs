//! The gate of all effects of a process, as in the daemon (`daemon/ha/gate.rs`): of the terms in which its handlers
//! act.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use informant_cache::{Division, Environment, Moment, ShardSet};
use informant_lease::Gate;
use informant_object::KeyRef;

use super::super::history::Split;
use super::super::world::locked;
use super::life::ProcessEnvironment;

pub(super) struct ProcessGate {
    pub(super) environment: Arc<ProcessEnvironment>,
    split: Split,
    state: Mutex<State>,
}

struct State {
    division: Division,
    /// By shard, its gate and the epoch in which handlers act; handlers that act for all objects do by the first.
    terms: BTreeMap<u8, (Gate, u32)>,
}

impl ProcessGate {
    pub(super) fn closed(environment: &Arc<ProcessEnvironment>, split: Split) -> Self {
        Self {
            environment: Arc::clone(environment),
            split,
            state: Mutex::new(State {
                division: Division::WHOLE,
                terms: BTreeMap::new(),
            }),
        }
    }

    pub(super) fn split(&self) -> Split {
        self.split
    }

    /// No shard is open.
    pub(super) fn set_division(&self, division: Division) {
        locked(&self.state).division = division;
    }

    pub(super) fn open(&self, shard: u8, gate: Gate, epoch: u32) {
        locked(&self.state).terms.insert(shard, (gate, epoch));
    }

    pub(super) fn close(&self, shard: u8) {
        locked(&self.state).terms.remove(&shard);
    }

    /// Until when a request about an object that begins now must have ended; none: it must not begin.
    pub(super) fn request_end(&self, key: KeyRef<'_>) -> Option<Moment> {
        let state = locked(&self.state);
        let filter = self.split.filter(state.division, ShardSet::default());
        self.request_end_of(state.terms.get(&filter.shard_of(key))?)
    }

    /// Whether a call about some object may begin.
    pub(super) fn is_open(&self) -> bool {
        let state = locked(&self.state);
        state.terms.values().any(|term| self.request_end_of(term).is_some())
    }

    fn request_end_of(&self, (gate, epoch): &(Gate, u32)) -> Option<Moment> {
        let permit = gate.permit(self.environment.boot_now())?;
        let remaining = permit.remaining(self.environment.boot_now());
        (permit.epoch == *epoch).then(|| self.environment.now() + remaining)
    }
}
