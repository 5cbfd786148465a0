//! Whether this process may act: several replicas may run the same plugins, and one of them acts for each object.

use std::time::Duration;

use informant_object::{KeyRef, SourceId};

/// What an effect, or a call, is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActsFor<'a> {
    /// An object of a source: what its event led to.
    Object(SourceId, KeyRef<'a>),
    /// A plugin whose objects are divided among replicas, without one of them: its pulls, the end of a list.
    AnyShard,
    /// A plugin that acts in one replica only.
    Whole,
}

/// Says whether this process may act. Implemented by the program, with its lease.
///
/// All effects of plugins pass it: calls to the cluster that write, HTTP requests other than GET and HEAD, Kubernetes
/// Events, and changes of keys. Once it has closed for a plugin, let that [stand by](crate::Plugin::stand_by) before it
/// opens again: another replica may have acted meanwhile, and what was about to be sent is outdated. Once it has closed
/// for the objects of a shard only, let the plugin's listener lose that shard.
pub trait ActingGate: Send + Sync + 'static {
    /// How long a request that begins now may take. None: this process must not act for that. It is asked after each
    /// call of a handler, so it must be quick, and must not wait.
    fn remaining(&self, acts_for: ActsFor<'_>) -> Option<Duration>;
}

/// An effect was refused: this process must not act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another replica of Informant acts now, so that nothing was done; it receives the event, too")]
pub struct NotActing;
