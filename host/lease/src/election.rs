//! [`Election`]: one candidate for one Lease.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;

use crate::gate::Gate;
use crate::members::Candidates;
use crate::record::{LeaseContent, LeaseRecord, Notes};
use crate::request::{LeaseAnswer, LeaseRequest, RequestId, Seen};
use crate::standing::{ReleaseReason, StandbyReason, Standing};
use crate::times::LeaseTimes;

/// How long a hand-over may take: 20 s. The daemon cancels calls after 10 s, and their requests end with them. After
/// this time the gate is closed and the Lease no longer renewed, so that it expires and another member acts.
pub const HAND_OVER_MAX: Duration = Duration::from_secs(20);

/// What happens to an [`Election`].
#[derive(Debug, Clone)]
pub enum ElectionInput {
    /// Nothing but that time has passed.
    Clock,
    /// The Lease, by the watch.
    Seen(Seen),
    /// The answer to a request that [`Election::step`] has returned.
    Answer(RequestId, LeaseAnswer),
    /// Who may acquire the Lease, as this process sees it now.
    Candidates(Candidates),
    /// Whether this process could act. A holder that is no longer ready keeps acting.
    Ready(bool),
    /// What renewals carry from now on. Until the first ones, those of the predecessor stay in the Lease.
    Notes(Notes),
    /// The epoch that shared state is stamped with: the next one is greater, even if the Lease was deleted.
    Epoch(u32),
    /// Give the Lease up.
    Release(ReleaseReason),
    /// All effects have ended, and none begins: the Lease may be released.
    HandedOver,
}

/// One candidate for one Lease.
#[derive(Debug)]
pub struct Election {
    identity: Arc<str>,
    times: LeaseTimes,
    gate: Gate,
}

impl Election {
    /// `identity` must be another one for each process: the name of the pod and a random number.
    #[must_use]
    pub fn new(identity: Arc<str>, times: LeaseTimes) -> Election {
        Election {
            identity,
            gate: Gate::closed(&times),
            times,
        }
    }

    /// Handles `input`. Returns what to send now.
    pub fn step(&mut self, now: Moment, input: ElectionInput) -> Option<LeaseRequest> {
        let _ = (now, input, &self.identity, &self.times);
        None
    }

    /// When to step again at the latest.
    #[must_use]
    pub fn next_wake(&self) -> Moment {
        Moment::NEVER
    }

    /// What every effect of this process asks.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing::Standby {
            holder: None,
            since: Moment::ZERO,
            why: StandbyReason::Started,
            obstacle: None,
        }
    }

    /// The Lease as it was last observed.
    #[must_use]
    pub fn lease(&self) -> Option<&LeaseRecord> {
        None
    }

    /// What the Lease said when this process acquired it: the notes of the predecessor.
    #[must_use]
    pub fn predecessor(&self) -> Option<&LeaseContent> {
        None
    }

    /// The process stops, holds nothing and waits for no answer.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        false
    }
}
