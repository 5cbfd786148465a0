//! When the initial list counts as synced.

use super::*;

fn is_in_initial_list(fifo: &mut Queue) -> Vec<(String, bool)> {
    let named = |(deltas, initial): (Deltas, bool)| (deltas.key().name.to_owned(), initial);
    std::iter::from_fn(|| process(fifo, false)).map(named).collect()
}

fn pairs(expected: &[(&str, bool)]) -> Vec<(String, bool)> {
    expected
        .iter()
        .map(|&(keys, initial)| (keys.to_owned(), initial))
        .collect()
}

/// (`TestDeltaFIFO_HasSynced`, its table)
#[test]
fn first_list_syncs_once_every_key_is_processed() {
    let mut fifo = fifo();
    assert!(!fifo.has_synced(), "before anything came");
    fifo.replace(vec![pod("a", 1), pod("b", 2)], &NothingKnown);
    assert!(!fifo.has_synced());
    pop(&mut fifo);
    assert!(!fifo.has_synced());
    pop(&mut fifo);
    assert!(fifo.has_synced());
    fifo.replace(vec![pod("a", 3), pod("c", 4)], &NothingKnown);
    assert!(fifo.has_synced(), "a later list changes nothing");
}

#[test]
fn an_empty_first_list_is_synced_at_once() {
    let mut fifo = fifo();
    fifo.replace(vec![], &NothingKnown);
    assert!(fifo.has_synced());
}

#[test]
fn other_writes_before_the_first_list_make_it_synced() {
    let writes: [fn(&mut Queue); 4] = [
        |fifo| add(fifo, pod("a", 1)),
        |fifo| update(fifo, pod("a", 1)),
        |fifo| delete(fifo, pod("a", 1), &NothingKnown),
        |fifo| {
            let mut other = super::fifo();
            add(&mut other, pod("a", 1));
            assert!(fifo.add_if_not_present(pop(&mut other).unwrap()));
        },
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let mut fifo = fifo();
        write(&mut fifo);
        assert!(fifo.has_synced(), "write {number}");
        fifo.replace(vec![pod("b", 1)], &NothingKnown);
        assert!(fifo.has_synced(), "write {number}");
    }
}

/// (`TestDeltaFIFO_HasSyncedCorrectOnDeletion`)
#[test]
fn deletions_of_the_first_list_count_too() {
    let mut fifo = fifo();
    fifo.replace(vec![pod("a", 1)], &Known(vec![pod("b", 1), pod("c", 1)]));
    assert_eq!(fifo.len(), 3);
    for left in (0..3).rev() {
        assert!(!fifo.has_synced());
        pop(&mut fifo);
        assert_eq!(fifo.has_synced(), left == 0);
    }
}

#[test]
fn unchanged_objects_do_not_delay_sync() {
    let a = pod("a", 1);
    let mut fifo = fifo();
    fifo.replace(vec![a.clone()], &Known(vec![a]));
    assert!(fifo.has_synced());
}

/// client-go lowers the count before processing.
#[test]
fn last_initial_key_is_not_synced_while_processed() {
    let mut fifo = fifo();
    fifo.replace(vec![pod("a", 1)], &NothingKnown);
    add(&mut fifo, pod("b", 2));
    assert_eq!(is_in_initial_list(&mut fifo), pairs(&[("a", true), ("b", false)]));

    let mut fifo = super::fifo();
    fifo.replace(vec![pod("a", 1)], &NothingKnown);
    let popped = fifo.pop().unwrap();
    assert!(!fifo.has_synced(), "popped, and not processed yet");
    fifo.processed(&popped, false);
    assert!(fifo.has_synced());
}

#[test]
fn a_key_whose_processing_failed_counts_as_processed() {
    let mut fifo = fifo();
    fifo.replace(vec![pod("a", 1)], &NothingKnown);
    process(&mut fifo, true).unwrap();
    assert!(fifo.has_synced());
}
