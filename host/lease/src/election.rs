//! [`Election`]: one candidate for one Lease.

mod candidate;
mod observed;
mod term;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use self::observed::{Mine, Observed};
use self::term::Phase;
use crate::gate::Gate;
use crate::layout::Layout;
use crate::members::Candidates;
use crate::record::{LeaseContent, LeaseRecord, Notes};
use crate::request::{
    LeaseAnswer, LeaseRequest, NO_NAMESPACE, Pending, RequestId, RequestKind, Requests, Seen, no_answer,
};
use crate::standing::{ReleaseReason, StandbyReason, Standing};
use crate::times::LeaseTimes;

/// How long a hand-over may take: 20 s. The daemon cancels calls after 10 s, and their requests end with them. After
/// this time the gate is closed and the Lease no longer renewed, so that it expires and another member acts.
pub const HAND_OVER_MAX: Duration = Duration::from_secs(20);

/// How long a process does not hand the Lease over after it has done so: 60 s. A preferred member that looks ready and
/// does not acquire would otherwise interrupt the work every few seconds. A stop does not wait.
pub const HAND_OVER_PAUSE: Duration = Duration::from_secs(60);

/// What a standby does with a Lease that has no holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Acquires it, whatever layout it names: it is the one that says which is in force. One that does not exist is
    /// created with this layout.
    Acquire(Layout),
    /// Acquires it if it belongs to this layout.
    AcquireIn(Layout),
    /// Lets it belong to another layout, without acquiring it.
    Seal(Seal),
    /// Nothing.
    Watch,
}

/// What a Lease becomes that has no holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    pub layout: Layout,
    pub next: Option<Layout>,
    /// The layout in force does not have this shard: if its Lease does not exist, no process can act by it.
    pub is_new: bool,
}

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
    /// What to do while the Lease has no holder.
    Task(Task),
    /// Renewals announce that the group changes to this layout.
    NextLayout(Layout),
    /// What renewals carry from now on. Until the first ones, those of the predecessor stay in the Lease.
    Notes(Notes),
    /// Give the Lease up. With [`ReleaseReason::Layout`], it then names the layout that was announced. For a preferred
    /// member, at most once in [`HAND_OVER_PAUSE`]; sooner, it is ignored.
    Release(ReleaseReason),
    /// All effects have ended, and none begins: the Lease may be released.
    HandedOver,
}

/// One candidate for one Lease.
///
/// ```text
///  Standby ──expired──▶ Confirm ──unchanged──▶ Acquire ──▶ Acting ──Release──▶ HandingOver ──HandedOver──▶ Releasing
///   ▲    └──released───────────────────────────▲            │                   │                          │
///   └────deadline, another name, deleted─────────────────────┴───────────────────┴──────────────────────────┘
/// ```
///
/// Rules:
/// 1. A Lease is acquired after it has stayed unchanged for its full duration, counted from when this process observed
///    it; then it is read from a quorum, must still be the same, and is replaced under exactly its version.
/// 2. A Lease that its holder released is acquired at once: for [`PREFERRED_FIRST`](crate::PREFERRED_FIRST) only by the
///    preferred member, then by any. One that was emptied by hand is not a released one.
/// 3. A Lease that does not exist is created without a holder, and then acquired by the first rule.
/// 4. Only ready members try, in the order of [`Candidates`], each [`TRY_SPACING`](crate::TRY_SPACING) after the other.
/// 5. The holder counts from sending its last successful renewal. After the deadline it is standby, and acquires again
///    under the next epoch. Nothing needs a restart.
/// 6. A name in the Lease that is not the own one ends the term at once, and so does a Lease that is gone. If another
///    field was edited, the next renewal writes it again.
/// 7. The own name in the Lease proves nothing unless this process has written it, in that epoch.
/// 8. A Lease that belongs to another layout than its [`Task`] says is not acquired.
#[derive(Debug)]
pub struct Election {
    identity: Arc<str>,
    times: LeaseTimes,
    gate: Gate,
    requests: Requests<Purpose>,
    phase: Phase,
    lease: Option<Observed>,
    mine: Option<Mine>,
    candidates: Candidates,
    task: Task,
    is_ready: bool,
    is_stopping: bool,
    has_seen_lease: bool,
    /// A write conflicted: what is known of the Lease is old.
    must_read: bool,
    /// When the next request may be sent, after one that failed.
    not_before: Moment,
    failure: Option<Arc<str>>,
    notes: Option<Notes>,
    /// When it may hand over to a preferred member again.
    hands_over_from: Moment,
    /// When the requests of the last term have ended.
    effects_end: Moment,
    /// No epoch up to this one is used again.
    last_epoch: u32,
    predecessor: Option<LeaseContent>,
}

#[derive(Debug)]
enum Purpose {
    Read,
    Confirm,
    Anchor,
    Acquire {
        epoch: u32,
        predecessor: Option<LeaseContent>,
    },
    Renew,
    Release,
    Seal,
}

/// What to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Read,
    /// Read an expired Lease.
    Confirm,
    /// Create the Lease without a holder.
    Anchor,
    Acquire,
    Renew,
    Release,
    /// Let it belong to another layout.
    Seal(Seal),
}

