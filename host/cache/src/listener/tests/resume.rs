//! Resuming a source after a restart.

use std::sync::Arc;

use super::*;

fn vanished(name: &str) -> Vanished {
    Vanished {
        gone_by: None,
        key: key(name).to_key(),
        last: Some(state(name, "old", 1, 0)),
        final_state_unknown: true,
        received: None,
    }
}

fn accepted(states: &[(&str, &str, &str)]) -> Option<Arc<AcceptedStates>> {
    let mut accepted = AcceptedStates::default();
    for (name, uid, version) in states {
        accepted.insert(key(name).to_key(), uid, version);
    }
    Some(Arc::new(accepted))
}

/// A resumed source with `a`, `b` and `c`, before the first delivery.
fn resumed(resume: ResumeState) -> Rig {
    let mut rig = Rig::bare(options());
    for (name, version) in [("a", 2), ("b", 3), ("c", 4)] {
        rig.store(PODS).add(state(name, "u", version, 0));
    }
    let snapshot = rig.store(PODS).publish();
    rig.listener.feed().attach_resumed(PODS, &snapshot, resume, rig.now);
    rig
}

#[test]
fn resume_delivers_vanished_objects_first() {
    let resume = ResumeState {
        deletes: vec![vanished("x"), vanished("y")],
        accepted: None,
        ..ResumeState::default()
    };
    insta::assert_snapshot!(resumed(resume).drain(), @"
    delete x@1? relist
    delete y@1? relist
    add a@2 initial
    add b@3 initial
    add c@4 initial
    synced initial
    ");
}

#[test]
fn resume_skips_accepted_states() {
    let resume = ResumeState {
        deletes: vec![vanished("c")],
        accepted: accepted(&[("a", "u", "2"), ("b", "u", "2"), ("c", "old", "4")]),
        ..ResumeState::default()
    };
    insta::assert_snapshot!(resumed(resume).drain(), @"
    delete c@1? relist
    add b@3 initial
    add c@4 initial
    synced initial
    ");
}

#[test]
fn resume_delivers_changes_ahead_of_the_cursor() {
    let mut rig = resumed(ResumeState {
        deletes: Vec::new(),
        accepted: accepted(&[("a", "u", "2"), ("b", "u", "3"), ("c", "u", "4")]),
        ..ResumeState::default()
    });
    rig.write(PODS, state("b", "u", 5, 0));
    rig.delete("c");
    insta::assert_snapshot!(rig.drain(), @"
    delete c@4 watch
    add b@5 initial
    synced initial
    ");
}

#[test]
fn open_keys_are_those_not_finished() {
    let mut rig = resumed(ResumeState {
        deletes: Vec::new(),
        accepted: accepted(&[("a", "u", "2")]),
        ..ResumeState::default()
    });
    let keys = ["a", "b", "c", "d"].map(|name| key(name).to_key());
    let open = |rig: &Rig| {
        let open = rig.listener.ledger().are_open(PODS, &keys).unwrap();
        [0, 1, 2, 3].map(|place| open[place].is_some())
    };
    assert_eq!(open(&rig), [true; 4], "the cursor has not reached them");
    assert_eq!(rig.take(), "add b@3 initial");
    assert_eq!(rig.take(), "add c@4 initial");
    rig.answer(permanent());
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.drain(), "synced initial\n");
    assert_eq!(open(&rig), [false, true, false, false], "b is a dead letter");
    assert_eq!(
        rig.listener.ledger().open_keys(PODS, 8),
        OpenKeys::Keys(vec![keys[1].clone()])
    );
    assert_eq!(rig.listener.ledger().open_keys(PODS, 0), OpenKeys::Many);
    assert_eq!(rig.listener.ledger().open_keys(NODES, 8), OpenKeys::Detached);
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.listener.ledger().open_keys(PODS, 8), OpenKeys::All);
}

#[test]
fn refused_changes_make_open_keys_unknown() {
    let mut rig = resumed(ResumeState {
        deletes: Vec::new(),
        accepted: None,
        ..ResumeState::default()
    });
    rig.drain();
    let a = [key("a").to_key()];
    rig.listener.control().close();
    assert_eq!(rig.listener.ledger().are_open(PODS, &a), Some(vec![None]));
    rig.write(PODS, state("a", "u", 9, 0));
    assert_eq!(rig.listener.ledger().are_open(PODS, &a), None, "the change was refused");
    assert_eq!(rig.listener.ledger().open_keys(PODS, 8), OpenKeys::Detached);
}

/// The delete of incarnation `uid` of `name`.
fn vanished_as(name: &str, uid: &str, version: u64) -> Vanished {
    Vanished {
        gone_by: None,
        last: Some(state(name, uid, version, 0)),
        ..vanished(name)
    }
}

#[test]
fn resumed_deletes_of_one_key_stay_apart() {
    let several = || ResumeState {
        deletes: vec![
            vanished_as("x", "u1", 1),
            vanished_as("x", "u2", 2),
            vanished_as("y", "u3", 3),
        ],
        accepted: accepted(&[("a", "u", "2"), ("b", "u", "3"), ("c", "u", "4")]),
        ..ResumeState::default()
    };
    let expected = "delete x@1? relist\ndelete y@3? relist\ndelete x@2? relist\nsynced initial\n";
    assert_eq!(resumed(several()).drain(), expected);
    // Also where pending events fold.
    let mut rig = resumed(several());
    rig.listener.control().pause(Pause::Quarantine);
    rig.listener.control().resume(Pause::Quarantine);
    assert_eq!(rig.drain(), expected);
}

#[test]
fn failing_resumed_delete_becomes_a_dead_letter_before_the_next() {
    let mut rig = resumed(ResumeState {
        deletes: vec![vanished_as("x", "u1", 1), vanished_as("x", "u2", 2)],
        accepted: accepted(&[("a", "u", "2"), ("b", "u", "3"), ("c", "u", "4")]),
        ..ResumeState::default()
    });
    for _ in 0..100 {
        let taken = rig.take();
        match taken.split(' ').nth(1) {
            Some("x@1?") => rig.answer(DeliveryOutcome::Trapped("unreachable".to_owned())),
            Some("x@2?") => break,
            Some("initial") => rig.answer(DeliveryOutcome::Ok),
            _ => rig.pass(seconds(600)),
        }
    }
    assert_eq!(rig.listener.ledger().dead_letters().len(), 1);
    assert_eq!(shown(rig.last_taken()), "delete x@2? relist");
}

#[test]
fn object_deleted_ahead_of_the_cursor_follows_its_predecessor() {
    // The earlier process may have delivered `c` together with the delete of its predecessor.
    for keyed in [false, true] {
        let mut rig = resumed(ResumeState {
            deletes: vec![vanished("c")],
            accepted: accepted(&[("a", "u", "2"), ("b", "u", "3")]),
            ..ResumeState::default()
        });
        if keyed {
            rig.listener.control().pause(Pause::Quarantine);
        }
        rig.delete("c");
        // This one was never delivered.
        rig.write(PODS, state("c", "other", 8, 0));
        rig.delete("c");
        rig.listener.control().resume(Pause::Quarantine);
        assert_eq!(rig.drain(), "delete c@1? relist\ndelete c@4 watch\nsynced initial\n");
    }
}

#[test]
fn object_deleted_behind_the_cursor_follows_its_predecessor() {
    let mut rig = resumed(ResumeState {
        deletes: vec![vanished("a")],
        accepted: accepted(&[("b", "u", "3"), ("c", "u", "4")]),
        ..ResumeState::default()
    });
    assert_eq!(rig.take(), "delete a@1? relist");
    // The cursor passes `a` while its predecessor's delete is in flight.
    assert_eq!(rig.take(), "idle");
    rig.listener.control().pause(Pause::Quarantine);
    rig.delete("a");
    rig.listener.control().resume(Pause::Quarantine);
    let open = rig.listener.ledger().are_open(PODS, &[key("a").to_key()]).unwrap();
    let deletes = open[0].as_ref().map(|open| open.deletes.clone()).unwrap();
    assert_eq!(deletes, [Some("old".into()), Some("u".into())]);
    rig.answer(DeliveryOutcome::Ok);
    let open = rig.listener.ledger().are_open(PODS, &[key("a").to_key()]).unwrap();
    let deletes = open[0].as_ref().map(|open| open.deletes.clone()).unwrap();
    assert_eq!(deletes, [Some("u".into())], "the first was accepted");
    assert_eq!(rig.drain(), "delete a@2 watch\nsynced initial\n");
}

#[test]
fn restored_dead_letters_are_listed_requeued_and_bounded() {
    let letter = |name: &str, version: &str| DeadLetter {
        source: NODES,
        key: key(name).to_key(),
        event: "update",
        resource_version: Some(version.to_owned()),
        reason: Reason::Watch,
        error: "no".to_owned(),
        result: "permanent",
        attempts: 3,
        received: Moment::ZERO,
        given_up: Moment::ZERO,
        age_before: seconds(60),
        delete: None,
    };
    let mut rig = Rig::bare(ListenerOptions {
        dead_letters_max: 2,
        ..options()
    });
    rig.store(PODS).add(state("b", "u", 3, 0));
    let snapshot = rig.store(PODS).publish();
    let resume = ResumeState {
        deletes: Vec::new(),
        accepted: accepted(&[("b", "u", "3")]),
        dead_letters: Some(vec![letter("x", "1"), letter("y", "2"), letter("b", "3")]),
        ..ResumeState::default()
    };
    rig.listener.feed().attach_resumed(PODS, &snapshot, resume, rig.now);
    assert_eq!(rig.drain(), "synced initial\n", "it is unchanged");
    let letters = rig.listener.ledger().dead_letters();
    let listed: Vec<_> = letters
        .iter()
        .map(|letter| (letter.key.name(), letter.source))
        .collect();
    assert_eq!(listed, [("y", PODS), ("b", PODS)], "the oldest was evicted");
    assert_eq!(rig.counters().dead_letters_evicted, 1);
    assert_eq!(letters[1].age(rig.now + seconds(1)), seconds(61));
    let changes = rig.listener.ledger().dead_letter_changes(PODS, None).unwrap();
    assert_eq!((changes.keys.len(), changes.added.len()), (2, 2));
    assert!(
        rig.listener
            .ledger()
            .dead_letter_changes(PODS, Some(changes.seen))
            .is_none()
    );
    assert_eq!(
        rig.listener.control().requeue(PODS, key("b"), rig.now),
        RequeueResult::Queued
    );
    assert_eq!(rig.drain(), "add b@3 requeue\n");
    let changes = rig
        .listener
        .ledger()
        .dead_letter_changes(PODS, Some(changes.seen))
        .unwrap();
    assert_eq!(
        (changes.keys.len(), changes.added.len()),
        (1, 0),
        "its success removed it"
    );
}

#[test]
fn later_report_of_a_delete_keeps_what_may_follow() {
    let unknown = || Vanished {
        gone_by: None,
        last: None,
        ..vanished("x")
    };
    let mut rig = resumed(ResumeState {
        deletes: vec![unknown()],
        ..ResumeState::default()
    });
    rig.listener.control().pause(Pause::Operator);
    rig.set("x", 9);
    // Now it turns out that the handler may have received the present object, too.
    rig.listener.feed().push_vanished(PODS, vec![unknown()], rig.now);
    rig.delete("x");
    rig.listener.control().resume(Pause::Operator);
    let delivered = rig.drain();
    assert!(delivered.contains("delete x@9 watch\n"), "{delivered}");
}
