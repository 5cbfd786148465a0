//! Requeues: when a handler that asked for another call of a key receives it, and what cancels that.

use super::*;

/// A listener whose handler received the adds of `names` and asked for another call of each after 5 s.
fn requeued(options: ListenerOptions, names: &str) -> Rig {
    let mut rig = Rig::new(options);
    rig.sets(names, 1);
    rig.take_all();
    rig.answer_all(&again(seconds(5)));
    rig
}

/// As [`requeued`], with the deletes of `names`.
fn requeued_deletes(options: ListenerOptions, names: &str) -> Rig {
    let mut rig = Rig::new(options);
    rig.sets(names, 1);
    rig.drain();
    for name in names.split(' ') {
        rig.delete_in(PODS, name, name == "unknown");
    }
    rig.take_all();
    rig.answer_all(&again(seconds(5)));
    rig
}

fn waiting(rig: &Rig) -> usize {
    rig.stats().requeues
}

#[test]
fn requeued_key_is_called_with_its_present_state() {
    let mut rig = requeued(options(), "a");
    assert_eq!((waiting(&rig), rig.stats().pending, rig.stats().failing), (1, 0, 0));
    rig.pass(seconds(1));
    rig.set("a", 2);
    rig.take();
    rig.answer(DeliveryOutcome::Filtered);
    assert_eq!(rig.take(), "wait 4s");
    rig.pass(seconds(4));
    assert_eq!(rig.take(), "update a@->2 requeue-after");
    assert!(!rig.last_taken().exact_old);
    assert_eq!(rig.last_taken().received, rig.now);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "idle");
    let c = rig.counters();
    assert_eq!((waiting(&rig), c.requeued, c.requeues_dropped), (0, 1, 0));
}

#[test]
fn requeued_delete_is_delivered_again_as_it_was() {
    let mut rig = requeued_deletes(options(), "a unknown");
    rig.pass(seconds(5));
    assert_eq!(
        rig.take_all(),
        "delete a@1 requeue-after\ndelete unknown@1? requeue-after\n"
    );
    rig.answer_all(&again(seconds(1)));
    assert_eq!(rig.take(), "wait 1s");
    rig.pass(seconds(1));
    assert_eq!(rig.drain().lines().count(), 2);
    assert_eq!((rig.take(), rig.stats().bytes), ("idle".to_owned(), 0));
}

#[test]
fn any_call_of_the_key_cancels_its_requeue() {
    for outcome in [
        DeliveryOutcome::Ok,
        permanent(),
        retryable(),
        DeliveryOutcome::Trapped("x".to_owned()),
    ] {
        for on_failure in [FailurePolicy::Retry, FailurePolicy::Skip] {
            let mut rig = requeued(
                ListenerOptions {
                    on_failure,
                    ..options()
                },
                "a",
            );
            rig.set("a", 2);
            rig.take();
            rig.answer(outcome.clone());
            assert_eq!(waiting(&rig), 0, "{outcome:?} {on_failure:?}");
            rig.pass(seconds(5));
            assert!(!rig.drain().contains("requeue-after"), "{outcome:?}");
            assert_eq!(rig.counters().requeues_dropped, 0);
        }
    }
}

#[test]
fn later_request_replaces_an_earlier_one() {
    let mut rig = requeued(options(), "a");
    rig.set("a", 2);
    rig.take();
    rig.answer(again(seconds(60)));
    assert_eq!((waiting(&rig), rig.take()), (1, "wait 60s".to_owned()));
}

#[test]
fn arrival_that_is_filtered_or_given_back_cancels_nothing() {
    let mut rig = requeued(options(), "a");
    rig.set("a", 2);
    rig.take();
    rig.answer(DeliveryOutcome::Filtered);
    rig.set("a", 3);
    rig.take();
    let token = rig.in_flight.pop().unwrap().token;
    rig.listener.consumer().give_back([token]);
    assert_eq!(waiting(&rig), 1);
    rig.take();
    rig.answer(DeliveryOutcome::Filtered);
    assert_eq!(rig.take(), "wait 5s");
}

#[test]
fn due_requeue_waits_for_the_event_of_its_key() {
    let mut rig = requeued(options(), "a b");
    rig.set("a", 2);
    rig.set("b", 2);
    assert_eq!(rig.take_all().lines().count(), 2);
    rig.pass(seconds(6));
    assert_eq!(rig.take(), "wait 1s", "it is looked at again");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.take(), "wait 1s", "b is still in flight");
    rig.answer(DeliveryOutcome::Filtered);
    assert_eq!(rig.drain(), "update b@->2 requeue-after\n", "at once");
    assert_eq!(rig.take(), "idle");
}