impl Election {
    /// `identity` must be another one for each process: the name of the pod and a random number.
    #[must_use]
    pub fn new(now: Moment, identity: Arc<str>, times: LeaseTimes, task: Task) -> Election {
        Election {
            identity,
            times,
            gate: Gate::closed(&times),
            requests: Requests::new(),
            phase: Phase::Standby {
                since: now,
                why: StandbyReason::Started,
            },
            lease: None,
            mine: None,
            candidates: Candidates::default(),
            task,
            is_ready: false,
            is_stopping: false,
            has_seen_lease: false,
            must_read: false,
            not_before: now,
            failure: None,
            notes: None,
            hands_over_from: now,
            effects_end: now,
            last_epoch: 0,
            predecessor: None,
        }
    }

    /// Handles `input`. Returns what to send now. Read `now` after the input has arrived: what is observed counts from
    /// there.
    pub fn step(&mut self, now: Moment, input: ElectionInput) -> Option<LeaseRequest> {
        // First: an answer after the deadline renews nothing.
        self.expire_term(now);
        match input {
            ElectionInput::Clock => {}
            ElectionInput::Seen(seen) => self.observe(now, seen, None),
            ElectionInput::Answer(id, answer) => match (self.requests.answered(id), answer) {
                (Some(request), answer) => self.answered(now, request, answer),
                // Of a request that no longer counts.
                (None, LeaseAnswer::Record(record)) => self.observe(now, Seen::Record(record), None),
                (None, _) => {}
            },
            ElectionInput::Candidates(candidates) => self.candidates = candidates,
            ElectionInput::Ready(is_ready) => self.is_ready = is_ready,
            ElectionInput::Task(task) => self.task = task,
            ElectionInput::NextLayout(next) => self.announce(next),
            ElectionInput::Notes(notes) => self.notes = Some(notes),
            ElectionInput::Release(why) => self.release(now, why),
            ElectionInput::HandedOver => self.handed_over(now),
        }
        if let Some(request) = self.requests.overdue(now) {
            self.failed(now, request.sent, no_answer(&self.times));
        }
        let (at, next) = self.next()?;
        (now >= at).then(|| self.send(now, next))
    }

    /// When to step again at the latest.
    #[must_use]
    pub fn next_wake(&self) -> Moment {
        let next = self.next().map_or(Moment::NEVER, |(at, _)| at);
        let pending = self
            .requests
            .pending
            .as_ref()
            .map_or(Moment::NEVER, |pending| pending.ends);
        next.min(pending).min(self.term_expires())
    }

    /// What every effect of this process asks.
    #[must_use]
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    #[must_use]
    pub fn standing(&self) -> Standing {
        match &self.phase {
            Phase::Standby { since, why } => match &self.requests.pending {
                Some(Pending {
                    sent,
                    purpose: Purpose::Confirm | Purpose::Acquire { .. },
                    ..
                }) => Standing::Acquiring { since: *sent },
                _ => Standing::Standby {
                    holder: self.holder(),
                    since: *since,
                    why: why.clone(),
                    obstacle: self.obstacle(),
                },
            },
            Phase::Acting(term) => Standing::Acting {
                epoch: term.epoch,
                since: term.since,
            },
            Phase::HandingOver { term, why, asked } => Standing::HandingOver {
                epoch: term.epoch,
                since: *asked,
                why: *why,
            },
            Phase::Releasing { term, .. } => Standing::Releasing { epoch: term.epoch },
        }
    }

    fn holder(&self) -> Option<Arc<str>> {
        let holder = &self.lease()?.content.holder;
        (!holder.is_empty()).then(|| Arc::clone(holder))
    }

    /// The Lease as it was last observed.
    #[must_use]
    pub fn lease(&self) -> Option<&LeaseRecord> {
        self.lease.as_ref()?.record.as_ref()
    }

    /// The layout by which this process acts; none while it does not.
    #[must_use]
    pub fn term_layout(&self) -> Option<Layout> {
        Some(self.phase.term()?.layout)
    }

    /// What the Lease said when this process last acquired it: the notes of the predecessor.
    #[must_use]
    pub fn predecessor(&self) -> Option<&LeaseContent> {
        self.predecessor.as_ref()
    }

