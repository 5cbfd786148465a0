//! A consumer that waits for a listener.

#[path = "../../../host/cache/src/listener/wake.rs"]
mod wake;

mod sync {
    pub(super) use loom::sync::{Mutex, MutexGuard};
    pub(super) use std::sync::PoisonError;
}

use std::sync::Arc;

use loom::sync::Notify;
use loom::thread;
use wake::{TakeWake, WakingLock};

/// A listener without its rules: events, and whether the consumer waits for one.
#[derive(Default)]
struct Events {
    pending: usize,
    consumer_waits: bool,
}

impl TakeWake for Events {
    fn take_wake(&mut self) -> bool {
        let wake = self.consumer_waits && self.pending > 0;
        self.consumer_waits &= !wake;
        wake
    }
}

/// loom reports a consumer that is never woken as a deadlock.
#[test]
fn waiting_consumer_is_woken_by_every_change() {
    const EVENTS: usize = 2;
    loom::model(|| {
        let (events, woken) = (Arc::new(WakingLock::new(Events::default())), Arc::new(Notify::new()));
        let notify = Arc::clone(&woken);
        events.set_waker(Arc::new(move || notify.notify()));
        for _ in 0..EVENTS {
            let events = Arc::clone(&events);
            thread::spawn(move || events.change(|events| events.pending += 1));
        }
        let mut received = 0;
        while received < EVENTS {
            let mut state = events.lock();
            if state.pending > 0 {
                state.pending -= 1;
                received += 1;
                continue;
            }
            state.consumer_waits = true;
            drop(state);
            woken.wait();
        }
    });
}
