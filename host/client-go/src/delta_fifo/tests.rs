//! The queue's rules one by one. Names in parentheses are client-go's tests of the same rule.

mod blocking;
mod model;
mod population;
mod replace;
mod transform;

use informant_cache::{DeltaObject, Tombstone};
use informant_object::{KeyRef, Object};
use insta::assert_snapshot;

use super::queue::Queue;
use super::{DeltaFifoOptions, Deltas, KnownObjects};
use crate::testing::{object, pod};
use crate::{LookupFailed, NothingKnown};

type AnyKnown = dyn KnownObjects + Send + Sync;

/// The known objects of a test, in this order.
#[derive(Default)]
struct Known(Vec<Object>);

impl KnownObjects for Known {
    fn visit(&self, visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>)) {
        self.0.iter().for_each(|object| visit(object.key(), Some(object)));
    }

    fn get_by_key(&self, key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed> {
        Ok(self.0.iter().find(|object| object.key() == key).cloned())
    }
}

/// Known keys whose look-up fails.
struct Unreadable(Vec<Object>);

impl KnownObjects for Unreadable {
    fn visit(&self, visit: &mut dyn FnMut(KeyRef<'_>, Option<&Object>)) {
        self.0.iter().for_each(|object| visit(object.key(), None));
    }

    fn get_by_key(&self, _key: KeyRef<'_>) -> Result<Option<Object>, LookupFailed> {
        Err(LookupFailed)
    }
}

fn fifo() -> Queue {
    Queue::new(DeltaFifoOptions::default())
}

fn add(fifo: &mut Queue, object: Object) {
    fifo.add(object).unwrap();
}

fn update(fifo: &mut Queue, object: Object) {
    fifo.update(object).unwrap();
}

fn delete(fifo: &mut Queue, object: impl Into<DeltaObject>, known: &AnyKnown) {
    fifo.delete(object.into(), known).unwrap();
}

fn tombstone(object: Object) -> Tombstone {
    Tombstone {
        key: object.key().to_key(),
        object: Some(object),
    }
}

/// Pops the first key, whose processing may fail, and returns whether it belongs to the initial list.
fn process(fifo: &mut Queue, fails: bool) -> Option<(Deltas, bool)> {
    let popped = fifo.pop()?;
    fifo.processed(&popped, fails);
    Some((popped.deltas, popped.is_in_initial_list))
}

fn pop(fifo: &mut Queue) -> Option<Deltas> {
    process(fifo, false).map(|(deltas, _)| deltas)
}

/// All queued deltas, one key per line.
fn waiting(fifo: &Queue) -> String {
    let line = |key: &informant_object::Key| text(fifo.get_by_key(key.as_ref()).unwrap());
    fifo.list_keys().map(line).collect::<Vec<_>>().join("\n")
}

fn text(deltas: &Deltas) -> String {
    let each: Vec<String> = deltas.iter().map(ToString::to_string).collect();
    format!("{}: {}", deltas.key().name, each.join(", "))
}

/// (`TestDeltaFIFO_addUpdate`)
#[test]
fn deltas_of_one_key_are_popped_together() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 1));
    update(&mut fifo, pod("a", 2));
    delete(&mut fifo, pod("a", 3), &NothingKnown);
    assert_snapshot!(waiting(&fifo), @"a: Added(1), Updated(2), Deleted(3)");
    assert_eq!(text(&pop(&mut fifo).unwrap()), "a: Added(1), Updated(2), Deleted(3)");
    assert_eq!(fifo.len(), 0);
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
    delete(&mut fifo, pod("c", 2), &NothingKnown);
    delete(&mut fifo, pod("b", 20), &NothingKnown);
    assert_snapshot!(waiting(&fifo), @"
    a: Added(10)
    b: Updated(15), Deleted(20)
    ");
    assert_eq!(fifo.stats().deletes_ignored, 1);
}

/// (`TestDeltaFIFO_enqueueingWithLister`)
#[test]
fn known_key_can_be_deleted_whether_queued_or_not() {
    let mut fifo = fifo();
    let known = Known(vec![pod("a", 5), pod("b", 6), pod("c", 7)]);
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
fn delete_is_queued_when_the_lookup_fails() {
    let mut fifo = fifo();
    delete(&mut fifo, pod("a", 2), &Unreadable(vec![]));
    assert_snapshot!(waiting(&fifo), @"a: Deleted(2)");
    assert_eq!(fifo.stats().lookups_failed, 1);
}

#[test]
fn consecutive_deletes_collapse_into_the_first() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 1));
    delete(&mut fifo, pod("a", 2), &NothingKnown);
    delete(&mut fifo, pod("a", 3), &NothingKnown);
    assert_snapshot!(waiting(&fifo), @"a: Added(1), Deleted(2)");
    assert_eq!(fifo.stats().deletes_collapsed, 1);
}

