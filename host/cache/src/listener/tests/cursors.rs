//! Initial lists, replay and resync.

use super::*;

#[test]
fn a_source_is_shown_in_order_of_keys_and_then_synced() {
    let mut rig = Rig::bare(options());
    rig.sets("b a c", 1);
    rig.attach(PODS);
    assert!(!rig.listener.has_synced(PODS));
    assert_eq!(
        rig.take_all(),
        "add a@1 initial\nadd b@1 initial\nadd c@1 initial\n",
        "synced has to wait for answers"
    );
    rig.answer(DeliveryOutcome::Ok);
    rig.answer(retryable());
    assert!(rig.take().starts_with("wait 1."));
    assert!(!rig.listener.has_synced(PODS));
    rig.answer(permanent());
    assert!(rig.listener.has_synced(PODS), "attempted, not accepted");
    assert_eq!(rig.take(), "synced initial");
}

#[test]
fn a_source_without_objects_is_synced_at_once() {
    let mut rig = Rig::bare(options());
    rig.attach(PODS);
    assert_eq!(rig.take(), "synced initial");
    assert!(rig.listener.has_synced(PODS));
}

#[test]
fn each_source_is_synced_on_its_own() {
    let mut rig = Rig::bare(options());
    rig.set("a", 1);
    rig.write(NODES, state("n", "u", 1, 0));
    rig.attach(PODS);
    rig.attach(NODES);
    assert_eq!(rig.take_all(), "add a@1 initial\nadd n@1 initial source 2\n");
    rig.in_flight.swap(0, 1);
    rig.answer(DeliveryOutcome::Ok);
    assert!(rig.listener.has_synced(NODES) && !rig.listener.has_synced(PODS));
    assert_eq!(rig.take_all(), "synced initial source 2\n");
}

#[test]
fn the_synced_callback_names_each_source_once() {
    let mut rig = Rig::bare(options());
    let synced = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let list = synced.clone();
    rig.listener
        .set_synced_callback(std::sync::Arc::new(move |source| list.lock().unwrap().push(source)));
    rig.set("a", 1);
    rig.attach(PODS);
    rig.attach(NODES);
    rig.drain();
    rig.listener.replay(rig.now);
    rig.drain();
    assert_eq!(*synced.lock().unwrap(), [NODES, PODS]);
}

#[test]
fn what_changes_ahead_of_the_cursor_is_shown_as_it_is_by_then() {
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
fn what_was_deleted_ahead_of_the_cursor_and_created_again_is_shown_as_new() {
    let mut rig = Rig::bare(options());
    rig.write(PODS, state("a", "first", 1, 0));
    rig.attach(PODS);
    rig.write(PODS, state("a", "second", 2, 0));
    assert_eq!(rig.drain(), "add a@2 initial\nsynced initial\n");
}

#[test]
fn what_the_cursor_has_passed_is_told_as_usual() {
    let mut rig = Rig::bare(options());
    rig.sets("b d", 1);
    rig.attach(PODS);
    rig.take();
    rig.take();
    // Behind the cursor, though the snapshot it began with did not hold it.
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
fn the_cursor_of_one_source_does_not_wait_for_the_end_of_anothers() {
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
fn a_replay_shows_everything_again_after_the_deletes_that_wait() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    rig.drain();
    rig.set("a", 2);
    rig.set("d", 1);
    rig.delete("b");
    rig.listener.replay(rig.now);
    insta::assert_snapshot!(rig.drain(), @r"
    delete b@1 watch
    add a@2 replay
    add c@1 replay
    add d@1 replay
    synced replay
    ");
    assert!(rig.listener.has_synced(PODS));
}

#[test]
fn a_replay_tells_deletes_of_what_it_has_not_shown() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    rig.drain();
    rig.listener.replay(rig.now);
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
fn a_replay_during_an_initial_list_begins_again_and_tells_deletes() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.take();
    rig.listener.replay(rig.now);
    rig.delete("b");
    insta::assert_snapshot!(rig.drain(), @r"
    add a@1 replay
    delete b@1 watch
    synced replay
    ");
}

#[test]
fn a_replay_before_anything_was_shown_is_the_initial_list() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.listener.replay(rig.now);
    rig.delete("b");
    assert_eq!(rig.drain(), "add a@1 initial\nsynced initial\n");
}

#[test]
fn a_replay_takes_the_place_of_a_synced_that_waits() {
    let mut rig = Rig::bare(options());
    rig.set("a", 1);
    rig.attach(PODS);
    rig.take();
    rig.answer(DeliveryOutcome::Ok);
    rig.listener.replay(rig.now);
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
}

#[test]
fn a_synced_that_fails_or_is_given_back_during_a_replay_is_left_to_it() {
    for fails in [true, false] {
        let mut rig = Rig::bare(options());
        rig.set("a", 1);
        rig.attach(PODS);
        rig.take();
        rig.answer(DeliveryOutcome::Ok);
        assert_eq!(rig.take(), "synced initial");
        rig.listener.replay(rig.now);
        let token = rig.last_taken().token;
        match fails {
            true => rig.answer(retryable()),
            false => rig.listener.give_back([token]),
        }
        assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
        assert_eq!(rig.take(), "idle");
    }
}

#[test]
fn a_key_that_was_shown_given_back_and_deleted_does_not_keep_the_source_from_being_synced() {
    let mut rig = Rig::bare(ListenerOptions {
        pending_events_max: 0,
        ..options()
    });
    rig.set("a", 1);
    rig.attach(PODS);
    rig.take();
    let token = rig.last_taken().token;
    rig.listener.give_back([token]);
    assert_eq!(rig.take(), "add a@1 initial");
    let token = rig.last_taken().token;
    rig.listener.give_back([token]);
    rig.delete("a");
    assert_eq!(rig.take(), "synced initial");
    assert_eq!(rig.counters().vanished, 1);
}

#[test]
fn what_is_created_and_deleted_during_a_replay_is_not_told_while_an_earlier_delete_waits() {
    let mut rig = Rig::new(options());
    rig.write(PODS, state("b", "first", 1, 0));
    rig.write(PODS, state("a", "u", 1, 0));
    rig.drain();
    rig.delete("b");
    rig.listener.replay(rig.now);
    rig.write(PODS, state("b", "second", 2, 0));
    rig.delete("b");
    assert_eq!(rig.drain(), "delete b@1 watch\nadd a@1 replay\nsynced replay\n");
}

#[test]
fn a_key_in_flight_when_a_replay_begins_is_shown_when_it_is_done() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.take();
    rig.set("a", 2);
    rig.listener.replay(rig.now);
    assert_eq!(rig.take_all(), "add b@1 replay\n");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take_all(), "add a@2 replay\n");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "idle", "a was shown and not attempted yet");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "synced replay");
}

