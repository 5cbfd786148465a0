//! Notices that the system's clock was set: waits that were measured with it are wrong then.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::runtime::Runtime;
use crate::sync::lock;

/// How often the clock is looked at, if any plugin has timers: every 60 s.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// How much the clock may differ from the time that has passed: 1 s.
const DRIFT_MAX: SignedDuration = SignedDuration::from_secs(1);

/// Ends the waits of all plugins with timers if the clock was set. One look for all of them.
#[derive(Default)]
pub(crate) struct ClockWatch {
    waiting: Mutex<Vec<Weak<Wake>>>,
    runs: AtomicBool,
}

type Wake = dyn Fn() + Send + Sync;

impl ClockWatch {
    /// Calls `wake` whenever the clock was set, while it lives. The clock of a scenario is never set.
    pub(crate) fn watch(&self, runtime: &Arc<Runtime>, wake: &Arc<Wake>) {
        if runtime.wall.scenario().is_some() {
            return;
        }
        let mut waiting = lock(&self.waiting);
        waiting.retain(|wake| wake.strong_count() > 0);
        waiting.push(Arc::downgrade(wake));
        if !self.runs.swap(true, Ordering::AcqRel) {
            let task = look(Arc::downgrade(runtime), runtime.began());
            runtime.env.spawn("clock-watch", Box::pin(task));
        }
    }

    /// Ends the waits, if there are any. Returns whether there are.
    fn wake(&self, was_set: bool) -> bool {
        let wakes: Vec<Arc<Wake>> = {
            let waiting = lock(&self.waiting);
            let wakes: Vec<_> = waiting.iter().filter_map(Weak::upgrade).collect();
            if wakes.is_empty() {
                self.runs.store(false, Ordering::Release);
            }
            wakes
        };
        if was_set {
            wakes.iter().for_each(|wake| wake());
        }
        !wakes.is_empty()
    }
}

/// When the environment began, by the clock: constant until that is set.
async fn look(runtime: Weak<Runtime>, mut began: Timestamp) {
    loop {
        let Some(sleep) = runtime.upgrade().map(|runtime| runtime.env.sleep(LOOK_EVERY)) else {
            return;
        };
        sleep.await;
        let Some(runtime) = runtime.upgrade() else { return };
        let now = runtime.began();
        let drift = now.duration_since(began);
        let was_set = drift.abs() > DRIFT_MAX;
        if was_set {
            began = now;
            tracing::info!(seconds = drift.as_secs(), "clock was set; timers follow it");
        }
        if !runtime.clock_watch.wake(was_set) {
            return;
        }
    }
}
