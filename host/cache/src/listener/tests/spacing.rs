//! The interval between the calls of one key: what waits for it, what folds, and what ends it.

use super::*;

fn every(interval: Duration) -> ListenerOptions {
    ListenerOptions {
        min_interval: Some(interval),
        ..options()
    }
}

/// A listener with an interval of 10 s that has just called its handler for `a@1`.
fn called() -> Rig {
    let mut rig = Rig::new(every(seconds(10)));
    rig.set("a", 1);
    assert_eq!(rig.drain(), "add a@1 watch\n");
    rig
}

#[test]
fn thousand_events_within_interval_make_two_calls() {
    let mut rig = Rig::new(every(seconds(10)));
    let mut calls = String::new();
    for version in 1..=1_000 {
        rig.set("a", version);
        calls += &rig.drain();
        rig.pass(Duration::from_millis(9));
    }
    assert_eq!(rig.stats().spaced, 1);
    assert_eq!(rig.take(), "wait 1s");
    rig.pass(seconds(1));
    calls += &rig.drain();
    rig.pass(seconds(60));
    assert_eq!(rig.take(), "idle");
    assert_eq!(calls, "add a@1 watch\nupdate a@1->1000 watch\n");
    let c = rig.counters();
    assert_eq!((c.accepted, c.spaced, c.coalesced), (1_000, 1, 998));
}

#[test]
fn interval_delays_no_other_key() {
    let mut rig = called();
    rig.sets("a b", 2);
    assert_eq!(rig.drain(), "add b@2 watch\n");
    rig.attach(NODES);
    assert_eq!(rig.drain(), "synced initial source 2\n");
    rig.write(NODES, state("a", "uid-a", 3, 0));
    assert_eq!(rig.drain(), "add a@3 watch source 2\n", "a key of another source");
}

#[test]
fn event_after_the_interval_is_delivered_at_once() {
    let mut rig = called();
    rig.pass(seconds(10));
    rig.set("a", 2);
    assert_eq!(rig.drain(), "update a@1->2 watch\n");
}

#[test]
fn delete_and_recreation_stay_two_calls_in_order() {
    let mut rig = called();
    rig.delete("a");
    rig.write(PODS, state("a", "second", 3, 0));
    rig.delete("a");
    rig.write(PODS, state("a", "third", 5, 0));
    rig.write(PODS, state("a", "third", 6, 0));
    assert_eq!(rig.take(), "wait 10s");
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "delete a@1 watch\n");
    assert_eq!(rig.take(), "wait 10s");
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "add a@6 watch\n");
    assert_eq!((rig.take(), rig.counters().vanished), ("idle".to_owned(), 1));
}

#[test]
fn object_created_and_deleted_within_interval_is_not_called_for() {
    let mut rig = called();
    rig.delete("a");
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "delete a@1 watch\n");
    rig.write(PODS, state("a", "second", 3, 0));
    rig.delete("a");
    assert_eq!((rig.take(), rig.stats().spaced), ("idle".to_owned(), 0));
    rig.pass(seconds(10));
    assert_eq!(rig.take(), "idle");
}

#[test]
fn events_during_a_call_wait_from_its_start() {
    let mut rig = Rig::new(every(seconds(10)));
    rig.set("a", 1);
    rig.take();
    rig.sets("a", 2);
    rig.sets("a", 3);
    rig.pass(seconds(4));
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "wait 6s");
    rig.set("a", 4);
    rig.pass(seconds(6));
    assert_eq!(rig.take(), "update a@1->4 watch");
    rig.set("a", 5);
    rig.pass(seconds(20));
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(
        rig.take(),
        "update a@4->5 watch",
        "the call was longer than the interval"
    );
}

