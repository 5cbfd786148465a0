//! Several lanes: who receives what, and what one lane does to another.

use std::sync::Arc;

use super::*;

/// A listener with so many lanes and the empty source [`PODS`], synced in each.
fn rig(lanes: Lane) -> Rig {
    let rig = Rig::bare(options());
    rig.listener
        .consumer()
        .set_lanes(lanes, Arc::new(|_| ResourceIdentity::new("", "", "pods")), rig.now);
    let mut rig = rig;
    rig.attach(PODS);
    let received = drain_all(&rig, lanes);
    assert_eq!(received, vec!["synced initial"; usize::from(lanes)]);
    rig
}

fn one(lane: Lane) -> LaneSet {
    let mut set = LaneSet::default();
    set.insert(lane);
    set
}

fn take(rig: &Rig, lane: Lane) -> Vec<Delivery> {
    let mut taken = Vec::new();
    while let NextBatch::Delivered(_) = rig.listener.consumer().next_batch(one(lane), rig.now, 64, &mut taken) {}
    taken
}

/// Takes and accepts what is there for `lane`, one at a time.
fn drain(rig: &Rig, lane: Lane) -> Vec<String> {
    let (mut lines, mut taken) = (Vec::new(), Vec::new());
    while let NextBatch::Delivered(_) = rig.listener.consumer().next_batch(one(lane), rig.now, 1, &mut taken) {
        let delivery = taken.remove(0);
        assert_eq!(delivery.lane, lane);
        lines.push(shown(&delivery));
        rig.listener
            .consumer()
            .done(delivery.token, DeliveryOutcome::Ok, rig.now);
    }
    lines
}

/// The same for all lanes. The last one of them to attempt its keys ends the list for all.
fn drain_all(rig: &Rig, lanes: Lane) -> Vec<String> {
    let round = || (0..lanes).flat_map(|lane| drain(rig, lane)).collect::<Vec<_>>();
    [round(), round()].concat()
}

/// A name whose key belongs to `lane`, out of `lanes`.
fn name_in(lane: Lane, lanes: Lane, nth: usize) -> String {
    let mut lane_map = crate::delivery::lanes::LaneMap::new();
    lane_map.set(lanes, Arc::new(|_| ResourceIdentity::new("", "", "pods")), &[PODS]);
    let mut names = (0..).map(|number| format!("web-{number:05}"));
    let found = names.by_ref().filter(|name| lane_map.of(PODS, key(name)) == lane);
    found.into_iter().nth(nth).unwrap()
}

#[test]
fn lanes_take_turns_at_a_limited_rate() {
    let mut rig = rig(3);
    let limited = ListenerOptions {
        calls_per_second_max: Some(1),
        ..options()
    };
    rig.listener.control().set_options(limited, rig.now);
    for lane in 0..3 {
        (0..2).for_each(|nth| rig.set(&name_in(lane, 3, nth), 1));
    }
    let mut all = LaneSet::default();
    (0..3).for_each(|lane| all.insert(lane));
    let mut taken = Vec::new();
    for _ in 0..6 {
        assert!(matches!(
            rig.listener.consumer().next_batch(all, rig.now, 64, &mut taken),
            NextBatch::Delivered(1)
        ));
        rig.now += Duration::from_secs(1);
    }
    let lanes: Vec<Lane> = taken.iter().map(|delivery| delivery.lane).collect();
    assert_eq!(lanes[..3], lanes[3..], "each comes again after all others");
}

#[test]
fn a_busy_lane_delays_only_its_own_keys() {
    let mut rig = rig(2);
    let (slow, quick) = (name_in(0, 2, 0), name_in(1, 2, 0));
    rig.set(&slow, 1);
    let in_flight = take(&rig, 0);
    assert_eq!(in_flight.len(), 1);
    rig.set(&slow, 2);
    rig.set(&quick, 1);
    assert_eq!(drain(&rig, 1), [format!("add {quick}@1 watch")]);
    assert!(take(&rig, 0).is_empty(), "its key is in flight");
}

#[test]
fn a_waiting_consumer_is_woken_for_its_lanes() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let mut rig = rig(2);
    let woken = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&woken);
    rig.listener.consumer().set_waker(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
    }));
    assert!(take(&rig, 1).is_empty());
    rig.set(&name_in(0, 2, 0), 1);
    assert_eq!(woken.load(Ordering::Relaxed), 0, "lane 0 is busy");
    rig.set(&name_in(1, 2, 0), 1);
    assert_eq!(woken.load(Ordering::Relaxed), 1);
}

