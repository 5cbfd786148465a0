//! [`Membership`]: keeps the own member Lease.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_object::ResourceVersion;

use crate::layout::Layout;
use crate::members::MemberRecord;
use crate::record::{LeaseContent, LeaseRecord, Notes};
use crate::request::NO_NAMESPACE;
use crate::request::{LeaseAnswer, LeaseRequest, Pending, RequestId, RequestKind, Requests, Seen, no_answer};
use crate::times::LeaseTimes;

/// For how many durations of a member Lease another process counts after its name was last found there: 2. Both write
/// three times in each.
const OTHER_COUNTS_DURATIONS: u32 = 2;

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
///
/// A name that the Lease has at the start is left by an earlier process of the same pod, and is replaced. A name that
/// replaces the own one was written afterwards, so its process runs: [`other`](Self::other) reports it. Both then
/// write the Lease in turns, and neither stays ready long enough for a hand-over.
#[derive(Debug)]
pub struct Membership {
    identity: Arc<str>,
    times: LeaseTimes,
    notes: Notes,
    requests: Requests<Purpose>,
    lease: Known,
    /// When to write next.
    write_at: Moment,
    /// The Lease does not say yet what it should.
    is_changed: bool,
    has_written: bool,
    other: Option<(Arc<str>, Moment)>,
    failure: Option<Arc<str>>,
    stop: Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Read,
    Renew,
    Release,
}

/// What the next write is based on.
#[derive(Debug)]
enum Known {
    /// Read it first.
    Unknown,
    Absent,
    At(ResourceVersion, Arc<str>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    No,
    Asked,
    Done,
}

impl Membership {
    /// `identity` must be another one for each process: the name of the pod and a random number.
    #[must_use]
    pub fn new(identity: Arc<str>, times: LeaseTimes, record: &MemberRecord) -> Membership {
        Membership {
            identity,
            times,
            notes: record.notes(),
            requests: Requests::new(),
            lease: Known::Unknown,
            write_at: Moment::ZERO,
            is_changed: true,
            has_written: false,
            other: None,
            failure: None,
            stop: Stop::No,
        }
    }

    /// Handles `input`. Returns what to send now.
    pub fn step(&mut self, now: Moment, input: MembershipInput) -> Option<LeaseRequest> {
        match input {
            MembershipInput::Clock => {}
            MembershipInput::Seen(Seen::Record(lease)) => self.find(now, &lease.content.holder),
            MembershipInput::Seen(Seen::Absent(_)) => self.write_at = self.write_at.min(now),
            MembershipInput::Answer(id, answer) => {
                if let Some(request) = self.requests.answered(id) {
                    self.answered(now, &request, answer);
                }
            }
            MembershipInput::Record(record) => {
                self.notes = record.notes();
                self.is_changed = true;
                self.write_at = self.write_at.min(now);
            }
            MembershipInput::Stop if self.stop == Stop::No => {
                // If a renewal that is on its way arrives first, the release conflicts and is repeated.
                self.requests.pending = None;
                self.write_at = self.write_at.min(now);
                self.stop = match self.lease {
                    Known::Absent => Stop::Done,
                    Known::Unknown | Known::At(..) => Stop::Asked,
                };
            }
            MembershipInput::Stop => {}
        }
        if self.requests.overdue(now).is_some() {
            self.failed(now, self.times.retry, no_answer(&self.times));
        }
        (now >= self.next_wake()).then(|| self.send(now))
    }

    /// When to step again at the latest.
    #[must_use]
    pub fn next_wake(&self) -> Moment {
        match &self.requests.pending {
            _ if self.stop == Stop::Done => Moment::NEVER,
            Some(pending) => pending.ends,
            None => self.write_at,
        }
    }

    /// Another process that writes the same Lease: two processes believe that they are the same pod.
    #[must_use]
    pub fn other(&self, now: Moment) -> Option<&Arc<str>> {
        let (other, found) = self.other.as_ref()?;
        (now < *found + self.times.duration * OTHER_COUNTS_DURATIONS).then_some(other)
    }