#[test]
fn filtered_requeue_is_dropped_and_counted() {
    let mut rig = requeued(options(), "a");
    rig.pass(seconds(5));
    rig.take();
    rig.answer(DeliveryOutcome::Filtered);
    assert_eq!((rig.take(), rig.counters().requeues_dropped), ("idle".to_owned(), 1));
}

#[test]
fn filtered_delete_drops_the_requeue_of_its_object() {
    let mut rig = requeued(options(), "a b");
    rig.delete("a");
    rig.delete("b");
    rig.set("b", 2);
    for _ in 0..3 {
        rig.take();
        rig.answer(DeliveryOutcome::Filtered);
    }
    assert_eq!((waiting(&rig), rig.counters().requeues_dropped), (1, 1));
    rig.pass(seconds(5));
    assert_eq!(rig.drain(), "update b@->2 requeue-after\n", "b exists again");
}

#[test]
fn filtered_new_incarnation_leaves_the_delete_requeued() {
    let mut rig = requeued_deletes(options(), "a b");
    rig.write(PODS, state("a", "another", 7, 0));
    rig.write(PODS, state("b", "another", 7, 0));
    rig.take_all();
    rig.answer(DeliveryOutcome::Filtered);
    rig.answer(DeliveryOutcome::Ok);
    rig.pass(seconds(5));
    assert_eq!(rig.drain(), "delete a@1 requeue-after\n");
}

#[test]
fn trigger_leaves_the_delete_requeued_of_a_filtered_object() {
    let mut rig = requeued_deletes(options(), "a");
    rig.write(PODS, state("a", "another", 7, 0));
    rig.take();
    rig.answer(DeliveryOutcome::Filtered);
    let done = rig.listener.control().trigger(PODS, &[key("a").to_key()], rig.now);
    assert_eq!((done.triggered, done.waiting), (0, 0));
    assert_eq!(rig.take(), "wait 5s");
    rig.pass(seconds(5));
    assert_eq!(rig.drain(), "delete a@1 requeue-after\n");
}

#[test]
fn second_trigger_of_a_paused_handler_counts_as_waiting() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.drain();
    rig.listener.control().pause(Pause::Operator);
    let trigger = |rig: &mut Rig| {
        let done = rig.listener.control().trigger(PODS, &[key("a").to_key()], rig.now);
        (done.triggered, done.waiting)
    };
    assert_eq!([trigger(&mut rig), trigger(&mut rig)], [(1, 0), (0, 1)]);
    rig.listener.control().resume(Pause::Operator);
    assert_eq!(rig.drain(), "update a@->1 trigger\n");
    assert_eq!(trigger(&mut rig), (1, 0));
}

#[test]
fn failed_requeue_is_retried_with_its_reason() {
    let mut rig = requeued(with_attempts(2), "a");
    rig.pass(seconds(5));
    assert_eq!(rig.fail(), "update a@->1 requeue-after");
    assert_eq!((rig.stats().failing, rig.stats().pending), (1, 1));
    rig.pass(seconds(2));
    assert_eq!(rig.fail(), "update a@->1 requeue-after try 1");
    assert_eq!((rig.stats().dead_letters, waiting(&rig)), (1, 0), "no requeue is left");
    rig.pass(seconds(600));
    assert_eq!(rig.take(), "idle");
}

#[test]
fn state_that_arrives_while_a_requeue_fails_replaces_it() {
    let mut rig = requeued(options(), "a");
    rig.pass(seconds(5));
    rig.fail();
    rig.set("a", 2);
    rig.pass(seconds(2));
    assert_eq!(rig.drain(), "update a@->2 watch\n");
    assert_eq!((rig.take(), waiting(&rig)), ("idle".to_owned(), 0));
}

#[test]
fn due_requeues_never_become_pending_events() {
    let mut rig = Rig::new(ListenerOptions {
        pending_events_max: 2,
        ..options()
    });
    for number in 0..10_000 {
        rig.set(&format!("pod-{number:04}"), 1);
        rig.take();
        rig.answer(again(Duration::from_millis(5_000 + (number % 7))));
    }
    rig.pass(seconds(6));
    rig.set("new", 1);
    let two = [rig.take(), rig.take()].join("\n");
    assert!(two.contains("add new@1 watch"), "{two}");
    assert!(
        two.contains("update pod-0000@->1 requeue-after"),
        "in order of time: {two}"
    );
    assert_eq!((rig.stats().pending, rig.stats().keyed), (0, false));
    let delivered = rig.drain();
    assert_eq!(delivered.lines().count(), 9_999);
    assert!(delivered.starts_with("update pod-0007@->1 requeue-after\n"));
}

