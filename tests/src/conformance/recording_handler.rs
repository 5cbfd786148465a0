//! A native handler that records its calls, and the check of its record against the delivery contract.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::{EventContext, EventHandler, HandlerError, Reason};
use informant_object::{Key, KeyRef, Object};

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// The object was added.
    Add,
    /// It changed.
    Update,
    /// It was deleted.
    Delete {
        /// Its final state was not seen.
        final_state_unknown: bool,
    },
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The object.
    pub key: Key,
    /// The kind of the call.
    pub kind: CallKind,
    /// The object's uid; for a delete, that of the last state.
    pub uid: String,
    /// The object's resource version as a number.
    pub version: u64,
    /// The reason of the call.
    pub reason: Reason,
}

/// An incarnation of an object, and a state of it: uid and version.
pub type ObjectState = (String, u64);

#[derive(Default)]
struct Record {
    calls: Vec<Call>,
    /// The objects that exist according to the calls.
    view: BTreeMap<Key, ObjectState>,
    synced: u32,
}

/// The record of one handler. Clones share it.
#[derive(Clone, Default)]
pub struct RecordingHandler(Arc<Mutex<Record>>);

impl RecordingHandler {
    /// The objects that exist according to the calls.
    pub fn view(&self) -> BTreeMap<Key, ObjectState> {
        self.record().view.clone()
    }

    /// All calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.record().calls.clone()
    }

    /// How often the end of a first list or a replay was reported.
    pub fn synced(&self) -> u32 {
        self.record().synced
    }

    /// The calls for the object called `name`.
    pub fn calls_of(&self, name: &str) -> Vec<Call> {
        let calls = self.calls();
        calls
            .into_iter()
            .filter(|call| call.key.as_ref().name == name)
            .collect()
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, kind: CallKind, object: &Object, context: &EventContext) {
        let call = Call {
            key: object.key().to_key(),
            kind,
            uid: object.uid().to_owned(),
            version: object.version().number().unwrap_or_default(),
            reason: context.reason,
        };
        let mut record = self.record();
        if let CallKind::Delete { .. } = kind {
            record.view.remove(&call.key);
        } else {
            record.view.insert(call.key.clone(), (call.uid.clone(), call.version));
        }
        record.calls.push(call);
    }
}

impl EventHandler for RecordingHandler {
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.note(CallKind::Add, object, context);
        Ok(())
    }

    fn on_update(&mut self, _: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.note(CallKind::Update, new, context);
        Ok(())
    }

    fn on_delete(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        final_state_unknown: bool,
        context: &EventContext,
    ) -> Result<(), HandlerError> {
        match last {
            Some(last) => self.note(CallKind::Delete { final_state_unknown }, last, context),
            None => {
                return Err(HandlerError::Permanent(format!(
                    "{key} was deleted without its last state"
                )));
            }
        }
        Ok(())
    }

    fn on_synced(&mut self, _: &EventContext) -> Result<(), HandlerError> {
        self.record().synced += 1;
        Ok(())
    }
}

/// Every violation of the contract that holds within one epoch: each object is added once, then updated to newer and
/// newer states, then deleted once; another incarnation comes only after the delete of the previous one.
pub fn violations(calls: &[Call]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut known: BTreeMap<&Key, (&str, u64)> = BTreeMap::new();
    for call in calls {
        let before = known.get(&call.key).copied();
        let violation = match (call.kind, before) {
            (CallKind::Add, None) => None,
            (CallKind::Add, Some(_)) => Some("an add of an object that exists"),
            (_, None) => Some("an update or a delete of an object that does not exist"),
            (_, Some((uid, _))) if uid != call.uid => Some("a call for another incarnation"),
            (CallKind::Update, Some((_, version))) if call.version <= version => Some("not newer than the last state"),
            (CallKind::Delete { .. }, Some((_, version))) if call.version < version => {
                Some("older than the last state")
            }
            _ => None,
        };
        if let Some(violation) = violation {
            violations.push(format!("{violation}: {call:?} after {before:?}"));
        }
        match call.kind {
            CallKind::Delete { .. } => drop(known.remove(&call.key)),
            _ => drop(known.insert(&call.key, (&call.uid, call.version))),
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: CallKind, uid: &str, version: u64) -> Call {
        Call {
            key: Key::new("default", "a"),
            kind,
            uid: uid.to_owned(),
            version,
            reason: Reason::Watch,
        }
    }

    const DELETE: CallKind = CallKind::Delete {
        final_state_unknown: false,
    };

    #[test]
    fn two_incarnations_are_no_violation() {
        let lives = [
            call(CallKind::Add, "x", 1),
            call(CallKind::Update, "x", 4),
            call(DELETE, "x", 5),
            call(CallKind::Add, "y", 6),
        ];
        assert_eq!(violations(&lives), Vec::<String>::new());
    }

    #[test]
    fn each_violation_of_the_contract_is_found() {
        let add = call(CallKind::Add, "x", 3);
        let broken = [
            vec![add.clone(), add.clone()],
            vec![call(CallKind::Update, "x", 3)],
            vec![call(DELETE, "x", 3)],
            vec![add.clone(), call(CallKind::Update, "x", 3)],
            vec![add.clone(), call(CallKind::Update, "x", 2)],
            vec![add.clone(), call(CallKind::Update, "y", 4)],
            vec![add, call(DELETE, "x", 2)],
        ];
        for calls in broken {
            assert_eq!(violations(&calls).len(), 1, "{calls:?}");
        }
    }
}
