//! Sync of the initial list, batch ends, and `fresh_as_of`.

use super::*;

fn is_in_initial_list(fifo: &mut DeltaFifo) -> Vec<(String, bool)> {
    let named = |(deltas, initial): (Vec<Delta>, bool)| (deltas[0].key().name.to_owned(), initial);
    std::iter::from_fn(|| pop_one(fifo)).map(named).collect()
}

fn batches(fifo: &mut DeltaFifo, deltas_max: usize) -> Vec<(String, bool)> {
    let mut batch = Batch::new();
    let mut seen = Vec::new();
    while fifo.pop_batch(deltas_max, &mut batch) > 0 {
        let keys: Vec<&str> = by_key(&batch).map(|deltas| deltas[0].key().name).collect();
        seen.push((keys.join(" "), batch.is_in_initial_list()));
    }
    seen
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
    replace(&mut fifo, vec![pod("a", 1), pod("b", 2)], &nothing());
    assert!(!fifo.has_synced());
    pop(&mut fifo);
    assert!(!fifo.has_synced());
    pop(&mut fifo);
    assert!(fifo.has_synced());
    replace(&mut fifo, vec![pod("a", 3), pod("c", 4)], &nothing());
    assert!(fifo.has_synced(), "a later list changes nothing");
}

#[test]
fn an_empty_first_list_is_synced_at_once() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![], &nothing());
    assert!(fifo.has_synced());
}

#[test]
fn other_writes_before_the_first_list_make_it_synced() {
    let writes: [fn(&mut DeltaFifo); 3] = [
        |fifo| add(fifo, pod("a", 1)),
        |fifo| update(fifo, pod("a", 1)),
        |fifo| delete(fifo, pod("a", 1), &nothing()),
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let mut fifo = fifo();
        write(&mut fifo);
        assert!(fifo.has_synced(), "write {number}");
        replace(&mut fifo, vec![pod("b", 1)], &nothing());
        assert!(fifo.has_synced(), "write {number}");
    }
}

/// (`TestDeltaFIFO_HasSyncedCorrectOnDeletion`)
#[test]
fn deletions_of_the_first_list_count_too() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![pod("a", 1)], &stored([pod("b", 1), pod("c", 1)]));
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
    replace(&mut fifo, vec![a.clone()], &stored([a]));
    assert!(fifo.has_synced());
}

/// client-go lowers the count before processing.
#[test]
fn last_initial_key_is_not_synced_while_processed() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![pod("a", 1)], &nothing());
    add(&mut fifo, pod("b", 2));
    assert_eq!(is_in_initial_list(&mut fifo), pairs(&[("a", true), ("b", false)]));

    let mut fifo = super::fifo();
    replace(&mut fifo, vec![pod("a", 1)], &nothing());
    let mut batch = Batch::new();
    fifo.pop_batch(10, &mut batch);
    assert!(!fifo.has_synced(), "handed out, and not processed yet");
    fifo.batch_done(&mut batch);
    assert!(fifo.has_synced());
    assert!(batch.is_empty());
}

/// (`TestRealFIFO_PopMultipleDeltaInBatch`)
#[test]
fn a_batch_ends_where_the_initial_list_ends() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![pod("a", 1), pod("b", 2), pod("c", 3)], &nothing());
    add(&mut fifo, pod("d", 4));
    add(&mut fifo, pod("e", 5));
    assert_eq!(
        batches(&mut fifo, 2),
        pairs(&[("a b", true), ("c", true), ("d e", false)])
    );
}

#[test]
fn a_batch_holds_whole_keys_up_to_its_deltas() {
    let mut fifo = fifo();
    for (name, version) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("c", 6), ("d", 7)] {
        update(&mut fifo, pod(name, version));
    }
    assert_eq!(
        batches(&mut fifo, 2),
        pairs(&[("a", false), ("b", false), ("c", false), ("d", false)])
    );

    for (name, version) in [("a", 1), ("b", 2), ("a", 3), ("c", 4)] {
        update(&mut fifo, pod(name, version));
    }
    let mut batch = Batch::new();
    assert_eq!(fifo.pop_batch(256, &mut batch), 3);
    let all: Vec<String> = batch
        .deltas()
        .iter()
        .map(|delta| format!("{} {}", delta.key().name, shown(delta)))
        .collect();
    assert_eq!(all, ["a Updated(1)", "a Updated(3)", "b Updated(2)", "c Updated(4)"]);
    assert_eq!(by_key(&batch).map(<[_]>::len).collect::<Vec<_>>(), [2, 1, 1]);
}