#[test]
fn every_lane_is_synced_after_all_have_attempted_every_key() {
    let mut rig = Rig::bare(options());
    rig.listener
        .consumer()
        .set_lanes(3, Arc::new(|_| ResourceIdentity::new("", "", "pods")), rig.now);
    for lane in 0..3 {
        rig.set(&name_in(lane, 3, 0), 1);
    }
    rig.attach(PODS);
    assert_eq!(drain(&rig, 0).len(), 1, "not synced yet");
    assert_eq!(drain(&rig, 1).len(), 1);
    assert_eq!(drain(&rig, 2).last().unwrap(), "synced initial");
    // Retried only where it failed.
    let [failed] = &take(&rig, 0)[..] else { panic!("synced") };
    rig.listener.consumer().done(failed.token, retryable(), rig.now);
    assert_eq!(drain(&rig, 1), ["synced initial"]);
    assert!(drain(&rig, 0).is_empty(), "in back-off");
    rig.pass(seconds(2));
    assert!(drain(&rig, 1).is_empty());
    assert_eq!(drain(&rig, 0), ["synced initial try 1"]);
}

#[test]
fn a_recovery_delivers_the_keys_of_one_lane() {
    let mut rig = rig(4);
    let names: Vec<String> = (0..4).map(|lane| name_in(lane, 4, 0)).collect();
    names.iter().for_each(|name| rig.set(name, 1));
    (0..4).for_each(|lane| assert_eq!(drain(&rig, lane).len(), 1));
    rig.listener.consumer().recover(2, rig.now);
    for lane in [0, 1, 3] {
        assert!(drain(&rig, lane).is_empty());
    }
    assert_eq!(
        drain(&rig, 2),
        [format!("add {}@1 replay", names[2]), "synced replay".to_owned()]
    );
}

#[test]
fn another_number_of_lanes_replays_each_key_once() {
    let mut rig = rig(2);
    let names: Vec<String> = (0..40).map(|nth| name_in(0, 2, nth)).collect();
    names.iter().for_each(|name| rig.set(name, 1));
    assert_eq!(drain(&rig, 0).len(), 40);
    rig.set(&names[0], 2);
    rig.listener
        .consumer()
        .set_lanes(5, Arc::new(|_| ResourceIdentity::new("", "", "pods")), rig.now);
    let received = drain_all(&rig, 5);
    assert_eq!(received.iter().filter(|line| *line == "synced replay").count(), 5);
    assert_eq!(received.iter().filter(|line| line.starts_with("add ")).count(), 40);
    assert!(received.contains(&format!("add {}@2 replay", names[0])));
}

#[test]
fn a_requeue_is_due_in_the_lane_of_its_key() {
    let mut rig = rig(3);
    let name = name_in(2, 3, 0);
    rig.set(&name, 1);
    let [asks] = &take(&rig, 2)[..] else { panic!("one call") };
    rig.listener.consumer().done(asks.token, again(seconds(5)), rig.now);
    rig.pass(seconds(6));
    assert!(drain(&rig, 0).is_empty() && drain(&rig, 1).is_empty());
    assert_eq!(drain(&rig, 2), [format!("update {name}@->1 requeue-after")]);
}

#[test]
fn dropping_a_source_counts_what_no_lane_received() {
    let mut rig = Rig::bare(options());
    rig.listener
        .consumer()
        .set_lanes(3, Arc::new(|_| ResourceIdentity::new("", "", "pods")), rig.now);
    (0..9).for_each(|nth| rig.set(&name_in(nth % 3, 3, usize::from(nth)), 1));
    rig.attach(PODS);
    assert_eq!(drain(&rig, 0).len(), 3);
    rig.listener.feed().detach(PODS);
    assert_eq!(rig.counters().discarded, 6);
}

#[test]
fn another_number_of_lanes_while_closing_loses_nothing() {
    let mut rig = Rig::bare(options());
    rig.listener
        .consumer()
        .set_lanes(2, Arc::new(|_| ResourceIdentity::new("", "", "pods")), rig.now);
    (0..2).for_each(|lane| (0..2).for_each(|nth| rig.set(&name_in(lane, 2, nth), 1)));
    rig.attach(PODS);
    let taken = take(&rig, 0);
    assert_eq!(taken.len(), 2);
    rig.listener.control().close();
    rig.listener
        .consumer()
        .give_back(taken.iter().map(|delivery| delivery.token));
    rig.listener
        .consumer()
        .set_lanes(1, Arc::new(|_| ResourceIdentity::new("", "", "pods")), rig.now);
    let lines = drain(&rig, 0);
    for delivery in &taken {
        let name = delivery.key().unwrap().name;
        assert!(lines.iter().any(|line| line.contains(name)), "{name} in {lines:?}");
    }
}
