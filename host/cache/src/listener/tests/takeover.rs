//! Takeovers: another process has called the handler until now, or calls it from now on.

use super::*;
use crate::KeptDelete;

fn kept(name: &str, uid: &str, version: u64, received: Moment) -> KeptDelete {
    KeptDelete {
        key: key(name).to_key(),
        last: Some(state(name, uid, version, 0)),
        final_state_unknown: false,
        gone_by: Some(version),
        received,
    }
}

fn takeover(watermark: Option<u64>, all_objects: bool) -> Takeover {
    Takeover { watermark, all_objects }
}

impl Rig {
    /// Attaches the source, whose list has this version, in place of another process.
    fn take_over(&mut self, version: u64, takeover: Takeover, kept: Vec<KeptDelete>) {
        self.resume(version, ResumeState::of_takeover(takeover, kept));
    }

    fn resume(&mut self, version: u64, resume: ResumeState) {
        self.store(PODS).set_complete_through(Some(version));
        let snapshot = self.store(PODS).publish();
        self.listener.feed().attach_resumed(PODS, &snapshot, resume, self.now);
    }

    fn watermark(&self) -> Option<u64> {
        self.listener.ledger().watermark(PODS)
    }

    /// Writes a state of an object of [`three`], with all changes up to `version` in the store.
    fn set_through(&mut self, name: &str, version: u64) {
        self.store(PODS).set_complete_through(Some(version));
        self.write(PODS, state(name, "u", version, 0));
    }
}

/// The objects `a@2`, `b@5` and `c@9`, before a takeover.
fn three() -> Rig {
    let mut rig = Rig::bare(options());
    for (name, version) in [("a", 2), ("b", 5), ("c", 9)] {
        rig.store(PODS).add(state(name, "u", version, 0));
    }
    rig
}

#[test]
fn takeover_delivers_kept_deletes_then_each_object_once() {
    let mut rig = three();
    let now = rig.now;
    let deletes = vec![
        kept("x", "u1", 7, now),
        kept("c", "old", 8, now),
        kept("y", "u2", 3, now),
    ];
    rig.take_over(9, takeover(Some(4), true), deletes);
    assert_eq!(
        rig.drain(),
        "delete c@8 takeover\ndelete x@7 takeover\nadd a@2 takeover\nadd b@5 takeover\nadd c@9 takeover\nsynced takeover\n"
    );
}

#[test]
fn takeover_leaves_out_what_the_watermark_covers() {
    let mut rig = three();
    rig.store(PODS).add(testing::object(
        r#"{"metadata":{"namespace":"default","name":"d","uid":"u","resourceVersion":"v-1"}}"#,
    ));
    rig.take_over(9, takeover(Some(5), false), Vec::new());
    assert_eq!(rig.watermark(), Some(5), "what the other process accepted");
    assert_eq!(
        rig.drain(),
        "add c@9 takeover\nadd d@v-1 takeover\nsynced takeover\n",
        "a version that is no number is always delivered"
    );
}

#[test]
fn takeover_without_watermark_delivers_everything() {
    let mut rig = three();
    let deletes = vec![kept("x", "u1", 1, rig.now)];
    rig.take_over(9, takeover(None, false), deletes);
    assert_eq!(rig.drain().lines().count(), 5);
}

#[test]
fn delete_of_unknown_version_is_delivered_and_its_successor_follows() {
    let mut rig = three();
    let unknown = KeptDelete {
        gone_by: None,
        final_state_unknown: true,
        ..kept("a", "old", 1, rig.now)
    };
    rig.take_over(9, takeover(Some(9), false), vec![unknown]);
    assert_eq!(
        rig.drain(),
        "delete a@1? takeover\nadd a@2 takeover\nsynced takeover\n",
        "the handler would take a for deleted otherwise"
    );
}

#[test]
fn change_that_a_takeover_would_leave_out_is_delivered() {
    let mut rig = three();
    rig.take_over(9, takeover(Some(9), false), Vec::new());
    let before = rig.store(PODS).add(state("b", "u", 4, 0)).unwrap();
    let restored = ChangeKind::Update {
        old: before,
        new: state("b", "u", 4, 0),
    };
    rig.push_as(PODS, restored, Reason::Restored);
    assert_eq!(rig.drain(), "add b@4 restored\nsynced takeover\n");
}

