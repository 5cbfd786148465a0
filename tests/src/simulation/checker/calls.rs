//! The clauses that a call can violate, when it begins and when it ends.

use std::time::Duration;

use informant_cache::listener::{REQUEUE_AFTER_MIN, TRAPS_MAX};

use super::super::history::{Call, Ended, EventKind, ObjectVersion, Selection};
use super::{Checker, Clause, Handler, KeyState, Running};

/// The reason of a call that the handler asked for.
const REQUEUED: &str = "requeue-after";

/// A violation without its position.
type Finding = (Clause, String);

impl Checker {
    pub(super) fn begin(&mut self, at: usize, call: &Call) {
        let Call {
            handler: id,
            kind,
            object,
            ..
        } = call;
        let running = Running {
            kind: *kind,
            object: object.clone(),
            old: call.old.clone(),
            unknown: call.unknown,
            reason: self.effective_reason(*id, *kind, object, &call.reason),
        };
        let mut findings = Vec::new();
        findings.extend(self.invented(&running));
        findings.extend(self.of_another_part(*id, &running));
        let key = (object.namespace.clone(), object.name.clone());
        self.forget_unknowable(*id, &key);
        self.forget_newer(*id, &key, object);
        let handler = self.handlers.entry(*id).or_default();
        let informer = handler.informer;
        let may_go_back = handler.keys.entry(key.clone()).or_default().restores < self.restores;
        // Such a delete means that the object is no longer selected; it may be selected again. A restored store may be
        // older than what waits for the handler.
        let left = *kind == EventKind::Delete && self.left_the_selection(informer, object);
        if !left && !may_go_back {
            findings.extend(stale(&running, call.stored));
        }
        findings.extend(self.badly_marked((*id, informer), &running, may_go_back));
        findings.extend(self.deletes_the_living(informer, &running));
        findings.extend(self.known_before(*id, &running));
        // Before and after a restore, states have the same versions.
        if !may_go_back {
            findings.extend(self.skipped(*id, &running));
        }
        let is_reconfigured = self.ever_reconfigured(informer);
        let handler = self.handlers.entry(*id).or_default();
        handler.attempted.insert(object.incarnation());
        handler.owed.retain(|owed| owed.uid != object.uid);
        if handler.deleted.contains(&(key.clone(), object.uid.clone())) {
            let again = if *kind == EventKind::Delete {
                "the delete"
            } else {
                "a state"
            };
            findings.push((
                Clause::DeleteSeenOnce,
                format!("received {again} of {object} after its delete"),
            ));
        }
        let takeover = handler.takeover.as_mut();
        let repeats = takeover.and_then(|takeover| takeover.repeats(&running));
        findings.extend(repeats.map(|message| (Clause::TakeoverRepeatsLittle, message)));
        findings.extend(handler.too_many_calls(self.now));
        let suspects = handler.suspects.as_mut();
        let early = suspects.and_then(|suspects| suspects.begin(&key, self.now));
        findings.extend(early.map(|message| (Clause::PoisonLocal, message)));
        let min_interval = handler.min_interval_ms * 1_000_000;
        let key_state = handler.keys.entry(key).or_default();
        findings.extend(key_state.not_asked(&running, self.now));
        let before = key_state.called.replace(self.now).filter(|_| !is_reconfigured);
        if let Some(before) = before.filter(|before| self.now < before + min_interval) {
            let message = format!("received {object} {} ns after its last call", self.now - before);
            findings.push((Clause::IntervalKept, message));
        }
        let instance = *key_state.instance.get_or_insert(call.instance);
        if instance != call.instance {
            let message = format!("received {object} in instance {}, not in {instance}", call.instance);
            findings.push((Clause::InstanceKept, message));
        }
        if std::mem::take(&mut key_state.unsent) {
            let message = format!("received {object}, but the write of the call before was not sent");
            findings.push((Clause::WritesAfterSuccess, message));
        }
        findings.extend(key_state.contradicted_by(&running, may_go_back));
        // It may follow an earlier restore than the last one.
        if may_go_back && key_state.goes_back(&running) {
            key_state.restores += 1;
        }
        key_state.went_on |= key_state
            .accepted
            .as_ref()
            .is_some_and(|(_, accepted)| accepted != object);
        key_state.newest = Some(object.clone());
        key_state.running = Some(running);
        for (clause, message) in findings {
            self.violate(at, clause, format!("handler {id} {message}"));
        }
    }