#[test]
fn two_batches_at_once_are_counted_apart() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![pod("a", 1), pod("b", 2)], &nothing());
    add(&mut fifo, pod("c", 3));
    let (mut first, mut second, mut third) = (Batch::new(), Batch::new(), Batch::new());
    fifo.pop_batch(1, &mut first);
    fifo.pop_batch(1, &mut second);
    fifo.pop_batch(1, &mut third);
    assert_eq!(
        [
            first.is_in_initial_list(),
            second.is_in_initial_list(),
            third.is_in_initial_list()
        ],
        [true, true, false]
    );
    fifo.batch_done(&mut third);
    fifo.batch_done(&mut second);
    assert!(!fifo.has_synced());
    fifo.batch_done(&mut first);
    assert!(fifo.has_synced());
}

fn fresh(fifo: &DeltaFifo) -> Option<String> {
    fifo.fresh_as_of().map(|version| version.to_string())
}

#[test]
fn fresh_as_of_waits_for_older_changes_behind() {
    let mut fifo = fifo();
    assert_eq!(fresh(&fifo), None);
    replace(&mut fifo, vec![], &nothing());
    assert_eq!(fresh(&fifo).as_deref(), Some("100"));
    add(&mut fifo, pod("a", 101));
    add(&mut fifo, pod("b", 102));
    update(&mut fifo, pod("a", 103));
    assert_eq!(fresh(&fifo).as_deref(), Some("100"));
    pop(&mut fifo);
    assert_eq!(
        fresh(&fifo).as_deref(),
        Some("101"),
        "a is at 103 already, but b's 102 still waits"
    );
    pop(&mut fifo);
    assert_eq!(fresh(&fifo).as_deref(), Some("103"));
    fifo.bookmark(version(110).as_ref());
    assert_eq!(fresh(&fifo).as_deref(), Some("110"));
}

#[test]
fn fresh_as_of_reaches_the_list_once_drained() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![pod("a", 1), pod("b", 2)], &nothing());
    assert_eq!(fresh(&fifo), None, "nothing was shown before the list");
    pop(&mut fifo);
    assert_eq!(fresh(&fifo), None);
    pop(&mut fifo);
    assert_eq!(fresh(&fifo).as_deref(), Some("100"));
}

#[test]
fn versions_before_a_restore_do_not_count_after_it() {
    let mut fifo = fifo();
    replace(&mut fifo, vec![], &nothing());
    update(&mut fifo, pod("a", 101));
    fifo.replace(vec![pod("b", 30)], &version(40), &nothing(), Reason::Restored, NOW);
    for _ in ["a", "b"] {
        assert_eq!(fresh(&fifo), None);
        assert_eq!(pop(&mut fifo).unwrap().last().unwrap().reason, Reason::Restored);
    }
    assert_eq!(fresh(&fifo).as_deref(), Some("40"));
}

#[test]
fn fresh_as_of_counts_ignored_deletes_and_opaque_versions() {
    let mut fifo = fifo();
    delete(&mut fifo, pod("a", 7), &nothing());
    assert_eq!(fresh(&fifo).as_deref(), Some("7"));
    add(
        &mut fifo,
        object(r#"{"metadata":{"name":"b","resourceVersion":"v-8"}}"#),
    );
    add(&mut fifo, pod("c", 9));
    pop(&mut fifo);
    assert_eq!(fresh(&fifo), None, "what came before c is no number");
    pop(&mut fifo);
    assert_eq!(fresh(&fifo).as_deref(), Some("9"));
}