#[test]
fn object_delivered_elsewhere_does_not_vanish_with_its_delete() {
    let mut rig = Rig::bare(options());
    rig.take_over(1, takeover(None, true), Vec::new());
    assert_eq!(rig.drain(), "synced takeover\n");
    for (wait, delivered) in [(0, "delete a@5 watch\n"), (60, "")] {
        rig.pass(seconds(wait));
        rig.listener.control().pause(Pause::Operator);
        rig.set("a", 5);
        rig.delete("a");
        rig.listener.control().resume(Pause::Operator);
        assert_eq!(rig.drain(), delivered, "after {wait} s");
    }
}

#[test]
fn replay_before_the_first_delivery_keeps_the_reason() {
    let mut rig = three();
    rig.take_over(9, takeover(None, true), Vec::new());
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.take(), "add a@2 takeover");
    let mut rig = three();
    rig.take_over(9, takeover(Some(9), false), Vec::new());
    rig.listener.control().replay(rig.now);
    assert_eq!(
        rig.take(),
        "add a@2 replay",
        "a handler without memory needs all objects"
    );
}

#[test]
fn takeover_after_persisted_state_leaves_nothing_out() {
    let mut own = AcceptedStates::default();
    own.insert(key("c").to_key(), "u", "9");
    let vanished = |name: &str, version: u64, final_state_unknown| Vanished {
        gone_by: None,
        key: key(name).to_key(),
        last: Some(state(name, "u", version, 0)),
        final_state_unknown,
        received: None,
    };
    let persisted = || ResumeState {
        deletes: vec![vanished("p", 1, true), vanished("q", 3, false), vanished("r", 7, false)],
        accepted: Some(Arc::new(own.clone())),
        ..ResumeState::default()
    };
    let later = |all_objects, now| {
        let deletes = vec![kept("r", "u", 7, now), kept("s", "u", 8, now)];
        ResumeState::of_takeover(takeover(Some(4), all_objects), deletes)
    };
    for (all_objects, objects) in [(true, "abc"), (false, "b")] {
        let mut rig = three();
        let now = rig.now;
        rig.resume(9, persisted().then(later(all_objects, now)));
        let delivered = rig.drain();
        let mut expected = vec!["delete p@1? takeover".to_owned()];
        expected.extend(["delete r@7 takeover", "delete s@8 takeover"].map(str::to_owned));
        let version = BTreeMap::from([('a', 2), ('b', 5), ('c', 9)]);
        expected.extend(
            objects
                .chars()
                .map(|name| format!("add {name}@{} takeover", version[&name])),
        );
        expected.push("synced takeover".to_owned());
        assert_eq!(delivered.lines().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn watermark_is_below_everything_unaccepted() {
    let mut rig = three();
    rig.take_over(9, takeover(Some(5), false), Vec::new());
    assert_eq!(rig.watermark(), Some(5));
    assert_eq!(rig.take(), "add c@9 takeover");
    rig.drain();
    assert_eq!(rig.watermark(), Some(9));
    rig.set_through("a", 12);
    rig.set_through("b", 14);
    assert_eq!(rig.watermark(), Some(11));
    assert_eq!(rig.fail(), "update a@2->12 watch");
    assert_eq!(rig.watermark(), Some(11), "in back-off");
    assert_eq!(rig.take(), "update b@5->14 watch");
    rig.answer(DeliveryOutcome::Ok);
    rig.set_through("c", 20);
    rig.pass(seconds(600));
    assert_eq!(rig.take(), "update c@9->20 watch");
    assert_eq!(rig.watermark(), Some(11));
    assert_eq!(rig.take(), "update a@2->12 watch try 1");
    rig.answer(DeliveryOutcome::Ok);
    rig.answer(permanent());
    assert_eq!(rig.watermark(), Some(20), "a dead letter is kept elsewhere");
}

#[test]
fn watermark_is_unknown_while_objects_are_delivered_anew() {
    let mut rig = three();
    rig.store(PODS).set_complete_through(Some(9));
    rig.attach(PODS);
    assert_eq!(rig.watermark(), None, "the first list");
    rig.drain();
    assert_eq!(rig.watermark(), Some(9));
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.watermark(), None, "a replay");
    rig.drain();
    assert_eq!(rig.listener.ledger().watermark(NODES), None, "not attached");
    rig.store(PODS).set_complete_through(None);
    rig.set("a", 30);
    rig.drain();
    assert_eq!(rig.watermark(), None, "the versions are not compared");
}

#[test]
fn repeated_calls_do_not_lower_the_watermark() {
    let mut rig = Rig::bare(ListenerOptions {
        resync: Some(seconds(60)),
        ..options()
    });
    rig.store(PODS).set_complete_through(Some(9));
    rig.set("a", 2);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@2 initial");
    rig.answer(again(seconds(5)));
    rig.drain();
    rig.pass(seconds(5));
    assert_eq!(rig.take(), "update a@->2 requeue-after");
    assert_eq!(rig.watermark(), Some(9));
    rig.answer(DeliveryOutcome::Ok);
    rig.pass(seconds(60));
    assert_eq!(rig.take(), "update a@2->2 resync");
    assert_eq!(rig.watermark(), Some(9));
}

#[test]
fn age_of_the_oldest_delete_survives_a_takeover() {
    let mut rig = three();
    let now = rig.now;
    rig.pass(seconds(100));
    rig.take_over(9, takeover(Some(4), true), vec![kept("x", "u1", 7, now)]);
    rig.pass(seconds(1));
    let oldest = |rig: &Rig| rig.listener.ledger().oldest_delete(rig.now);
    assert_eq!(oldest(&rig), Some(seconds(101)));
    rig.delete("a");
    assert_eq!(rig.take(), "delete x@7 takeover");
    assert_eq!(oldest(&rig), Some(seconds(101)), "in flight");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(oldest(&rig), Some(Duration::ZERO));
    rig.drain();
    assert_eq!(oldest(&rig), None);
}

#[test]
fn handed_over_events_are_not_discarded_and_the_listener_returns() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 2);
    assert_eq!(rig.take(), "add a@2 watch");
    rig.delete("b");
    rig.listener.feed().hand_over(PODS);
    let counters = rig.counters();
    assert_eq!((counters.discarded, counters.deletes_discarded), (0, 0));
    assert_eq!(counters.handed_over, 3);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.counters().late, 1);
    assert_eq!(rig.drain(), "");
    rig.take_over(2, takeover(None, true), Vec::new());
    assert_eq!(rig.drain(), "add a@2 takeover\nsynced takeover\n");
}

