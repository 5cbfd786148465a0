//! One replica as the daemon wires it: its member Lease, its view of the others, and its election.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::Moment;

use super::server::Name;
use crate::standing::{ReleaseReason, Standing};
use crate::{
    Candidates, Election, ElectionInput, LeaseAnswer, LeaseRequest, LeaseTimes, MemberRecord, Members, Membership,
    MembershipInput, Notes, RequestId, Seen,
};

/// What happens to a process.
#[derive(Debug, Clone)]
pub enum Input {
    Clock,
    Seen(Name, Seen),
    Synced,
    Answer(Name, RequestId, LeaseAnswer),
    Ready(bool),
    Notes(Notes),
    /// All effects have ended, because of an earlier request for it.
    HandedOver,
    Stop,
}

#[derive(Debug)]
pub struct Process {
    pub identity: Arc<str>,
    pod: Arc<str>,
    pub(crate) own: Name,
    pub election: Election,
    membership: Membership,
    members: Members,
    candidates: Candidates,
    record: MemberRecord,
    is_stopping: bool,
    /// Effects that have begun and not ended.
    pub in_flight: BTreeSet<usize>,
    /// Epochs for which its gate was open, and is no longer.
    pub ended_epochs: BTreeSet<u32>,
    pub open_epoch: Option<u32>,
    /// When it was last ready, in true time.
    pub last_ready: Moment,
}

impl Process {
    #[must_use]
    pub fn new(now: Moment, host: usize, number: usize, version: &str, times: LeaseTimes) -> Process {
        let pod: Arc<str> = format!("informant-{host}").into();
        let identity: Arc<str> = format!("{pod}_{number}").into();
        let record = MemberRecord {
            version: version.into(),
            digest: "d".into(),
            layout: "1".into(),
            is_ready: false,
            address: "".into(),
        };
        Process {
            own: Name::Member(host),
            election: Election::new(now, Arc::clone(&identity), times),
            membership: Membership::new(Arc::clone(&identity), times, &record),
            members: Members::new(Arc::clone(&identity), times),
            candidates: Candidates::default(),
            record,
            is_stopping: false,
            in_flight: BTreeSet::new(),
            ended_epochs: BTreeSet::new(),
            open_epoch: None,
            last_ready: Moment::ZERO,
            pod,
            identity,
        }
    }

    /// Handles `input`. Returns what to send.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<(Name, LeaseRequest)> {
        let (mut member, mut work) = (MembershipInput::Clock, ElectionInput::Clock);
        match input {
            Input::Clock => {}
            Input::Synced => self.members.set_synced(),
            Input::Seen(Name::Work, seen) => work = ElectionInput::Seen(seen),
            Input::Seen(Name::Member(host), seen) => {
                let lease = match &seen {
                    Seen::Record(record) => Some(record),
                    Seen::Absent(_) => None,
                };
                self.members.observe(now, &format!("informant-{host}"), lease);
                if Name::Member(host) == self.own {
                    member = MembershipInput::Seen(seen);
                }
            }
            Input::Answer(Name::Work, id, answer) => work = ElectionInput::Answer(id, answer),
            Input::Answer(Name::Member(_), id, answer) => {
                if let LeaseAnswer::Record(record) = &answer {
                    self.members.observe(now, &self.pod, Some(record));
                }
                member = MembershipInput::Answer(id, answer);
            }
            Input::Ready(is_ready) => {
                self.record.is_ready = is_ready;
                member = MembershipInput::Record(self.record.clone());
                work = ElectionInput::Ready(is_ready);
            }
            Input::Notes(notes) => work = ElectionInput::Notes(notes),
            Input::HandedOver => work = ElectionInput::HandedOver,
            Input::Stop => {
                self.is_stopping = true;
                member = MembershipInput::Stop;
                work = ElectionInput::Release(ReleaseReason::Stop);
            }
        }
        let mut requests = Vec::new();
        requests.extend(self.membership.step(now, member).map(|request| (self.own, request)));
        let candidates = self.members.candidates(now, "work");
        if candidates != self.candidates {
            self.candidates = candidates.clone();
            let input = ElectionInput::Candidates(candidates);
            requests.extend(self.election.step(now, input).map(|request| (Name::Work, request)));
        }
        requests.extend(self.election.step(now, work).map(|request| (Name::Work, request)));
        if self.candidates.newer.is_some() && matches!(self.election.standing(), Standing::Acting { .. }) {
            let input = ElectionInput::Release(ReleaseReason::Preferred);
            requests.extend(self.election.step(now, input).map(|request| (Name::Work, request)));
        }
        requests
    }

    #[must_use]
    pub fn next_wake(&self, now: Moment) -> Moment {
        let machines = self.election.next_wake().min(self.membership.next_wake());
        machines.min(self.members.next_change(now))
    }

    #[must_use]
    pub fn is_acting(&self) -> bool {
        matches!(self.election.standing(), Standing::Acting { .. })
    }

    #[must_use]
    pub fn is_handing_over(&self) -> bool {
        matches!(self.election.standing(), Standing::HandingOver { .. })
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.record.is_ready
    }

    /// Whether others may expect it to acquire what is released to it.
    #[must_use]
    pub fn is_candidate(&self) -> bool {
        self.record.is_ready && !self.is_stopping
    }

    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.is_stopping && self.election.has_ended() && self.membership.has_ended()
    }
}
