//! The thread that measures time for guests.

#[path = "../../../host/plugin/src/engine/guest_count.rs"]
mod guest_count;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

use std::sync::Arc;

use guest_count::GuestCount;
use loom::thread;

/// loom reports a thread that is never woken as a deadlock.
#[test]
fn ticker_wakes_for_a_guest_that_starts_meanwhile() {
    loom::model(|| {
        let guests = Arc::new(GuestCount::new());
        let shared = Arc::clone(&guests);
        let ticker = thread::spawn(move || {
            shared.sleep(thread::park);
            assert!(shared.is_running() && !shared.is_asleep());
        });
        guests.enter(|| ticker.thread().unpark());
        ticker.join().unwrap();
        guests.leave();
    });
}

#[test]
fn ticker_wakes_when_it_is_stopped_meanwhile() {
    loom::model(|| {
        let guests = Arc::new(GuestCount::new());
        let shared = Arc::clone(&guests);
        let ticker = thread::spawn(move || {
            shared.sleep(thread::park);
            assert!(shared.is_stopped());
        });
        guests.stop();
        ticker.thread().unpark();
        ticker.join().unwrap();
    });
}