#[test]
fn takeover_restores_dead_letters_of_present_states() {
    let letter = |name: &str, version: Option<&str>| DeadLetter {
        source: PODS,
        key: key(name).to_key(),
        event: version.map_or("delete", |_| "update"),
        resource_version: version.map(str::to_owned),
        reason: Reason::Watch,
        error: "no".to_owned(),
        result: "permanent",
        attempts: 3,
        received: Moment::ZERO,
        given_up: Moment::ZERO,
        age_before: seconds(60),
        delete: version.is_none().then(|| LastDelete {
            last: Some(state(name, "u", 4, 0)),
            final_state_unknown: false,
        }),
    };
    let left = vec![
        letter("a", Some("1")),
        letter("b", Some("5")),
        letter("gone", Some("3")),
        letter("x", None),
    ];
    let own = ResumeState {
        dead_letters: Some(vec![letter("c", Some("9"))]),
        accepted: Some(Arc::default()),
        ..ResumeState::default()
    };
    let mut rig = three();
    let takeover = ResumeState::of_takeover(takeover(Some(9), false), Vec::new());
    let takeover = ResumeState {
        dead_letters: Some(left),
        ..takeover
    };
    rig.resume(9, own.then(takeover));
    assert_eq!(
        rig.drain(),
        "synced takeover\n",
        "all was accepted, or is a dead letter"
    );
    let letters = rig.listener.ledger().dead_letters();
    let names: Vec<_> = letters.iter().map(|letter| letter.key.name()).collect();
    assert_eq!(names, ["b", "x"], "those of the other process, of present states");
    for letter in letters {
        let requeued = rig.listener.control().requeue(PODS, letter.key.as_ref(), rig.now);
        assert_eq!(requeued, RequeueResult::Queued);
    }
    rig.drain();
    assert!(rig.listener.ledger().dead_letters().is_empty());
}
