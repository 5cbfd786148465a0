//! Requests about a Lease, and what becomes of them.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_object::ResourceVersion;

use crate::record::{LeaseContent, LeaseRecord};
use crate::times::LeaseTimes;

/// How many conflicts in a row are followed by the next request at once: 3. Others write a Lease seldom, so more come
/// from an API server that answers nothing else; then there is a pause.
const CONFLICTS_AT_ONCE_MAX: u32 = 3;

/// A Lease cannot be created: 404.
pub(crate) const NO_NAMESPACE: &str = "the API server answers 404 to the creation of the Lease; create its namespace";

/// The number of a request. The caller returns it with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// A request for the caller to send at once. The machine that returned it has at most one that counts: an answer to an
/// earlier one is at most news about the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRequest {
    pub id: RequestId,
    /// Cancel it after this time, and answer with [`LeaseAnswer::Failed`].
    pub within: Duration,
    pub kind: RequestKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKind {
    /// A read that a quorum of etcd answers: without a resource version.
    Read,
    /// Fails with [`LeaseAnswer::Conflict`] if the Lease exists.
    Create(LeaseContent),
    /// Fails with [`LeaseAnswer::Conflict`] unless the Lease has exactly this version.
    Replace {
        version: ResourceVersion,
        uid: Arc<str>,
        content: LeaseContent,
    },
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// What was read, or what the Lease has become by the write.
    Record(LeaseRecord),
    /// 409: it has another version, or exists already.
    Conflict,
    /// 404
    NotFound,
    /// 401 or 403: only a change of the user's rights helps.
    Refused(Arc<str>),
    /// No answer in time, or one that says nothing about the Lease. The request may have succeeded.
    Failed(Arc<str>),
}

/// What a watch, or the list before it, has delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    Record(LeaseRecord),
    /// It does not exist; with the version at which it was deleted or listed, if that is known.
    Absent(Option<ResourceVersion>),
}

/// The request that counts.
#[derive(Debug, Clone)]
pub(crate) struct Pending<P> {
    pub(crate) id: RequestId,
    pub(crate) sent: Moment,
    pub(crate) ends: Moment,
    pub(crate) purpose: P,
}

/// Numbers requests, and remembers the one that counts.
#[derive(Debug, Clone)]
pub(crate) struct Requests<P> {
    next: u64,
    pub(crate) pending: Option<Pending<P>>,
    /// How many writes in a row have conflicted.
    pub(crate) conflicts: u32,
}

impl<P> Requests<P> {
    pub(crate) fn new() -> Self {
        Self {
            next: 1,
            pending: None,
            conflicts: 0,
        }
    }

    /// A request that is sent now. An earlier one no longer counts.
    pub(crate) fn send(&mut self, now: Moment, within: Duration, purpose: P, kind: RequestKind) -> LeaseRequest {
        let id = RequestId(self.next);
        self.next += 1;
        self.pending = Some(Pending {
            id,
            sent: now,
            ends: now + within,
            purpose,
        });
        LeaseRequest { id, within, kind }
    }

    /// Takes the pending request out if it is `id`.
    pub(crate) fn answered(&mut self, id: RequestId) -> Option<Pending<P>> {
        self.pending.take_if(|pending| pending.id == id)
    }

    /// Takes the pending request out if its time is over: the caller was late to report that.
    pub(crate) fn overdue(&mut self, now: Moment) -> Option<Pending<P>> {
        self.pending.take_if(|pending| now >= pending.ends)
    }

    /// Counts a conflict. Returns how long to wait before the Lease is read again.
    pub(crate) fn pause_after_conflict(&mut self, times: &LeaseTimes) -> Duration {
        self.conflicts += 1;
        match self.conflicts <= CONFLICTS_AT_ONCE_MAX {
            true => Duration::ZERO,
            false => times.retry,
        }
    }
}

/// Why a request has failed whose time is over.
pub(crate) fn no_answer(times: &LeaseTimes) -> Arc<str> {
    format!("the API server did not answer within {:?}", times.request_max()).into()
}
