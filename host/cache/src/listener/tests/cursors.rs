//! Initial lists, replay and resync.

use super::*;
use crate::listener::{TIMEOUTS_MAX, TRAPS_MAX};

#[test]
fn initial_list_is_in_key_order_then_synced() {
    let mut rig = Rig::bare(options());
    rig.sets("b a c", 1);
    rig.attach(PODS);
    assert!(!rig.listener.feed().has_synced(PODS));
    assert_eq!(
        rig.take_all(),
        "add a@1 initial\nadd b@1 initial\nadd c@1 initial\n",
        "synced has to wait for answers"
    );
    rig.answer(DeliveryOutcome::Ok);
    rig.answer(retryable());
    assert!(rig.take().starts_with("wait 1."));
    assert!(!rig.listener.feed().has_synced(PODS));
    rig.answer(permanent());
    assert!(rig.listener.feed().has_synced(PODS), "attempted, not accepted");
    assert_eq!(rig.take(), "synced initial");
}

#[test]
fn empty_source_is_synced_at_once() {
    let mut rig = Rig::bare(options());
    rig.attach(PODS);
    assert_eq!(rig.take(), "synced initial");
    assert!(rig.listener.feed().has_synced(PODS));
}

#[test]
fn sources_sync_independently() {
    let mut rig = Rig::bare(options());
    rig.set("a", 1);
    rig.write(NODES, state("n", "u", 1, 0));
    rig.attach(PODS);
    rig.attach(NODES);
    assert_eq!(rig.take_all(), "add a@1 initial\nadd n@1 initial source 2\n");
    rig.in_flight.swap(0, 1);
    rig.answer(DeliveryOutcome::Ok);
    assert!(rig.listener.feed().has_synced(NODES) && !rig.listener.feed().has_synced(PODS));
    assert_eq!(rig.take_all(), "synced initial source 2\n");
}

#[test]
fn synced_callback_reports_each_source_once() {
    let mut rig = Rig::bare(options());
    let synced = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = synced.clone();
    rig.listener
        .feed()
        .set_synced_callback(std::sync::Arc::new(move |source| list.lock().unwrap().push(source)));
    rig.set("a", 1);
    rig.attach(PODS);
    rig.attach(NODES);
    rig.drain();
    rig.listener.control().replay(rig.now);
    rig.drain();
    assert_eq!(*synced.lock().unwrap(), [NODES, PODS]);
}

