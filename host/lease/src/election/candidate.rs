//! A standby: when it tries to acquire the Lease, and how.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use super::observed::{Mine, Observed};
use super::{Election, Next, Seal, Task};
use crate::layout::Layout;
use crate::record::{LeaseContent, LeaseRecord, Notes};
use crate::standing::Obstacle;
use crate::times::{PREFERRED_FIRST, TRY_SPACING};

impl Election {
    /// What a standby sends next, and when.
    pub(super) fn next_of_candidate(&self) -> Option<(Moment, Next)> {
        if self.is_stopping {
            return None;
        }
        let Some(observed) = &self.lease else {
            return Some((self.not_before, Next::Read));
        };
        let (at, next) = self.next_of(observed)?;
        Some((at.max(self.not_before), next))
    }

    fn next_of(&self, observed: &Observed) -> Option<(Moment, Next)> {
        match &observed.record {
            None => self.next_if_absent(observed),
            Some(record) => self.next_if_present(observed, record),
        }
    }

    /// Whether it would try by now if the last request had not failed.
    fn waits_after_failure(&self) -> bool {
        let would_try = match &self.lease {
            None => true,
            Some(observed) => self.next_of(observed).is_some_and(|(at, _)| at <= self.not_before),
        };
        self.failure.is_some() && would_try
    }

    /// A Lease that does not exist may have been deleted while its holder acts. So it is created without a holder, and
    /// that state has to stay unchanged for the full duration, as every other one.
    ///
    /// A process that has never seen the Lease, and that is the only member, acquires it at once: it was never there.
    /// Somebody may have deleted all Leases of the group by hand; then a holder that runs notices it within one
    /// renewal, and one that is cut off at its deadline.
    fn next_if_absent(&self, observed: &Observed) -> Option<(Moment, Next)> {
        match self.task {
            Task::Watch => return None,
            Task::Seal(seal) if seal.is_new => return Some((observed.at, Next::Seal(seal))),
            Task::Acquire(_) | Task::AcquireIn(_) | Task::Seal(_) => {}
        }
        let acquires = !matches!(self.task, Task::Seal(_));
        let is_first = acquires && self.candidates.is_alone && !self.has_seen_lease;
        if seeded_bug(SeededBug::DeletedLeaseTaken) {
            return self.rank(None).map(|_| (observed.at, Next::Acquire));
        }
        if is_first {
            return self.rank(None).map(|_| (observed.at, Next::Acquire));
        }
        // Readiness is not waited for: the duration begins now.
        let rank = self.rank(None).unwrap_or(self.candidates.order.len());
        let at = observed.at + spacing(rank);
        self.candidates.is_complete.then_some((at, Next::Anchor))
    }

    fn next_if_present(&self, observed: &Observed, record: &LeaseRecord) -> Option<(Moment, Next)> {
        let content = &record.content;
        let (rank, next) = match self.task {
            Task::Watch => return None,
            Task::AcquireIn(layout) if content.layout != layout => return None,
            Task::Seal(seal) if is_sealed(content, seal) => return None,
            Task::Seal(seal) => (self.position(Some(record)).unwrap_or(0), Next::Seal(seal)),
            Task::Acquire(_) | Task::AcquireIn(_) => (self.rank(Some(record))?, Next::Acquire),
        };
        if self.is_mine(record) {
            // What the last term has begun ends first.
            return Some((observed.at.max(self.effects_end), next));
        }
        if is_free(content) {
            let wait = match &content.preferred {
                _ if matches!(self.task, Task::Seal(_)) => spacing(rank),
                Some(preferred) if *preferred == self.identity => Duration::ZERO,
                Some(_) if !seeded_bug(SeededBug::PreferredIgnored) => PREFERRED_FIRST + spacing(rank),
                Some(_) | None => spacing(rank),
            };
            return Some((observed.at + wait, next));
        }
        let at = observed.at + observed.duration + spacing(rank);
        let is_confirmed = observed.confirmed.is_some_and(|confirmed| confirmed >= at);
        Some((at, if is_confirmed { next } else { Next::Confirm }))
    }

    /// How many candidates try before this one; none if this process does not try. The holder of an expired Lease is
    /// not waited for.
    fn rank(&self, record: Option<&LeaseRecord>) -> Option<usize> {
        if seeded_bug(SeededBug::UnreadyMemberActs) {
            return Some(0);
        }
        self.position(record).filter(|_| self.is_ready)
    }

    fn position(&self, record: Option<&LeaseRecord>) -> Option<usize> {
        let is_holder = |other: &Arc<str>| record.is_some_and(|record| record.content.holder == *other);
        let order = self.candidates.order.iter();
        let mut others = order.filter(|other| **other == self.identity || !is_holder(other));
        others.position(|other| *other == self.identity)
    }

    pub(super) fn is_mine(&self, record: &LeaseRecord) -> bool {
        if seeded_bug(SeededBug::OwnNameSuffices) && record.content.holder == self.identity {
            return true;
        }
        let mine = self.mine.as_ref();
        mine.is_some_and(|mine| mine.fits(record, &self.identity))
    }

