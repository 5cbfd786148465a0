//! What a list does to what waits and what is known.

use super::*;

/// (`TestDeltaFIFO_ReplaceMakesDeletionsReplaced`; client-go queues the deletions last)
#[test]
fn relist_reports_vanished_objects_as_tombstones_before_anything_else() {
    let mut fifo = fifo();
    let known = Known(vec![pod("a", 1), pod("b", 2)]);
    let summary = replace(&mut fifo, vec![pod("a", 3), pod("c", 4)], &known);
    assert_snapshot!(waiting(&fifo), @"
    b: Deleted(unknown final state, last seen at 2)
    a: Replaced(3)
    c: Replaced(4)
    ");
    assert_eq!(
        summary,
        ReplaceSummary {
            vanished: 1,
            queued: 2,
            unchanged: 0,
            withheld: 0
        }
    );
}

/// (`TestDeltaFIFO_ReplaceMakesDeletions`)
#[test]
fn a_tombstone_carries_the_newest_state_that_waited_or_else_the_known_one() {
    let mut fifo = fifo();
    let known = Known(vec![pod("queued", 5), pod("known", 6), pod("stays", 7)]);
    update(&mut fifo, pod("queued", 10));
    update(&mut fifo, pod("queued", 11));
    replace(&mut fifo, vec![pod("stays", 20)], &known);
    assert_snapshot!(waiting(&fifo), @"
    queued: Updated(10), Updated(11), Deleted(unknown final state, last seen at 11)
    known: Deleted(unknown final state, last seen at 6)
    stays: Replaced(20)
    ");
}

/// (`TestDeltaFIFO_ReplaceMakesDeletionsForObjectsOnlyInQueue`)
#[test]
fn a_relist_buries_what_only_waits() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 1));
    replace(&mut fifo, vec![pod("b", 2)], &Known::default());
    assert_snapshot!(waiting(&fifo), @"
    a: Added(1), Deleted(unknown final state, last seen at 1)
    b: Replaced(2)
    ");
}

/// (`TestDeltaFIFO_replaceWithDeleteDeltaIn`)
#[test]
fn a_relist_adds_no_second_delete_and_no_tombstone_in_a_tombstone() {
    let mut fifo = fifo();
    let known = Known(vec![pod("a", 1), pod("b", 1)]);
    delete(&mut fifo, pod("a", 2), &known);
    delete(&mut fifo, tombstone(pod("b", 1)), &known);
    replace(&mut fifo, vec![pod("c", 5)], &known);
    assert_snapshot!(waiting(&fifo), @"
    a: Deleted(2)
    b: Deleted(unknown final state, last seen at 1)
    c: Replaced(5)
    ");
    let deltas = fifo.get_by_key(pod("b", 1).key()).unwrap();
    assert!(matches!(&deltas.newest().object, DeltaObject::Tombstone(tombstone) if tombstone.object.is_some()));
}

#[test]
fn a_known_object_that_cannot_be_read_is_buried_without_a_state() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![], &Unreadable(vec![pod("a", 1)]));
    assert_snapshot!(waiting(&fifo), @"a: Deleted(unknown final state, never seen)");
}

#[test]
fn a_listed_object_that_is_the_known_one_with_nothing_waiting_is_only_seen() {
    let (a, b, c) = (pod("a", 1), pod("b", 2), pod("c", 3));
    let known = Known(vec![a.clone(), b.clone(), c.clone()]);
    let mut fifo = fifo();
    update(&mut fifo, pod("b", 9));
    let summary = replace(&mut fifo, vec![a.clone(), b.clone(), pod("c", 3)], &known);
    assert_snapshot!(waiting(&fifo), @"
    b: Updated(9), Replaced(2)
    c: Replaced(3)
    ");
    assert_eq!((summary.unchanged, fifo.stats().unchanged), (1, 1));

    let mut telling = DeltaFifo::new(DeltaFifoOptions {
        skip_unchanged: false,
        ..DeltaFifoOptions::default()
    });
    replace(&mut telling, vec![a, b, c], &known);
    assert_eq!(telling.len(), 3);
}

#[test]
fn a_replace_says_sync_where_asked_to() {
    let mut fifo = DeltaFifo::new(DeltaFifoOptions {
        emit_replaced: false,
        ..DeltaFifoOptions::default()
    });
    replace(&mut fifo, vec![pod("a", 1)], &NothingKnown);
    assert_snapshot!(waiting(&fifo), @"a: Sync(1)");
}

#[test]
fn a_name_listed_twice_waits_once_with_both_states() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![pod("a", 1), pod("b", 1), pod("a", 2)], &NothingKnown);
    assert_snapshot!(waiting(&fifo), @"
    a: Replaced(1), Replaced(2)
    b: Replaced(1)
    ");
}
