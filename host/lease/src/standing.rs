//! What an election says about itself, for the daemon, the status and the log.

use std::fmt;
use std::sync::Arc;

use informant_cache::Moment;

/// What this process is for one Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Standby {
        /// The identity in the Lease, as it was last observed.
        holder: Option<Arc<str>>,
        since: Moment,
        /// Why it stopped acting, or has not begun.
        why: StandbyReason,
        /// Why it does not try to acquire the Lease now.
        obstacle: Option<Obstacle>,
    },
    /// It reads or writes the Lease to acquire it.
    Acquiring { since: Moment },
    /// Effects may begin while the gate is open.
    Acting { epoch: u32, since: Moment },
    /// It still renews, and the gate is still open: the caller starts nothing new, ends what runs, and then passes
    /// [`ElectionInput::HandedOver`](crate::ElectionInput::HandedOver).
    HandingOver {
        epoch: u32,
        since: Moment,
        why: ReleaseReason,
    },
    /// The gate is closed, and the Lease is being released.
    Releasing { epoch: u32 },
}

/// Why a holder gives the Lease up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseReason {
    /// The process stops: it never acquires the Lease again.
    Stop,
    /// Another member should act. This one stays a candidate.
    Preferred,
    /// The group divides its work otherwise. This member stays a candidate.
    Layout,
}

/// Why a process is standby.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandbyReason {
    /// It has not acted since it started.
    Started,
    /// No renewal succeeded until the deadline; with what the last one failed with.
    DeadlinePassed(Option<Arc<str>>),
    /// Another identity is in the Lease.
    TakenBy(Arc<str>),
    /// The Lease no longer has a holder, and this process has not released it.
    Emptied,
    /// The Lease was deleted.
    Deleted,
    /// The gate was closed: somebody else found that this process must not act.
    GateClosed,
    /// It has released the Lease, to this member if one was there.
    Released(Option<Arc<str>>),
    /// What ran did not end in time, so the Lease was not released: it expires.
    HandOverLate,
}

/// Why a standby does not try to acquire the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// The process stops.
    Stopping,
    /// It is not ready: caches are not synced.
    NotReady,
    /// Its own member Lease is not written, or the others have not been read.
    NotAMember,
    /// The Lease has not been read yet.
    Unread,
    /// Another identity is in the Lease.
    Held,
    /// The Lease was created or emptied without a release: somebody may still act, until it expires.
    MayBeHeld,
    /// It was released to another member, which has [`PREFERRED_FIRST`](crate::PREFERRED_FIRST).
    PreferredFirst(Arc<str>),
    /// The Lease belongs to another division of the work than the one in force.
    OtherLayout,
    /// The last request failed.
    Failing(Arc<str>),
}

impl fmt::Display for StandbyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StandbyReason::Started => f.write_str("it has not acted since it started"),
            StandbyReason::DeadlinePassed(None) => f.write_str("no renewal of the Lease succeeded in time"),
            StandbyReason::DeadlinePassed(Some(failure)) => {
                write!(f, "no renewal of the Lease succeeded in time; the last one: {failure}")
            }
            StandbyReason::TakenBy(other) => write!(f, "{other} is in the Lease"),
            StandbyReason::Emptied => f.write_str("the holder was removed from the Lease"),
            StandbyReason::Deleted => f.write_str("the Lease was deleted"),
            StandbyReason::GateClosed => f.write_str("shared state belongs to another process"),
            StandbyReason::Released(None) => f.write_str("it has released the Lease"),
            StandbyReason::Released(Some(to)) => write!(f, "it has released the Lease to {to}"),
            StandbyReason::HandOverLate => f.write_str("calls did not end in time, so the Lease expires"),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Stopping => f.write_str("it is stopping"),
            Obstacle::NotReady => f.write_str("it is not ready"),
            Obstacle::NotAMember => f.write_str("its member Lease is not written yet"),
            Obstacle::Unread => f.write_str("the Lease has not been read yet"),
            Obstacle::Held => f.write_str("another process holds the Lease"),
            Obstacle::MayBeHeld => f.write_str("another process may still act until the Lease expires"),
            Obstacle::PreferredFirst(other) => write!(f, "the Lease was released to {other}"),
            Obstacle::OtherLayout => f.write_str("the work is being divided otherwise"),
            Obstacle::Failing(failure) => write!(f, "the last request about the Lease failed: {failure}"),
        }
    }
}
