//! Calls whose effects were dropped, because another replica acts.

use super::*;
use crate::listener::Tick;

/// Reports that the call of the next delivery was interrupted.
fn interrupt(rig: &mut Rig) {
    let NextDelivery::Deliver(delivery) = rig.listener.consumer().next(rig.now) else {
        panic!("nothing to deliver");
    };
    rig.listener.consumer().interrupted(delivery.token, rig.now);
    rig.listener.check();
}

#[test]
fn an_interrupted_call_is_made_again_whatever_the_policy() {
    for on_failure in [FailurePolicy::Retry, FailurePolicy::Skip] {
        let mut rig = Rig::new(ListenerOptions {
            on_failure,
            retry: RetryOptions {
                attempts: 1,
                ..RetryOptions::default()
            },
            ..options()
        });
        rig.set("a", 1);
        for _ in 0..3 {
            interrupt(&mut rig);
        }
        let counters = rig.stats().counters;
        assert_eq!((counters.dead_lettered, counters.skipped), (0, 0), "{on_failure:?}");
        assert_eq!(rig.stats().pending, 1);
    }
}

#[test]
fn a_delete_after_an_interrupted_add_is_delivered() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    interrupt(&mut rig);
    rig.delete("a");
    assert!(rig.drain().contains("delete a"), "it may have had effects");
}

#[test]
fn standing_by_takes_back_deliveries_and_drops_runs() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.set("b", 1);
    let tick = Tick {
        timer: "t".into(),
        scheduled_ms: 1,
        due_ms: Some(1),
        missed: 0,
    };
    rig.listener.consumer().tick(tick, rig.now);
    while let NextDelivery::Deliver(_) = rig.listener.consumer().next(rig.now) {}
    assert_eq!(rig.stats().in_flight, 3);
    rig.listener.consumer().stand_by(rig.now);
    rig.listener.check();
    let stats = rig.stats();
    assert_eq!((stats.in_flight, stats.pending, stats.counters.discarded), (0, 2, 1));
    assert!(!rig.listener.consumer().is_ticking("t"));
}
