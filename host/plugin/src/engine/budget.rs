//! The CPU budget of a call (`limits.cpu`).
//!
//! At each tick a running guest is interrupted: the tick is charged to it, and the thread is yielded to other tasks. A
//! guest that runs long continues when the scheduler permits it ([`crate::engine::scheduler`]). Only time in which the
//! guest ran counts, whether in its own code or in a host function that returns at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::{StoreContextMut, UpdateDeadline};

use crate::engine::scheduler::{CpuScheduler, OverrunHistory, PermitSlot};
use crate::engine::ticker::{TICK, TickClock};
use crate::instance::guest::GuestState;

/// Most ticks charged for one slice between two interrupts: 5, which is 10 ms. A longer slice is caused by the machine
/// (the thread did not run) or by waiting in the host, not by the guest.
const SLICE_TICKS_MAX: u64 = 5;

/// The CPU budget of one instance's calls, one call at a time.
pub(crate) struct Budget {
    clock: Arc<TickClock>,
    /// When the current slice began, in ticks. Shared with the future that ends a yield.
    slice_began: Arc<AtomicU64>,
    used: u64,
    max: u64,
    /// When the wait in the host began, in ticks.
    waiting_since: u64,
    /// A wait has ended, and nothing was charged since.
    just_waited: bool,
    scheduler: Arc<CpuScheduler>,
    overruns: Arc<OverrunHistory>,
    permit: PermitSlot,
}

/// The guest exceeded `limits.cpu`. Raised as a trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it ran for more than {limit:?}, the limit for one call (limits.cpu)")]
pub(crate) struct CpuExceeded {
    limit: Duration,
}

impl Budget {
    pub(crate) fn new(
        clock: Arc<TickClock>,
        cpu: Duration,
        scheduler: Arc<CpuScheduler>,
        overruns: Arc<OverrunHistory>,
    ) -> Budget {
        Budget {
            clock,
            slice_began: Arc::new(AtomicU64::new(0)),
            used: 0,
            max: ticks(cpu),
            waiting_since: 0,
            just_waited: false,
            scheduler,
            overruns,
            permit: PermitSlot::default(),
        }
    }

    /// A new call begins.
    pub(crate) fn begin(&mut self) {
        self.used = 0;
        self.just_waited = false;
        self.slice_began.store(self.clock.now(), Ordering::Relaxed);
    }

    /// The guest starts to wait in the host: the time it ran so far is charged.
    pub(crate) fn begin_wait(&mut self) {
        self.waiting_since = self.clock.now();
        self.used += self.slice().min(SLICE_TICKS_MAX);
    }

    /// The guest continues. The wait is not charged.
    pub(crate) fn end_wait(&mut self) {
        let now = self.clock.now();
        self.slice_began.store(now, Ordering::Relaxed);
        // The ticks of the wait interrupt the guest as soon as it runs, and that interrupt must not be charged.
        self.just_waited = now > self.waiting_since;
    }

    fn slice(&self) -> u64 {
        self.clock
            .now()
            .saturating_sub(self.slice_began.load(Ordering::Relaxed))
    }

    /// The call has ended.
    pub(crate) fn end(&self) {
        // A call that ended within its first slice holds no permit.
        if self.used > 0 {
            self.permit.release();
        }
    }

    /// The slot of the guest's run permit.
    pub(crate) fn permit(&self) -> &PermitSlot {
        &self.permit
    }

    /// Charges the slice that ends now.
    fn charge(&mut self) -> Result<(), CpuExceeded> {
        let least = u64::from(!std::mem::take(&mut self.just_waited));
        self.used += self.slice().clamp(least, SLICE_TICKS_MAX);
        if self.used > self.max {
            return Err(CpuExceeded {
                limit: TICK * u32::try_from(self.max).unwrap_or(u32::MAX),
            });
        }
        Ok(())
    }

    /// Yields to other tasks, then waits for a permit if one is needed and starts the next slice.
    ///
    /// tokio's yield and not wasmtime's: the latter wakes itself, and tokio polls its timers only every 61st time a
    /// task does that.
    fn pause(&self) -> impl Future<Output = ()> + Send + use<> {
        let (clock, slice_began) = (Arc::clone(&self.clock), Arc::clone(&self.slice_began));
        let (scheduler, permit) = (Arc::clone(&self.scheduler), self.permit.clone());
        let (used, overran) = (self.used, self.overruns.has_overrun());
        permit.release();
        async move {
            tokio::task::yield_now().await;
            permit.set(scheduler.acquire(used, overran).await);
            slice_began.store(clock.now(), Ordering::Relaxed);
        }
    }
}

/// wasmtime's callback at each tick in which the guest ran.
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