#[test]
fn a_replay_leaves_keys_in_back_off_there_and_synced_waits_for_them() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.take();
    rig.answer(DeliveryOutcome::Trapped("unreachable".to_owned()));
    rig.listener.replay(rig.now);
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
fn a_replay_of_every_source_is_synced_for_every_source() {
    let mut rig = Rig::new(options());
    rig.attach(NODES);
    rig.drain();
    rig.listener.replay(rig.now);
    assert_eq!(rig.drain(), "synced replay\nsynced replay source 2\n");
}

fn resyncing() -> Rig {
    Rig::new(ListenerOptions {
        resync: Some(seconds(10)),
        ..options()
    })
}

#[test]
fn a_resync_is_due_after_its_period_and_tells_each_object_as_an_update_to_itself() {
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
fn a_resync_round_is_left_out_and_counted_while_the_last_one_runs() {
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
fn a_resync_round_is_left_out_while_everything_is_shown_anyway() {
    let mut rig = resyncing();
    rig.sets("a b", 1);
    rig.drain();
    rig.listener.replay(rig.now);
    rig.take();
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "add b@1 replay\nsynced replay\n");
    assert_eq!((rig.counters().resyncs, rig.counters().resync_ticks_skipped), (0, 1));
}

#[test]
fn a_resync_passes_over_keys_with_something_waiting() {
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
fn changes_during_a_resync_are_told_and_old_states_never_again() {
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
fn a_resync_shorter_than_the_minimum_is_raised_to_it() {
    let mut rig = Rig::new(ListenerOptions {
        resync: Some(Duration::from_millis(1)),
        ..options()
    });
    assert_eq!(rig.take(), "wait 1s");
}

#[test]
fn a_cursor_holds_the_lock_for_a_bounded_number_of_keys_only() {
    let mut rig = resyncing();
    for index in 0..3_000 {
        rig.set(&format!("pod-{index:04}"), 1);
    }
    // Everything is in flight: the resync passes over all of it.
    rig.take_all();
    rig.pass(seconds(10));
    assert_eq!(rig.take(), "wait 0ns");
    assert!(rig.counters().resync_keys_skipped < 3_000);
    rig.take();
    rig.take();
    assert_eq!(rig.counters().resync_keys_skipped, 3_000);
}

#[test]
fn a_resync_period_that_is_set_later_begins_then_and_can_be_taken_back() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.drain();
    let with = |resync| ListenerOptions { resync, ..options() };
    rig.listener.set_options(with(Some(seconds(10))), rig.now);
    assert_eq!(rig.take(), "wait 10s");
    rig.pass(seconds(10));
    assert_eq!(rig.drain(), "update a@1->1 resync\n");
    rig.listener.set_options(with(None), rig.now);
    rig.pass(seconds(100));
    assert_eq!(rig.drain(), "");
}
