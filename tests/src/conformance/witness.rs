//! A native handler that writes down what it is told, and the judgement of its record by the delivery contract.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::{EventContext, EventHandler, HandlerError, Reason};
use informant_object::{Key, KeyRef, Object};

/// What a call was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The object is there.
    Add,
    /// It changed.
    Update,
    /// It is gone.
    Delete {
        /// Nobody saw how it looked in the end.
        final_state_unknown: bool,
    },
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// About which object.
    pub key: Key,
    /// What.
    pub what: What,
    /// The object's uid: of the last state for a delete.
    pub uid: String,
    /// The object's version as a number.
    pub version: u64,
    /// Why it was told.
    pub reason: Reason,
}

/// Which incarnation of an object, and which state of it: uid and version.
pub type State = (String, u64);

#[derive(Default)]
struct Record {
    calls: Vec<Call>,
    /// What a handler that believes what it is told would think is there.
    view: BTreeMap<Key, State>,
    synced: u32,
}

/// The record of one handler. Clones share it.
#[derive(Clone, Default)]
pub struct Witness(Arc<Mutex<Record>>);

impl Witness {
    /// What a handler that believes what it is told would think is there.
    pub fn view(&self) -> BTreeMap<Key, State> {
        self.record().view.clone()
    }

    /// All calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.record().calls.clone()
    }

    /// How often the end of a first list or a replay was told.
    pub fn synced(&self) -> u32 {
        self.record().synced
    }

    /// The calls about the object called `name`.
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

    fn note(&self, what: What, object: &Object, context: &EventContext) {
        let call = Call {
            key: object.key().to_key(),
            what,
            uid: object.uid().to_owned(),
            version: object.version().number().unwrap_or_default(),
            reason: context.reason,
        };
        let mut record = self.record();
        if let What::Delete { .. } = what {
            record.view.remove(&call.key);
        } else {
            record.view.insert(call.key.clone(), (call.uid.clone(), call.version));
        }
        record.calls.push(call);
    }
}

impl EventHandler for Witness {
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.note(What::Add, object, context);
        Ok(())
    }

    fn on_update(&mut self, _: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError> {
        self.note(What::Update, new, context);
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
            Some(last) => self.note(What::Delete { final_state_unknown }, last, context),
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

/// Each way in which `calls` break the contract that holds within one epoch: each object is added once, then updated to
/// newer and newer states, then deleted once; another incarnation comes only after the delete of the one before.
pub fn violations(calls: &[Call]) -> Vec<String> {
    let mut found = Vec::new();
    let mut known: BTreeMap<&Key, (&str, u64)> = BTreeMap::new();
    for call in calls {
        let before = known.get(&call.key).copied();
        let fault = match (call.what, before) {
            (What::Add, None) => None,
            (What::Add, Some(_)) => Some("an add of what is there"),
            (_, None) => Some("an update or a delete of what is not there"),
            (_, Some((uid, _))) if uid != call.uid => Some("about another incarnation"),
            (What::Update, Some((_, version))) if call.version <= version => Some("not newer than what was told"),
            (What::Delete { .. }, Some((_, version))) if call.version < version => Some("older than what was told"),
            _ => None,
        };
        if let Some(fault) = fault {
            found.push(format!("{fault}: {call:?} after {before:?}"));
        }
        match call.what {
            What::Delete { .. } => drop(known.remove(&call.key)),
            _ => drop(known.insert(&call.key, (&call.uid, call.version))),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(what: What, uid: &str, version: u64) -> Call {
        Call {
            key: Key::new("default", "a"),
            what,
            uid: uid.to_owned(),
            version,
            reason: Reason::Watch,
        }
    }

    const DELETE: What = What::Delete {
        final_state_unknown: false,
    };

    #[test]
    fn a_life_and_another_one_are_no_violation() {
        let lives = [
            call(What::Add, "x", 1),
            call(What::Update, "x", 4),
            call(DELETE, "x", 5),
            call(What::Add, "y", 6),
        ];
        assert_eq!(violations(&lives), Vec::<String>::new());
    }

    #[test]
    fn each_way_to_break_the_contract_is_found() {
        let add = call(What::Add, "x", 3);
        let broken = [
            vec![add.clone(), add.clone()],
            vec![call(What::Update, "x", 3)],
            vec![call(DELETE, "x", 3)],
            vec![add.clone(), call(What::Update, "x", 3)],
            vec![add.clone(), call(What::Update, "x", 2)],
            vec![add.clone(), call(What::Update, "y", 4)],
            vec![add, call(DELETE, "x", 2)],
        ];
        for calls in broken {
            assert_eq!(violations(&calls).len(), 1, "{calls:?}");
        }
    }
}
