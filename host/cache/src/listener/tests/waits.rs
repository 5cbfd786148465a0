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