#[test]
fn retries_wait_for_the_interval() {
    let mut rig = Rig::new(every(seconds(10)));
    rig.set("a", 1);
    rig.take();
    rig.answer(retryable());
    assert_eq!(rig.take(), "wait 10s");
    assert_eq!(rig.listener.ledger().retried_keys(1).1[0].next, rig.now + seconds(10));
    rig.listener.control().retry_now();
    assert_eq!(rig.take(), "wait 10s", "also those of a new version");
    rig.pass(seconds(10));
    assert_eq!(rig.take(), "add a@1 watch try 1");
    rig.answer(DeliveryOutcome::RetryAfter(String::new(), seconds(30)));
    assert_eq!(rig.take(), "wait 30s");
    rig.listener.control().set_options(every(seconds(60)), rig.now);
    rig.pass(seconds(30));
    assert_eq!(rig.take(), "wait 30s", "the interval became longer than the back-off");
    rig.pass(seconds(30));
    assert_eq!(rig.drain(), "add a@1 watch try 2\n");
}

#[test]
fn requeues_and_triggers_wait_for_the_interval() {
    let mut rig = Rig::new(every(seconds(10)));
    rig.sets("a b", 1);
    rig.take_all();
    rig.answer(again(seconds(1)));
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(
        rig.listener
            .control()
            .trigger(PODS, &[Key::new("default", "b")], rig.now)
            .triggered,
        1
    );
    assert_eq!(rig.take(), "wait 1s");
    rig.pass(seconds(1));
    assert_eq!(rig.take(), "wait 9s");
    rig.pass(seconds(9));
    let calls = rig.drain();
    assert_eq!(calls.lines().count(), 2, "{calls}");
    assert!(calls.contains("update a@->1 requeue-after"), "{calls}");
    assert!(calls.contains("update b@->1 trigger"), "{calls}");
}

#[test]
fn requested_redelivery_waits_for_the_interval() {
    let mut rig = called();
    assert_eq!(
        rig.listener.control().requeue(PODS, key("a"), rig.now),
        RequeueResult::Queued
    );
    assert_eq!(rig.take(), "wait 10s");
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "add a@1 requeue\n");
}

#[test]
fn resync_waits_for_the_interval() {
    let resync = Some(seconds(5));
    let mut rig = Rig::new(ListenerOptions {
        resync,
        ..every(seconds(8))
    });
    rig.set("a", 1);
    rig.drain();
    rig.pass(seconds(5));
    assert_eq!(rig.take(), "wait 3s");
    rig.pass(seconds(3));
    assert_eq!(rig.drain(), "update a@1->1 resync\n");
}

#[test]
fn filtered_and_returned_deliveries_start_no_interval() {
    let mut rig = Rig::new(every(seconds(10)));
    rig.set("a", 1);
    rig.take();
    rig.answer(DeliveryOutcome::Filtered);
    rig.set("a", 2);
    assert_eq!(rig.take(), "update a@1->2 watch");
    let token = rig.in_flight.remove(0).token;
    rig.listener.consumer().give_back([token]);
    assert_eq!(rig.take(), "update a@1->2 watch");
    rig.answer(DeliveryOutcome::Ok);
    rig.set("a", 3);
    assert_eq!(rig.take(), "wait 10s");
}

#[test]
fn changed_interval_applies_to_keys_that_wait() {
    let mut rig = called();
    rig.set("a", 2);
    assert_eq!(rig.take(), "wait 10s");
    rig.listener.control().set_options(every(seconds(4)), rig.now);
    assert_eq!(rig.take(), "wait 4s");
    rig.listener.control().set_options(every(seconds(30)), rig.now);
    assert_eq!(rig.take(), "wait 30s");
    rig.listener.control().set_options(options(), rig.now);
    assert_eq!(rig.drain(), "update a@1->2 watch\n");
    rig.set("a", 3);
    assert_eq!(rig.drain(), "update a@2->3 watch\n");
}

