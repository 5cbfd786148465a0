//! What passes between an informer loop, a listener and its consumer; and the tables that a listener keeps.
//!
//! Nothing here knows the listener: it decides when each of these changes.

pub(crate) mod accepted_states;
pub(crate) mod beginning;
pub(crate) mod change;
pub(crate) mod dead_letters;
pub(crate) mod lanes;
pub(crate) mod options;
pub(crate) mod reason;
pub(crate) mod relations;
pub(crate) mod requeues;
pub(crate) mod spacing;
pub(crate) mod suspects;
pub(crate) mod tick;
pub(crate) mod timers;

use std::sync::Arc;
use std::time::Duration;

use informant_object::{Key, KeyRef, Object, SourceId};

pub use self::reason::Reason;
pub use self::tick::Tick;
pub use crate::readiness::Awaited;

use crate::Moment;
use crate::delivery::lanes::Lane;
use crate::delivery::relations::RelatedCause;

/// One handler call to make. The consumer reports its outcome with
/// [`Consumer::done`](crate::listener::Consumer::done), or returns it uncalled with
/// [`Consumer::give_back`](crate::listener::Consumer::give_back); until then the listener delivers no other event of
/// the key.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Identifies this delivery in `done` and `give_back`.
    pub token: DeliveryToken,
    /// The source the object came from; of a [`Notification::Tick`], none that exists.
    pub source: SourceId,
    /// The lane of the key: which consumer receives it.
    pub lane: Lane,
    /// The event to deliver.
    pub notification: Notification,
    /// Why; if events were folded, the reason of the newest.
    pub reason: Reason,
    /// 0 at the first attempt, plus 1 per retry, whether or not the handler asked for it. Resets when a newer state
    /// folds in.
    pub attempt: u32,
    /// When the frame of the oldest folded event was read; for events of a cursor, when the cursor started; for a call
    /// that the handler asked for, when it was due.
    pub received: Moment,
    /// `old` is exactly the state of the last successful delivery; only updates were folded, and nothing failed or is
    /// pending in between. If the fields a handler subscribes to are equal in `old` and `new`, the consumer may skip
    /// the call and report [`DeliveryOutcome::Filtered`]. Never set for resyncs, replays and calls that were asked for.
    pub exact_old: bool,
    /// An add or delete in which events were folded that the handler has not received: it may have received another
    /// state of the key before these, which is unknown. Updates have that state in `old`.
    pub seen_unknown: bool,
    /// Its namespace is suspect
    /// ([`ListenerOptions::limits_suspects`](crate::listener::ListenerOptions::limits_suspects)): report how long the
    /// call took with [`Consumer::took`](crate::listener::Consumer::took).
    pub is_suspect: bool,
    /// The related object whose change led to this call. If there were several, the first. None if the object itself
    /// changed, or if everything is called again that an unknown change may concern.
    pub cause: Option<Arc<RelatedCause>>,
}

/// The event of a delivery. The states are those of the store, not those the handler accepted: handlers should treat
/// add and update alike, as "the object is now like this".
#[derive(Clone, Debug)]
pub enum Notification {
    /// The object exists.
    Add(Object),
    /// The object changed.
    Update {
        /// The last state whose delivery ended, successfully or not. None if it was dropped
        /// ([`PENDING_BYTES_MAX`](options::PENDING_BYTES_MAX)), and in a call that the handler
        /// [asked for](DeliveryOutcome::RequeueAfter).
        old: Option<Object>,
        /// The current state.
        new: Object,
    },
    /// The object was deleted.
    Delete {
        /// The last known state; only its metadata above
        /// [`ListenerOptions::pending_bytes_max`](crate::listener::ListenerOptions::pending_bytes_max).
        last: Option<Object>,
        /// The key of the object.
        key: Key,
        /// The delete was not observed: `last` may be older than the final state.
        final_state_unknown: bool,
    },
    /// Every key of the source was attempted since its cursor (initial list or replay) began.
    Synced,
    /// A run of a timer is due.
    Tick(Arc<Tick>),
}

/// Identifies one delivery. A listener never reuses a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryToken {
    pub(crate) slot: u32,
    pub(crate) number: u64,
}

