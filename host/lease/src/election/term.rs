//! A term: from acquiring the Lease to losing or releasing it.

use std::sync::Arc;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use super::observed::Mine;
use super::{Election, HAND_OVER_MAX, HAND_OVER_PAUSE};
use crate::layout::Layout;
use crate::record::{LeaseContent, LeaseRecord};
use crate::request::Seen;
use crate::standing::{ReleaseReason, StandbyReason};

/// What this process is.
#[derive(Debug)]
pub(super) enum Phase {
    Standby {
        since: Moment,
        why: StandbyReason,
    },
    Acting(Term),
    HandingOver {
        term: Term,
        why: ReleaseReason,
        asked: Moment,
    },
    /// The gate is closed; the Lease is released to this member.
    Releasing {
        term: Term,
        to: Option<Arc<str>>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) epoch: u32,
    pub(super) uid: Arc<str>,
    pub(super) since: Moment,
    /// When the last successful renewal was sent.
    pub(super) sent: Moment,
    /// When the last renewal was sent.
    pub(super) tried: Moment,
    pub(super) layout: Layout,
    /// The layout that renewals announce.
    pub(super) next: Option<Layout>,
}

impl Phase {
    pub(super) fn term(&self) -> Option<&Term> {
        match self {
            Phase::Standby { .. } => None,
            Phase::Acting(term) | Phase::HandingOver { term, .. } | Phase::Releasing { term, .. } => Some(term),
        }
    }

    /// The term while the gate is open.
    pub(super) fn open_term(&mut self) -> Option<&mut Term> {
        match self {
            Phase::Acting(term) | Phase::HandingOver { term, .. } => Some(term),
            Phase::Standby { .. } | Phase::Releasing { .. } => None,
        }
    }
}

impl Election {
    /// Ends a term whose time is over.
    pub(super) fn expire_term(&mut self, now: Moment) {
        if now < self.term_expires() {
            return;
        }
        let why = match &self.phase {
            Phase::Standby { .. } => return,
            Phase::Releasing { to, .. } => StandbyReason::Released(to.clone()),
            Phase::Acting(_) | Phase::HandingOver { .. } if self.gate.is_closed() => StandbyReason::GateClosed,
            Phase::HandingOver { asked, .. } if now >= *asked + HAND_OVER_MAX => StandbyReason::HandOverLate,
            Phase::Acting(_) | Phase::HandingOver { .. } => StandbyReason::DeadlinePassed(self.failure.clone()),
        };
        if !matches!(why, StandbyReason::DeadlinePassed(_)) {
            // As every other process, this one waits until the Lease expires.
            self.mine = None;
        }
        self.end_term(now, why);
    }

    /// When the term ends unless a renewal succeeds.
    pub(super) fn term_expires(&self) -> Moment {
        let deadline = |term: &Term| match seeded_bug(SeededBug::LateRenewalReopens) {
            _ if self.gate.is_closed() => Moment::ZERO,
            true => Moment::NEVER,
            false => term.sent + self.times.renew_deadline,
        };
        match &self.phase {
            Phase::Standby { .. } => Moment::NEVER,
            Phase::Acting(term) => deadline(term),
            Phase::HandingOver { term, asked, .. } => deadline(term).min(*asked + HAND_OVER_MAX),
            Phase::Releasing { term, .. } => term.sent + self.times.duration,
        }
    }

    fn end_term(&mut self, now: Moment, why: StandbyReason) {
        if let Some(term) = self.phase.open_term() {
            self.effects_end = term.sent + self.times.request_end;
        }
        self.gate.close();
        self.phase = Phase::Standby { since: now, why };
        self.requests.pending = None;
        self.notes = None;
    }

    /// The Lease has changed: does it still name this process?
    pub(super) fn check_term(&mut self, now: Moment) {
        let Some(term) = self.phase.term() else {
            return;
        };
        let record = self.lease.as_ref().and_then(|lease| lease.record.as_ref());
        let why = match (&self.phase, record) {
            (_, Some(record)) if record.content.holder == self.identity && record.uid == term.uid => return,
            (Phase::Releasing { to, .. }, _) => StandbyReason::Released(to.clone()),
            (_, None) => StandbyReason::Deleted,
            (_, Some(record)) if record.content.holder.is_empty() => StandbyReason::Emptied,
            (_, Some(record)) if record.content.holder == self.identity => StandbyReason::Deleted,
            (_, Some(record)) => StandbyReason::TakenBy(Arc::clone(&record.content.holder)),
        };
        self.end_term(now, why);
    }

