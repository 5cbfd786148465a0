//! The trait [`Journal`]: persists the changes of a durable source before its listeners receive them.
//!
//! ```text
//! informer loop ──begin, push──▶ Journal ──persisted──▶ listeners   (without a journal: informer loop ──▶ listeners)
//! ```
//!
//! A journal forwards changes in order, each only after it was persisted. So a later process knows every event that a
//! handler received. Only the trait is defined here; the implementation is in the crate `informant-state`.

use std::fmt;

use informant_object::SourceId;

use crate::listener::{ListenerHandle, ObjectChange, ResumeState};
use crate::{Moment, Snapshot};

/// Persists the changes of one source, then forwards them to its listeners. Called only by the source's informer loop;
/// no call waits for the disk.
///
/// Changes that cannot be persisted are still forwarded, late rather than never, and the failure is reported.
pub trait Journal: Send + Sync + fmt::Debug {
    /// The first list of this process is complete and published as `snapshot`, under the id `source`. `restored` means
    /// that its history differs from the persisted one, so that one version may denote two states. Called once, before
    /// all other calls.
    fn begin(&self, source: SourceId, snapshot: &Snapshot, restored: bool);

    /// Attaches `listener`, by `Feed::attach` or `Feed::attach_resumed`. If another process has called it until now,
    /// `takeover` says what is left; it comes [after](ResumeState::then) what is persisted.
    fn attach(&self, listener: &ListenerHandle, takeover: Option<ResumeState>, now: Moment);

    /// Detaches `listener`. No deletes are delivered.
    fn detach(&self, listener: &ListenerHandle);

    /// Hands `listener` over to another process, by `Feed::hand_over`. What is persisted of it stays, for the case that
    /// this process is the next that calls it.
    fn hand_over(&self, listener: &ListenerHandle);

    /// Transfers `listener` to this source from others by calling `apply` (`Feed::transfer`) in order:
    /// `listener` receives no changes pushed before this call, and all pushed after it.
    fn transfer(&self, listener: &ListenerHandle, apply: Box<dyn FnOnce() + Send>);

    /// Accepts `changes`, exactly those between the snapshot of the previous call and this one, as
    /// `Feed::push` does.
    fn push(&self, snapshot: &Snapshot, changes: &[ObjectChange], now: Moment);

    /// Records the highest version of the source in this epoch.
    fn set_high_water(&self, high_water: u64);

    /// Calls `done`, from any thread, once all earlier changes are forwarded and the acknowledgements received by then
    /// are persisted. `done` is always called or dropped, even if nothing can be persisted any more.
    fn flush(&self, done: Box<dyn FnOnce() + Send>);
}