    /// The reason of a call. If a requeue repeats a delete for a changed selection, the reason is still the changed
    /// selection.
    fn effective_reason(&mut self, id: u32, kind: EventKind, object: &ObjectVersion, reason: &str) -> String {
        let key = (object.namespace.clone(), object.name.clone());
        let key_state = self.handlers.entry(id).or_default().keys.entry(key).or_default();
        match (kind, reason) {
            (EventKind::Delete, "reconfigured") => key_state.left_selection = Some(object.clone()),
            (EventKind::Delete, "requeue") if key_state.left_selection.as_ref() == Some(object) => {
                return "reconfigured".to_owned();
            }
            _ => {}
        }
        reason.to_owned()
    }

    fn invented(&self, call: &Running) -> Option<Finding> {
        let mut states = std::iter::once(&call.object).chain(&call.old);
        let ghost = states.find(|state| !self.existed(state))?;
        Some((Clause::NoInvention, format!("received {ghost}, which never existed")))
    }

    /// A delete is marked unless it has its final state: the removed one, or the one in which the object left the
    /// selection. It has it if the watch showed the delete.
    fn badly_marked(&self, (id, informer): (u32, u32), call: &Running, may_go_back: bool) -> Option<Finding> {
        if call.kind != EventKind::Delete || call.reason == "reconfigured" {
            return None;
        }
        let was_shown = || self.deletes_shown.contains(&(informer, call.object.uid.clone()));
        // An object that left the selection or a restored history unseen, came back and was deleted may be delivered as
        // the first of these.
        let once = !self.ever_reconfigured(informer) && !self.ever_selected_by_state(informer) && !may_go_back;
        // The watch that showed it may have been replaced by one of other shards.
        let once = once && !self.is_divided(id);
        if call.unknown && once && was_shown() {
            let message = format!(
                "received {} as the delete of an unknown state, but its watch showed it",
                call.object
            );
            return Some((Clause::TombstoneMarked, message));
        }
        let seen = self.removed.contains(&call.object) || self.left_the_selection(informer, &call.object);
        if call.unknown || seen {
            return None;
        }
        let message = format!("received {} as the final state, which it was not", call.object);
        Some((Clause::TombstoneMarked, message))
    }

    /// A delete of an object that exists, and has been selected all the time.
    fn deletes_the_living(&self, informer: u32, call: &Running) -> Option<Finding> {
        let uid = &call.object.uid;
        let may_leave = self.ever_reconfigured(informer) || self.ever_selected_by_state(informer);
        if call.kind != EventKind::Delete || may_leave || self.revived.contains(uid) || !self.living.contains(uid) {
            return None;
        }
        let message = format!("received the delete of {}, which exists", call.object);
        Some((Clause::NoInvention, message))
    }

    fn left_the_selection(&self, informer: u32, state: &ObjectVersion) -> bool {
        let groups = [&self.written, &self.written_before_restore].map(|written| written.get(state));
        let leaves = |selection: &Selection, group: &&String| !selection.selects(&state.namespace, group);
        let mut selections = self.selections.get(&informer).into_iter().flatten();
        selections.any(|selection| groups.iter().flatten().any(|group| leaves(selection, group)))
    }

