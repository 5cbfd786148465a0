//! The clauses that a call can break, when it begins and when it ends.

use super::super::history::{Call, Ended, ObjectVersion, Told};
use super::{Believed, Checker, Clause, Key, Running};

/// A breach, before it is known where.
type Breach = (Clause, String);

impl Checker {
    pub(super) fn begin(&mut self, at: usize, call: &Call) {
        let Call {
            handler: id,
            told,
            object,
            ..
        } = call;
        let running = Running {
            told: *told,
            object: object.clone(),
            old: call.old.clone(),
            unknown: call.unknown,
            reason: self.occasion(*id, *told, object, &call.reason),
        };
        let mut breaches = Vec::new();
        breaches.extend(self.invented(&running));
        let informer = self.handlers.entry(*id).or_default().informer;
        // Such a delete says that the object does not belong: it may, again.
        if !(*told == Told::Delete && self.left_the_selection(informer, object)) {
            breaches.extend(stale(&running, call.stored));
        }
        breaches.extend(self.badly_marked(informer, &running));
        breaches.extend(self.skipped(*id, &running));
        let key = (object.namespace.clone(), object.name.clone());
        let handler = self.handlers.entry(*id).or_default();
        handler.attempted.insert(key.clone());
        if handler.deleted.contains(&(key.clone(), object.uid.clone())) {
            let again = if *told == Told::Delete { "the delete" } else { "life" };
            breaches.push((
                Clause::DeleteSeenOnce,
                format!("was told of {again} of {object} after its delete"),
            ));
        }
        let believed = handler.keys.entry(key).or_default();
        breaches.extend(believed.contradicted_by(&running));
        believed.newest = Some(object.clone());
        believed.running = Some(running);
        for (clause, message) in breaches {
            self.violate(at, clause, format!("handler {id} {message}"));
        }
    }

    /// Why a call is made. A delete for another request that comes again by a requeue is one still.
    fn occasion(&mut self, id: u32, told: Told, object: &ObjectVersion, reason: &str) -> String {
        let key = (object.namespace.clone(), object.name.clone());
        let believed = self.handlers.entry(id).or_default().keys.entry(key).or_default();
        match (told, reason) {
            (Told::Delete, "reconfigured") => believed.left = Some(object.clone()),
            (Told::Delete, "requeue") if believed.left.as_ref() == Some(object) => return "reconfigured".to_owned(),
            _ => {}
        }
        reason.to_owned()
    }

    fn invented(&self, call: &Running) -> Option<Breach> {
        let mut states = std::iter::once(&call.object).chain(&call.old);
        let ghost = states.find(|state| !self.was(state))?;
        Some((Clause::NoInvention, format!("was told of {ghost}, which never was")))
    }

    /// A delete with its final state shows the removal, or the state in which the object left the selection.
    fn badly_marked(&self, informer: u32, call: &Running) -> Option<Breach> {
        if call.told != Told::Delete || call.reason == "reconfigured" {
            return None;
        }
        let seen = self.removed.contains(&call.object) || self.left_the_selection(informer, &call.object);
        if call.unknown || seen {
            return None;
        }
        let message = format!(
            "was told that {} is how the object ended, which it did not",
            call.object
        );
        Some((Clause::TombstoneMarked, message))
    }

    fn left_the_selection(&self, informer: u32, state: &ObjectVersion) -> bool {
        let Some(group) = self.written.get(state) else {
            return false;
        };
        let mut selections = self.selections.get(&informer).into_iter().flatten();
        selections.any(|selection| !selection.takes(&state.namespace, group))
    }

    /// What a watch shows to a handler that keeps all follows what it was told before, without a gap; and nobody hears
    /// twice of a state that he accepted.
    fn skipped(&self, id: u32, call: &Running) -> Option<Breach> {
        let handler = self.handlers.get(&id)?;
        let key = (call.object.namespace.clone(), call.object.name.clone());
        let (is_there, accepted) = handler.keys.get(&key)?.accepted.as_ref()?;
        if !is_there || accepted.uid != call.object.uid {
            return None;
        }
        let by_source = matches!(call.reason.as_str(), "watch" | "relist");
        if by_source && call.told != Told::Delete && accepted.version == call.object.version {
            let message = format!("was told again of {accepted}, which it had accepted");
            return Some((Clause::Resumable, message));
        }
        if !handler.keeps_all || call.reason != "watch" || call.unknown || accepted.version >= call.object.version {
            return None;
        }
        let mut between = self.written.range(accepted.clone()..call.object.clone()).skip(1);
        let (missed, _) = between.next()?;
        let message = format!("was told of {} after {accepted}, and not of {missed}", call.object);
        Some((Clause::Resumable, message))
    }

