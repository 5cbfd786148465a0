//! Suspect namespaces: a share of the time, and no delay for others.

use super::*;

fn limited() -> ListenerOptions {
    ListenerOptions {
        limits_suspects: true,
        ..options()
    }
}

fn write_in(rig: &mut Rig, namespace: &str, name: &str, version: u64) {
    let object = testing::object(&format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"uid-{name}","resourceVersion":"{version}"}}}}"#
    ));
    rig.write(PODS, object);
}

fn timed_out() -> DeliveryOutcome {
    DeliveryOutcome::TimedOut("1 s".to_owned())
}

/// Takes one delivery, whose call ends with `outcome` after `time`.
fn call(rig: &mut Rig, time: Duration, outcome: DeliveryOutcome) -> String {
    let taken = rig.take();
    let (began, token) = (rig.now, rig.last_taken().token);
    rig.pass(time);
    rig.listener.consumer().took(token, began, rig.now);
    rig.answer(outcome);
    taken
}

/// A listener whose namespace `bad` is suspect and has used up its share.
fn with_suspect() -> Rig {
    let mut rig = Rig::new(limited());
    write_in(&mut rig, "bad", "poison", 1);
    assert_eq!(call(&mut rig, seconds(1), timed_out()), "add poison@1 watch");
    rig.pass(seconds(2));
    assert_eq!(call(&mut rig, seconds(1), timed_out()), "add poison@1 watch try 1");
    rig
}

#[test]
fn keys_of_a_suspect_namespace_wait_and_others_are_called() {
    let mut rig = with_suspect();
    for number in 0..3 {
        write_in(&mut rig, "bad", &format!("b{number}"), 1);
        write_in(&mut rig, "good", &format!("g{number}"), 1);
    }
    assert_eq!(rig.drain(), "add g0@1 watch\nadd g1@1 watch\nadd g2@1 watch\n");
    assert_eq!((rig.stats().suspect, rig.counters().suspects_held), (3, 3));
    assert_eq!(rig.listener.ledger().suspects(9), (1, vec!["bad".to_owned()]));
    // A call of one second is a fifth of five.
    rig.pass(Duration::from_millis(2_999));
    assert!(rig.take().starts_with("wait 1ms"));
    rig.pass(Duration::from_millis(1));
    assert_eq!(call(&mut rig, seconds(1), DeliveryOutcome::Ok), "add b0@1 watch");
    // Two others, and the retry.
    assert_eq!(rig.stats().suspect, 3);
    assert!(rig.take().starts_with("wait"));
}

#[test]
fn objects_whose_bodies_are_slow_take_a_share() {
    let mut rig = Rig::new(limited());
    for number in 0..30 {
        write_in(&mut rig, "bad", &format!("b{number}"), 1);
    }
    write_in(&mut rig, "good", "g", 1);
    assert_eq!(rig.take(), "add b0@1 watch");
    let began = rig.now;
    rig.pass(seconds(5));
    rig.listener
        .consumer()
        .held_up(PODS, KeyRef::new("bad", "b0"), began, rig.now);
    rig.answer(DeliveryOutcome::NotReady(Awaited::Body(PODS)));
    assert_eq!(rig.take(), "add g@1 watch");
    rig.answer(DeliveryOutcome::Ok);
    // Five seconds are a fifth of 25, of which one may be taken ahead.
    rig.pass(Duration::from_millis(18_999));
    assert!(rig.take().starts_with("wait 1ms"));
    rig.pass(Duration::from_millis(1));
    assert_eq!(rig.take(), "add b1@1 watch");
}

#[test]
fn many_poison_objects_take_a_fifth_of_the_time() {
    let mut rig = Rig::new(limited());
    for number in 0..100 {
        write_in(&mut rig, "bad", &format!("b{number}"), 1);
    }
    let (began, mut spent) = (rig.now, Duration::ZERO);
    while rig.now - began < seconds(300) {
        match rig.listener.consumer().next(rig.now) {
            NextDelivery::Deliver(delivery) => {
                let called = rig.now;
                rig.pass(seconds(1));
                spent += seconds(1);
                rig.listener.consumer().took(delivery.token, called, rig.now);
                rig.listener.consumer().done(delivery.token, timed_out(), rig.now);
            }
            NextDelivery::WaitUntil(until) => rig.now = until,
            other => panic!("{other:?}"),
        }
    }
    // Besides the first call, before anything was suspect.
    assert!((seconds(58)..=seconds(62)).contains(&spent), "{spent:?}");
}

