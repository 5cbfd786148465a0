//! How long what lasts.

use std::time::Duration;

/// For how long only the preferred member acquires a Lease that was released: 2 s. A watch delivers the release within
/// milliseconds, so this is enough for a member that runs, and short if it does not. Then any ready member acquires it.
pub const PREFERRED_FIRST: Duration = Duration::from_secs(2);

/// How much later each further candidate tries: 250 ms. Reading and writing a Lease takes some 10 ms, so the second
/// candidate sees that the first has succeeded, and does not try at all.
pub const TRY_SPACING: Duration = Duration::from_millis(250);

/// The times of a Lease. All count from when its last successful renewal was *sent*.
///
/// ```text
/// sent ──retry──▶ next renewal ……… renew_deadline ……… request_end ……… duration ──▶ others may acquire it
///      effects may begin, ─────────────────────▶│                │
///      and have ended by ───────────────────────────────────────▶│
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    /// How long other candidates wait, from when they observed the last renewal. Whole seconds: a Lease has no others.
    pub duration: Duration,
    /// How long effects may begin. A renewal that is answered later reopens nothing.
    pub renew_deadline: Duration,
    /// When each request of an effect has ended: the caller cancels it then.
    pub request_end: Duration,
    /// From sending one renewal to sending the next.
    pub retry: Duration,
    /// The pause of a candidate or a member after the API server has refused it access. Rights change seldom, and each
    /// refusal is a line of the audit log. A holder keeps trying until its deadline.
    pub refused: Duration,
}

impl LeaseTimes {
    /// client-go's duration, deadline and pause. A request that begins at the last moment has 4 s, and what is left of
    /// the duration, 1 s, covers clocks that do not run equally fast and a cancellation that is late.
    pub const DEFAULT: LeaseTimes = LeaseTimes {
        duration: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        request_end: Duration::from_secs(14),
        retry: Duration::from_secs(2),
        refused: Duration::from_secs(15),
    };

    /// A successor acts within 4.5 s. Three renewals are sent before the deadline, but two that hang use it up: this is
    /// for an API server that answers within a second. The last request has 0.7 s. The rest, 0.3 s of 4 s, is as large
    /// a share as 1 s of 15 s.
    pub const FAST: LeaseTimes = LeaseTimes {
        duration: Duration::from_secs(4),
        renew_deadline: Duration::from_secs(3),
        request_end: Duration::from_millis(3_700),
        retry: Duration::from_millis(800),
        refused: Duration::from_secs(15),
    };

    /// How long one request about a Lease may take: 4 s, with [`FAST`](Self::FAST) 1.1 s. Then it has failed, and the
    /// next one is sent. Two requests that are not answered fit between a renewal and the deadline.
    #[must_use]
    pub fn request_max(&self) -> Duration {
        self.renew_deadline.saturating_sub(self.retry) / 2
    }

    /// How often a member renews its own Lease: a third of the duration.
    #[must_use]
    pub fn member_retry(&self) -> Duration {
        self.duration / 3
    }
}
