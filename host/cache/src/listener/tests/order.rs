//! Order, exactly-once delivery, and the protocol between loop, listener and consumer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

#[test]
fn events_are_delivered_once_in_order() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.set("a", 2);
    rig.set("a", 3);
    rig.delete("b");
    insta::assert_snapshot!(rig.drain(), @r"
    add a@1 watch
    add b@1 watch
    update a@1->2 watch
    delete b@1 watch
    update a@2->3 watch
    ");
    let counters = rig.counters();
    assert_eq!((counters.accepted, counters.ok, counters.coalesced), (5, 6, 0));
}

#[test]
fn deliveries_of_a_key_never_overlap() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(rig.take(), "add a@1 watch");
    rig.set("a", 2);
    rig.set("b", 1);
    assert_eq!(rig.take(), "add b@1 watch");
    assert_eq!(rig.take(), "idle", "the update of a waits for its add");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "update a@1->2 watch");
}

#[test]
fn batch_holds_each_key_once() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.set("a", 2);
    rig.set("b", 1);
    let mut batch = Vec::new();
    assert_eq!(
        rig.listener
            .consumer()
            .next_batch(LaneSet::FIRST, rig.now, 10, &mut batch),
        NextBatch::Delivered(2)
    );
    let tokens: Vec<DeliveryToken> = batch.iter().map(|delivery| delivery.token).collect();
    rig.listener
        .consumer()
        .done_batch(tokens.into_iter().map(|token| (token, DeliveryOutcome::Ok)), rig.now);
    assert_eq!(rig.drain(), "update a@1->2 watch\n");
}

#[test]
fn same_name_in_two_sources_is_two_keys() {
    let mut rig = Rig::new(options());
    rig.attach(NODES);
    rig.drain();
    rig.set("a", 1);
    rig.write(NODES, state("a", "u", 7, 0));
    assert_eq!(rig.take_all(), "add a@1 watch\nadd a@7 watch source 2\n");
}

#[test]
fn delete_and_recreate_never_become_an_update() {
    let mut rig = Rig::new(options());
    rig.write(PODS, state("a", "first", 1, 0));
    rig.drain();
    // The store replaced one incarnation by another, without a delete in between.
    rig.write(PODS, state("a", "second", 5, 0));
    insta::assert_snapshot!(rig.drain(), @r"
    delete a@1? watch
    add a@5 watch
    ");
}

#[test]
fn changes_before_the_initial_list_are_left_to_it() {
    let mut rig = Rig::bare(options());
    rig.set("a", 1);
    assert_eq!(rig.take(), "idle");
    assert_eq!(rig.counters().unattached, 1);
    rig.attach(PODS);
    assert_eq!(rig.drain(), "add a@1 initial\nsynced initial\n");
}

#[test]
fn outcome_counts_once() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    let token = rig.last_taken().token;
    rig.answer(DeliveryOutcome::Ok);
    rig.listener.consumer().done(token, permanent(), rig.now);
    rig.set("a", 2);
    rig.take();
    rig.listener.consumer().done(token, permanent(), rig.now);
    let stats = rig.stats();
    assert_eq!(
        (
            stats.counters.late,
            stats.counters.ok,
            stats.in_flight,
            stats.dead_letters
        ),
        (2, 2, 1, 0)
    );
}

#[test]
fn given_back_delivery_is_redelivered_first_as_new() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    let mut batch = Vec::new();
    rig.listener
        .consumer()
        .next_batch(LaneSet::FIRST, rig.now, 2, &mut batch);
    rig.listener
        .consumer()
        .give_back(batch.iter().map(|delivery| delivery.token));
    rig.delete("b");
    assert_eq!(
        rig.drain(),
        "add a@1 watch\nadd b@1 watch\nadd c@1 watch\ndelete b@1 watch\n"
    );
    assert_eq!((rig.counters().delivered, rig.counters().ok), (5, 5));
}

#[test]
fn given_back_add_still_cancels_with_its_delete() {
    let mut rig = Rig::new(ListenerOptions {
        pending_events_max: 0,
        ..options()
    });
    rig.set("a", 1);
    rig.take();
    let token = rig.last_taken().token;
    rig.listener.consumer().give_back([token]);
    rig.delete("a");
    assert_eq!(rig.take(), "idle");
    assert_eq!(rig.counters().vanished, 1);
}

