//! [`TokioEnvironment`]: time, tasks and randomness from tokio. [`BackgroundDropper`]: a task that frees large values.
//!
//! Contains the only clock reads, sleeps, spawns and random draws of the crates that run on tokio. Under tokio's paused
//! clock and with a fixed seed an informer on the embedded API server replays exactly. It does not track spawned tasks:
//! the code that spawns a task ends it.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informant_cache::{Environment, Moment};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Increment of SplitMix64 per draw: 2^64 divided by the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// An [`Environment`] on one tokio runtime.
///
/// Random numbers come from a seed (SplitMix64), so that two runs with the same seed, the same input and a paused clock
/// are equal. They pace retries and must not be used for secrets.
#[derive(Debug)]
pub struct TokioEnvironment {
    handle: Handle,
    began: Instant,
    boot: Option<BootClock>,
    random: AtomicU64,
}

/// CLOCK_BOOTTIME, which counts while the machine sleeps. tokio's clock and `Instant` do not on Linux. Elsewhere it is
/// `Instant`.
#[derive(Debug, Clone, Copy)]
struct BootClock {
    began: Duration,
}

impl BootClock {
    fn start() -> Self {
        Self { began: boot_time() }
    }

    fn now(self) -> Moment {
        Moment::ZERO + boot_time().saturating_sub(self.began)
    }
}

#[cfg(target_os = "linux")]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    // A clock of the kernel is neither negative nor are its nanoseconds above a second.
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(not(target_os = "linux"))]
fn boot_time() -> Duration {
    static BEGAN: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    BEGAN.elapsed()
}

impl TokioEnvironment {
    /// An environment whose clock starts now and whose tasks run on `handle`.
    #[must_use]
    pub fn new(handle: Handle, seed: u64) -> Self {
        // A paused clock is found through the entered runtime.
        let began = {
            let _entered = handle.enter();
            Instant::now()
        };
        Self {
            handle,
            began,
            boot: None,
            random: AtomicU64::new(seed),
        }
    }

    /// The same, with a clock for leases that counts while the machine sleeps. It is not tokio's, so it does not stand
    /// still under a paused clock, and a run with it does not replay.
    #[must_use]
    pub fn with_boot_clock(mut self) -> Self {
        self.boot = Some(BootClock::start());
        self
    }

    /// An environment on the current runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn current(seed: u64) -> Self {
        Self::new(Handle::current(), seed)
    }

    /// The same clock with tasks on another runtime: moments of both can be compared. Has a random sequence of its own.
    #[must_use]
    pub fn on(&self, handle: Handle) -> Self {
        Self {
            handle,
            began: self.began,
            boot: self.boot,
            random: AtomicU64::new(self.random()),
        }
    }
}

impl Environment for TokioEnvironment {
    fn now(&self) -> Moment {
        let nanos = self.began.elapsed().as_nanos();
        Moment::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn boot_now(&self) -> Moment {
        self.boot.map_or_else(|| self.now(), BootClock::now)
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let _entered = self.handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, name: &'static str, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        tracing::trace!(task = name, "task spawned");
        drop(self.handle.spawn(task));
    }

    fn random(&self) -> u64 {
        let state = self
            .random
            .fetch_add(GOLDEN_GAMMA, Ordering::Relaxed)
            .wrapping_add(GOLDEN_GAMMA);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Sends large values to a task that frees them, so that no loop waits for it. Cheap to clone; the task ends with the
/// last clone.
///
/// Freeing the store of a large source takes tens of milliseconds. What a single batch replaces is freed in place:
/// waking a task costs more than freeing a few hundred objects.
#[derive(Debug, Clone)]
pub(crate) struct BackgroundDropper(mpsc::UnboundedSender<Box<dyn Any + Send>>);

impl BackgroundDropper {
    pub(crate) fn new(environment: &dyn Environment) -> Self {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Box<dyn Any + Send>>();
        environment.spawn(
            "background-drop",
            Box::pin(async move {
                while let Some(garbage) = receiver.recv().await {
                    drop(garbage);
                    tokio::task::yield_now().await;
                }
            }),
        );
        Self(sender)
    }

    pub(crate) fn drop_later(&self, garbage: impl Any + Send) {
        // A runtime that shuts down accepts nothing more; then it is dropped here.
        drop(self.0.send(Box::new(garbage)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn moments_follow_the_paused_clock() {
        let environment = TokioEnvironment::current(1);
        let before = environment.now();
        environment.sleep(Duration::from_secs(90)).await;
        assert_eq!(environment.now() - before, Duration::from_secs(90));
    }

    #[tokio::test(start_paused = true)]
    async fn boot_clock_is_the_paused_one_unless_asked_for() {
        let environment = TokioEnvironment::current(1);
        let with_boot = TokioEnvironment::current(1).with_boot_clock();
        environment.sleep(Duration::from_secs(90)).await;
        assert_eq!(environment.boot_now(), environment.now());
        let (first, second) = (with_boot.boot_now(), with_boot.on(Handle::current()).boot_now());
        assert!(first <= second && second < Moment::ZERO + Duration::from_secs(90));
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_seed_draws_the_same_numbers() {
        let draw = |seed| {
            let environment = TokioEnvironment::current(seed);
            (0..4).map(|_| environment.random()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[tokio::test(start_paused = true)]
    async fn a_spawned_task_runs() {
        let environment = TokioEnvironment::current(1);
        let (done, is_done) = tokio::sync::oneshot::channel();
        environment.spawn(
            "test",
            Box::pin(async move {
                let _ = done.send(5);
            }),
        );
        assert_eq!(is_done.await, Ok(5));
    }
}
