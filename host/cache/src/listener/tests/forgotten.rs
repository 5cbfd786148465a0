//! Objects of shards that another process reads from now on.

use super::*;
use crate::seeded_bug::SeededBug;

fn forget(rig: &mut Rig, name: &str) {
    rig.store(PODS).delete(key(name));
    let key = Key::new("default", name);
    rig.push_as(PODS, ChangeKind::Forget { key }, Reason::Reconfigured);
}

#[test]
fn pending_events_of_forgotten_objects_are_handed_over() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    rig.set("a", 2);
    rig.delete("c");
    forget(&mut rig, "a");
    forget(&mut rig, "c");
    assert_eq!(rig.drain(), "add b@1 watch\n");
    let stats = rig.stats();
    assert_eq!((stats.counters.handed_over, stats.pending, stats.bytes), (4, 0, 0));
}

#[test]
fn outcome_of_a_forgotten_object_is_late() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(rig.take(), "add a@1 watch");
    forget(&mut rig, "a");
    rig.answer(retryable());
    rig.pass(seconds(3_600));
    assert_eq!((rig.take().as_str(), rig.counters().late), ("idle", 1));
    // It returns: this process does not know what the other one has delivered.
    let object = state("a", "uid-a", 5, 0);
    rig.store(PODS).add(object.clone());
    rig.push_as(PODS, ChangeKind::Add(object), Reason::Takeover);
    assert_eq!(rig.take(), "add a@5 takeover");
}

#[test]
fn retries_letters_and_requeues_of_forgotten_objects_end() {
    let mut rig = Rig::new(options());
    rig.sets("failing dead asking", 1);
    for (name, outcome) in [
        ("failing", retryable()),
        ("dead", permanent()),
        ("asking", again(seconds(60))),
    ] {
        assert_eq!(rig.take(), format!("add {name}@1 watch"));
        rig.answer(outcome);
    }
    ["failing", "dead", "asking"]
        .iter()
        .for_each(|name| forget(&mut rig, name));
    rig.pass(seconds(3_600));
    assert_eq!(rig.take(), "idle");
    let stats = rig.stats();
    let left = (stats.failing, stats.dead_letters, stats.requeues);
    assert_eq!((left, stats.counters.requeues_dropped), ((0, 0, 0), 1));
}

#[test]
fn source_syncs_without_forgotten_objects() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    assert_eq!(rig.take(), "add a@1 initial");
    forget(&mut rig, "a");
    forget(&mut rig, "b");
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.drain(), "synced initial\n");
}

#[test]
fn seeded_bug_of_lost_shards_delivers_a_delete() {
    let delivered = || {
        let mut rig = Rig::new(options());
        rig.set("a", 1);
        rig.drain();
        forget(&mut rig, "a");
        rig.drain()
    };
    assert_eq!(delivered(), "");
    assert_eq!(
        SeededBug::LostShardDeletes.run_with(delivered),
        "delete a@? reconfigured\n"
    );
}
