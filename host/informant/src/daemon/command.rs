//! The commands that a supervisor receives when the configuration changes.

use std::sync::Arc;

use tokio::sync::oneshot;

/// The result of applying a section: success, or the reason why its previous version keeps running.
pub(super) type SectionResult = Result<(), Arc<str>>;

/// Whether handlers are notified of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// They receive nothing.
    Silent,
    /// They receive a delete for each of its objects.
    Notify,
}

/// A command to the supervisor of a section. Supervisors handle commands one by one; the sender may stop waiting for
/// the reply.
pub(super) enum Command<S> {
    /// Apply this version of the section.
    Change(Arc<S>, oneshot::Sender<SectionResult>),
    /// The section was removed.
    Remove(Removal, oneshot::Sender<SectionResult>),
}