    pub(super) fn next_epoch(&self) -> u32 {
        let known = self.lease.as_ref().and_then(|lease| lease.record.as_ref());
        let known = known.map_or(0, |record| record.content.known_epoch());
        known.max(self.last_epoch).saturating_add(1)
    }

    /// What acquires the Lease; the notes of the predecessor stay until there are own ones.
    pub(super) fn acquisition(&self, epoch: u32, record: Option<&LeaseRecord>) -> LeaseContent {
        let notes = self.notes.clone().or_else(|| Some(record?.content.notes.clone()));
        let (layout, next_layout) = self.layouts(record);
        LeaseContent {
            holder: Arc::clone(&self.identity),
            duration: self.times.duration,
            transitions: epoch,
            preferred: None,
            released_by: None,
            layout,
            next_layout,
            notes: notes.unwrap_or_default(),
        }
    }

    /// The layout that the Lease belongs to after a write, and the one that it announces.
    fn layouts(&self, record: Option<&LeaseRecord>) -> (Layout, Option<Layout>) {
        if let Some(term) = self.phase.term() {
            return (term.layout, term.next);
        }
        match (self.task, record.map(|record| &record.content)) {
            (Task::AcquireIn(layout), _) | (Task::Acquire(layout), None) => (layout, None),
            (Task::Seal(Seal { layout, next, .. }), _) => (layout, next),
            (Task::Acquire(_) | Task::Watch, Some(content)) => (content.layout, content.next_layout),
            (Task::Watch, None) => (Layout::WHOLE, None),
        }
    }

    /// What lets the Lease belong to another layout: released, and without what was true by the former one.
    pub(super) fn sealed(&self, seal: Seal, record: Option<&LeaseRecord>) -> LeaseContent {
        let epoch = record.map_or(0, |record| record.content.known_epoch());
        LeaseContent {
            holder: "".into(),
            released_by: Some(Arc::clone(&self.identity)),
            layout: seal.layout,
            next_layout: seal.next,
            notes: Notes::default(),
            ..self.acquisition(epoch.max(self.last_epoch), record)
        }
    }

    /// A request that replaces `record` is sent: if its answer is lost, this process still knows what it has written.
    pub(super) fn attempt(&self, epoch: u32, record: &LeaseRecord) -> Mine {
        let first = match &self.mine {
            Some(mine) if mine.fits(record, &self.identity) => mine.first,
            _ => epoch,
        };
        Mine {
            uid: Arc::clone(&record.uid),
            first,
            last: epoch,
        }
    }

    /// What creates the Lease without a holder.
    pub(super) fn anchor(&self) -> LeaseContent {
        LeaseContent {
            holder: "".into(),
            ..self.acquisition(self.last_epoch, None)
        }
    }

    /// Whether it acquires a Lease that belongs to this layout once it is free.
    fn may_ever_acquire(&self, content: &LeaseContent) -> bool {
        match self.task {
            Task::Acquire(_) => true,
            Task::AcquireIn(layout) => content.layout == layout,
            Task::Seal(_) | Task::Watch => false,
        }
    }

    /// Why this standby does not try now.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        let observed = match &self.lease {
            _ if self.is_stopping => return Some(Obstacle::Stopping),
            _ if self.waits_after_failure() => return self.failure.clone().map(Obstacle::Failing),
            None => return Some(Obstacle::Unread),
            Some(observed) => observed,
        };
        let record = observed.record.as_ref();
        match record.map(|record| &record.content) {
            _ if !self.candidates.is_complete => Some(Obstacle::NotAMember),
            Some(content) if !self.may_ever_acquire(content) => Some(Obstacle::OtherLayout),
            _ if !self.is_ready || self.rank(record).is_none() => Some(Obstacle::NotReady),
            Some(content) if is_free(content) => match &content.preferred {
                Some(preferred) if *preferred != self.identity => Some(Obstacle::PreferredFirst(Arc::clone(preferred))),
                _ => None,
            },
            Some(content) if content.holder == self.identity && record.is_some_and(|record| self.is_mine(record)) => {
                None
            }
            Some(content) if !content.holder.is_empty() && content.holder != self.identity => Some(Obstacle::Held),
            Some(_) | None => Some(Obstacle::MayBeHeld),
        }
    }
}

/// Whether its last holder has said that it no longer acts.
fn is_free(content: &LeaseContent) -> bool {
    content.is_released() || (seeded_bug(SeededBug::EmptiedLeaseTaken) && content.holder.is_empty())
}

/// Whether nothing is left to do.
fn is_sealed(content: &LeaseContent, seal: Seal) -> bool {
    (content.layout, content.next_layout, content.is_released()) == (seal.layout, seal.next, true)
}

fn spacing(rank: usize) -> Duration {
    TRY_SPACING * u32::try_from(rank).unwrap_or(u32::MAX)
}