    /// The states that a watch shows to a handler that receives every state follow the delivered ones without a gap;
    /// and no handler receives a state again that it accepted.
    fn skipped(&self, id: u32, call: &Running) -> Option<Finding> {
        let handler = self.handlers.get(&id)?;
        let key = (call.object.namespace.clone(), call.object.name.clone());
        let key_state = handler.keys.get(&key)?;
        let (is_there, accepted) = key_state.accepted.as_ref()?;
        if !is_there || accepted.uid != call.object.uid || key_state.inherited {
            return None;
        }
        let by_source = matches!(call.reason.as_str(), "watch" | "relist");
        if by_source && !key_state.went_on && call.kind != EventKind::Delete && accepted.version == call.object.version
        {
            let message = format!("received {accepted} again, which it had accepted");
            return Some((Clause::Resumable, message));
        }
        if !handler.receives_every_state
            // A list of other shards may merge what the watch shows.
            || self.is_divided(id)
            || call.reason != "watch"
            || call.unknown
            || accepted.version >= call.object.version
            || handler.replays
            || key_state.replayed
            // Of the history that a restore ended.
            || self.written_before_restore.contains_key(&call.object)
        {
            return None;
        }
        let between = self.written.range(accepted.clone()..call.object.clone()).skip(1);
        let mut states = between.map(|(state, _)| state);
        let missed = states.find(|state| self.shown.contains(&(handler.informer, (*state).clone())))?;
        let message = format!("received {} after {accepted}, but not {missed}", call.object);
        Some((Clause::Resumable, message))
    }

    pub(super) fn end(&mut self, at: usize, id: u32, (namespace, name): (&str, &str), ended: Ended) {
        let key = (namespace.to_owned(), name.to_owned());
        let handler = self.handlers.entry(id).or_default();
        let informer = handler.informer;
        let key_state = handler.keys.entry(key.clone()).or_default();
        let Some(call) = key_state.running.take() else {
            let message = format!("handler {id}: an end without a begin for {namespace}/{name}");
            return self.violate(at, Clause::OneAtATime, message);
        };
        let is_last = key_state.record_end(&call, ended);
        key_state.is_of_other_replica &= ended != Ended::Ok;
        if is_last && let Some(takeover) = &mut handler.takeover {
            takeover.ended(&call);
        }
        if let Some(suspects) = &mut handler.suspects {
            suspects.end(&key, ended == Ended::Trap, self.now);
        }
        // While the call that it asked for is retried, the request holds. It does not once the state is a dead letter,
        // unless a replay started the count of its traps again.
        let is_retried = call.reason == REQUEUED && matches!(ended, Ended::Retry | Ended::Trap);
        let asked = key_state
            .asked
            .take()
            .or(key_state.perhaps_asked.take())
            .filter(|_| is_retried);
        match is_last {
            true => key_state.perhaps_asked = asked.filter(|_| key_state.was_replayed || handler.replays),
            false => key_state.asked = asked,
        }
        key_state.unsent &= ended == Ended::Ok;
        if ended == Ended::Ok && !key_state.unsent {
            key_state.settled.insert(call.object.version);
        }
        if ended == Ended::Trap {
            handler.calls_remembered = 0;
        }
        // A retry is about what its first attempt was about.
        key_state.inherited &= !is_last;
        key_state.replayed = false;
        if call.kind == EventKind::Delete
            && is_last
            && let Some(durable) = &mut handler.durable
        {
            durable.delete_ended(&call.object);
        }
        let is_final = self.is_final(informer, &call) && !self.revived.contains(&call.object.uid);
        if call.kind == EventKind::Delete && ended == Ended::Ok && is_final {
            let handler = self.handlers.entry(id).or_default();
            handler.deleted.insert((key, call.object.uid));
        }
    }

    pub(super) fn asked(&mut self, id: u32, (namespace, name): (&str, &str), after_ms: u64) {
        let wait = Duration::from_millis(after_ms).max(REQUEUE_AFTER_MIN);
        let due = self.now + u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        let key_state = self.key_state(id, (namespace, name));
        (key_state.asked, key_state.perhaps_asked) = (Some(due), None);
    }

