//! [`Membership`]: keeps the own member Lease.

use std::sync::Arc;

use informant_cache::Moment;

use crate::members::MemberRecord;
use crate::request::{LeaseAnswer, LeaseRequest, RequestId, Seen};
use crate::times::LeaseTimes;

/// What happens to a [`Membership`].
#[derive(Debug, Clone)]
pub enum MembershipInput {
    /// Nothing but that time has passed.
    Clock,
    /// The own member Lease, by the watch.
    Seen(Seen),
    Answer(RequestId, LeaseAnswer),
    /// What the Lease should say from now on. Written at once.
    Record(MemberRecord),
    /// The process stops: the Lease is released, so that others see it.
    Stop,
}

/// Writes the own member Lease every third of its duration, and when something changes.
#[derive(Debug)]
pub struct Membership {
    identity: Arc<str>,
    times: LeaseTimes,
    record: MemberRecord,
}

impl Membership {
    /// `identity` must be another one for each process: the name of the pod and a random number.
    #[must_use]
    pub fn new(identity: Arc<str>, times: LeaseTimes, record: MemberRecord) -> Membership {
        Membership {
            identity,
            times,
            record,
        }
    }

    /// Handles `input`. Returns what to send now.
    pub fn step(&mut self, now: Moment, input: MembershipInput) -> Option<LeaseRequest> {
        let _ = (now, input, &self.record);
        None
    }

    /// When to step again at the latest.
    #[must_use]
    pub fn next_wake(&self) -> Moment {
        Moment::ZERO + self.times.member_retry()
    }

    /// Another process that writes the same Lease: two processes believe that they are the same pod.
    #[must_use]
    pub fn other(&self, now: Moment) -> Option<&Arc<str>> {
        let _ = now;
        Some(&self.identity).filter(|_| false)
    }

    /// The Lease is released, or another process's.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        false
    }

    /// Why the last request failed; `None` if it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<&Arc<str>> {
        None
    }
}
