//! Behavior above the limits.

use super::*;

/// A listener that is always keyed.
fn keyed() -> Rig {
    Rig::new(ListenerOptions {
        pending_events_max: 0,
        ..options()
    })
}

#[test]
fn events_fold_only_above_the_limit() {
    let mut rig = Rig::new(ListenerOptions {
        pending_events_max: 3,
        ..options()
    });
    for version in 1..=6 {
        rig.set("a", version);
    }
    rig.set("b", 1);
    assert_eq!(
        (rig.stats().pending, rig.stats().keyed, rig.counters().coalesced),
        (4, true, 3)
    );
    insta::assert_snapshot!(rig.drain(), @r"
    add a@1 watch
    add b@1 watch
    update a@1->2 watch
    update a@2->6 watch
    ");
    assert!(!rig.stats().keyed);
    rig.set("a", 7);
    rig.set("a", 8);
    assert_eq!(
        rig.drain(),
        "update a@6->7 watch\nupdate a@7->8 watch\n",
        "in full again"
    );
}

#[test]
fn an_add_and_an_update_fold_to_an_add() {
    let mut rig = keyed();
    rig.set("a", 1);
    rig.set("a", 2);
    assert_eq!(rig.drain(), "add a@2 watch\n");
}

#[test]
fn folded_updates_start_at_the_last_delivered_state() {
    let mut rig = keyed();
    rig.set("a", 1);
    rig.drain();
    rig.set("a", 2);
    assert_eq!(rig.take(), "update a@1->2 watch");
    rig.set("a", 3);
    rig.set("a", 4);
    rig.answer(permanent());
    assert_eq!(rig.drain(), "update a@2->4 watch\n", "it ended, though not well");
}

#[test]
fn update_and_delete_fold_to_a_delete() {
    let mut rig = keyed();
    rig.sets("a b", 1);
    rig.drain();
    rig.sets("a b", 2);
    rig.delete("a");
    rig.delete_in(PODS, "b", true);
    assert_eq!(rig.drain(), "delete a@2 watch\ndelete b@2? watch\n");
}

#[test]
fn undelivered_add_cancels_with_its_delete_and_is_counted() {
    let mut rig = keyed();
    rig.set("a", 1);
    rig.set("a", 2);
    rig.delete("a");
    assert_eq!(rig.take(), "idle");
    let stats = rig.stats();
    assert_eq!(
        (stats.pending, stats.counters.vanished, stats.counters.coalesced),
        (0, 1, 1)
    );
}

#[test]
fn delivered_add_does_not_cancel_with_its_delete() {
    let mut rig = keyed();
    rig.set("a", 1);
    rig.take();
    rig.delete("a");
    rig.answer(retryable());
    rig.pass(seconds(2));
    assert_eq!(rig.drain(), "delete a@1 watch\n");
}

#[test]
fn delete_and_add_of_new_incarnation_do_not_fold() {
    let mut rig = keyed();
    rig.write(PODS, state("a", "first", 1, 0));
    rig.drain();
    rig.delete("a");
    rig.write(PODS, state("a", "second", 5, 0));
    rig.write(PODS, state("a", "second", 6, 0));
    assert_eq!(rig.stats().pending, 2);
    assert_eq!(rig.drain(), "delete a@1 watch\nadd a@6 watch\n");

    rig.delete("a");
    rig.write(PODS, state("a", "third", 8, 0));
    rig.delete("a");
    assert_eq!(rig.drain(), "delete a@6 watch\n", "the third was never delivered");
    assert_eq!(rig.counters().vanished, 1);
}

#[test]
fn folding_keeps_newest_reason_and_oldest_time() {
    let mut rig = keyed();
    rig.set("a", 1);
    rig.drain();
    let first = rig.now;
    rig.set("a", 2);
    rig.pass(seconds(3));
    let (old, new) = (state("a", "uid-a", 2, 0), state("a", "uid-a", 3, 0));
    rig.push_as(PODS, ChangeKind::Update { old, new }, Reason::Relist);
    assert_eq!(rig.take(), "update a@1->3 relist");
    assert_eq!(rig.last_taken().received, first);
    assert!(rig.last_taken().exact_old, "old is what was delivered before");
}

#[test]
fn stalled_handler_holds_at_most_two_events_per_key() {
    let mut rig = Rig::new(ListenerOptions {
        pending_events_max: 16,
        ..options()
    });
    for round in 0..100 {
        for name in ["a", "b", "c"] {
            rig.write(PODS, state(name, &format!("{round}"), 10 * round + 1, 0));
            rig.write(PODS, state(name, &format!("{round}"), 10 * round + 2, 0));
            if round % 3 == 1 {
                rig.delete(name);
            }
        }
    }
    assert!(rig.stats().pending <= 16 + 2 * 3, "{}", rig.stats().pending);
    let delivered = rig.drain();
    let last_of = |name: &str| delivered.lines().rfind(|line| line.contains(&format!(" {name}@")));
    for name in ["a", "b", "c"] {
        assert_eq!(last_of(name), Some(&*format!("add {name}@992 watch")));
    }
}

#[test]
fn old_states_are_dropped_above_the_byte_limit() {
    let size = state("a", "u", 1, 10_000).size_bytes();
    let mut rig = Rig::new(ListenerOptions {
        pending_bytes_max: 3 * size,
        ..options()
    });
    for name in ["a", "b", "c", "d", "e"] {
        rig.write(PODS, state(name, "u", 1, 10_000));
    }
    rig.drain();
    for name in ["a", "b", "c"] {
        rig.write(PODS, state(name, "u", 2, 10_000));
    }
    assert_eq!((rig.stats().bytes, rig.stats().keyed), (3 * size, false));
    rig.write(PODS, state("d", "u", 2, 10_000));
    assert_eq!(
        (rig.stats().bytes, rig.stats().keyed, rig.counters().olds_dropped),
        (0, true, 4)
    );
    insta::assert_snapshot!(rig.drain(), @r"
    update a@->2 watch
    update b@->2 watch
    update c@->2 watch
    update d@->2 watch
    ");
    rig.write(PODS, state("e", "u", 2, 10_000));
    assert_eq!(rig.drain(), "update e@1->2 watch\n", "there is room again");
}

#[test]
fn bodies_that_the_store_lacks_count_and_are_dropped() {
    let size = state("a", "u", 1, 10_000).size_bytes();
    let mut rig = Rig::new(ListenerOptions {
        pending_bytes_max: 3 * size,
        ..options()
    });
    let heads = |rig: &Rig| {
        let objects = rig.in_flight.iter().map(|delivery| &delivery.notification);
        let is_head = |notification: &Notification| matches!(notification, Notification::Add(new) if new.is_head());
        objects.filter(|notification| is_head(notification)).count()
    };
    rig.write(PODS, state("a", "u", 1, 10_000));
    assert_eq!(rig.stats().bytes, 0, "the store has it");
    let store = rig.store(PODS);
    store.shed_namespace("default");
    while store.shed_some(10) {}
    let snapshot = store.publish();
    rig.listener.feed().push(PODS, &snapshot, &[]);
    assert_eq!(rig.stats().bytes, size, "the store no longer has it");
    rig.write(PODS, state("b", "u", 1, 10_000));
    assert_eq!(rig.take_all(), "add a@1 watch\nadd b@1 watch\n");
    assert_eq!(heads(&rig), 0);
    rig.answer_all(&DeliveryOutcome::Ok);
    assert_eq!(rig.stats().bytes, 0);
    for name in ["c", "d", "e", "f"] {
        rig.write(PODS, state(name, "u", 1, 10_000));
    }
    assert_eq!((rig.stats().bytes, rig.counters().bodies_dropped), (0, 4));
    assert_eq!(rig.take_all().lines().count(), 4, "each is delivered");
    assert_eq!(heads(&rig), 4);
}

#[test]
fn a_vanished_object_that_the_store_lacks_returns_its_bytes() {
    let mut rig = keyed();
    rig.set("a", 1);
    rig.drain();
    rig.store(PODS).shed_namespace("default");
    rig.delete("a");
    let bytes = rig.stats().bytes;
    for version in 2..10 {
        rig.write(PODS, state("a", &format!("u{version}"), version, 10_000));
        assert!(rig.stats().bytes > bytes + 10_000, "{}", rig.stats().bytes);
        rig.delete("a");
        assert_eq!(rig.stats().bytes, bytes);
    }
    assert_eq!(rig.counters().vanished, 8);
    assert_eq!(rig.drain(), "delete a@1 watch\n");
    assert_eq!(rig.stats().bytes, 0);
}

#[test]
fn bodies_count_when_their_namespace_is_shed_completely() {
    let size = state("a", "u", 1, 10_000).size_bytes();
    let mut rig = Rig::new(options());
    for name in ["a", "b", "c"] {
        rig.write(PODS, state(name, "u", 1, 10_000));
    }
    let push_forms = |rig: &mut Rig| {
        let snapshot = rig.store(PODS).publish();
        rig.listener.feed().push(PODS, &snapshot, &[]);
        rig.stats().bytes
    };
    rig.store(PODS).shed_namespace("default");
    assert!(rig.store(PODS).shed_some(2));
    assert_eq!(push_forms(&mut rig), 0);
    assert!(!rig.store(PODS).shed_some(2));
    assert_eq!(push_forms(&mut rig), 3 * size);
}

#[test]
fn bodies_count_that_are_shed_together_with_changes() {
    let size = state("a", "u", 1, 10_000).size_bytes();
    let mut rig = Rig::new(options());
    rig.write(PODS, state("a", "u", 1, 10_000));
    let store = rig.store(PODS);
    store.shed_namespace("default");
    while store.shed_some(10) {}
    rig.write(PODS, state("b", "u", 1, 10_000));
    assert_eq!(rig.stats().bytes, 2 * size);
    for number in 0..100 {
        let store = rig.store(PODS);
        store.shed_namespace(&format!("other-{number}"));
        while store.shed_some(10) {}
    }
    rig.set("c", 1);
    assert_eq!(rig.stats().bytes, 2 * size);
}

#[test]
fn deletes_are_cut_to_metadata_above_the_byte_limit() {
    let size = state("a", "u", 1, 10_000).size_bytes();
    let mut rig = Rig::new(ListenerOptions {
        pending_bytes_max: 2 * size,
        ..options()
    });
    for name in ["a", "b", "c", "d"] {
        rig.write(PODS, state(name, "u", 1, 10_000));
    }
    rig.drain();
    for name in ["a", "b", "c", "d"] {
        rig.delete(name);
    }
    assert_eq!(rig.counters().deletes_cut, 2);
    assert!(rig.stats().bytes < 2 * size + 1_000);
    let mut batch = Vec::new();
    rig.listener
        .consumer()
        .next_batch(LaneSet::FIRST, rig.now, 10, &mut batch);
    let lasts: Vec<&Object> = batch
        .iter()
        .filter_map(|delivery| match &delivery.notification {
            Notification::Delete { last, .. } => last.as_ref(),
            _ => None,
        })
        .collect();
    assert!(lasts[0].text().contains("xxx") && lasts[1].text().contains("xxx"));
    insta::assert_snapshot!(
        lasts[3].text(),
        @r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"d","uid":"u","resourceVersion":"1"}}"#
    );
}

#[test]
fn events_fold_above_the_byte_limit() {
    let size = state("a", "u", 1, 10_000).size_bytes();
    let mut rig = Rig::new(ListenerOptions {
        pending_bytes_max: 3 * size,
        ..options()
    });
    for version in 1..=10 {
        rig.write(PODS, state("a", "u", version, 10_000));
    }
    assert!(rig.stats().bytes <= 3 * size);
    assert_eq!(rig.drain(), "add a@9 watch\nupdate a@9->10 watch\n");
}

#[test]
fn bytes_are_released_for_every_outcome() {
    let mut rig = Rig::new(options());
    rig.sets("a b c d", 1);
    rig.drain();
    rig.sets("a b c d", 2);
    rig.set("a", 3);
    rig.take();
    rig.take();
    rig.answer(retryable());
    rig.answer(permanent());
    rig.delete("c");
    rig.listener.control().replay(rig.now);
    rig.pass(seconds(10));
    rig.drain();
    assert_eq!(
        (rig.stats().bytes, rig.stats().pending, rig.stats().in_flight),
        (0, 0, 0)
    );
}