    /// The Lease is released, or another process's.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.stop == Stop::Done
    }

    /// Whether the Lease has had the own name.
    #[must_use]
    pub fn has_written(&self) -> bool {
        self.has_written
    }

    /// Why the last write failed, or the read before it; `None` if it succeeded.
    #[must_use]
    pub fn failure(&self) -> Option<&Arc<str>> {
        self.failure.as_ref()
    }

    fn send(&mut self, now: Moment) -> LeaseRequest {
        let is_stopping = self.stop == Stop::Asked;
        let content = LeaseContent {
            holder: if is_stopping {
                "".into()
            } else {
                Arc::clone(&self.identity)
            },
            duration: self.times.duration,
            transitions: 0,
            preferred: None,
            released_by: is_stopping.then(|| Arc::clone(&self.identity)),
            layout: Layout::WHOLE,
            next_layout: None,
            notes: self.notes.clone(),
        };
        let write = if is_stopping { Purpose::Release } else { Purpose::Renew };
        let (purpose, kind) = match &self.lease {
            Known::Unknown => (Purpose::Read, RequestKind::Read),
            Known::Absent => (write, RequestKind::Create(content)),
            Known::At(version, uid) => {
                let (version, uid) = (version.clone(), Arc::clone(uid));
                (write, RequestKind::Replace { version, uid, content })
            }
        };
        self.is_changed &= purpose == Purpose::Read;
        self.requests.send(now, self.times.request_max(), purpose, kind)
    }

    fn answered(&mut self, now: Moment, request: &Pending<Purpose>, answer: LeaseAnswer) {
        match answer {
            LeaseAnswer::Record(lease) => self.is(now, request, &lease),
            LeaseAnswer::NotFound if self.stop == Stop::Asked => self.stop = Stop::Done,
            LeaseAnswer::NotFound => match self.lease {
                Known::Absent => self.failed(now, self.times.retry, NO_NAMESPACE.into()),
                Known::Unknown | Known::At(..) => self.lease = Known::Absent,
            },
            LeaseAnswer::Conflict => {
                self.lease = Known::Unknown;
                let pause = self.requests.pause_after_conflict(&self.times);
                if !pause.is_zero() {
                    let failure = format!("others wrote it {} times while it was renewed", self.requests.conflicts);
                    self.failure = Some(failure.into());
                }
                self.write_at = now + pause;
            }
            LeaseAnswer::Refused(failure) => self.failed(now, self.times.refused, failure),
            LeaseAnswer::Failed(failure) => self.failed(now, self.times.retry, failure),
        }
    }

    fn is(&mut self, now: Moment, request: &Pending<Purpose>, lease: &LeaseRecord) {
        self.lease = Known::At(lease.version.clone(), Arc::clone(&lease.uid));
        match request.purpose {
            Purpose::Read => {
                self.find(now, &lease.content.holder);
                if self.stop == Stop::Asked && lease.content.holder != self.identity {
                    self.stop = Stop::Done;
                }
            }
            Purpose::Renew => {
                self.has_written = true;
                self.failure = None;
                self.requests.conflicts = 0;
                self.write_at = match self.is_changed {
                    true => now,
                    false => request.sent + self.times.member_retry(),
                };
            }
            Purpose::Release => self.stop = Stop::Done,
        }
    }

    /// `holder` is in the Lease.
    fn find(&mut self, now: Moment, holder: &Arc<str>) {
        if self.has_written && !holder.is_empty() && *holder != self.identity {
            self.other = Some((Arc::clone(holder), now));
        }
    }

    fn failed(&mut self, now: Moment, pause: Duration, failure: Arc<str>) {
        self.failure = Some(failure);
        self.write_at = now + pause;
        // The write may have succeeded.
        self.lease = Known::Unknown;
    }
}

#[cfg(test)]
mod tests;
