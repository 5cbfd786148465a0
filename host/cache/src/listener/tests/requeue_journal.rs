//! What a journal reads of requeues, and how it restores them.

use std::sync::Arc;

use super::*;

/// `all; a in 5s, b in 3s delete @1?; removed c`
fn changes(rig: &Rig) -> String {
    let Some(changes) = rig.listener.ledger().requeue_changes(PODS, rig.now) else {
        return "none".to_owned();
    };
    let timer = |timer: &RequeueTimer| {
        let delete = timer.delete.as_ref().map_or(String::new(), |delete| {
            let version = delete
                .last
                .as_ref()
                .map_or(String::new(), |last| last.version().to_string());
            let mark = if delete.final_state_unknown { "?" } else { "" };
            format!(" delete @{version}{mark}")
        });
        format!("{} in {:?}{delete}", timer.key.name(), timer.remaining)
    };
    let timers: Vec<String> = changes.timers.iter().map(timer).collect();
    let removed: Vec<&str> = changes.removed.iter().map(Key::name).collect();
    let all = if changes.is_complete { "all; " } else { "" };
    format!("{all}{}; removed {}", timers.join(", "), removed.join(" "))
        .trim_end()
        .to_owned()
}

fn requeue(rig: &mut Rig, name: &str, version: u64, wait: u64) {
    rig.set(name, version);
    rig.take();
    rig.answer(again(seconds(wait)));
}

fn timer(name: &str, remaining: u64, deleted: bool) -> RequeueTimer {
    RequeueTimer {
        key: key(name).to_key(),
        remaining: seconds(remaining),
        reason: Reason::RequeueAfter,
        delete: deleted.then(|| LastDelete {
            last: Some(state(name, "old", 1, 0)),
            final_state_unknown: true,
        }),
    }
}

#[test]
fn journal_reads_all_requeues_then_changes() {
    let mut rig = Rig::new(options());
    requeue(&mut rig, "a", 1, 5);
    assert_eq!(changes(&rig), "none", "it is not recorded");
    rig.listener.ledger().record_requeues(PODS);
    assert_eq!(changes(&rig), "all; a in 5s; removed");
    assert_eq!(changes(&rig), "none");
    requeue(&mut rig, "b", 1, 7);
    requeue(&mut rig, "c", 1, 9);
    rig.delete("c");
    rig.take();
    rig.answer(again(seconds(3)));
    rig.set("a", 2);
    rig.drain();
    assert_eq!(changes(&rig), "b in 7s, c in 3s delete @1; removed a");
    rig.listener.control().replay(rig.now);
    assert_eq!(changes(&rig), "all; ; removed");
}

#[test]
fn requeue_is_recorded_until_its_call_has_succeeded() {
    let mut rig = Rig::new(options());
    rig.listener.ledger().record_requeues(PODS);
    requeue(&mut rig, "a", 1, 5);
    changes(&rig);
    rig.pass(seconds(5));
    assert_eq!(rig.fail(), "update a@->1 requeue-after");
    assert_eq!(changes(&rig), "none");
    rig.pass(seconds(2));
    assert_eq!(rig.take(), "update a@->1 requeue-after try 1");
    assert_eq!(changes(&rig), "none");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(changes(&rig), "; removed a");
}

#[test]
fn detached_source_has_no_requeue_changes() {
    let mut rig = Rig::new(options());
    requeue(&mut rig, "a", 1, 5);
    rig.listener.ledger().record_requeues(PODS);
    rig.listener.control().abandon();
    assert_eq!(changes(&rig), "none", "the journal keeps what it has");
}

#[test]
fn too_many_requeue_changes_return_all_of_them() {
    let mut rig = Rig::new(options());
    rig.listener.ledger().record_requeues(PODS);
    changes(&rig);
    for number in 0..=REQUEUE_CHANGES_MAX {
        rig.set(&format!("pod-{number}"), 1);
    }
    rig.take_all();
    rig.answer_all(&again(seconds(5)));
    let all = rig.listener.ledger().requeue_changes(PODS, rig.now).unwrap();
    assert_eq!((all.is_complete, all.timers.len()), (true, REQUEUE_CHANGES_MAX + 1));
}

#[test]
fn moved_requeues_are_changes_of_both_sources() {
    let mut rig = Rig::new(options());
    requeue(&mut rig, "a", 1, 5);
    rig.listener.ledger().record_requeues(PODS);
    changes(&rig);
    rig.store(NODES).add(state("a", "uid-a", 1, 0));
    let (now, snapshot) = (rig.now, rig.store(NODES).publish());
    rig.listener
        .feed()
        .transfer(&[PODS], NODES, &|_| true, &snapshot, &[], now);
    assert_eq!(changes(&rig), "; removed a");
    rig.listener.ledger().record_requeues(NODES);
    let moved = rig.listener.ledger().requeue_changes(NODES, rig.now).unwrap();
    assert_eq!((moved.timers.len(), moved.timers[0].remaining), (1, seconds(5)));
}

#[test]
fn restored_requeues_fall_due_at_their_time() {
    let mut accepted = AcceptedStates::default();
    let mut rig = Rig::bare(options());
    for name in ["a", "b", "c"] {
        rig.store(PODS).add(state(name, "u", 2, 0));
        accepted.insert(key(name).to_key(), "u", if name == "c" { "1" } else { "2" });
    }
    let snapshot = rig.store(PODS).publish();
    let resume = ResumeState {
        accepted: Some(Arc::new(accepted)),
        requeues: vec![
            timer("a", 0, false),
            timer("b", 60, false),
            timer("c", 60, false),
            timer("gone", 60, true),
            timer("missing", 60, false),
        ],
        ..ResumeState::default()
    };
    rig.listener.feed().attach_resumed(PODS, &snapshot, resume, rig.now);
    assert_eq!(
        rig.drain(),
        "add c@2 initial\nupdate a@->2 requeue-after\nsynced initial\n"
    );
    assert_eq!(rig.take(), "wait 60s");
    rig.pass(seconds(60));
    assert_eq!(
        rig.drain(),
        "update b@->2 requeue-after\ndelete gone@1? requeue-after\n",
        "c was called meanwhile"
    );
    assert_eq!(rig.counters().requeues_dropped, 1, "there is no object of that name");
}