    pub(super) fn key_state(&mut self, id: u32, (namespace, name): (&str, &str)) -> &mut KeyState {
        let key = (namespace.to_owned(), name.to_owned());
        self.handlers.entry(id).or_default().keys.entry(key).or_default()
    }

    pub(super) fn sent(&mut self, at: usize, id: u32, (namespace, name): (&str, &str)) {
        let key_state = self.key_state(id, (namespace, name));
        let why = match key_state.running {
            Some(_) => "whose call has not ended",
            None if !key_state.unsent => "which no successful call deferred",
            None => {
                key_state.unsent = false;
                let accepted = key_state.accepted.iter().map(|(_, object)| object.version);
                key_state.settled.extend(accepted);
                return;
            }
        };
        let message = format!("handler {id}, {namespace}/{name}: a write was sent {why}");
        self.violate(at, Clause::WritesAfterSuccess, message);
    }

    /// Whether no call may be made for the incarnation after this delete: it is deleted, not only deselected.
    fn is_final(&self, informer: u32, call: &Running) -> bool {
        let may_return = call.reason == "reconfigured" || (call.unknown && self.ever_selected_by_state(informer));
        !may_return && !self.left_the_selection(informer, &call.object)
    }

    pub(super) fn remembers(&mut self, at: usize, id: u32, calls: u64) {
        let handler = self.handlers.entry(id).or_default();
        let expected = handler.calls_remembered + 1;
        handler.calls_remembered = calls;
        if calls != expected {
            let message = format!("handler {id} counted {calls} calls in its memory, but made {expected}");
            self.violate(at, Clause::StateTransferred, message);
        }
    }

    pub(super) fn synced(&mut self, at: usize, id: u32, lane: u8, there: &[ObjectVersion]) {
        let handler = self.handlers.entry(id).or_default();
        // Each lane is synced with each source; that counts once.
        let counted = usize::from(lane == 0);
        handler.synced += counted;
        handler.syncs_left = handler.syncs_left.saturating_sub(counted);
        if handler.syncs_left == 0 && std::mem::take(&mut handler.replays) {
            // What was merged before may be delivered after.
            let keys = handler.keys.values_mut();
            keys.for_each(|key| (key.replayed, key.was_replayed) = (true, true));
        }
        // It does not wait for suspects.
        let suspects = handler.suspects.as_ref();
        let was_attempted = |object: &ObjectVersion| {
            handler.attempted.contains(&object.incarnation())
                || suspects.is_some_and(|suspects| suspects.were_ever(&object.namespace))
        };
        // A restore may have brought an object back after the handler was added.
        let mut expected = there.iter().filter(|object| !self.revived.contains(&object.uid));
        let missed = expected.find(|object| !was_attempted(object));
        if let Some(object) = missed {
            let message = format!("handler {id} is synced, but never received {object}");
            self.violate(at, Clause::SyncComplete, message);
        }
    }
}

/// A handler that looks up its object finds that state or a newer one; after a delete a newer one or none.
fn stale(call: &Running, stored: Option<u64>) -> Option<Finding> {
    let fresh = match (call.kind, stored) {
        (EventKind::Delete, Some(stored)) => stored > call.object.version,
        (_, Some(stored)) => stored >= call.object.version,
        // Already deleted: a delete follows or is delivered.
        (_, None) => true,
    };
    // With a changed selection the object may still be in the store: it is only no longer selected.
    if fresh || call.reason == "reconfigured" {
        return None;
    }
    let message = format!(
        "received {:?} {} while the store had version {stored:?}",
        call.kind, call.object
    );
    Some((Clause::SnapshotAtLeastAsNew, message))
}

impl Handler {
    /// A call begins: too many of them began in the last second.
    fn too_many_calls(&mut self, now: u64) -> Option<Finding> {
        let max = 2 * self.calls_per_second_max? as usize;
        self.began.push_back(now);
        while self.began.front().is_some_and(|began| now - began >= 1_000_000_000) {
            self.began.pop_front();
        }
        let count = self.began.len();
        (count > max).then(|| (Clause::RateKept, format!("received {count} calls in a second")))
    }
}

