//! The CPU budget of a call (`limits.cpu`).
//!
//! At each tick a running guest is interrupted: the tick is charged to it, and the thread is yielded to other tasks. A
//! guest that runs long continues when the scheduler permits it ([`crate::engine::scheduler`]). Only time in which the
//! guest ran counts, whether in its own code or in a host function that returns at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use wasmtime::UpdateDeadline;

use crate::engine::scheduler::{CpuScheduler, OverrunHistory, PermitSlot};
use crate::engine::ticker::{TICK, TickClock};

/// Most ticks charged for one slice between two interrupts: 5, which is 10 ms. A longer slice is caused by the machine
/// (the thread did not run) or by waiting in the host, not by the guest.
const SLICE_TICKS_MAX: u64 = 5;

/// The time in which a guest has run since it was last charged. Shared with those who see it wait.
#[derive(Clone)]
pub(crate) struct Slice {
    clock: Arc<TickClock>,
    /// When it began, in ticks.
    began: Arc<AtomicU64>,
    /// The guest has waited in the host since.
    has_waited: Arc<AtomicBool>,
}

/// The CPU budget of one instance's calls, one call at a time.
pub(crate) struct Budget {
    slice: Slice,
    used: u64,
    max: u64,
    /// It does not yield: in a run of a scenario, what happens in a call must not depend on how long it takes.
    is_undivided: bool,
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
            slice: Slice {
                clock,
                began: Arc::default(),
                has_waited: Arc::default(),
            },
            used: 0,
            max: ticks(cpu),
            is_undivided: false,
            scheduler,
            overruns,
            permit: PermitSlot::default(),
        }
    }

    /// Each call runs to its end before anything else does, or until its limit.
    pub(crate) fn undivided(self, is_undivided: bool) -> Budget {
        Budget { is_undivided, ..self }
    }

    /// A new call begins.
    pub(crate) fn begin(&mut self) {
        self.used = 0;
        self.slice.begin();
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

    /// The slice that runs.
    pub(crate) fn slice(&self) -> &Slice {
        &self.slice
    }

    /// Charges the slice that ends now.
    fn charge(&mut self) -> Result<(), CpuExceeded> {
        self.used += self.slice.end();
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
        let slice = self.slice.clone();
        let (scheduler, permit) = (Arc::clone(&self.scheduler), self.permit.clone());
        let (used, plugin) = (self.used, Arc::clone(&self.overruns));
        permit.release();
        async move {
            tokio::task::yield_now().await;
            permit.set(scheduler.acquire(used, &plugin).await);
            slice.begin();
        }
    }
}

impl Slice {
    /// The guest runs from now on.
    fn begin(&self) {
        self.began.store(self.clock.now(), Ordering::Relaxed);
        self.has_waited.store(false, Ordering::Relaxed);
    }

    /// The ticks to charge for the slice, which ends now.
    fn end(&self) -> u64 {
        let ticks = self.clock.now().saturating_sub(self.began.load(Ordering::Relaxed));
        // The ticks of a wait interrupt the guest as soon as it runs, and that interrupt is not charged.
        let least = u64::from(!self.has_waited.load(Ordering::Relaxed));
        ticks.clamp(least, SLICE_TICKS_MAX)
    }

    /// The present, to begin a wait.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// The guest waited in the host since `began`, and continues. The wait is not charged.
    pub(crate) fn waited_since(&self, began: u64) {
        let ticks = self.clock.now().saturating_sub(began);
        if ticks > 0 {
            self.began.fetch_add(ticks, Ordering::Relaxed);
            self.has_waited.store(true, Ordering::Relaxed);
        }
    }
}

/// wasmtime's callback at each tick in which the guest ran.
pub(crate) fn at_tick(budget: &mut Budget) -> wasmtime::Result<UpdateDeadline> {
    budget.charge()?;
    if budget.is_undivided {
        budget.slice.begin();
        return Ok(UpdateDeadline::Continue(1));
    }
    Ok(UpdateDeadline::YieldCustom(1, Box::pin(budget.pause())))
}

/// Whole ticks in `time`, at least one.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos() / TICK.as_nanos())
        .unwrap_or(u64::MAX)
        .max(1)
}
