//! How long a guest may run in one call.
//!
//! At each tick a running guest stops: the tick is charged to it, and the thread goes to whoever else waits; if it
//! takes long, it goes on when it is its turn ([`crate::lanes`]). Only time in which it ran counts, whether in its own
//! code or in a host function that answers at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::{StoreContextMut, UpdateDeadline};

use crate::guest::GuestState;
use crate::lanes::{Conduct, Lanes, Turn};
use crate::ticker::{TICK, TickClock};

/// Ticks charged at most for one stretch between two stops: 5, which is 10 ms. What goes beyond is the machine's fault
/// (the thread did not run) or a wait in the host, not the guest's.
const STRETCH_TICKS_MAX: u64 = 5;

/// The budget of one call at a time.
pub(crate) struct Budget {
    clock: Arc<TickClock>,
    /// When the running stretch began, in ticks. Shared with the future that ends a yield.
    stretch_began: Arc<AtomicU64>,
    used: u64,
    max: u64,
    /// When a wait in the host began.
    waiting_since: u64,
    /// A wait ended after which nothing was charged yet.
    has_waited: bool,
    lanes: Arc<Lanes>,
    conduct: Arc<Conduct>,
    turn: Turn,
}

/// The guest ran for longer than its call may. Raised as a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it ran for more than {limit:?}, the limit for one call (limits.cpu)")]
pub(crate) struct CpuExceeded {
    limit: Duration,
}

impl Budget {
    pub(crate) fn new(clock: Arc<TickClock>, cpu: Duration, lanes: Arc<Lanes>, conduct: Arc<Conduct>) -> Budget {
        Budget {
            clock,
            stretch_began: Arc::new(AtomicU64::new(0)),
            used: 0,
            max: ticks(cpu),
            waiting_since: 0,
            has_waited: false,
            lanes,
            conduct,
            turn: Turn::default(),
        }
    }

    /// A new call begins.
    pub(crate) fn begin(&mut self) {
        self.used = 0;
        self.has_waited = false;
        self.stretch_began.store(self.clock.now(), Ordering::Relaxed);
    }

    /// The guest waits in the host from now on, for something that takes its time: what it has run so far is charged.
    pub(crate) fn begin_wait(&mut self) {
        self.waiting_since = self.clock.now();
        self.used += self.stretch().min(STRETCH_TICKS_MAX);
    }

    /// The guest goes on. The wait is not charged.
    pub(crate) fn end_wait(&mut self) {
        let now = self.clock.now();
        self.stretch_began.store(now, Ordering::Relaxed);
        // The ticks of the wait stop the guest as soon as it runs. One that did not wait has earned that.
        self.has_waited = now > self.waiting_since;
    }

    fn stretch(&self) -> u64 {
        self.clock
            .now()
            .saturating_sub(self.stretch_began.load(Ordering::Relaxed))
    }

    /// The call has ended.
    pub(crate) fn end(&self) {
        // One that ended within its first stretch never asked for a turn.
        if self.used > 0 {
            self.turn.give_back();
        }
    }

    /// Where the guest's leave to run is.
    pub(crate) fn turn(&self) -> &Turn {
        &self.turn
    }

    /// Charges the stretch that ends now.
    fn charge(&mut self) -> Result<(), CpuExceeded> {
        let least = u64::from(!std::mem::take(&mut self.has_waited));
        self.used += self.stretch().clamp(least, STRETCH_TICKS_MAX);
        if self.used > self.max {
            return Err(CpuExceeded {
                limit: TICK * u32::try_from(self.max).unwrap_or(u32::MAX),
            });
        }
        Ok(())
    }

    /// Lets others run, then starts the next stretch, when it is its turn.
    ///
    /// tokio's yield and not wasmtime's: the latter wakes itself, and tokio looks at its timers only every 61st time
    /// a task does that.
    fn pause(&self) -> impl Future<Output = ()> + Send + use<> {
        let (clock, stretch_began) = (Arc::clone(&self.clock), Arc::clone(&self.stretch_began));
        let (lanes, turn) = (Arc::clone(&self.lanes), self.turn.clone());
        let (used, overran) = (self.used, self.conduct.is_bad());
        turn.give_back();
        async move {
            tokio::task::yield_now().await;
            turn.take(lanes.turn(used, overran).await);
            stretch_began.store(clock.now(), Ordering::Relaxed);
        }
    }
}

/// What wasmtime calls at each tick in which the guest ran.
pub(crate) fn at_tick(mut store: StoreContextMut<'_, GuestState>) -> wasmtime::Result<UpdateDeadline> {
    let budget = &mut store.data_mut().budget;
    budget.charge()?;
    Ok(UpdateDeadline::YieldCustom(1, Box::pin(budget.pause())))
}

/// Whole ticks in `time`, at least one.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / TICK.as_nanos())
        .unwrap_or(u64::MAX)
        .max(1)
}