#[test]
fn requeues_do_not_keep_a_closed_listener_open() {
    let mut rig = requeued(options(), "a b");
    rig.set("b", 2);
    rig.pass(seconds(5));
    rig.listener.control().close();
    assert_eq!(rig.drain(), "update b@1->2 watch\n", "what was pending");
    assert_eq!((rig.take(), waiting(&rig)), ("closed".to_owned(), 1));
    assert_eq!(
        (
            rig.listener.feed().busy_keys(PODS),
            rig.listener.feed().deliverable_keys(PODS)
        ),
        (0, 0)
    );
}

#[test]
fn paused_handler_receives_its_requeues_when_resumed() {
    let mut rig = requeued(options(), "a");
    rig.listener.control().pause(Pause::Swap);
    rig.pass(seconds(60));
    assert_eq!(rig.take(), "idle");
    rig.listener.control().resume(Pause::Swap);
    assert_eq!(rig.drain(), "update a@->1 requeue-after\n");
}

#[test]
fn replay_cancels_every_requeue() {
    let mut rig = requeued_deletes(options(), "gone");
    rig.set("a", 1);
    rig.take();
    rig.answer(again(seconds(5)));
    rig.listener.control().replay(rig.now);
    assert_eq!((waiting(&rig), rig.stats().bytes), (0, 0));
    rig.pass(seconds(5));
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
}

#[test]
fn cursor_ahead_of_a_key_goes_before_its_requeue() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.take_all();
    rig.listener.control().replay(rig.now);
    // They were in flight when the replay started, which will deliver them again.
    rig.answer_all(&again(seconds(5)));
    rig.pass(seconds(60));
    assert_eq!(rig.drain(), "add a@1 replay\nadd b@1 replay\nsynced replay\n");
    assert_eq!(waiting(&rig), 0);
}

#[test]
fn requeues_of_a_removed_source_are_dropped() {
    let mut rig = requeued_deletes(options(), "a b");
    rig.listener.feed().detach(PODS);
    assert_eq!((waiting(&rig), rig.stats().bytes), (0, 0));
    assert_eq!(rig.counters().requeues_dropped, 2);
    rig.pass(seconds(60));
    assert_eq!(rig.take(), "idle");
}

#[test]
fn requeues_move_to_the_source_that_replaces_theirs() {
    let mut rig = requeued_deletes(options(), "gone");
    rig.sets("a b out", 1);
    rig.take_all();
    rig.answer_all(&again(seconds(5)));
    rig.store(NODES).add(state("a", "uid-a", 1, 0));
    rig.store(NODES).add(state("b", "uid-b", 1, 0));
    let (now, snapshot) = (rig.now, rig.store(NODES).publish());
    rig.listener
        .feed()
        .transfer(&[PODS], NODES, &|key| key.name != "out", &snapshot, &[], now);
    rig.pass(seconds(5));
    assert_eq!(
        rig.drain(),
        "update a@->1 requeue-after source 2\nupdate b@->1 requeue-after source 2\ndelete gone@1 requeue-after source 2\n"
    );
    assert_eq!(rig.counters().requeues_dropped, 1, "the replaced source has no objects");
}

#[test]
fn requeue_in_flight_moves_with_its_source() {
    let mut rig = requeued(options(), "a");
    rig.pass(seconds(5));
    rig.take();
    rig.store(NODES).add(state("a", "uid-a", 1, 0));
    let (now, snapshot) = (rig.now, rig.store(NODES).publish());
    rig.listener
        .feed()
        .transfer(&[PODS], NODES, &|_| true, &snapshot, &[], now);
    assert_eq!(rig.take(), "idle");
    rig.answer(again(seconds(1)));
    rig.pass(seconds(1));
    assert_eq!(rig.drain(), "update a@->1 requeue-after source 2\n");
}

#[test]
fn reattached_source_keeps_requeued_deletes() {
    let mut rig = requeued_deletes(options(), "a b");
    rig.listener.feed().transfer_pending(&[PODS], NODES, &|_| true);
    rig.pass(seconds(60));
    assert_eq!(rig.take(), "wait 1s", "not before the source is attached");
    rig.store(NODES).add(state("a", "uid-a", 9, 0));
    rig.attach(NODES);
    let delivered = rig.drain();
    assert_eq!(delivered, "add a@9 initial source 2\nsynced initial source 2\n");
    rig.pass(seconds(1));
    assert_eq!(rig.drain(), "delete b@1 requeue-after source 2\n");
}

#[test]
fn synced_cannot_be_requeued() {
    let mut rig = Rig::bare(options());
    rig.attach(PODS);
    assert_eq!(rig.take(), "synced initial");
    rig.answer(again(seconds(1)));
    assert_eq!((rig.take(), waiting(&rig)), ("idle".to_owned(), 0));
}
