//! How many plugins describe and initialize themselves at a time.

use std::pin::pin;
use std::time::Duration;

use informant_cache::Environment;
use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::Semaphore;

/// Plugins that are loaded at a time, after their components are compiled: 8. A start with a thousand takes a third of
/// the time that it takes with all of them at once, and leaves less memory behind that is half used.
pub(crate) const LOADS_MAX: usize = 8;

/// How long a load keeps others waiting: 50 ms, far more than most take. One that takes longer continues, next to the
/// others: what waits in its `init`, or runs a slow one, delays nothing.
pub(crate) const LOAD_TURN_MAX: Duration = Duration::from_millis(50);

/// Lets loads begin in the order in which they came.
pub(crate) struct LoadTurns {
    turns: Semaphore,
    waiting: Gauge,
}

/// A load that waits, until this is dropped.
struct Waiting<'a>(&'a Gauge);

impl LoadTurns {
    pub(crate) fn new(waiting: Gauge) -> LoadTurns {
        LoadTurns {
            turns: Semaphore::new(LOADS_MAX),
            waiting,
        }
    }

    /// Does `work`, which loads something, when it has its turn.
    pub(crate) async fn run<T>(&self, env: &dyn Environment, work: impl Future<Output = T>) -> T {
        let turn = {
            self.waiting.inc();
            let _until_it_begins = Waiting(&self.waiting);
            // It is never closed.
            self.turns.acquire().await.ok()
        };
        let mut work = pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = env.sleep(LOAD_TURN_MAX) => {}
        }
        drop(turn);
        work.await
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::task::yield_now;

    use super::*;
    use crate::testing::TokioTime;

    /// Turns of which all are taken by loads that never end.
    fn taken() -> (Arc<LoadTurns>, Gauge) {
        let waiting = Gauge::default();
        let turns = Arc::new(LoadTurns::new(waiting.clone()));
        for _ in 0..LOADS_MAX {
            let turns = Arc::clone(&turns);
            tokio::spawn(async move { turns.run(&TokioTime, pending::<()>()).await });
        }
        (turns, waiting)
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_begins_when_another_one_ends() {
        let turns = Arc::new(LoadTurns::new(Gauge::default()));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let loads = (0..3 * LOADS_MAX).map(|_| {
            let (turns, now, most) = (Arc::clone(&turns), Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                let work = async {
                    most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                    yield_now().await;
                    now.fetch_sub(1, Ordering::Relaxed);
                };
                turns.run(&TokioTime, work).await;
            })
        });
        for load in loads.collect::<Vec<_>>() {
            load.await.unwrap();
        }
        assert_eq!(most.load(Ordering::Relaxed), LOADS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn loads_that_take_long_hold_up_no_other() {
        let (turns, waiting) = taken();
        let began = tokio::time::Instant::now();
        let load = tokio::spawn(async move { turns.run(&TokioTime, async { "loaded" }).await });
        yield_now().await;
        assert_eq!(waiting.get(), 1);
        assert_eq!(load.await.unwrap(), "loaded");
        assert_eq!((began.elapsed(), waiting.get()), (LOAD_TURN_MAX, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_that_is_given_up_no_longer_waits() {
        let (turns, waiting) = taken();
        let load = tokio::spawn(async move { turns.run(&TokioTime, async {}).await });
        yield_now().await;
        assert_eq!(waiting.get(), 1);
        load.abort();
        assert!(load.await.is_err_and(|ended| ended.is_cancelled()));
        assert_eq!(waiting.get(), 0);
    }
}