    pub(super) fn end(&mut self, at: usize, id: u32, (namespace, name): (&str, &str), ended: Ended) {
        let key = (namespace.to_owned(), name.to_owned());
        let handler = self.handlers.entry(id).or_default();
        let informer = handler.informer;
        let believed = handler.keys.entry(key.clone()).or_default();
        let Some(call) = believed.running.take() else {
            let message = format!("handler {id}: an end without a begin for {namespace}/{name}");
            return self.violate(at, Clause::OneAtATime, message);
        };
        believed.take(&call, ended);
        if call.told == Told::Delete && ended == Ended::Ok && self.is_final(informer, &call) {
            let handler = self.handlers.entry(id).or_default();
            handler.deleted.insert((key, call.object.uid));
        }
    }

    /// Whether nothing may be told of the incarnation after this delete: it is gone, not only out of the selection.
    fn is_final(&self, informer: u32, call: &Running) -> bool {
        let may_return = call.reason == "reconfigured" || (call.unknown && self.ever_selected_by_state(informer));
        !may_return && !self.left_the_selection(informer, &call.object)
    }

    pub(super) fn synced(&mut self, at: usize, id: u32, there: &[Key]) {
        let handler = self.handlers.entry(id).or_default();
        handler.synced = true;
        let missed = there.iter().find(|key| !handler.attempted.contains(*key)).cloned();
        if let Some((namespace, name)) = missed {
            let message = format!("handler {id} was told it is synced, but never of {namespace}/{name}");
            self.violate(at, Clause::SyncComplete, message);
        }
    }
}

/// A handler that looks its object up finds that state or a newer one; after a delete a newer one or none.
fn stale(call: &Running, stored: Option<u64>) -> Option<Breach> {
    let fresh = match (call.told, stored) {
        (Told::Delete, Some(stored)) => stored > call.object.version,
        (_, Some(stored)) => stored >= call.object.version,
        // Gone already: a delete follows, or is told.
        (_, None) => true,
    };
    // What is told for another request may be there still: it only does not belong any more.
    if fresh || call.reason == "reconfigured" {
        return None;
    }
    let message = format!(
        "was told of {:?} {} while the store held version {stored:?}",
        call.told, call.object
    );
    Some((Clause::SnapshotAtLeastAsNew, message))
}

impl Believed {
    /// What a new call contradicts of what the handler believes.
    fn contradicted_by(&self, call: &Running) -> Vec<Breach> {
        let Running { told, object, old, .. } = call;
        let mut breaches = Vec::new();
        if let Some(running) = &self.running {
            let message = format!("still runs {:?} of {}", running.told, running.object);
            breaches.push((Clause::OneAtATime, message));
        }
        if let Some(newest) = &self.newest
            && newest.uid == object.uid
            && object.version < newest.version
        {
            breaches.push((Clause::Ordered, format!("was told of {object} after {newest}")));
        }
        if *told != Told::Delete
            && let Some((true, accepted)) = &self.accepted
            && accepted.uid != object.uid
        {
            let message = format!("went from {accepted} to {object} without a delete");
            breaches.push((Clause::IncarnationSafe, message));
        }
        let Some(old) = old else { return breaches };
        if old.uid != object.uid {
            let message = format!("got {old} as the old state of {object}");
            breaches.push((Clause::IncarnationSafe, message));
        } else if let Some(over) = self.over.as_ref().filter(|over| over.uid == old.uid)
            && matches!(call.reason.as_str(), "watch" | "relist")
            && over != old
        {
            let message = format!("got {old} as the old state of {object}, but was told of {over} last");
            breaches.push((Clause::Ordered, message));
        }
        breaches
    }

    /// A call has ended.
    fn take(&mut self, call: &Running, ended: Ended) {
        let is_there = call.told != Told::Delete;
        match ended {
            Ended::Ok => {
                self.refused = None;
                self.accepted = Some((is_there, call.object.clone()));
            }
            Ended::Retry => return,
            Ended::Permanent => {
                self.refused = Some((is_there, call.object.clone()));
                if !is_there {
                    // It was told of the delete; what it makes of it is its own affair.
                    self.accepted = None;
                }
            }
        }
        self.over = is_there.then(|| call.object.clone());
    }
}
