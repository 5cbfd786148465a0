//! What stands between an informer loop and its listeners where a source is to survive the process: the trait
//! [`Journal`].
//!
//! ```text
//! informer loop ──begin, push──▶ Journal ──kept──▶ listeners        (without a journal: informer loop ──▶ listeners)
//! ```
//!
//! A journal hands on in the order in which it was given, and nothing before it is kept. So whatever a handler was told
//! of, a later process knows that it was told. Only the trait is here: who keeps, and where, is another room's
//! business.

use std::fmt;

use informant_object::SourceId;

use crate::listener::{ListenerHandle, ObjectChange};
use crate::{Moment, Snapshot};

/// Keeps what one source shows, then has its listeners told. Called by the source's informer loop alone; no call waits
/// for a disk.
///
/// What a journal cannot keep it hands on all the same, late rather than never, and says so.
pub trait Journal: Send + Sync + fmt::Debug {
    /// The first list of this process is complete and published as `snapshot`, under the number `source`. `restored`
    /// says that it is of another history than what was kept, so that one version may mean two states. Called once,
    /// before all that follows.
    fn begin(&self, source: SourceId, snapshot: &Snapshot, restored: bool);

    /// Attaches `listener`, by [`ListenerHandle::attach`] or [`ListenerHandle::attach_resumed`].
    fn attach(&self, listener: &ListenerHandle, now: Moment);

    /// Detaches `listener`. No deletes are told.
    fn detach(&self, listener: &ListenerHandle);

    /// `listener` goes over to this source from others, by `inherit` ([`ListenerHandle::transfer`]), which is called in
    /// its turn: what was given before is not told to it, what is given afterwards is.
    fn transfer(&self, listener: &ListenerHandle, apply: Box<dyn FnOnce() + Send>);

    /// Takes `changes`, exactly those between the snapshot of the call before and this one, as [`ListenerHandle::push`]
    /// does.
    fn push(&self, snapshot: &Snapshot, changes: &[ObjectChange], now: Moment);

    /// The highest version that the source has shown in this epoch.
    fn set_high_water(&self, high_water: u64);

    /// Calls `done`, from whatever thread, once all that was given before is handed on and what listeners have
    /// acknowledged by then is kept. It is always called, or dropped, also where nothing can be kept any more.
    fn flush(&self, done: Box<dyn FnOnce() + Send>);
}