#[test]
fn waiting_consumer_is_woken_once() {
    let mut rig = Rig::new(options());
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    rig.listener.consumer().set_waker(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    let woken = || woken.load(Ordering::Relaxed);
    assert_eq!(rig.take(), "idle");
    rig.sets("a b", 1);
    assert_eq!(woken(), 1, "once for both");
    rig.take();
    rig.set("c", 1);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(woken(), 1, "it does not wait");
    rig.drain();
    rig.listener.control().pause(Pause::Swap);
    assert_eq!(rig.take(), "idle");
    rig.set("a", 2);
    assert_eq!(woken(), 1, "nothing is handed out during a pause");
    rig.listener.control().resume(Pause::Swap);
    assert_eq!(woken(), 2);
    rig.drain();
    rig.listener.control().close();
    assert_eq!(woken(), 3, "to learn that the listener is drained");
}

#[test]
fn consumer_is_woken_for_earlier_retry_not_for_folds() {
    let mut rig = Rig::new(options());
    let woken = Arc::new(AtomicUsize::new(0));
    let count = woken.clone();
    rig.listener.consumer().set_waker(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    rig.set("a", 1);
    rig.take();
    assert_eq!(rig.take(), "idle");
    woken.store(0, Ordering::Relaxed);
    rig.answer(retryable());
    assert_eq!(woken.swap(0, Ordering::Relaxed), 1, "it has to know when to ask again");
    assert!(rig.take().starts_with("wait 1."));
    rig.set("a", 2);
    assert_eq!(woken.load(Ordering::Relaxed), 0);
}

#[test]
fn pause_delivers_nothing_and_loses_nothing() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    rig.listener.control().pause(Pause::Swap);
    rig.set("a", 2);
    rig.set("a", 3);
    assert_eq!(rig.take(), "idle");
    assert_eq!(rig.listener.consumer().in_flight(), 1);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "idle");
    rig.listener.control().resume(Pause::Swap);
    assert_eq!(rig.drain(), "update a@1->2 watch\nupdate a@2->3 watch\n");
}

#[test]
fn quarantine_ends_with_the_difference() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.set("b", 1);
    rig.drain();
    rig.set("a", 2);
    rig.set("a", 3);
    rig.listener.control().pause(Pause::Quarantine);
    rig.set("a", 4);
    rig.set("b", 2);
    rig.delete("b");
    rig.set("c", 1);
    rig.delete("c");
    // A swap meanwhile does not end it.
    rig.listener.control().pause(Pause::Swap);
    rig.listener.control().resume(Pause::Swap);
    assert_eq!(rig.take(), "idle");
    assert!(rig.stats().keyed);
    rig.listener.control().resume(Pause::Quarantine);
    assert_eq!(rig.drain(), "update a@1->4 watch\ndelete b@2 watch\n");
    assert!(!rig.stats().keyed);
}

#[test]
fn states_skipped_while_paused_are_counted_exactly() {
    // An object goes from A to B and back while nothing is delivered.
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.drain();
    rig.listener.control().pause(Pause::Quarantine);
    rig.set("a", 2);
    rig.set("a", 3);
    rig.set("a", 4);
    rig.listener.control().resume(Pause::Quarantine);
    assert_eq!(rig.drain(), "update a@1->4 watch\n");
    assert_eq!(rig.counters().coalesced, 2);
}

#[test]
fn closed_listener_drains_accepted_events() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.take();
    rig.listener.control().close();
    rig.set("c", 1);
    assert_eq!(rig.counters().refused, 1);
    assert_eq!(rig.drain(), "add b@1 watch\n");
    assert_eq!(rig.take(), "closed");
}

#[test]
fn close_finishes_initial_list_but_not_resync() {
    let mut rig = Rig::bare(ListenerOptions {
        resync: Some(seconds(10)),
        ..options()
    });
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.take();
    rig.listener.control().close();
    assert_eq!(rig.drain(), "add b@1 initial\nsynced initial\n");
    assert_eq!(rig.take(), "closed");

    let mut rig = Rig::new(ListenerOptions {
        resync: Some(seconds(10)),
        ..options()
    });
    rig.sets("a b", 1);
    rig.drain();
    rig.pass(seconds(10));
    assert_eq!(rig.take(), "update a@1->1 resync");
    rig.listener.control().close();
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "closed");
}

