//! [`Gate`]: may an effect begin now?

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use crate::times::LeaseTimes;

/// Closed.
const CLOSED: u64 = 0;

/// Open in every moment.
const ALWAYS: u64 = u64::MAX;

/// What every effect asks first. Cheap to clone; clones are one gate.
///
/// # What it promises
/// If each effect begins only while [`permit`](Self::permit) returns one, and each of its requests is cancelled at
/// [`Permit::request_end`], then no request of a former holder arrives at the API server after the first one of its
/// successor, with three exceptions that no lease can exclude:
/// - the process was stopped, or its machine was, between asking and sending, for longer than the Lease lasts;
/// - the process was stopped when it should have cancelled a request whose bytes had left, and something on the way
///   held these back;
/// - the clock of a machine does not count while the machine sleeps, as that of a paused virtual machine.
///
/// Only an [`Election`](crate::Election) opens it. A gate that was closed stays closed for that epoch: the Lease has to
/// be acquired again.
#[derive(Debug, Clone)]
pub struct Gate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    renew_deadline: Duration,
    request_end: Duration,
    /// When the last successful renewal was sent, in nanoseconds plus 1; [`CLOSED`] or [`ALWAYS`].
    sent: AtomicU64,
    epoch: AtomicU32,
}

/// An effect may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permit {
    /// What shared state is stamped with: how often the Lease was acquired. Zero without a Lease.
    pub epoch: u32,
    /// When the effect's requests must have ended.
    pub request_end: Moment,
}

impl Permit {
    /// How long a request that starts now may take.
    #[must_use]
    pub fn remaining(&self, now: Moment) -> Duration {
        self.request_end - now
    }
}

impl Gate {
    /// A gate that is closed.
    pub(crate) fn closed(times: &LeaseTimes) -> Gate {
        Gate::with(times, CLOSED)
    }

    /// The gate of a process that shares nothing with another one.
    #[must_use]
    pub fn always_open() -> Gate {
        Gate::with(&LeaseTimes::DEFAULT, ALWAYS)
    }

    fn with(times: &LeaseTimes, sent: u64) -> Gate {
        Gate(Arc::new(Inner {
            renew_deadline: times.renew_deadline,
            request_end: times.request_end,
            sent: AtomicU64::new(sent),
            epoch: AtomicU32::new(0),
        }))
    }

    /// Whether an effect may begin at `now`, which the caller has just read from the clock that counts while the
    /// machine sleeps.
    #[must_use]
    pub fn permit(&self, now: Moment) -> Option<Permit> {
        let (sent, epoch) = self.read();
        match sent {
            CLOSED => None,
            ALWAYS => Some(Permit {
                epoch,
                request_end: Moment::NEVER,
            }),
            sent => {
                let sent = Moment::from_nanos(sent - 1);
                let is_open = now < sent + self.0.renew_deadline || seeded_bug(SeededBug::StaleHolderWrites);
                is_open.then(|| Permit {
                    epoch,
                    request_end: sent + self.0.request_end,
                })
            }
        }
    }

    /// How long a request that starts now may take; `None` if it must not start.
    #[must_use]
    pub fn remaining(&self, now: Moment) -> Option<Duration> {
        self.permit(now).map(|permit| permit.remaining(now))
    }

    /// Until when effects may begin if no renewal succeeds; `None` if it is closed.
    #[must_use]
    pub fn open_until(&self) -> Option<Moment> {
        match self.read().0 {
            CLOSED => None,
            ALWAYS => Some(Moment::NEVER),
            sent => Some(Moment::from_nanos(sent - 1) + self.0.renew_deadline),
        }
    }

    /// Closes it for this epoch. The election notices it at its next step and no longer renews.
    pub fn close(&self) {
        self.0.sent.store(CLOSED, Ordering::SeqCst);
    }

    /// Opens it: the Lease was acquired by a request that was sent at `sent`.
    pub(crate) fn open(&self, epoch: u32, sent: Moment) {
        // A reader that sees the new epoch does not see the old moment.
        self.close();
        self.0.epoch.store(epoch, Ordering::SeqCst);
        self.0.sent.store(stored(sent), Ordering::SeqCst);
    }

    /// Keeps it open: a renewal that was sent at `sent` has succeeded. False if it was closed meanwhile.
    pub(crate) fn renew(&self, before: Moment, sent: Moment) -> bool {
        let swapped = self
            .0
            .sent
            .compare_exchange(stored(before), stored(sent), Ordering::SeqCst, Ordering::SeqCst);
        swapped.is_ok()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.sent.load(Ordering::SeqCst) == CLOSED
    }

    /// A moment and the epoch that it belongs to.
    fn read(&self) -> (u64, u32) {
        loop {
            let epoch = self.0.epoch.load(Ordering::SeqCst);
            let sent = self.0.sent.load(Ordering::SeqCst);
            if self.0.epoch.load(Ordering::SeqCst) == epoch {
                return (sent, epoch);
            }
        }
    }
}

fn stored(sent: Moment) -> u64 {
    sent.as_nanos().saturating_add(1).min(ALWAYS - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: LeaseTimes = LeaseTimes::DEFAULT;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn requests_end_before_the_lease_does() {
        for times in [LeaseTimes::DEFAULT, LeaseTimes::FAST] {
            assert!(times.renew_deadline < times.request_end && times.request_end < times.duration);
            assert!(times.retry + times.request_max() * 2 <= times.renew_deadline);
            assert_eq!(times.duration.subsec_nanos(), 0, "a Lease has whole seconds");
        }
    }

    #[test]
    fn gate_of_one_process_is_always_open() {
        let gate = Gate::always_open();
        let day = Duration::from_secs(86_400);
        assert!(gate.remaining(at(1_000_000)).is_some_and(|remaining| remaining > day));
        assert_eq!(gate.open_until(), Some(Moment::NEVER));
    }

    #[test]
    fn closed_gate_is_not_renewed() {
        let gate = Gate::closed(&TIMES);
        assert_eq!(gate.permit(at(0)), None);
        gate.open(3, at(0));
        assert!(gate.renew(at(0), at(2)));
        assert_eq!(gate.open_until(), Some(at(12)));
        gate.clone().close();
        assert!(!gate.renew(at(2), at(4)));
        assert_eq!((gate.permit(at(3)), gate.open_until()), (None, None));
    }

    proptest! {
        /// Whenever an effect begins, its requests end after that and before the Lease expires.
        #[test]
        fn permits_lie_between_now_and_the_end(sent in 0..1_000_u64, later in 0..30_u64) {
            let gate = Gate::closed(&TIMES);
            gate.open(1, at(sent));
            let now = at(sent + later);
            prop_assert_eq!(gate.permit(now).is_some(), later < 10);
            if let Some(remaining) = gate.remaining(now) {
                prop_assert!(remaining >= Duration::from_secs(4) && now + remaining < at(sent) + TIMES.duration);
            }
        }
    }

    #[test]
    fn epoch_and_moment_of_a_permit_belong_together() {
        let gate = Gate::closed(&TIMES);
        let reader = gate.clone();
        let reads = std::thread::spawn(move || {
            for _ in 0..200_000 {
                if let Some(permit) = reader.permit(at(0)) {
                    assert_eq!(permit.request_end, at(u64::from(permit.epoch)) + TIMES.request_end);
                }
            }
        });
        while !reads.is_finished() {
            for epoch in 1..100 {
                gate.open(epoch, at(u64::from(epoch)));
            }
        }
        reads.join().expect("each permit is whole");
    }
}
