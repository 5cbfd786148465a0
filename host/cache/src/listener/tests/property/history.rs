//! The history of an API server, and what deliveries show of it.

use super::ops::NAMES;
use crate::listener::tests::*;

/// One write: its version, and the object, unless it was deleted.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) name: &'static str,
    pub(super) version: u64,
    pub(super) uid: String,
    pub(super) exists: bool,
}

impl Event {
    pub(super) fn object(&self) -> Object {
        state(self.name, &self.uid, self.version, 20)
    }
}

pub(super) fn name_of(delivery: &Delivery) -> Option<&'static str> {
    let name = delivery.key()?.name;
    NAMES.into_iter().find(|known| *known == name)
}

/// The object in a delivery, and whether it exists.
pub(super) fn subject(delivery: &Delivery) -> Option<(&Object, bool)> {
    match &delivery.notification {
        Notification::Add(object) | Notification::Update { new: object, .. } => Some((object, true)),
        Notification::Delete { last, .. } => Some((last.as_ref().expect("nothing is cut here"), false)),
        Notification::Synced | Notification::Tick(_) => None,
    }
}

pub(super) fn number(object: &Object) -> u64 {
    object.version().number().expect("versions are numbers here")
}
