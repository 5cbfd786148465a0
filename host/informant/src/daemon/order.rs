//! What a keeper is told when the configuration changes.

use std::sync::Arc;

use tokio::sync::oneshot;

/// What came of a section: it runs, or the reason why its old version goes on.
pub(super) type Outcome = Result<(), Arc<str>>;

/// What handlers are told of what is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Removal {
    /// Nothing.
    Silent,
    /// That its objects are gone, as far as they are concerned.
    Told,
}

/// An order to the keeper of a section. Obeyed one after the other; who gave it and does not wait any more is not
/// missed.
pub(super) enum Order<S> {
    /// The section says this from now on.
    Change(Arc<S>, oneshot::Sender<Outcome>),
    /// The section is gone.
    Remove(Removal, oneshot::Sender<Outcome>),
}
