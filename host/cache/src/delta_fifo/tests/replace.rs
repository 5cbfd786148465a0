//! How a list affects queued and known objects.

use super::*;

/// (`TestDeltaFIFO_ReplaceMakesDeletionsReplaced`; client-go queues the deletions last)
#[test]
fn relist_queues_tombstones_first() {
    let mut fifo = fifo();
    let known = stored([pod("a", 1), pod("b", 2)]);
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
            unchanged: 0
        }
    );
}

/// (`TestDeltaFIFO_ReplaceMakesDeletions`)
#[test]
fn tombstone_carries_the_newest_queued_or_known_state() {
    let mut fifo = fifo();
    let known = stored([pod("queued", 5), pod("known", 6), pod("stays", 7)]);
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
fn relist_queues_tombstones_for_queued_keys() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 1));
    replace(&mut fifo, vec![pod("b", 2)], &nothing());
    assert_snapshot!(waiting(&fifo), @"
    a: Added(1), Deleted(unknown final state, last seen at 1)
    b: Replaced(2)
    ");
}

/// (`TestDeltaFIFO_replaceWithDeleteDeltaIn`)
#[test]
fn relist_adds_no_second_delete_or_nested_tombstone() {
    let mut fifo = fifo();
    let known = stored([pod("a", 1), pod("b", 1)]);
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
fn unchanged_listed_object_is_not_queued() {
    let (a, b, c) = (pod("a", 1), pod("b", 2), pod("c", 3));
    let known = stored([a.clone(), b.clone(), c.clone()]);
    let mut fifo = fifo();
    update(&mut fifo, pod("b", 9));
    let summary = replace(&mut fifo, vec![a.clone(), b.clone(), pod("c", 3)], &known);
    assert_snapshot!(waiting(&fifo), @"
    b: Updated(9), Replaced(2)
    c: Replaced(3)
    ");
    assert_eq!(summary.unchanged, 1);

    let mut telling = DeltaFifo::new(DeltaFifoOptions {
        skip_unchanged: false,
        ..DeltaFifoOptions::default()
    });
    replace(&mut telling, vec![a, b, c], &known);
    assert_eq!(telling.len(), 3);
}

#[test]
fn name_listed_twice_is_queued_once_with_both_states() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![pod("a", 1), pod("b", 1), pod("a", 2)], &nothing());
    assert_snapshot!(waiting(&fifo), @"
    a: Replaced(1), Replaced(2)
    b: Replaced(1)
    ");
}