#[test]
fn collapsed_deletes_keep_the_observed_final_state() {
    let mut fifo = fifo();
    let known = Known(vec![pod("a", 1), pod("b", 1)]);
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
    let known = Known(vec![pod("a", 1)]);
    delete(&mut fifo, pod("a", 2), &known);
    add(&mut fifo, pod("a", 3));
    delete(&mut fifo, pod("a", 4), &known);
    assert_snapshot!(waiting(&fifo), @"a: Deleted(2), Added(3), Deleted(4)");
}

/// (`TestDeltaFIFO_ResyncNonExisting`, `TestDeltaFIFO_Resync`)
#[test]
fn resync_repeats_only_known_objects() {
    let mut fifo = fifo();
    fifo.resync(&NothingKnown);
    assert_eq!(fifo.len(), 0);
    delete(&mut fifo, pod("a", 10), &Known(vec![pod("a", 5)]));
    fifo.resync(&Known(vec![pod("a", 5), pod("b", 6)]));
    assert_snapshot!(waiting(&fifo), @"
    a: Deleted(10)
    b: Sync(6)
    ");
    while pop(&mut fifo).is_some() {}
    fifo.resync(&Unreadable(vec![pod("c", 1)]));
    assert_eq!(fifo.len(), 0);
}

/// (`TestDeltaFIFO_UpdateResyncRace`)
#[test]
fn resync_skips_queued_keys() {
    let mut fifo = fifo();
    update(&mut fifo, pod("a", 6));
    fifo.resync(&Known(vec![pod("a", 5)]));
    assert_snapshot!(waiting(&fifo), @"a: Updated(6)");
}

/// (v0.31 `TestDeltaFIFO_addIfNotPresent` in spirit, `TestFIFO_addIfNotPresent`)
#[test]
fn failed_deltas_are_requeued_unless_newer_ones_exist() {
    let mut fifo = fifo();
    add(&mut fifo, pod("a", 1));
    add(&mut fifo, pod("b", 1));
    let (deltas, _) = process(&mut fifo, true).unwrap();
    assert!(fifo.add_if_not_present(deltas));
    assert_snapshot!(waiting(&fifo), @"
    b: Added(1)
    a: Added(1)
    ");
    let (deltas, _) = process(&mut fifo, true).unwrap();
    add(&mut fifo, pod("b", 2));
    assert!(!fifo.add_if_not_present(deltas));
    assert_snapshot!(waiting(&fifo), @"
    a: Added(1)
    b: Added(2)
    ");
    let stats = fifo.stats();
    assert_eq!(
        (stats.failed_deltas, stats.requeued, stats.requeues_superseded),
        (2, 1, 1)
    );
}

#[test]
fn list_returns_newest_objects_in_queue_order() {
    let mut fifo = fifo();
    for (name, version) in [("b", 1), ("a", 2), ("b", 3)] {
        update(&mut fifo, pod(name, version));
    }
    let newest: Vec<String> = fifo
        .list()
        .map(|object| format!("{} {}", object.key(), object.object().unwrap().version()))
        .collect();
    assert_eq!(newest, ["default/b 3", "default/a 2"]);
    let keys: Vec<String> = fifo.list_keys().map(|key| key.to_string()).collect();
    assert_eq!(keys, ["default/b", "default/a"]);
    assert_eq!(
        fifo.get_by_key(pod("b", 0).key()).unwrap().oldest().to_string(),
        "Updated(1)"
    );
}

#[test]
fn bytes_count_queued_objects() {
    let mut fifo = fifo();
    let (small, large) = (
        pod("a", 1),
        object(r#"{"metadata":{"name":"b"},"data":"0123456789012345678901234567890123456789"}"#),
    );
    add(&mut fifo, small.clone());
    add(&mut fifo, large.clone());
    assert_eq!(fifo.bytes(), small.size_bytes() + large.size_bytes());
    delete(&mut fifo, small.clone(), &NothingKnown);
    delete(&mut fifo, small.clone(), &NothingKnown);
    assert_eq!(fifo.bytes(), 2 * small.size_bytes() + large.size_bytes());
    pop(&mut fifo);
    assert_eq!(fifo.bytes(), large.size_bytes());
    pop(&mut fifo);
    assert_eq!(fifo.bytes(), 0);
}
