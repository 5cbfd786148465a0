//! What a listener hands to its consumer, and what the consumer answers.

use std::time::Duration;

use informant_object::{Key, KeyRef, Object, SourceId};

use crate::{Moment, Reason};

/// One call to make. Answered with [`ListenerHandle::done`](super::ListenerHandle::done), or handed back unmade with
/// [`ListenerHandle::give_back`](super::ListenerHandle::give_back); until then no other delivery of its key is handed
/// out.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Names this delivery in the answer.
    pub token: Token,
    /// The source the object came from.
    pub source: SourceId,
    /// What to tell.
    pub what: What,
    /// Why; of several events folded into one, the newest one's reason.
    pub reason: Reason,
    /// 0 at the first try, then one more for each retry. Starts again when a newer state folds in.
    pub attempt: u32,
    /// When the frame was read of the oldest event folded into this one; for what a cursor shows, when the cursor
    /// began.
    pub received: Moment,
    /// `old` is exactly the state whose delivery last ended well, and nothing was folded, failed or waits in between: a
    /// handler that only cares for some fields may be left alone if those are equal in `old` and `new`, and the answer
    /// is [`Outcome::Filtered`]. Never set for resync, replay and requeue.
    pub fresh: bool,
}

/// What a delivery tells. The states are those of the store, not those the handler accepted: handlers treat add and
/// update alike, as "it is now like this".
#[derive(Clone, Debug)]
pub enum What {
    /// It is there.
    Add(Object),
    /// It changed.
    Update {
        /// The last state whose delivery ended, well or not. None if it had to be dropped
        /// ([`ListenerOptions::pending_bytes_max`](super::ListenerOptions::pending_bytes_max)).
        old: Option<Object>,
        /// What it is now.
        new: Object,
    },
    /// It is gone.
    Delete {
        /// The last known state; only its metadata above
        /// [`ListenerOptions::pending_bytes_max`](super::ListenerOptions::pending_bytes_max).
        last: Option<Object>,
        /// Which object.
        key: Key,
        /// It vanished unseen: `last` may be older than the state it was deleted in.
        final_state_unknown: bool,
    },
    /// Every key of the source was attempted since its cursor (initial list or replay) began.
    Synced,
}

/// Names one delivery. Never used twice by one listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    pub(super) slot: u32,
    pub(super) number: u64,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The handler accepted it.
    Ok,
    /// The handler was not called, because nothing it cares for changed (see [`Delivery::fresh`]). Counts as accepted.
    Filtered,
    /// The handler failed; try again with back-off.
    Retryable(String),
    /// The handler failed and names the time to wait, at most [`RETRY_AFTER_MAX`](super::RETRY_AFTER_MAX).
    RetryAfter(String, Duration),
    /// The handler failed and trying again is useless: a dead letter.
    Permanent(String),
    /// The guest trapped, or the native handler panicked. Retried like [`Outcome::Retryable`].
    Trapped(String),
    /// The call overran its time. Retried like [`Outcome::Retryable`].
    TimedOut(String),
}

/// What [`ListenerHandle::next`](super::ListenerHandle::next) answers.
#[derive(Debug)]
pub enum Next {
    /// Make this call.
    Deliver(Delivery),
    /// Nothing yet: ask again at this moment, or when woken.
    WaitUntil(Moment),
    /// Nothing: ask again when woken.
    Idle,
    /// Closed and drained: nothing comes any more.
    Closed,
}

/// What [`ListenerHandle::next_batch`](super::ListenerHandle::next_batch) answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// That many deliveries were appended, at least one.
    Delivered(usize),
    /// Nothing yet: ask again at this moment, or when woken.
    WaitUntil(Moment),
    /// Nothing: ask again when woken.
    Idle,
    /// Closed and drained: nothing comes any more.
    Closed,
}

impl What {
    /// Which object it is about; none for [`What::Synced`].
    #[must_use]
    pub fn key(&self) -> Option<KeyRef<'_>> {
        match self {
            What::Add(object) | What::Update { new: object, .. } => Some(object.key()),
            What::Delete { key, .. } => Some(key.as_ref()),
            What::Synced => None,
        }
    }

    /// The state it shows; none for a delete.
    pub(super) fn object(&self) -> Option<&Object> {
        match self {
            What::Add(object) | What::Update { new: object, .. } => Some(object),
            What::Delete { .. } | What::Synced => None,
        }
    }

    /// The uid of the object, as far as it is known.
    pub(super) fn uid(&self) -> Option<&str> {
        match self {
            What::Add(object) | What::Update { new: object, .. } => Some(object.uid()),
            What::Delete { last, .. } => last.as_ref().map(Object::uid),
            What::Synced => None,
        }
    }

    /// The event's name as metrics write it: `add`, `update`, `delete`, `sync`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            What::Add(_) => "add",
            What::Update { .. } => "update",
            What::Delete { .. } => "delete",
            What::Synced => "sync",
        }
    }

    /// Bytes of states that the store holds no more, so that only those who wait for this delivery keep them.
    pub(super) fn kept_bytes(&self) -> usize {
        match self {
            What::Add(_) | What::Synced => 0,
            What::Update { old, new } => {
                let old = old.as_ref().filter(|old| !old.ptr_eq(new));
                old.map_or(0, Object::size_bytes)
            }
            What::Delete { last, .. } => last.as_ref().map_or(0, Object::size_bytes),
        }
    }
}

impl Delivery {
    /// Which object it is about; none for [`What::Synced`].
    #[must_use]
    pub fn key(&self) -> Option<KeyRef<'_>> {
        self.what.key()
    }
}

impl Outcome {
    /// The result's name as metrics write it: `ok`, `filtered`, `retryable`, `permanent`, `trap`, `timeout`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Filtered => "filtered",
            Outcome::Retryable(_) | Outcome::RetryAfter(..) => "retryable",
            Outcome::Permanent(_) => "permanent",
            Outcome::Trapped(_) => "trap",
            Outcome::TimedOut(_) => "timeout",
        }
    }

    /// Whether the event needs no further try.
    #[must_use]
    pub const fn is_ok(&self) -> bool {
        matches!(self, Outcome::Ok | Outcome::Filtered)
    }
}
