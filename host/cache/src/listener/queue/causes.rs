//! What led to the calls of level-triggered handlers: the related object that changed first. Not in the slots, because
//! most listeners have none.

use std::collections::HashMap;
use std::sync::Arc;

use informant_object::{KeyRef, SourceId};

use crate::listener::RelatedCause;
use crate::listener::queue::Queue;
use crate::listener::slots::SlotId;

/// The causes of one slot's states. States that wait behind the first one fold, so they have one cause together.
#[derive(Debug, Default)]
struct SlotCauses {
    first: Option<Arc<RelatedCause>>,
    rest: Option<Arc<RelatedCause>>,
}

/// Of the slots that have any.
#[derive(Debug, Default)]
pub(super) struct Causes(HashMap<SlotId, SlotCauses>);

impl Queue {
    /// A change of a related object has led to a state of this key, which was enqueued last. Earlier causes of the same
    /// call win.
    pub(in crate::listener) fn add_cause(&mut self, source: SourceId, key: KeyRef<'_>, cause: &Arc<RelatedCause>) {
        let Some(id) = self.find(source, key) else { return };
        let slot = self.slots.get(id);
        let is_first = slot.rest.is_empty() && !slot.is_in_flight();
        let causes = self.causes.0.entry(id).or_default();
        let place = if is_first { &mut causes.first } else { &mut causes.rest };
        place.get_or_insert_with(|| Arc::clone(cause));
    }
}

impl Causes {
    /// Of the first state.
    pub(super) fn first(&self, id: SlotId) -> Option<Arc<RelatedCause>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&id)?.first.clone()
    }

    /// The first state has ended, and the next one is first now.
    pub(super) fn advance(&mut self, id: SlotId) {
        if let Some(causes) = self.of_some(id) {
            causes.first = causes.rest.take();
            if causes.first.is_none() {
                self.0.remove(&id);
            }
        }
    }

    /// The states of the slot fold into the first one.
    pub(super) fn fold(&mut self, id: SlotId) {
        if let Some(causes) = self.of_some(id) {
            let rest = causes.rest.take();
            causes.first = causes.first.take().or(rest);
        }
    }

    /// The slot is gone.
    pub(super) fn remove(&mut self, id: SlotId) {
        if self.of_some(id).is_some() {
            self.0.remove(&id);
        }
    }

    fn of_some(&mut self, id: SlotId) -> Option<&mut SlotCauses> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get_mut(&id)
    }
}
