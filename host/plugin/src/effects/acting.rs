//! Whether this process may act: several replicas may run the same plugins, and one of them acts.

use std::time::Duration;

/// Says whether this process may act. Implemented by the program, with its lease.
///
/// All effects of plugins pass it: calls to the cluster that write, HTTP requests other than GET and HEAD, Kubernetes
/// Events, and changes of keys. Once it has closed, let each plugin [stand by](crate::Plugin::stand_by) before it opens
/// again: another replica may have acted meanwhile, and what was about to be sent is outdated.
pub trait ActingGate: Send + Sync + 'static {
    /// How long a request that begins now may take. None: this process must not act. It is asked after each call of a
    /// handler, so it must be quick, and must not wait.
    fn remaining(&self) -> Option<Duration>;
}

/// An effect was refused: this process must not act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another replica of Informant acts now, so that nothing was done; it receives the event, too")]
pub struct NotActing;