#[test]
fn changes_ahead_of_the_cursor_are_merged() {
    let mut rig = Rig::bare(options());
    rig.sets("a b c d", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    rig.set("b", 2);
    rig.set("b", 3);
    rig.delete("c");
    rig.set("e", 1);
    rig.set("a", 2);
    assert_eq!(rig.stats().pending, 1, "nothing is queued for the cursor");
    insta::assert_snapshot!(rig.drain(), @r"
    add b@3 initial
    update a@1->2 watch
    add d@1 initial
    add e@1 initial
    synced initial
    ");
    let counters = rig.counters();
    assert_eq!(
        (counters.coalesced, counters.vanished, counters.left_to_cursor),
        (2, 1, 1)
    );
}

#[test]
fn object_recreated_ahead_of_the_cursor_is_delivered_as_new() {
    let mut rig = Rig::bare(options());
    rig.write(PODS, state("a", "first", 1, 0));
    rig.attach(PODS);
    rig.write(PODS, state("a", "second", 2, 0));
    assert_eq!(rig.drain(), "add a@2 initial\nsynced initial\n");
}

#[test]
fn changes_behind_the_cursor_are_delivered() {
    let mut rig = Rig::bare(options());
    rig.sets("b d", 1);
    rig.attach(PODS);
    rig.take();
    rig.take();
    // Behind the cursor, although not in the snapshot it started with.
    rig.set("c", 1);
    rig.delete("b");
    assert_eq!(rig.drain(), "add c@1 watch\ndelete b@1 watch\nsynced initial\n");
}

#[test]
fn events_and_cursors_take_turns() {
    let mut rig = Rig::bare(options());
    rig.sets("a b c d e", 1);
    rig.attach(PODS);
    rig.take();
    rig.take();
    rig.answer(DeliveryOutcome::Ok);
    rig.answer(DeliveryOutcome::Ok);
    rig.set("a", 2);
    rig.set("b", 2);
    assert_eq!(
        rig.take_all(),
        "update a@1->2 watch\nadd c@1 initial\nupdate b@1->2 watch\nadd d@1 initial\nadd e@1 initial\n"
    );
}

#[test]
fn cursors_of_different_sources_interleave() {
    let mut rig = Rig::bare(options());
    for index in 0..200 {
        rig.set(&format!("pod-{index:03}"), 1);
    }
    rig.write(NODES, state("n", "u", 1, 0));
    rig.attach(PODS);
    rig.attach(NODES);
    let shown = rig.take_all();
    assert!(shown.lines().take(70).any(|line| line == "add n@1 initial source 2"));
}

#[test]
fn replay_delivers_everything_after_pending_deletes() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    rig.drain();
    rig.set("a", 2);
    rig.set("d", 1);
    rig.delete("b");
    rig.listener.control().replay(rig.now);
    insta::assert_snapshot!(rig.drain(), @r"
    delete b@1 watch
    add a@2 replay
    add c@1 replay
    add d@1 replay
    synced replay
    ");
    assert!(rig.listener.feed().has_synced(PODS));
}

#[test]
fn replay_delivers_deletes_ahead_of_its_cursor() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    rig.drain();
    rig.listener.control().replay(rig.now);
    rig.take();
    rig.set("b", 2);
    rig.delete("b");
    rig.delete("c");
    rig.set("c", 7);
    insta::assert_snapshot!(rig.drain(), @r"
    delete b@2 watch
    delete c@1 watch
    add c@7 replay
    synced replay
    ");
}

#[test]
fn replay_restarts_an_initial_list_and_delivers_deletes() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.take();
    rig.listener.control().replay(rig.now);
    rig.delete("b");
    insta::assert_snapshot!(rig.drain(), @r"
    add a@1 replay
    delete b@1 watch
    synced replay
    ");
}

#[test]
fn replay_before_the_first_delivery_stays_initial() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.listener.control().replay(rig.now);
    rig.delete("b");
    assert_eq!(rig.drain(), "add a@1 initial\nsynced initial\n");
}

#[test]
fn replay_replaces_a_pending_synced() {
    let mut rig = Rig::bare(options());
    rig.set("a", 1);
    rig.attach(PODS);
    rig.take();
    rig.answer(DeliveryOutcome::Ok);
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
}

#[test]
fn failed_synced_during_a_replay_is_dropped() {
    for fails in [true, false] {
        let mut rig = Rig::bare(options());
        rig.set("a", 1);
        rig.attach(PODS);
        rig.take();
        rig.answer(DeliveryOutcome::Ok);
        assert_eq!(rig.take(), "synced initial");
        rig.listener.control().replay(rig.now);
        let token = rig.last_taken().token;
        match fails {
            true => rig.answer(retryable()),
            false => rig.listener.consumer().give_back([token]),
        }
        assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
        assert_eq!(rig.take(), "idle");
    }
}

/// Lets each call of `Synced` crash, with a replay after each, until nothing is left to do. Returns how many calls of
/// objects and of `Synced` were made.
fn crash_in_synced(rig: &mut Rig, crash: &DeliveryOutcome) -> (u32, u32) {
    let (mut objects, mut synced) = (0, 0);
    loop {
        let consumer = rig.listener.consumer();
        match consumer.next(rig.now) {
            NextDelivery::Deliver(delivery) if delivery.key().is_some() => {
                objects += 1;
                consumer.done(delivery.token, DeliveryOutcome::Ok, rig.now);
            }
            NextDelivery::Deliver(delivery) => {
                synced += 1;
                consumer.done(delivery.token, crash.clone(), rig.now);
                consumer.recover(0, rig.now);
            }
            NextDelivery::WaitUntil(until) => rig.now = until,
            _ => return (objects, synced),
        }
    }
}

#[test]
fn crashing_synced_is_not_replayed_without_end() {
    let crashes = [
        (DeliveryOutcome::Trapped("unreachable".to_owned()), TRAPS_MAX),
        (DeliveryOutcome::TimedOut("1 s".to_owned()), TIMEOUTS_MAX),
    ];
    for (crash, calls_max) in crashes {
        let mut rig = Rig::bare(options());
        rig.sets("a b", 1);
        rig.attach(PODS);
        // The handler has its memory back after the last crash, too.
        assert_eq!(crash_in_synced(&mut rig, &crash), (2 + 2 * calls_max, calls_max));
        rig.listener.consumer().recover(0, rig.now);
        assert_eq!(rig.drain(), "add a@1 replay\nadd b@1 replay\n");
        rig.listener.control().replay(rig.now);
        assert_eq!(rig.drain(), "add a@1 replay\nadd b@1 replay\nsynced replay\n");
        rig.listener.consumer().recover(0, rig.now);
        assert_eq!(rig.drain(), "add a@1 replay\nadd b@1 replay\nsynced replay\n");
    }
}

#[test]
fn given_back_and_deleted_key_does_not_block_sync() {
    let mut rig = Rig::bare(ListenerOptions {
        pending_events_max: 0,
        ..options()
    });
    rig.set("a", 1);
    rig.attach(PODS);
    rig.take();
    let token = rig.last_taken().token;
    rig.listener.consumer().give_back([token]);
    assert_eq!(rig.take(), "add a@1 initial");
    let token = rig.last_taken().token;
    rig.listener.consumer().give_back([token]);
    rig.delete("a");
    assert_eq!(rig.take(), "synced initial");
    assert_eq!(rig.counters().vanished, 1);
}

#[test]
fn replay_cancels_add_and_delete_behind_pending_delete() {
    let mut rig = Rig::new(options());
    rig.write(PODS, state("b", "first", 1, 0));
    rig.write(PODS, state("a", "u", 1, 0));
    rig.drain();
    rig.delete("b");
    rig.listener.control().replay(rig.now);
    rig.write(PODS, state("b", "second", 2, 0));
    rig.delete("b");
    assert_eq!(rig.drain(), "delete b@1 watch\nadd a@1 replay\nsynced replay\n");
}

#[test]
fn replay_delivers_in_flight_key_after_it_is_done() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.take();
    rig.set("a", 2);
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.take_all(), "add b@1 replay\n");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take_all(), "add a@2 replay\n");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "idle", "a was shown and not attempted yet");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "synced replay");
}

