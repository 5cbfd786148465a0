//! The epoch thread, which measures time for guests.
//!
//! Every [`TICK`] it increments the engine's epoch, which interrupts running guests (see [`crate::engine::budget`]). It
//! sleeps while no guest runs, so that an idle process is idle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use wasmtime::Engine;

use crate::engine::guest_count::GuestCount;

/// How often running guests are interrupted to let others run: 2 ms. wasmtime's epoch.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// Ticks without a running guest after which the thread sleeps: 50, which is 100 ms. Waking it costs a system call, so
/// it does not sleep in every short pause.
const IDLE_TICKS: u32 = 50;

/// Owns the thread; dropping it ends the thread.
pub(crate) struct Ticker {
    clock: Arc<TickClock>,
    thread: Option<JoinHandle<()>>,
}

/// The state shared by the thread and the guests.
pub(crate) struct TickClock {
    /// Ticks since the engine was created.
    ticks: AtomicU64,
    guests: GuestCount,
    thread: std::sync::OnceLock<Thread>,
}

/// The thread ticks while one of these exists.
pub(crate) struct Running(Arc<TickClock>);

impl Ticker {
    /// Starts the thread.
    /// Errors: the operating system's error, if no thread can be created.
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Ticker> {
        let clock = Arc::new(TickClock::new());
        let (engine, shared) = (engine.clone(), Arc::clone(&clock));
        let thread = std::thread::Builder::new()
            .name("informant-epoch".to_owned())
            .spawn(move || shared.run(&engine))?;
        clock.thread.get_or_init(|| thread.thread().clone());
        Ok(Ticker {
            clock,
            thread: Some(thread),
        })
    }

    /// A ticker without a thread, which never ticks: guests are not interrupted.
    #[cfg(feature = "simulation")]
    pub(crate) fn stopped() -> Ticker {
        Ticker {
            clock: Arc::new(TickClock::new()),
            thread: None,
        }
    }

    pub(crate) fn clock(&self) -> &Arc<TickClock> {
        &self.clock
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.clock.guests.stop();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It cannot panic: it only counts and sleeps.
            let _ = thread.join();
        }
    }
}

impl TickClock {
    fn new() -> TickClock {
        TickClock {
            ticks: AtomicU64::new(0),
            guests: GuestCount::new(),
            thread: std::sync::OnceLock::new(),
        }
    }

    /// Ticks so far. Stands still while no guest runs.
    pub(crate) fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Keeps the thread ticking until the guard is dropped.
    pub(crate) fn run_guests(self: &Arc<TickClock>) -> Running {
        self.guests.enter(|| {
            if let Some(thread) = self.thread.get() {
                thread.unpark();
            }
        });
        Running(Arc::clone(self))
    }

    fn run(&self, engine: &Engine) {
        let mut idle_ticks = 0;
        while !self.guests.is_stopped() {
            std::thread::sleep(TICK);
            engine.increment_epoch();
            self.ticks.fetch_add(1, Ordering::Relaxed);
            if self.guests.is_running() {
                idle_ticks = 0;
                continue;
            }
            idle_ticks += 1;
            if idle_ticks == IDLE_TICKS {
                idle_ticks = 0;
                self.guests.sleep(std::thread::park);
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.guests.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Waits until `condition` holds.
    fn eventually(condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !condition() {
            assert!(Instant::now() < deadline, "the condition never held");
            std::thread::yield_now();
        }
    }

    #[test]
    fn ticks_while_a_guest_runs_and_sleeps_otherwise() {
        let ticker = Ticker::start(&crate::engine::engine().unwrap()).unwrap();
        let clock = ticker.clock();
        eventually(|| clock.guests.is_asleep());
        let asleep_at = clock.now();
        for _ in 0..3 {
            let running = clock.run_guests();
            let before = clock.now();
            eventually(|| clock.now() >= before + 3);
            drop(running);
        }
        assert!(clock.now() >= asleep_at + 9);
        eventually(|| clock.guests.is_asleep());
    }
}