#[test]
fn abandon_counts_remaining_events() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    rig.take();
    rig.set("a", 2);
    rig.write(NODES, state("n", "u", 1, 0));
    rig.attach(NODES);
    // a in flight and pending, b, c, and n which no cursor has delivered.
    assert_eq!(rig.listener.control().abandon(), 5);
    assert_eq!(rig.counters().discarded, 5);
    assert_eq!(rig.take(), "closed");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.counters().late, 1);
}

#[test]
fn detached_source_sends_no_deletes_and_frees_its_slots() {
    let mut rig = Rig::new(options());
    rig.attach(NODES);
    rig.drain();
    for source in [PODS, NODES] {
        for name in ["a", "b", "c"] {
            rig.write(source, state(name, "u", 1, 0));
        }
    }
    rig.take();
    rig.fail();
    rig.listener.feed().detach(PODS);
    let stats = rig.stats();
    assert_eq!(
        (stats.sources, stats.pending, stats.in_flight, stats.failing),
        (1, 3, 0, 0)
    );
    assert_eq!(stats.counters.discarded, 3, "the one in flight included");
    rig.delete_in(PODS, "a", false);
    assert_eq!(
        rig.drain(),
        "add a@1 watch source 2\nadd b@1 watch source 2\nadd c@1 watch source 2\n"
    );
    assert_eq!((rig.counters().late, rig.stats().bytes), (1, 0));
    assert_eq!(rig.take(), "idle", "no back-off is left behind");
}

#[test]
fn stats_show_the_object_of_a_stuck_handler() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    let since = rig.now;
    rig.pass(seconds(5));
    rig.set("b", 1);
    rig.take();
    rig.set("b", 2);
    rig.pass(seconds(5));
    let stats = rig.stats();
    let stuck = stats.oldest_in_flight.unwrap();
    assert_eq!(
        stuck,
        InFlight {
            source: PODS,
            key: Some(Key::new("default", "a")),
            event: "add",
            since,
            attempt: 0
        }
    );
    assert_eq!(stats.oldest_pending, Some(since + seconds(5)));
}

#[test]
fn exact_old_requires_the_last_accepted_state() {
    let mut rig = Rig::new(options());
    let exact_old = |rig: &mut Rig, outcome: DeliveryOutcome| {
        rig.take();
        let exact_old = rig.last_taken().exact_old;
        rig.answer(outcome);
        exact_old
    };
    rig.set("a", 1);
    assert!(!exact_old(&mut rig, DeliveryOutcome::Ok), "an add has no old state");
    rig.set("a", 2);
    assert!(exact_old(&mut rig, DeliveryOutcome::Filtered));
    rig.set("a", 3);
    assert!(exact_old(&mut rig, DeliveryOutcome::Ok), "filtered counts as accepted");
    rig.set("a", 4);
    rig.set("a", 5);
    assert!(!exact_old(&mut rig, DeliveryOutcome::Ok), "something waits behind it");
    assert!(exact_old(&mut rig, permanent()));
    rig.set("a", 6);
    assert!(
        !exact_old(&mut rig, DeliveryOutcome::Ok),
        "the last one became a dead letter"
    );
    rig.set("a", 7);
    assert!(exact_old(&mut rig, retryable()));
    rig.pass(seconds(300));
    assert!(!exact_old(&mut rig, DeliveryOutcome::Ok), "a retry is no first try");
}

#[test]
fn exact_old_is_unset_after_a_forgotten_failure() {
    for (options, outcome) in [
        (
            ListenerOptions {
                on_failure: FailurePolicy::Skip,
                ..options()
            },
            retryable(),
        ),
        (
            ListenerOptions {
                dead_letters_max: 0,
                ..options()
            },
            permanent(),
        ),
    ] {
        let mut rig = Rig::new(options);
        rig.set("a", 1);
        rig.drain();
        rig.set("a", 2);
        rig.take();
        rig.answer(outcome);
        rig.set("a", 3);
        rig.take();
        assert!(!rig.last_taken().exact_old);
        rig.answer(DeliveryOutcome::Ok);
        rig.set("a", 4);
        rig.take();
        assert!(rig.last_taken().exact_old);
    }
}
