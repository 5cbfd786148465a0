//! Calls that wait for a source or an index.

use super::*;

fn not_ready() -> DeliveryOutcome {
    DeliveryOutcome::NotReady(Awaited::Index(NODES))
}

/// A listener whose call for `a` waits for an index over [`NODES`].
fn waiting() -> Rig {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(rig.take(), "add a@1 watch");
    rig.answer(not_ready());
    rig
}

#[test]
fn waiting_call_is_made_when_its_index_is_ready() {
    let mut rig = waiting();
    assert_eq!((rig.stats().pending, rig.stats().failing), (1, 0));
    rig.set("a", 2);
    rig.set("b", 1);
    assert_eq!(rig.drain(), "add b@1 watch\n", "other keys do not wait");
    rig.listener.feed().ready(Awaited::Source(NODES));
    assert_eq!(rig.take(), "wait 60s");
    rig.listener.feed().ready(Awaited::Index(NODES));
    assert_eq!(rig.drain(), "add a@2 watch\n", "no attempt was counted");
}

#[test]
fn waiting_call_is_made_after_a_minute() {
    let mut rig = waiting();
    rig.pass(seconds(59));
    assert_eq!(rig.take(), "wait 1s");
    rig.pass(seconds(1));
    assert_eq!(rig.take(), "add a@1 watch");
    rig.answer(not_ready());
    rig.pass(seconds(60));
    assert_eq!(rig.drain(), "add a@1 watch\n");
}

#[test]
fn delete_of_a_waiting_add_is_delivered() {
    let mut rig = waiting();
    rig.delete("a");
    rig.listener.feed().ready(Awaited::Index(NODES));
    assert_eq!(rig.drain(), "delete a@1 watch\n", "the call may have had effects");
}

#[test]
fn orderly_stop_does_not_wait_for_an_index() {
    let mut rig = waiting();
    rig.listener.control().close();
    assert_eq!(rig.take(), "wait 60s");
    rig.listener.control().end_retries();
    assert_eq!(rig.take(), "closed");
}

#[test]
fn what_became_ready_during_the_call_is_not_waited_for() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    assert_eq!(rig.take_all(), "add a@1 watch\nadd b@1 watch\n");
    rig.listener.feed().ready(Awaited::Index(NODES));
    rig.answer(not_ready());
    rig.answer(DeliveryOutcome::NotReady(Awaited::Source(NODES)));
    assert_eq!(rig.take(), "add a@1 watch");
    rig.answer(not_ready());
    assert_eq!(rig.take(), "wait 60s", "each readiness ends one wait");
}

#[test]
fn call_without_a_source_waits_for_any() {
    let mut rig = waiting();
    rig.set("b", 1);
    rig.take();
    rig.answer(DeliveryOutcome::NotReady(Awaited::AnySource));
    rig.listener.feed().ready(Awaited::Source(PODS));
    assert_eq!(rig.drain(), "add b@1 watch\n");
}

#[test]
fn waiting_keeps_the_attempts_of_a_state() {
    let mut rig = Rig::new(with_attempts(2));
    rig.set("a", 1);
    rig.fail();
    rig.pass(seconds(2));
    assert_eq!(rig.take(), "add a@1 watch try 1");
    rig.answer(not_ready());
    assert_eq!((rig.stats().waiting, rig.stats().failing), (1, 1));
    rig.listener.feed().ready(Awaited::Index(NODES));
    assert_eq!(rig.fail(), "add a@1 watch try 1");
    assert_eq!(rig.stats().dead_letters, 1, "its second attempt was the last");
}

#[test]
fn failed_key_that_waits_takes_no_turn_of_retries() {
    let mut rig = Rig::new(ListenerOptions {
        retries_per_second_max: 1,
        ..options()
    });
    rig.sets("a b", 1);
    rig.fail();
    rig.fail();
    rig.pass(seconds(2));
    let first = rig.take();
    rig.answer(not_ready());
    rig.pass(seconds(1));
    let second = rig.take();
    let both = [first.as_str(), second.as_str()];
    assert!(
        both.contains(&"add a@1 watch try 1") && both.contains(&"add b@1 watch try 1"),
        "{both:?}"
    );
}

#[test]
fn waiting_keys_are_called_when_retries_are_ended() {
    let mut rig = waiting();
    assert_eq!(rig.stats().waiting, 1);
    rig.listener.control().retry_now();
    assert_eq!(rig.drain(), "add a@1 watch\n");
    assert_eq!(rig.take(), "idle");
}
