//! The limit on calls per second: what waits for it, and when it applies.

use super::*;

fn at_most(per_second: u32) -> ListenerOptions {
    ListenerOptions {
        calls_per_second_max: Some(per_second),
        ..options()
    }
}

/// A synced listener with this rate, at a time when its bucket is full.
fn limited(per_second: u32) -> Rig {
    let mut rig = Rig::new(at_most(per_second));
    rig.pass(seconds(1));
    rig
}

#[test]
fn burst_of_one_second_is_followed_by_the_rate() {
    let mut rig = limited(4);
    rig.sets("a b c d e f", 1);
    assert_eq!(rig.drain().lines().count(), 4);
    assert_eq!(rig.take(), "wait 250ms");
    assert!(rig.stats().held_by_rate);
    rig.pass(Duration::from_millis(250));
    assert_eq!(rig.drain(), "add e@1 watch\n");
    assert_eq!(rig.take(), "wait 250ms");
    rig.pass(Duration::from_millis(250));
    assert_eq!(rig.drain(), "add f@1 watch\n");
    assert_eq!(rig.take(), "idle");
    assert!(!rig.stats().held_by_rate);
    assert_eq!(rig.counters().rate_holds, 2);
}

#[test]
fn events_that_wait_for_the_rate_fold_at_the_limit() {
    let mut rig = Rig::new(ListenerOptions {
        pending_events_max: 2,
        ..at_most(1)
    });
    rig.pass(seconds(1));
    rig.sets("a b c", 1);
    assert_eq!(rig.drain(), "add a@1 watch\n");
    for version in 2..=100 {
        rig.sets("b c", version);
    }
    let mut calls = String::new();
    for _ in 0..4 {
        rig.pass(seconds(1));
        calls += &rig.drain();
    }
    assert_eq!(calls, "add b@100 watch\nadd c@100 watch\n");
    assert_eq!((rig.stats().pending, rig.counters().coalesced), (0, 198));
}

#[test]
fn initial_list_replay_and_retries_obey_the_rate() {
    let mut rig = Rig::bare(at_most(1));
    for name in ["a", "b"] {
        rig.store(PODS).add(state(name, &format!("uid-{name}"), 1, 0));
    }
    rig.attach(PODS);
    assert_eq!(rig.fail(), "add a@1 initial");
    assert_eq!(rig.take(), "wait 1s");
    let mut calls = String::new();
    for _ in 0..4 {
        rig.pass(seconds(1));
        calls += &rig.drain();
        assert!(rig.take_all().is_empty());
    }
    assert!(calls.contains("add b@1 initial\n"), "{calls}");
    assert!(calls.contains("add a@1 initial try 1\n"), "{calls}");
    assert!(calls.contains("synced initial\n"), "{calls}");
    rig.listener.control().replay(rig.now);
    rig.pass(seconds(1));
    assert_eq!(rig.drain(), "add a@1 replay\n");
    assert_eq!(rig.take(), "wait 1s");
}

#[test]
fn due_requeue_waits_for_the_rate() {
    let mut rig = limited(1);
    rig.set("a", 1);
    rig.take();
    rig.answer(again(Duration::from_millis(200)));
    rig.pass(Duration::from_millis(500));
    assert_eq!(rig.take(), "wait 500ms");
    assert!(rig.stats().held_by_rate);
    rig.pass(Duration::from_millis(500));
    assert_eq!(rig.drain(), "update a@->1 requeue-after\n");
}

#[test]
fn batch_at_a_limited_rate_has_one_delivery() {
    let mut rig = limited(3);
    rig.sets("a b c d e", 1);
    let mut batch = Vec::new();
    let mut next = || {
        rig.listener
            .consumer()
            .next_batch(LaneSet::FIRST, rig.now, 100, &mut batch)
    };
    for _ in 0..3 {
        assert!(matches!(next(), NextBatch::Delivered(1)));
    }
    assert!(matches!(next(), NextBatch::WaitUntil(_)));
}

#[test]
fn filtered_and_returned_deliveries_do_not_count_for_the_rate() {
    let mut rig = limited(1);
    rig.sets("a b c", 1);
    assert_eq!(rig.take(), "add a@1 watch");
    rig.answer(DeliveryOutcome::Filtered);
    assert_eq!(rig.take(), "add b@1 watch");
    let token = rig.in_flight.remove(0).token;
    rig.listener.consumer().give_back([token]);
    assert_eq!(rig.drain(), "add b@1 watch\n");
    assert_eq!(rig.take(), "wait 1s");
}

#[test]
fn changed_rate_applies_at_once_and_wakes_the_consumer() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    let mut rig = limited(1);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    rig.listener.consumer().set_waker(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    rig.sets("a b", 1);
    assert_eq!(rig.drain(), "add a@1 watch\n");
    let before = woken.load(Ordering::Relaxed);
    rig.set("c", 1);
    assert_eq!(woken.load(Ordering::Relaxed), before, "the rate allows no delivery yet");
    rig.listener.control().set_options(at_most(10), rig.now);
    assert_eq!(woken.load(Ordering::Relaxed), before + 1);
    assert_eq!(rig.drain().lines().count(), 2);
    rig.listener.control().set_options(at_most(1), rig.now);
    rig.set("d", 1);
    assert!(rig.take().starts_with("wait"));
    rig.listener.control().set_options(options(), rig.now);
    assert_eq!(rig.drain(), "add d@1 watch\n");
}

#[test]
fn closed_listener_still_obeys_the_rate() {
    let mut rig = limited(1);
    rig.sets("a b", 1);
    rig.listener.control().close();
    assert_eq!(rig.drain(), "add a@1 watch\n");
    assert_eq!(rig.take(), "wait 1s");
    rig.pass(seconds(1));
    assert_eq!(rig.drain(), "add b@1 watch\n");
    assert_eq!(rig.take(), "closed");
}
