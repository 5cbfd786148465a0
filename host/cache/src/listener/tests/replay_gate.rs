//! Gated replays: sources whose acknowledgements are persisted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// [`PODS`] with `a`, which is gated, and [`NODES`] with `n`, which is not, both synced; and the number of requests to
/// record a replay.
fn gated() -> (Rig, Arc<AtomicUsize>) {
    let mut rig = Rig::bare(options());
    rig.set("a", 1);
    rig.write(NODES, state("n", "u", 1, 0));
    rig.attach(PODS);
    rig.attach(NODES);
    rig.drain();
    let requested = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requested);
    rig.listener.ledger().gate_replays(PODS, move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (rig, requested)
}

#[test]
fn gated_replay_waits_until_it_is_recorded() {
    let (mut rig, requested) = gated();
    rig.listener.control().replay(rig.now);
    assert_eq!(requested.load(Ordering::Relaxed), 1);
    assert_eq!(rig.listener.ledger().open_keys(PODS, 10), OpenKeys::All);
    assert_eq!(rig.drain(), "add n@1 replay source 2\nsynced replay source 2\n");
    assert_eq!(rig.take(), "idle", "and no callback runs without a request");
    rig.set("a", 2);
    rig.listener.consumer().recover(0, rig.now);
    assert_eq!(requested.load(Ordering::Relaxed), 2, "each one is requested");
    assert_eq!(rig.drain(), "add n@1 replay source 2\nsynced replay source 2\n");
    rig.listener.ledger().begin_replay(PODS);
    assert_eq!(rig.drain(), "add a@2 replay\nsynced replay\n");
    rig.listener.ledger().begin_replay(PODS);
    assert_eq!(rig.take(), "idle", "there was none to start");
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "add n@1 replay source 2\nsynced replay source 2\n");
}

#[test]
fn gated_replay_starts_when_the_gate_is_removed() {
    let (mut rig, _) = gated();
    rig.listener.feed().detach(NODES);
    rig.listener.control().replay(rig.now);
    rig.listener.ledger().ungate_replays(PODS);
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");

    let (mut rig, _) = gated();
    rig.listener.feed().detach(NODES);
    rig.listener.control().replay(rig.now);
    rig.listener.control().close();
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
    assert_eq!(rig.take(), "closed");

    let (mut rig, _) = gated();
    rig.listener.control().replay(rig.now);
    rig.listener.feed().detach(PODS);
    rig.listener.feed().detach(NODES);
    rig.attach(PODS);
    assert_eq!(rig.drain(), "add a@1 initial\nsynced initial\n");
    rig.listener.control().replay(rig.now);
    assert_eq!(
        rig.drain(),
        "add a@1 replay\nsynced replay\n",
        "the gate is removed with the source"
    );
}