#[test]
fn one_call_about_a_suspect_runs_at_a_time() {
    let mut rig = with_suspect();
    rig.pass(seconds(10));
    write_in(&mut rig, "bad", "b1", 1);
    write_in(&mut rig, "bad", "b2", 1);
    write_in(&mut rig, "good", "g1", 1);
    assert_eq!(rig.take(), "add b1@1 watch");
    assert_eq!(rig.take_all(), "add g1@1 watch\n");
    rig.answer_all(&DeliveryOutcome::Ok);
    assert_eq!(rig.take_all(), "add b2@1 watch\n");
    // The time of a call that was not reported is the time in flight.
    rig.pass(seconds(1));
    rig.answer_all(&DeliveryOutcome::Ok);
    assert!(rig.take().starts_with("wait 3s"));
}

#[test]
fn newer_states_fold_while_their_namespace_is_suspect() {
    let mut rig = with_suspect();
    for version in 1..10 {
        write_in(&mut rig, "bad", "b", version);
        rig.take();
    }
    assert_eq!(rig.stats().pending, 2);
    rig.pass(seconds(10));
    assert_eq!(call(&mut rig, seconds(1), DeliveryOutcome::Ok), "add b@9 watch");
}

#[test]
fn retries_of_suspects_do_not_delay_other_retries() {
    let mut rig = with_suspect();
    for number in 0..50 {
        write_in(&mut rig, "bad", &format!("b{number}"), 1);
    }
    for _ in 0..20 {
        rig.pass(seconds(10));
        call(&mut rig, seconds(1), timed_out());
    }
    write_in(&mut rig, "good", "g", 1);
    rig.pass(seconds(1));
    while rig.fail() != "add g@1 watch" {}
    // Retries that become due start ten in a second; those of suspects then wait without holding that up.
    let mut taken = String::new();
    for _ in 0..5 {
        rig.pass(seconds(1));
        taken += &rig.take_all();
    }
    assert!(taken.contains("add g@1 watch try 1"), "{taken}");
    rig.listener.check();
}

#[test]
fn the_end_of_a_list_does_not_wait_for_suspects() {
    let mut rig = with_suspect();
    for number in 0..3 {
        write_in(&mut rig, "bad", &format!("b{number}"), 1);
    }
    rig.take_all();
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "synced replay\n");
    rig.listener.check();
}

#[test]
fn a_suspect_namespace_is_forgotten_after_five_minutes() {
    let mut rig = with_suspect();
    rig.pass(SUSPECT_TIME);
    write_in(&mut rig, "bad", "a", 1);
    write_in(&mut rig, "bad", "b", 1);
    assert_eq!(rig.take_all().lines().count(), 3);
    assert_eq!(rig.listener.ledger().suspects(9).0, 0);
}

#[test]
fn another_handler_begins_without_suspects() {
    let mut rig = with_suspect();
    write_in(&mut rig, "bad", "b", 1);
    assert!(rig.take().starts_with("wait"));
    assert!(rig.listener.control().end_slow_downs(rig.now));
    assert_eq!(rig.take(), "add b@1 watch");
}

#[test]
fn a_stop_does_not_wait_for_suspects() {
    let mut rig = with_suspect();
    write_in(&mut rig, "bad", "b", 1);
    rig.take_all();
    rig.listener.control().close();
    rig.listener.control().end_retries();
    assert_eq!(rig.take(), "closed");
}

#[test]
fn handlers_without_the_limit_have_no_suspects() {
    let mut rig = Rig::new(options());
    write_in(&mut rig, "bad", "poison", 1);
    rig.take();
    rig.answer(timed_out());
    write_in(&mut rig, "bad", "b", 1);
    assert_eq!(rig.drain(), "add b@1 watch\n");
}
