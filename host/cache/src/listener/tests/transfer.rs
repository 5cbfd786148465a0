//! A source that takes over from another. `NODES` inherits from `PODS`.

use super::*;

/// Lets `NODES`, as it is stored, take over all keys of `PODS`; `changes` are the difference.
fn transfer(rig: &mut Rig, changes: Vec<ChangeKind>) {
    let (now, snapshot) = (rig.now, rig.store(NODES).publish());
    let changes: Vec<ObjectChange> = changes
        .into_iter()
        .map(|kind| ObjectChange {
            kind,
            reason: Reason::Reconfigured,
            received: now,
        })
        .collect();
    rig.listener
        .transfer(&[PODS], NODES, &|_| true, &snapshot, &changes, now);
}

fn deleted(last: Object) -> ChangeKind {
    ChangeKind::Delete {
        key: last.key().to_key(),
        last: Some(last),
        final_state_unknown: false,
    }
}

#[test]
fn a_source_that_has_an_heir_is_shown_no_more_be_it_by_a_resync_or_a_replay() {
    let mut rig = Rig::bare(ListenerOptions {
        resync: Some(seconds(60)),
        ..options()
    });
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.drain();
    rig.pass(seconds(61));
    assert_eq!(rig.take(), "update a@1->1 resync");
    rig.answer(DeliveryOutcome::Ok);
    rig.store(NODES).add(state("a", "uid-a", 2, 0));
    rig.store(NODES).add(state("b", "uid-b", 2, 0));
    let update = |name: &str| {
        let of = |version| state(name, &format!("uid-{name}"), version, 0);
        ChangeKind::Update { old: of(1), new: of(2) }
    };
    transfer(&mut rig, vec![update("a"), update("b")]);
    assert_eq!(
        rig.drain(),
        "update a@1->2 reconfigured source 2\nupdate b@1->2 reconfigured source 2\n"
    );
    rig.listener.replay(rig.now);
    let replayed = rig.drain();
    assert!(replayed.contains("add a@2 replay source 2\n"), "{replayed}");
    assert!(!replayed.contains("@1"), "{replayed}");
}

#[test]
fn an_initial_list_that_is_cut_short_by_an_heir_goes_on_with_what_the_heir_holds() {
    let mut rig = Rig::bare(options());
    rig.sets("a b c", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    rig.answer(retryable());
    // `a` is another incarnation by now, `c` is gone, `d` is new.
    rig.store(NODES).add(state("a", "another", 5, 0));
    rig.store(NODES).add(state("b", "uid-b", 1, 0));
    rig.store(NODES).add(state("d", "uid-d", 6, 0));
    let changes = vec![
        deleted(state("a", "uid-a", 1, 0)),
        ChangeKind::Add(state("a", "another", 5, 0)),
        deleted(state("c", "uid-c", 1, 0)),
    ];
    transfer(&mut rig, changes);
    rig.pass(seconds(10));
    let told = rig.drain();
    let place = |what: &str| told.find(what).unwrap_or_else(|| panic!("no {what:?} in\n{told}"));
    assert!(place("delete a@1") < place("add a@5"), "{told}");
    assert!(place("delete c@1") < place("synced replay"), "{told}");
    assert!(place("add b@1") < place("synced replay"), "{told}");
    assert!(place("add d@6") < place("synced replay"), "{told}");
    assert!(rig.listener.has_synced(NODES));
}

#[test]
fn a_source_that_comes_back_is_told_after_the_deletes_of_the_one_that_left() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.drain();
    // One delete is handed out and fails, the other waits.
    rig.delete("a");
    rig.delete("b");
    assert!(rig.take().starts_with("delete a@1"));
    rig.answer(retryable());
    rig.store(NODES).add(state("a", "uid-a", 1, 0));
    rig.store(NODES).add(state("b", "uid-b", 1, 0));
    let (now, snapshot) = (rig.now, rig.store(NODES).publish());
    rig.listener.transfer_pending(&[PODS], NODES, &|_| true);
    rig.listener.attach(NODES, &snapshot, now);
    assert_eq!(
        rig.listener.busy_keys(PODS),
        0,
        "the old source has nothing to wait for"
    );
    let mut told = rig.drain();
    rig.pass(seconds(10));
    told += &rig.drain();
    let place = |what: &str| told.find(what).unwrap_or_else(|| panic!("no {what:?} in\n{told}"));
    for name in ["a", "b"] {
        let (delete, add) = (format!("delete {name}@1"), format!("add {name}@1 initial source 2"));
        assert!(place(&delete) < place(&add), "{told}");
        assert_eq!(told.matches(&format!(" {name}@")).count(), 2, "{told}");
    }
    assert!(told.trim_end().ends_with("synced initial source 2"), "{told}");
}
