//! The CPU time of guests: the clock of the thread, read around each poll of some of a plugin's calls.
//!
//! A call that waits is polled several times, maybe on several threads; what runs between is not its own. Reading the
//! clock is a system call, so most calls of a busy plugin are not measured: the next one that is stands for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::engine::ticker::TickClock;

/// Calls that are not measured one after the other: 63, so that at least one of 64 is.
const UNMEASURED_MAX: u32 = 63;

/// From one measured call to the next at least: 16 [ticks](super::ticker::TICK), 32 ms, unless many calls are between
/// them. So each of a plugin's rare calls is measured, and at a thousand a second the clock costs no more than at a
/// hundred thousand.
const TICKS_BETWEEN: u64 = 16;

/// No call was measured yet.
const NEVER: u64 = u64::MAX;

/// Measures the calls of one plugin, on all its instances. Cheap to clone.
#[derive(Clone)]
pub(crate) struct CpuMeter(Arc<Parts>);

struct Parts {
    clock: Arc<TickClock>,
    /// When the last measured call began, in ticks.
    measured_at: AtomicU64,
    /// Calls since.
    unmeasured: AtomicU32,
    nanos: Arc<CpuNanos>,
}

/// The CPU time that a plugin took, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct CpuNanos(AtomicU64);

/// A call that is measured.
pub(crate) struct MeasuredCall<'a> {
    nanos: &'a CpuNanos,
    /// How many calls it stands for.
    weight: u64,
    /// What it took so far.
    used: Duration,
}

impl CpuMeter {
    /// Adds to `nanos`.
    pub(crate) fn new(clock: &Arc<TickClock>, nanos: &Arc<CpuNanos>) -> CpuMeter {
        CpuMeter(Arc::new(Parts {
            clock: Arc::clone(clock),
            measured_at: AtomicU64::new(NEVER),
            unmeasured: AtomicU32::new(0),
            nanos: Arc::clone(nanos),
        }))
    }

    /// A call begins. None: it is not measured.
    pub(crate) fn begin(&self) -> Option<MeasuredCall<'_>> {
        let Parts {
            clock,
            measured_at,
            unmeasured,
            nanos,
        } = &*self.0;
        let now = clock.now();
        let since = unmeasured.load(Ordering::Relaxed);
        let next = measured_at.load(Ordering::Relaxed).checked_add(TICKS_BETWEEN);
        if next.is_some_and(|next| now < next) && since < UNMEASURED_MAX {
            unmeasured.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        measured_at.store(now, Ordering::Relaxed);
        Some(MeasuredCall {
            nanos,
            weight: u64::from(unmeasured.swap(0, Ordering::Relaxed)) + 1,
            used: Duration::ZERO,
        })
    }
}

impl MeasuredCall<'_> {
    /// Runs a part of the call, on this thread.
    pub(crate) fn run<T>(&mut self, part: impl FnOnce() -> T) -> T {
        let began = thread_time();
        let result = part();
        self.used += thread_time().saturating_sub(began);
        result
    }
}

impl Drop for MeasuredCall<'_> {
    fn drop(&mut self) {
        let nanos = u64::try_from(self.used.as_nanos()).unwrap_or(u64::MAX);
        self.nanos
            .0
            .fetch_add(nanos.saturating_mul(self.weight), Ordering::Relaxed);
    }
}

impl CpuNanos {
    pub(crate) fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The CPU time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::engine::ticker::Ticker;

    fn meter() -> (Ticker, Arc<CpuNanos>, CpuMeter) {
        let ticker = Ticker::start(&crate::engine::engine().unwrap()).unwrap();
        let nanos = Arc::new(CpuNanos::default());
        let meter = CpuMeter::new(ticker.clock(), &nanos);
        (ticker, nanos, meter)
    }

    /// Uses the CPU until `time` has passed for this thread.
    fn spin(time: Duration) {
        let began = thread_time();
        while thread_time() - began < time {
            std::hint::black_box(0);
        }
    }

    #[test]
    fn a_measured_call_counts_what_ran_and_no_waits() {
        let (_ticker, nanos, meter) = meter();
        let mut call = meter.begin().expect("the first call is measured");
        call.run(|| spin(Duration::from_millis(5)));
        std::thread::sleep(Duration::from_millis(20));
        call.run(|| spin(Duration::from_millis(5)));
        drop(call);
        let used = nanos.get();
        assert!(
            used >= Duration::from_millis(10) && used < Duration::from_millis(20),
            "{used:?}"
        );
    }

    #[test]
    fn one_of_many_quick_calls_stands_for_the_others() {
        let (_ticker, nanos, meter) = meter();
        let (mut measured, mut used) = (0, Duration::ZERO);
        let began = Instant::now();
        for _ in 0..64_000 {
            let before = thread_time();
            let call = meter.begin();
            measured += usize::from(call.is_some());
            match call {
                Some(mut call) => call.run(|| spin(Duration::from_micros(2))),
                None => spin(Duration::from_micros(2)),
            }
            used += thread_time() - before;
        }
        let ticks = began.elapsed().as_millis() / 2;
        assert!(
            measured >= 1_000 && measured as u128 <= 1_000 + ticks + 2,
            "{measured} of 64,000 in {ticks} ticks"
        );
        // The loop itself costs something, too.
        let share = nanos.get().as_secs_f64() / used.as_secs_f64();
        assert!((0.4..1.3).contains(&share), "{share}");
    }
}
