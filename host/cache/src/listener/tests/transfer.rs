//! Transfers between sources: from `PODS` to `NODES`.

use super::*;

/// Transfers all keys of `PODS` to `NODES` with its stored objects; `changes` are the difference.
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
        .feed()
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
fn transferred_source_has_no_resync_or_replay() {
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
    rig.listener.control().replay(rig.now);
    let replayed = rig.drain();
    assert!(replayed.contains("add a@2 replay source 2\n"), "{replayed}");
    assert!(!replayed.contains("@1"), "{replayed}");
}

#[test]
fn transfer_during_initial_list_continues_with_the_target() {
    let mut rig = Rig::bare(options());
    rig.sets("a b c", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    rig.answer(retryable());
    // Now `a` is another incarnation, `c` is deleted, `d` is new.
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
    let delivered = rig.drain();
    let position = |what: &str| {
        delivered
            .find(what)
            .unwrap_or_else(|| panic!("no {what:?} in\n{delivered}"))
    };
    assert!(position("delete a@1") < position("add a@5"), "{delivered}");
    assert!(position("delete c@1") < position("synced replay"), "{delivered}");
    assert!(position("add b@1") < position("synced replay"), "{delivered}");
    assert!(position("add d@6") < position("synced replay"), "{delivered}");
    assert!(rig.listener.feed().has_synced(NODES));
}

#[test]
fn a_pending_synced_follows_its_keys() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    assert_eq!(rig.take_all(), "add a@1 initial\nadd b@1 initial\n");
    rig.answer_all(&DeliveryOutcome::Ok);
    rig.store(NODES).add(state("a", "uid-a", 1, 0));
    rig.store(NODES).add(state("b", "uid-b", 1, 0));
    transfer(&mut rig, Vec::new());
    rig.listener.feed().detach(PODS);
    assert_eq!(rig.drain(), "synced initial source 2\n");
}

#[test]
fn reattached_source_follows_deletes_of_the_drained_one() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    rig.drain();
    // One delete is delivered and fails, the other is pending.
    rig.delete("a");
    rig.delete("b");
    assert!(rig.take().starts_with("delete a@1"));
    rig.answer(retryable());
    rig.store(NODES).add(state("a", "uid-a", 1, 0));
    rig.store(NODES).add(state("b", "uid-b", 1, 0));
    let (now, snapshot) = (rig.now, rig.store(NODES).publish());
    rig.listener.feed().transfer_pending(&[PODS], NODES, &|_| true);
    rig.listener.feed().attach(NODES, &snapshot, now);
    assert_eq!(
        rig.listener.feed().busy_keys(PODS),
        0,
        "the old source has nothing pending"
    );
    let mut delivered = rig.drain();
    rig.pass(seconds(10));
    delivered += &rig.drain();
    let position = |what: &str| {
        delivered
            .find(what)
            .unwrap_or_else(|| panic!("no {what:?} in\n{delivered}"))
    };
    for name in ["a", "b"] {
        let (delete, add) = (format!("delete {name}@1"), format!("add {name}@1 initial source 2"));
        assert!(position(&delete) < position(&add), "{delivered}");
        assert_eq!(delivered.matches(&format!(" {name}@")).count(), 2, "{delivered}");
    }
    assert!(delivered.trim_end().ends_with("synced initial source 2"), "{delivered}");
}
