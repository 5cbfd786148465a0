//! Runs of timers: one at a time, one pending.

use std::sync::{Arc, Mutex};

use super::*;
use crate::listener::{Lane, ResourceIdentities, Tick};

fn tick(rig: &Rig, timer: &str, scheduled_ms: i64) {
    let tick = Tick {
        timer: timer.into(),
        scheduled_ms,
        due_ms: Some(scheduled_ms),
        missed: 0,
    };
    rig.listener.consumer().tick(tick, rig.now);
    rig.listener.check();
}

/// The runs that have ended, as `NAME@SCHEDULED ok` or `gone`.
fn ended(rig: &Rig) -> Arc<Mutex<Vec<String>>> {
    let ended: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&ended);
    rig.listener.consumer().set_tick_callback(Arc::new(move |tick, is_ok| {
        let result = if is_ok { "ok" } else { "gone" };
        seen.lock()
            .unwrap()
            .push(format!("{}@{} {result}", tick.timer, tick.scheduled_ms));
    }));
    ended
}

#[test]
fn runs_of_one_timer_follow_each_other() {
    let mut rig = Rig::new(options());
    let ended = ended(&rig);
    tick(&rig, "a", 1);
    tick(&rig, "b", 1);
    assert_eq!(rig.take_all(), "tick a@1 missed 0 trigger\ntick b@1 missed 0 trigger\n");
    tick(&rig, "a", 2);
    tick(&rig, "a", 3);
    assert_eq!(rig.take(), "idle");
    assert!(rig.listener.consumer().is_ticking("a") && !rig.listener.consumer().is_ticking("c"));
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.drain(), "tick a@3 missed 1 trigger\n");
    assert!(!rig.listener.consumer().is_ticking("a"));
    assert_eq!(*ended.lock().unwrap(), ["a@1 ok", "b@1 ok", "a@3 ok"]);
}

#[test]
fn the_next_run_stands_for_one_that_failed() {
    let mut rig = Rig::new(options());
    tick(&rig, "a", 1);
    rig.fail();
    tick(&rig, "a", 2);
    rig.pass(seconds(60));
    assert_eq!(rig.drain(), "tick a@2 missed 1 trigger\n");
}

#[test]
fn a_run_that_is_given_up_is_no_dead_letter() {
    let mut rig = Rig::new(options());
    let ended = ended(&rig);
    tick(&rig, "a", 1);
    rig.take();
    rig.answer(permanent());
    assert_eq!(*ended.lock().unwrap(), ["a@1 gone"]);
    assert_eq!((rig.counters().skipped, rig.counters().dead_lettered), (1, 0));
    tick(&rig, "a", 2);
    assert_eq!(rig.drain(), "tick a@2 missed 0 trigger\n");
}

#[test]
fn a_replay_keeps_pending_runs() {
    let mut rig = Rig::new(options());
    rig.set("pod", 1);
    tick(&rig, "a", 1);
    rig.listener.control().replay(rig.now);
    let delivered = rig.drain();
    assert!(delivered.contains("tick a@1 missed 0"), "{delivered}");
}

#[test]
fn timers_are_called_in_the_first_lane() {
    let rig = Rig::new(options());
    let identity: ResourceIdentities = Arc::new(|_| crate::ResourceIdentity::new("", "", "pods"));
    rig.listener.consumer().set_lanes(4, identity, rig.now);
    tick(&rig, "a", 1);
    for lane in (1..4).chain([0]) {
        let mut lanes = LaneSet::default();
        lanes.insert(lane as Lane);
        let mut batch = Vec::new();
        let _ = rig.listener.consumer().next_batch(lanes, rig.now, 64, &mut batch);
        let has_tick = batch
            .iter()
            .any(|delivery| matches!(delivery.notification, Notification::Tick(_)));
        assert_eq!(has_tick, lane == 0);
    }
}

#[test]
fn a_paused_or_closed_handler_has_at_most_one_run() {
    let mut rig = Rig::new(options());
    rig.listener.control().pause(Pause::Operator);
    (1..=3).for_each(|at| tick(&rig, "a", at));
    assert_eq!(rig.take(), "idle");
    rig.listener.control().resume(Pause::Operator);
    rig.listener.control().close();
    tick(&rig, "b", 1);
    assert_eq!(rig.drain(), "tick a@3 missed 2 trigger\n");
}

#[test]
fn runs_are_handed_over_to_another_process() {
    let mut rig = Rig::new(options());
    tick(&rig, "a", 1);
    assert_eq!(rig.take(), "tick a@1 missed 0 trigger");
    tick(&rig, "a", 2);
    tick(&rig, "b", 2);
    rig.listener.control().hand_over_timers();
    rig.listener.check();
    assert_eq!((rig.counters().handed_over, rig.counters().discarded), (3, 0));
    assert!(!rig.listener.consumer().is_ticking("a"));
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.drain(), "");
    tick(&rig, "a", 3);
    assert_eq!(rig.drain(), "tick a@3 missed 0 trigger\n");
}