    /// A request that was sent at `sent` has acquired the Lease.
    pub(super) fn acquired(&mut self, now: Moment, sent: Moment, epoch: u32, record: LeaseRecord) {
        let uid = Arc::clone(&record.uid);
        let (layout, next) = (record.content.layout, record.content.next_layout);
        // Not only learned from the record: an epoch above the limit must not come again.
        self.last_epoch = self.last_epoch.max(epoch);
        self.mine = Some(Mine {
            uid: Arc::clone(&uid),
            first: epoch,
            last: epoch,
        });
        self.observe(now, Seen::Record(record), None);
        // Overtaken by a newer state, or answered too late: then it is acquired again, with the next epoch.
        if self.mine.is_none() || now >= sent + self.times.renew_deadline {
            return;
        }
        let sent = if seeded_bug(SeededBug::LeaseCountsFromAnswer) {
            now
        } else {
            sent
        };
        let term = Term {
            epoch,
            uid,
            since: now,
            sent,
            tried: sent,
            layout,
            next,
        };
        if self.is_stopping {
            self.begin_release(now, term, false);
        } else {
            self.gate.open(epoch, sent);
            self.phase = Phase::Acting(term);
        }
    }

    /// A renewal that was sent at `sent` has succeeded.
    pub(super) fn renewed(&mut self, now: Moment, sent: Moment, record: LeaseRecord) {
        self.observe(now, Seen::Record(record), None);
        let sent = if seeded_bug(SeededBug::LeaseCountsFromAnswer) {
            now
        } else {
            sent
        };
        let Some(term) = self.phase.open_term() else {
            return;
        };
        // If the gate was closed meanwhile, the next step ends the term.
        if self.gate.renew(term.sent, sent) {
            term.sent = sent;
            self.mine = Some(Mine {
                uid: Arc::clone(&term.uid),
                first: term.epoch,
                last: term.epoch,
            });
        }
    }

    pub(super) fn release(&mut self, now: Moment, why: ReleaseReason) {
        match why {
            ReleaseReason::Stop => self.is_stopping = true,
            ReleaseReason::Preferred if now < self.hands_over_from => return,
            ReleaseReason::Preferred | ReleaseReason::Layout => {}
        }
        match &mut self.phase {
            Phase::Acting(term) => {
                let term = term.clone();
                self.phase = Phase::HandingOver { term, why, asked: now };
                if why == ReleaseReason::Preferred {
                    self.hands_over_from = now + HAND_OVER_PAUSE;
                }
                if seeded_bug(SeededBug::ReleasedTooEarly) {
                    self.handed_over(now);
                }
            }
            Phase::HandingOver { why: before, .. } if self.is_stopping => *before = ReleaseReason::Stop,
            _ => {}
        }
    }

    pub(super) fn handed_over(&mut self, now: Moment) {
        if let Phase::HandingOver { term, why, .. } = &self.phase {
            let (mut term, mut may_return) = (term.clone(), false);
            if *why == ReleaseReason::Layout {
                (term.layout, term.next) = (term.next.unwrap_or(term.layout), None);
                may_return = true;
            }
            self.begin_release(now, term, may_return);
        }
    }

    /// The group changes to another layout: the next renewal, which is due now, announces it.
    pub(super) fn announce(&mut self, next: Layout) {
        let term = self.phase.open_term().filter(|term| term.next != Some(next));
        if let Some(term) = term {
            (term.next, term.tried) = (Some(next), Moment::ZERO);
        }
    }

    /// The Lease goes to the first candidate; to this process only if it `may_return`.
    fn begin_release(&mut self, now: Moment, term: Term, may_return: bool) {
        self.gate.close();
        let order = &self.candidates.order;
        let to = order.iter().find(|to| may_return || **to != self.identity).cloned();
        self.phase = Phase::Releasing { term, to };
        // If a renewal that is on its way arrives first, the release conflicts and is repeated.
        self.requests.pending = None;
        self.not_before = now;
    }

    /// What a renewal of `record` writes.
    pub(super) fn renewal(&self, record: Option<&LeaseRecord>) -> Option<LeaseContent> {
        let term = self.phase.term()?;
        Some(self.acquisition(term.epoch, record))
    }

    /// What releases `record`.
    pub(super) fn released(&self, record: Option<&LeaseRecord>) -> Option<LeaseContent> {
        let Phase::Releasing { term, to } = &self.phase else {
            return None;
        };
        Some(LeaseContent {
            holder: "".into(),
            preferred: to.clone(),
            released_by: Some(Arc::clone(&self.identity)),
            ..self.acquisition(term.epoch, record)
        })
    }
}
