//! A changed selection of objects. Here names select: what a selection contains is a text of letters.

use super::*;

#[derive(Debug)]
struct Letters {
    before: &'static str,
    now: &'static str,
}

impl ChangedSelection for Letters {
    fn selects(&self, object: &Object) -> Selected {
        Selected {
            before: self.before.contains(object.name()),
            ever: self.before.contains(object.name()),
            now: self.now.contains(object.name()),
        }
    }
}

fn reselect(rig: &Rig, before: &'static str, now: &'static str) {
    let letters: Arc<dyn ChangedSelection> = Arc::new(Letters { before, now });
    rig.listener.control().reselect(vec![(PODS, letters)], None, rig.now);
}

/// A synced listener whose handler has received these objects in version 1.
fn received(names: &str) -> Rig {
    let mut rig = Rig::new(options());
    rig.sets(names, 1);
    rig.drain();
    rig
}

/// The next delivery, and whether it hides a state.
fn next(rig: &mut Rig) -> (String, bool) {
    let text = rig.take();
    let hides = rig.last_taken().seen_unknown;
    rig.answer(DeliveryOutcome::Ok);
    (text, hides)
}

#[test]
fn reselection_delivers_only_what_joins_or_leaves() {
    let mut rig = received("a b c d");
    reselect(&rig, "ab", "bc");
    assert_eq!(next(&mut rig), ("add a@1 reconfigured".to_owned(), true));
    assert_eq!(next(&mut rig), ("add c@1 reconfigured".to_owned(), true));
    assert_eq!(rig.take(), "idle", "no synced follows");
    rig.set("b", 2);
    assert_eq!(rig.drain(), "update b@1->2 watch\n");
}

#[test]
fn reselection_merges_with_pending_states() {
    let mut rig = received("a b c");
    rig.sets("a b c d", 2);
    rig.sets("e f", 1);
    reselect(&rig, "abe", "bcf");
    rig.set("c", 3);
    rig.set("g", 1);
    assert_eq!(
        rig.drain(),
        "add a@2 reconfigured\nadd b@2 reconfigured\nadd c@3 reconfigured\nadd f@1 reconfigured\n",
        "a handler that has received nothing of a key needs no delete of it"
    );
    assert_eq!(rig.stats().pending, 0);
}

#[test]
fn deletes_around_a_reselection_are_marked() {
    let mut rig = received("a b c d");
    rig.delete("a");
    reselect(&rig, "abd", "c");
    rig.delete("b");
    assert_eq!(next(&mut rig), ("delete a@1 watch".to_owned(), true));
    assert_eq!(next(&mut rig), ("add c@1 reconfigured".to_owned(), true));
    assert_eq!(next(&mut rig), ("delete b@1 watch".to_owned(), true));
    assert_eq!(rig.drain(), "add d@1 reconfigured\n");
    rig.delete("d");
    assert_eq!(next(&mut rig), ("delete d@1 watch".to_owned(), false));
}

#[test]
fn reselection_during_the_first_list_syncs_once() {
    let mut rig = Rig::bare(options());
    rig.sets("a b c d", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    reselect(&rig, "ab", "bc");
    assert_eq!(rig.listener.ledger().open_keys(PODS, 10), OpenKeys::All);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(
        rig.drain(),
        "add a@1 reconfigured\nadd b@1 reconfigured\nadd c@1 reconfigured\nsynced initial\n"
    );
    assert_eq!(rig.listener.ledger().open_keys(PODS, 10), OpenKeys::Keys(Vec::new()));
}

#[test]
fn a_pending_synced_survives_a_reselection() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    assert_eq!(rig.take_all(), "add a@1 initial\nadd b@1 initial\n");
    rig.answer_all(&DeliveryOutcome::Ok);
    assert_eq!(rig.stats().pending, 1, "the cursor has ended, and `Synced` is pending");
    reselect(&rig, "ab", "ab");
    assert_eq!(rig.drain(), "synced initial\n");
}

#[test]
fn object_that_vanishes_in_a_reselection_delays_no_sync() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    let token = rig.in_flight.pop().unwrap().token;
    rig.listener.consumer().give_back([token]);
    rig.delete("a");
    reselect(&rig, "ab", "b");
    assert_eq!(rig.drain(), "add b@1 reconfigured\nsynced initial\n");
}

#[test]
fn untouched_first_list_is_not_reselected() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    reselect(&rig, "a", "b");
    assert_eq!(rig.drain(), "add a@1 initial\nadd b@1 initial\nsynced initial\n");
}

#[test]
fn second_reselection_includes_what_the_first_left() {
    let mut rig = received("a b c d");
    reselect(&rig, "a", "b");
    reselect(&rig, "ab", "c");
    assert_eq!(
        rig.drain(),
        "add a@1 reconfigured\nadd b@1 reconfigured\nadd c@1 reconfigured\n"
    );
}

#[test]
fn failing_key_merges_with_its_reselection() {
    let mut rig = received("a b");
    rig.set("a", 2);
    assert_eq!(rig.fail(), "update a@1->2 watch");
    reselect(&rig, "a", "b");
    assert_eq!(rig.drain(), "add b@1 reconfigured\n");
    rig.pass(seconds(10));
    assert_eq!(next(&mut rig), ("add a@2 reconfigured try 1".to_owned(), true));
}

#[test]
fn gated_reselection_waits_until_it_is_recorded() {
    let mut rig = received("a b");
    rig.listener.ledger().gate_replays(PODS, || {});
    reselect(&rig, "a", "b");
    assert_eq!(
        (rig.take(), rig.listener.ledger().open_keys(PODS, 10)),
        ("idle".to_owned(), OpenKeys::All)
    );
    rig.listener.ledger().begin_replay(PODS);
    assert_eq!(rig.drain(), "add a@1 reconfigured\nadd b@1 reconfigured\n");
}

#[test]
fn requeued_call_given_back_before_reselections_is_made() {
    let mut rig = received("a b");
    rig.set("a", 2);
    rig.take();
    rig.answer(again(seconds(5)));
    rig.pass(seconds(5));
    assert_eq!(rig.take(), "update a@->2 requeue-after");
    let token = rig.in_flight.pop().unwrap().token;
    rig.listener.consumer().give_back([token]);
    reselect(&rig, "ab", "ab");
    // This one's cursor leaves `a` out: no selection that it knows contains it.
    reselect(&rig, "b", "b");
    assert_eq!(rig.drain(), "add b@1 reconfigured\nupdate a@->2 requeue-after\n");
    assert_eq!(rig.stats().requeues, 0);
}

/// A selection that contains every object in version 2, before and now.
#[derive(Debug)]
struct SecondVersion;

impl ChangedSelection for SecondVersion {
    fn selects(&self, object: &Object) -> Selected {
        let selected = object.version().as_str() == "2";
        Selected {
            before: selected,
            ever: selected,
            now: selected,
        }
    }
}

#[test]
fn key_that_has_waited_is_not_taken_for_known() {
    let mut rig = received("a b");
    rig.set("a", 2);
    rig.take();
    rig.answer(DeliveryOutcome::NotReady(Awaited::Source(NODES)));
    rig.set("a", 3);
    rig.listener.feed().ready(Awaited::Source(NODES));
    rig.listener
        .control()
        .reselect(vec![(PODS, Arc::new(SecondVersion))], None, rig.now);
    assert_eq!(next(&mut rig), ("add a@3 reconfigured".to_owned(), true));
    assert_eq!(rig.take(), "idle");
}
