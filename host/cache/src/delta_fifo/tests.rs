//! The queue's rules one by one. Names in parentheses are client-go's tests of the same rule.

mod model;
mod population;
mod replace;

use informant_object::{KeyRef, Object};
use insta::assert_snapshot;

use super::{DeltaFifo, DeltaFifoOptions, ReplaceSummary};
use crate::testing::{object, pod, version};
use crate::{Batch, Delta, DeltaObject, Moment, Reason, StoreWriter, Tombstone};

const NOW: Moment = Moment::ZERO;

/// A store with these objects.
fn stored(objects: impl IntoIterator<Item = Object>) -> StoreWriter {
    let mut store = StoreWriter::new();
    objects.into_iter().for_each(|object| drop(store.add(object)));
    store
}

fn nothing() -> StoreWriter {
    StoreWriter::new()
}

fn fifo() -> DeltaFifo {
    DeltaFifo::new(DeltaFifoOptions::default())
}

fn add(fifo: &mut DeltaFifo, object: Object) {
    fifo.add(object, NOW);
}

fn update(fifo: &mut DeltaFifo, object: Object) {
    fifo.update(object, NOW);
}

fn delete(fifo: &mut DeltaFifo, object: impl Into<DeltaObject>, store: &StoreWriter) {
    fifo.delete(object, store, NOW);
}

fn replace(fifo: &mut DeltaFifo, objects: Vec<Object>, store: &StoreWriter) -> ReplaceSummary {
    fifo.replace(objects, &version(100), store, Reason::Relist, NOW)
}

fn tombstone(object: Object) -> Tombstone {
    Tombstone {
        key: object.key().to_key(),
        object: Some(object),
    }
}

/// The deltas of the first key, and whether it belongs to the initial list.
fn pop_one(fifo: &mut DeltaFifo) -> Option<(Vec<Delta>, bool)> {
    let mut batch = Batch::new();
    fifo.pop_batch(1, &mut batch);
    let popped = (batch.deltas().to_vec(), batch.is_in_initial_list());
    fifo.batch_done(&mut batch);
    (!popped.0.is_empty()).then_some(popped)
}

fn pop(fifo: &mut DeltaFifo) -> Option<Vec<Delta>> {
    pop_one(fifo).map(|(deltas, _)| deltas)
}

/// All queued deltas, one key per line.
fn waiting(fifo: &DeltaFifo) -> String {
    fifo.queue
        .iter()
        .map(|deltas| text(deltas))
        .collect::<Vec<_>>()
        .join("\n")
}

/// `Updated(12)`, `Deleted(unknown final state, last seen at 2)`
fn shown(delta: &Delta) -> String {
    let kind = delta.kind;
    match (&delta.object, delta.object.object()) {
        (DeltaObject::Object(object), _) => format!("{kind:?}({})", object.version()),
        (_, Some(object)) => format!("{kind:?}(unknown final state, last seen at {})", object.version()),
        (_, None) => format!("{kind:?}(unknown final state, never seen)"),
    }
}

/// The deltas of each key of a batch.
fn by_key(batch: &Batch) -> impl Iterator<Item = &[Delta]> {
    batch.deltas().chunk_by(|one, next| one.key() == next.key())
}

fn text(deltas: &[Delta]) -> String {
    let each: Vec<String> = deltas.iter().map(shown).collect();
    format!("{}: {}", deltas[0].key().name, each.join(", "))
}

/// (`TestDeltaFIFO_addUpdate`)
#[test]
fn deltas_of_one_key_are_popped_together() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 1));
    update(&mut fifo, pod("a", 2));
    delete(&mut fifo, pod("a", 3), &nothing());
    assert_snapshot!(waiting(&fifo), @"a: Added(1), Updated(2), Deleted(3)");
    assert_eq!(text(&pop(&mut fifo).unwrap()), "a: Added(1), Updated(2), Deleted(3)");
    assert!(fifo.is_empty());
    assert!(fifo.get_by_key(pod("a", 3).key()).is_none());
}

/// (`TestDeltaFIFO_detectLineJumpers`)
#[test]
fn requeued_key_keeps_its_position_until_popped() {
    let mut fifo = fifo();
    for (name, version) in [("a", 10), ("b", 1), ("c", 11), ("b", 13), ("d", 14)] {
        add(&mut fifo, pod(name, version));
    }
    assert_eq!(text(&pop(&mut fifo).unwrap()), "a: Added(10)");
    add(&mut fifo, pod("a", 15));
    assert_snapshot!(waiting(&fifo), @"
    b: Added(1), Added(13)
    c: Added(11)
    d: Added(14)
    a: Added(15)
    ");
}

/// (`TestDeltaFIFO_enqueueingNoLister`)
#[test]
fn without_known_objects_only_queued_keys_can_be_deleted() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 10));
    update(&mut fifo, pod("b", 15));
    delete(&mut fifo, pod("c", 2), &nothing());
    delete(&mut fifo, pod("b", 20), &nothing());
    assert_snapshot!(waiting(&fifo), @"
    a: Added(10)
    b: Updated(15), Deleted(20)
    ");
}

/// (`TestDeltaFIFO_enqueueingWithLister`)
#[test]
fn known_key_can_be_deleted_whether_queued_or_not() {
    let mut fifo = fifo();
    let known = stored([pod("a", 5), pod("b", 6), pod("c", 7)]);
    add(&mut fifo, pod("a", 10));
    update(&mut fifo, pod("b", 15));
    delete(&mut fifo, pod("d", 2), &known);
    delete(&mut fifo, pod("c", 20), &known);
    delete(&mut fifo, pod("a", 21), &known);
    assert_snapshot!(waiting(&fifo), @"
    a: Added(10), Deleted(21)
    b: Updated(15)
    c: Deleted(20)
    ");
}

#[test]
fn consecutive_deletes_collapse_into_the_first() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 1));
    delete(&mut fifo, pod("a", 2), &nothing());
    delete(&mut fifo, pod("a", 3), &nothing());
    assert_snapshot!(waiting(&fifo), @"a: Added(1), Deleted(2)");
}

#[test]
fn collapsed_deletes_keep_the_observed_final_state() {
    let mut fifo = fifo();
    let known = stored([pod("a", 1), pod("b", 1)]);
    delete(&mut fifo, tombstone(pod("a", 1)), &known);
    delete(&mut fifo, pod("a", 3), &known);
    delete(&mut fifo, pod("b", 3), &known);
    delete(&mut fifo, tombstone(pod("b", 1)), &known);
    assert_snapshot!(waiting(&fifo), @"
    a: Deleted(3)
    b: Deleted(3)
    ");
}

#[test]
fn recreated_object_stays_a_delete_and_an_add() {
    let mut fifo = fifo();
    let known = stored([pod("a", 1)]);
    delete(&mut fifo, pod("a", 2), &known);
    add(&mut fifo, pod("a", 3));
    delete(&mut fifo, pod("a", 4), &known);
    assert_snapshot!(waiting(&fifo), @"a: Deleted(2), Added(3), Deleted(4)");
}

#[test]
fn empty_queue_frees_the_memory_of_a_large_list() {
    let mut fifo = fifo();
    let many: Vec<Object> = (0..10_000).map(|number| pod(&format!("pod-{number}"), 1)).collect();
    replace(&mut fifo, many, &nothing());
    assert!(fifo.queue.capacity() >= 10_000);
    while pop(&mut fifo).is_some() {}
    assert!(fifo.queue.capacity() <= 4_096, "{}", fifo.queue.capacity());
}