    /// The process stops, holds nothing and waits for no answer.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let acquires = |pending: &Pending<Purpose>| matches!(pending.purpose, Purpose::Acquire { .. });
        let is_standby = matches!(self.phase, Phase::Standby { .. });
        self.is_stopping && is_standby && !self.requests.pending.as_ref().is_some_and(acquires)
    }

    /// What is sent next, and when; none while a request is pending.
    fn next(&self) -> Option<(Moment, Next)> {
        if self.requests.pending.is_some() {
            return None;
        }
        match &self.phase {
            Phase::Standby { .. } if self.is_stopping => None,
            _ if self.must_read => Some((self.not_before, Next::Read)),
            Phase::Standby { .. } => self.next_of_candidate(),
            Phase::Acting(term) | Phase::HandingOver { term, .. } => {
                Some(((term.tried + self.times.retry).max(self.not_before), Next::Renew))
            }
            Phase::Releasing { .. } => Some((self.not_before, Next::Release)),
        }
    }

    fn send(&mut self, now: Moment, next: Next) -> LeaseRequest {
        if let Some(term) = self.phase.open_term() {
            term.tried = now;
        }
        let record = self.lease().cloned();
        let (purpose, content) = match next {
            Next::Read => (Purpose::Read, None),
            Next::Confirm => (Purpose::Confirm, None),
            Next::Anchor => (Purpose::Anchor, Some(self.anchor())),
            Next::Acquire => {
                let epoch = self.next_epoch();
                let content = self.acquisition(epoch, record.as_ref());
                self.mine = record.as_ref().map(|record| self.attempt(epoch, record));
                let predecessor = record.as_ref().map(|record| record.content.clone());
                (Purpose::Acquire { epoch, predecessor }, Some(content))
            }
            Next::Renew => (Purpose::Renew, self.renewal(record.as_ref())),
            Next::Release => (Purpose::Release, self.released(record.as_ref())),
            Next::Seal(seal) => (Purpose::Seal, Some(self.sealed(seal, record.as_ref()))),
        };
        let kind = match (content, record) {
            (None, _) => RequestKind::Read,
            (Some(content), None) => RequestKind::Create(content),
            (Some(content), Some(LeaseRecord { version, uid, .. })) => RequestKind::Replace { version, uid, content },
        };
        self.requests.send(now, self.times.request_max(), purpose, kind)
    }

    fn answered(&mut self, now: Moment, request: Pending<Purpose>, answer: LeaseAnswer) {
        match answer {
            LeaseAnswer::Record(record) => self.succeeded(now, request, record),
            LeaseAnswer::Conflict => {
                self.must_read = true;
                self.not_before = now + self.requests.pause_after_conflict(&self.times);
            }
            LeaseAnswer::NotFound if self.lease().is_none() && request.purpose.is_write() => {
                self.failed(now, request.sent, NO_NAMESPACE.into());
            }
            LeaseAnswer::NotFound => {
                self.must_read = false;
                self.failure = None;
                self.observe(now, Seen::Absent(None), Some(request.sent));
            }
            LeaseAnswer::Failed(failure) => self.failed(now, request.sent, failure),
            LeaseAnswer::Refused(failure) => {
                self.failed(now, request.sent, failure);
                if matches!(self.phase, Phase::Standby { .. }) {
                    self.not_before = now + self.times.refused;
                }
            }
        }
    }

    fn succeeded(&mut self, now: Moment, request: Pending<Purpose>, record: LeaseRecord) {
        self.failure = None;
        if request.purpose.is_write() {
            self.requests.conflicts = 0;
        }
        match request.purpose {
            Purpose::Read | Purpose::Confirm => {
                self.must_read = false;
                self.observe(now, Seen::Record(record), Some(request.sent));
            }
            Purpose::Anchor | Purpose::Release | Purpose::Seal => self.observe(now, Seen::Record(record), None),
            Purpose::Acquire { epoch, predecessor } => {
                self.predecessor = predecessor;
                self.acquired(now, request.sent, epoch, record);
            }
            Purpose::Renew => self.renewed(now, request.sent, record),
        }
    }

    fn failed(&mut self, now: Moment, sent: Moment, failure: Arc<str>) {
        self.failure = Some(failure);
        self.not_before = now.max(sent + self.times.retry);
    }

    /// The Lease was seen by a watch or in the answer to a write, or by a read that was sent at `read`.
    fn observe(&mut self, now: Moment, seen: Seen, read: Option<Moment>) {
        if let Some(observed) = &mut self.lease {
            if observed.is_same(&seen) {
                observed.confirmed = read.or(observed.confirmed);
                return;
            }
            // A read that was sent after that is believed: an API server that was restored from a backup has older
            // versions.
            if observed.is_newer_than(&seen) && read.is_none_or(|read| read <= observed.at) {
                return;
            }
        }
        let mut observed = Observed::new(now, seen, self.times.duration, self.lease.as_ref());
        if let (true, Some(read), Some(before)) = (seeded_bug(SeededBug::ChangedLeaseTaken), read, &self.lease) {
            (observed.at, observed.confirmed) = (before.at, Some(read));
        }
        if matches!(self.phase, Phase::Standby { .. }) {
            self.failure = None;
        }
        if let Some(record) = &observed.record {
            self.has_seen_lease = true;
            self.last_epoch = self.last_epoch.max(record.content.known_epoch());
        }
        let is_mine = |record: &LeaseRecord| {
            let mine = self.mine.as_ref();
            mine.is_some_and(|mine| mine.fits(record, &self.identity))
        };
        if !observed.record.as_ref().is_some_and(is_mine) {
            self.mine = None;
        }
        self.lease = Some(observed);
        self.check_term(now);
    }
}

impl Purpose {
    fn is_write(&self) -> bool {
        !matches!(self, Purpose::Read | Purpose::Confirm)
    }
}

#[cfg(test)]
mod tests;