#[test]
fn replay_and_close_end_all_intervals() {
    let mut rig = called();
    rig.set("b", 1);
    rig.drain();
    rig.set("a", 2);
    rig.delete("b");
    assert_eq!(rig.stats().spaced, 2);
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "delete b@1 watch\nadd a@2 replay\nsynced replay\n");
    rig.set("a", 3);
    assert_eq!(rig.take(), "wait 10s");
    rig.listener.control().close();
    assert_eq!(rig.drain(), "update a@2->3 watch\n");
    assert_eq!(rig.take(), "closed");
}

#[test]
fn interval_stays_with_a_transferred_key() {
    let mut rig = called();
    rig.set("b", 1);
    rig.drain();
    rig.set("a", 2);
    let object = |name: &str| ObjectChange {
        kind: ChangeKind::Update {
            old: state(name, &format!("uid-{name}"), 1, 0),
            new: state(name, &format!("uid-{name}"), 3, 0),
        },
        reason: Reason::Reconfigured,
        received: rig.now,
    };
    let changes = [object("a"), object("b")];
    for name in ["a", "b"] {
        rig.store(NODES).add(state(name, &format!("uid-{name}"), 3, 0));
    }
    let snapshot = rig.store(NODES).publish();
    rig.listener
        .feed()
        .transfer(&[PODS], NODES, &|_| true, &snapshot, &changes, rig.now);
    assert_eq!((rig.take(), rig.stats().spaced), ("wait 10s".to_owned(), 2));
    rig.pass(seconds(10));
    let calls = rig.drain();
    assert!(calls.contains("update a@1->3 reconfigured source 2"), "{calls}");
    assert!(calls.contains("update b@1->3 reconfigured source 2"), "{calls}");
}

#[test]
fn detached_source_leaves_nothing_that_waits() {
    let mut rig = called();
    rig.set("a", 2);
    rig.listener.feed().detach(PODS);
    assert_eq!((rig.take(), rig.stats().spaced), ("idle".to_owned(), 0));
    assert_eq!(rig.counters().discarded, 1);
}

#[test]
fn oldest_calls_are_forgotten_above_the_limit() {
    let mut rig = Rig::bare(every(seconds(3_600)));
    let mut spacing = crate::delivery::spacing::CallSpacing::new(Some(seconds(3_600)));
    for hash in 0..=SPACED_KEYS_MAX as u64 {
        spacing.record(hash, rig.now);
    }
    rig.pass(seconds(1));
    let ended = spacing.pop_ended(rig.now).expect("one too many");
    assert_eq!((ended.hash, ended.is_early), (0, true));
    assert!(spacing.pop_ended(rig.now).is_none());
    assert_eq!((spacing.until(0), spacing.until(1).is_some()), (None, true));
}

#[test]
fn updates_folded_within_interval_keep_their_exact_old() {
    let mut rig = called();
    for version in 2..5 {
        rig.set("a", version);
    }
    rig.pass(seconds(10));
    assert_eq!(rig.take(), "update a@1->4 watch");
    assert!(rig.last_taken().exact_old);
    rig.set("a", 5);
    rig.set("a", 6);
    rig.answer(retryable());
    rig.pass(seconds(60));
    assert_eq!(rig.take(), "update a@1->6 watch");
    assert!(!rig.last_taken().exact_old, "a call has failed");
}

#[test]
fn calls_that_were_asked_for_have_no_exact_old() {
    let mut rig = called();
    rig.listener.control().trigger(PODS, &[key("a").to_key()], rig.now);
    rig.set("a", 2);
    let _ = rig.listener.control().requeue(PODS, key("a"), rig.now);
    rig.pass(seconds(10));
    assert_eq!(rig.take(), "update a@1->2 watch");
    assert!(rig.last_taken().exact_old);
    rig.answer(DeliveryOutcome::Filtered);
    let called = rig.take();
    assert!(
        called.starts_with("update a@") && called.ends_with("trigger"),
        "{called}"
    );
    assert!(!rig.last_taken().exact_old);
}
