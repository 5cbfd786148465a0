//! Whether a plugin acts, or stands by while another replica acts.
//!
//! ```text
//! acts ──stand_by──▶ calls aborted ▶ instances, timers, unsent effects dropped ▶ standby ──act──▶ new instances
//! ```
//!
//! A *term* is the time in which a plugin acts. Its token ends the calls of the instances that were created in it.

use informant_cache::listener::Pause;
use tokio_util::sync::CancellationToken;

use crate::actor::{ActorKind, PluginContext};
use crate::sync::lock;

impl PluginContext {
    /// Ends the term: calls that run are aborted, none begins, and nothing has an effect any more.
    pub(crate) fn end_term(&self) {
        let mut status = self.status();
        self.effects.set_standby(true);
        status.is_standby = true;
        self.listener.control().pause(Pause::Standby);
        self.probation.suspend();
        lock(&self.term).cancel();
        self.counters.state(status.state());
    }

    /// Begins a term.
    pub(crate) fn begin_term(&self) {
        let mut status = self.status();
        *lock(&self.term) = self.abort.child_token();
        self.probation.resume(self.now());
        status.is_standby = false;
        self.effects.set_standby(false);
        self.listener.control().resume(Pause::Standby);
        self.counters.state(status.state());
    }

    /// Whether another replica acts.
    pub(crate) fn is_standby(&self) -> bool {
        self.effects.is_standby()
    }

    /// What ends the calls of an instance for `actor` that is created now. Indexes are computed in standby, too.
    pub(crate) fn ends_calls(&self, actor: ActorKind) -> CancellationToken {
        match actor {
            ActorKind::Events => lock(&self.term).clone(),
            ActorKind::Index => self.abort.clone(),
        }
    }
}