/// The outcome of a handler call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The handler accepted it.
    Ok,
    /// The handler accepted it, and asks to be called again for the key after this time, at least
    /// [`REQUEUE_AFTER_MIN`](options::REQUEUE_AFTER_MIN). That call has [`Reason::RequeueAfter`]; it is an update to
    /// the present state without `old`, or the same delete. The next call for the key, for whatever reason, cancels it.
    /// After [`Notification::Synced`] and [`Notification::Tick`] it is the same as `Ok`.
    RequeueAfter(Duration),
    /// The handler was not called, because no field it subscribes to changed (see [`Delivery::exact_old`]). Counts as
    /// accepted.
    Filtered,
    /// The call found a source or an index not ready, and is made again when it is. No attempt, and no failure.
    NotReady(Awaited),
    /// The handler failed; retry with back-off.
    Retryable(String),
    /// The handler failed and asks for a retry after this time, at most [`RETRY_AFTER_MAX`](options::RETRY_AFTER_MAX).
    /// Does not use up an attempt, however often.
    RetryAfter(String, Duration),
    /// The handler failed and a retry is useless: the event becomes a dead letter.
    Permanent(String),
    /// The guest trapped, or the native handler panicked. Retried like [`DeliveryOutcome::Retryable`]; the
    /// [`TRAPS_MAX`](crate::listener::TRAPS_MAX)th for one state is the last.
    Trapped(String),
    /// The call exceeded its time limit. Retried like [`DeliveryOutcome::Retryable`]; the
    /// [`TIMEOUTS_MAX`](crate::listener::TIMEOUTS_MAX)th for one state is the last.
    TimedOut(String),
}

/// The result of [`Consumer::next`](crate::listener::Consumer::next).
#[derive(Debug)]
pub enum NextDelivery {
    /// Call the handler with this delivery.
    Deliver(Delivery),
    /// Nothing yet: call again at this time, or when woken.
    WaitUntil(Moment),
    /// Nothing: call again when woken.
    Idle,
    /// Closed and drained: the end of deliveries.
    Closed,
}

/// The result of [`Consumer::next_batch`](crate::listener::Consumer::next_batch).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextBatch {
    /// This many deliveries were appended, at least one.
    Delivered(usize),
    /// Nothing yet: call again at this time, or when woken.
    WaitUntil(Moment),
    /// Nothing: call again when woken.
    Idle,
    /// Closed and drained: the end of deliveries.
    Closed,
}

impl Notification {
    /// The key of the object; none for [`Notification::Synced`] and [`Notification::Tick`].
    #[must_use]
    pub fn key(&self) -> Option<KeyRef<'_>> {
        match self {
            Notification::Add(object) | Notification::Update { new: object, .. } => Some(object.key()),
            Notification::Delete { key, .. } => Some(key.as_ref()),
            Notification::Synced | Notification::Tick(_) => None,
        }
    }

    /// The name of the event in metrics: `add`, `update`, `delete`, `sync`, `timer`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Notification::Add(_) => "add",
            Notification::Update { .. } => "update",
            Notification::Delete { .. } => "delete",
            Notification::Synced => "sync",
            Notification::Tick(_) => "timer",
        }
    }
}

impl Delivery {
    /// The key of the object; none for [`Notification::Synced`] and [`Notification::Tick`].
    #[must_use]
    pub fn key(&self) -> Option<KeyRef<'_>> {
        self.notification.key()
    }
}

impl DeliveryOutcome {
    /// The name of the result in metrics: `ok`, `requeued`, `filtered`, `not-ready`, `retryable`, `permanent`,
    /// `trap`, `timeout`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            DeliveryOutcome::Ok => "ok",
            DeliveryOutcome::RequeueAfter(_) => "requeued",
            DeliveryOutcome::Filtered => "filtered",
            DeliveryOutcome::NotReady(_) => "not-ready",
            DeliveryOutcome::Retryable(_) | DeliveryOutcome::RetryAfter(..) => "retryable",
            DeliveryOutcome::Permanent(_) => "permanent",
            DeliveryOutcome::Trapped(_) => "trap",
            DeliveryOutcome::TimedOut(_) => "timeout",
        }
    }

    /// Whether the event needs no retry.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(
            self,
            DeliveryOutcome::Ok | DeliveryOutcome::RequeueAfter(_) | DeliveryOutcome::Filtered
        )
    }

    /// Whether the call failed. One that was made too early has not.
    #[must_use]
    pub const fn is_failure(&self) -> bool {
        !self.is_ok() && !matches!(self, DeliveryOutcome::NotReady(_))
    }
}