#[test]
fn replay_keeps_back_off_and_synced_waits() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.take();
    rig.answer(DeliveryOutcome::Trapped("unreachable".to_owned()));
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "add b@1 replay\n");
    assert!(rig.take().starts_with("wait 1."), "its back-off is not shortened");
    rig.pass(seconds(2));
    assert_eq!(
        rig.drain(),
        "add a@1 replay try 1\nsynced replay\n",
        "the same state: no news, so its attempts count on"
    );
}

#[test]
fn replay_delivers_synced_for_every_source() {
    let mut rig = Rig::new(options());
    rig.attach(NODES);
    rig.drain();
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "synced replay\nsynced replay source 2\n");
}

fn resyncing() -> Rig {
    Rig::new(ListenerOptions {
        resync: Some(seconds(10)),
        ..options()
    })
}

#[test]
fn resync_delivers_each_object_as_update_to_itself() {
    let mut rig = resyncing();
    rig.sets("a b", 1);
    rig.drain();
    assert_eq!(rig.take(), "wait 10s");
    rig.pass(seconds(9));
    assert_eq!(rig.take(), "wait 1s");
    rig.pass(seconds(1));
    assert_eq!(rig.take(), "update a@1->1 resync");
    let delivery = rig.last_taken();
    assert!(!delivery.exact_old, "a changed-only handler is resynced, too");
    assert!(matches!(&delivery.notification, Notification::Update { old: Some(old), new } if old.ptr_eq(new)));
    assert_eq!(rig.drain(), "update b@1->1 resync\n");
    assert_eq!(rig.take(), "wait 10s");
    assert_eq!(rig.counters().resyncs, 1);
}

#[test]
fn resync_round_is_skipped_while_the_last_one_runs() {
    let mut rig = resyncing();
    rig.sets("a b", 1);
    rig.drain();
    rig.pass(seconds(10));
    rig.take();
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "update b@1->1 resync\n");
    assert_eq!((rig.counters().resyncs, rig.counters().resync_ticks_skipped), (1, 1));
}

#[test]
fn resync_round_is_skipped_during_initial_list_or_replay() {
    let mut rig = resyncing();
    rig.sets("a b", 1);
    rig.drain();
    rig.listener.control().replay(rig.now);
    rig.take();
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "add b@1 replay\nsynced replay\n");
    assert_eq!((rig.counters().resyncs, rig.counters().resync_ticks_skipped), (0, 1));
}

#[test]
fn resync_skips_keys_with_pending_events() {
    let mut rig = resyncing();
    rig.sets("a b c", 1);
    rig.drain();
    rig.set("a", 2);
    rig.fail();
    rig.set("b", 2);
    rig.pass(seconds(10));
    insta::assert_snapshot!(rig.take_all(), @r"
    update c@1->1 resync
    update b@1->2 watch
    update a@1->2 watch try 1
    ");
    assert_eq!(rig.counters().resync_keys_skipped, 2);
}

#[test]
fn resync_never_delivers_outdated_states() {
    let mut rig = resyncing();
    rig.sets("a b", 1);
    rig.drain();
    rig.pass(seconds(10));
    rig.take();
    rig.set("b", 2);
    rig.set("a", 2);
    insta::assert_snapshot!(rig.drain(), @r"
    update b@1->2 watch
    update b@2->2 resync
    update a@1->2 watch
    ");
}

#[test]
fn short_resync_period_is_raised_to_the_minimum() {
    let mut rig = Rig::new(ListenerOptions {
        resync: Some(Duration::from_millis(1)),
        ..options()
    });
    assert_eq!(rig.take(), "wait 1s");
}

#[test]
fn cursor_visits_a_bounded_number_of_keys_per_call() {
    let mut rig = resyncing();
    for index in 0..3_000 {
        rig.set(&format!("pod-{index:04}"), 1);
    }
    // Everything is in flight: the resync skips all of it.
    rig.take_all();
    rig.pass(seconds(10));
    assert_eq!(rig.take(), "wait 0ns");
    assert!(rig.counters().resync_keys_skipped < 3_000);
    rig.take();
    rig.take();
    assert_eq!(rig.counters().resync_keys_skipped, 3_000);
}

#[test]
fn resync_period_can_be_set_and_removed_later() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.drain();
    let with = |resync| ListenerOptions { resync, ..options() };
    rig.listener.control().set_options(with(Some(seconds(10))), rig.now);
    assert_eq!(rig.take(), "wait 10s");
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "update a@1->1 resync\n");
    rig.listener.control().set_options(with(None), rig.now);
    rig.pass(seconds(100));
    assert_eq!(rig.drain(), "");
}
