//! The naive model of retries.

use crate::listener::tests::*;

/// The naive model of a key under retry.
#[derive(Default)]
pub(super) struct Retried {
    pub(super) calls: u32,
    /// The state that failed last, and its failures.
    pub(super) state: Option<(String, bool)>,
    pub(super) attempts: u32,
    pub(super) traps: u32,
    pub(super) timeouts: u32,
}

/// The state of a delivery: its version, and whether it is a delete.
pub(super) fn failed_state(delivery: &Delivery) -> Option<(String, bool)> {
    let (object, is_delete) = match &delivery.notification {
        Notification::Add(object) | Notification::Update { new: object, .. } => (object, false),
        Notification::Delete { last, .. } => (last.as_ref()?, true),
        Notification::Synced | Notification::Tick(_) => return None,
    };
    Some((object.version().as_str().to_owned(), is_delete))
}