impl KeyState {
    /// A call because the handler asked for it, which it did not, or not yet.
    fn not_asked(&self, call: &Running, now: u64) -> Option<Finding> {
        if call.reason != REQUEUED {
            return None;
        }
        let why = match self.asked.or(self.perhaps_asked) {
            None => "had asked for no call",
            Some(due) if now < due => "had asked for a later call",
            Some(_) => return None,
        };
        Some((Clause::CalledAgain, format!("received {}, but {why}", call.object)))
    }

    /// How a new call contradicts what the handler has received.
    fn contradicted_by(&self, call: &Running, may_go_back: bool) -> Vec<Finding> {
        let Running { kind, object, old, .. } = call;
        let mut findings = Vec::new();
        if let Some(running) = &self.running {
            let message = format!("still runs {:?} of {}", running.kind, running.object);
            findings.push((Clause::OneAtATime, message));
        }
        if let Some(newest) = &self.newest
            && newest.uid == object.uid
            && object.version < newest.version
            && !may_go_back
        {
            findings.push((Clause::Ordered, format!("received {object} after {newest}")));
        }
        if *kind != EventKind::Delete
            && let Some((true, accepted)) = &self.accepted
            && accepted.uid != object.uid
        {
            let message = format!("went from {accepted} to {object} without a delete");
            findings.push((Clause::IncarnationSafe, message));
        }
        let Some(old) = old else { return findings };
        if old.uid != object.uid {
            let message = format!("got {old} as the old state of {object}");
            findings.push((Clause::IncarnationSafe, message));
        } else if let Some(last_ended) = self.last_ended.as_ref().filter(|last_ended| last_ended.uid == old.uid)
            && matches!(call.reason.as_str(), "watch" | "relist")
            && last_ended != old
        {
            let message = format!("got {old} as the old state of {object}, but last received {last_ended}");
            findings.push((Clause::Ordered, message));
        }
        findings
    }

    /// Whether the call follows a restore of the API server.
    fn goes_back(&self, call: &Running) -> bool {
        let is_older = |newest: &ObjectVersion| call.object.version < newest.version;
        // A retry follows the restore that its first attempt followed.
        let is_restored = call.reason == "restored" && self.newest.as_ref() != Some(&call.object);
        call.kind != EventKind::Delete && (is_restored || self.newest.as_ref().is_some_and(is_older))
    }

    /// Records the end of a call. Returns whether its state needs no other one.
    fn record_end(&mut self, call: &Running, ended: Ended) -> bool {
        let is_there = call.kind != EventKind::Delete;
        match ended {
            Ended::Ok => {
                self.refused = None;
                self.went_on = false;
                self.traps = None;
                self.accepted = Some((is_there, call.object.clone()));
            }
            Ended::Trap if self.traps_with(is_there, &call.object) >= TRAPS_MAX => {
                self.refused = Some((is_there, call.object.clone()));
                if !is_there {
                    self.accepted = None;
                }
                // A replay may have started the count again. Then the state before stays the old one.
                self.last_ended = None;
                return true;
            }
            Ended::Retry | Ended::Trap => return false,
            Ended::Permanent => {
                self.refused = Some((is_there, call.object.clone()));
                if !is_there {
                    // The delete was delivered, even if the handler failed on it.
                    self.accepted = None;
                }
            }
        }
        self.last_ended = is_there.then(|| call.object.clone());
        true
    }

    /// Counts a trap of this state. Returns how many it has had.
    fn traps_with(&mut self, is_there: bool, object: &ObjectVersion) -> u32 {
        match &mut self.traps {
            Some((was_there, counted, traps)) if (*was_there, &*counted) == (is_there, object) => {
                *traps += 1;
                *traps
            }
            traps => {
                *traps = Some((is_there, object.clone(), 1));
                1
            }
        }
    }
}
