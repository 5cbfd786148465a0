//! Replays of sources of which is kept what the handler has acknowledged.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// [`PODS`] with `a`, which is kept, and [`NODES`] with `n`, which is not, both shown; and how often a replay was to be
/// noted.
fn kept() -> (Rig, Arc<AtomicUsize>) {
    let mut rig = Rig::bare(options());
    rig.set("a", 1);
    rig.write(NODES, state("n", "u", 1, 0));
    rig.attach(PODS);
    rig.attach(NODES);
    rig.drain();
    let requested = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&requested);
    rig.listener.gate_replays(PODS, move || {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    (rig, requested)
}

#[test]
fn a_replay_of_a_source_that_is_kept_shows_nothing_before_it_is_noted() {
    let (mut rig, requested) = kept();
    rig.listener.replay(rig.now);
    assert_eq!(requested.load(Ordering::Relaxed), 1);
    assert_eq!(rig.listener.open_keys(PODS, 10), OpenKeys::All);
    assert_eq!(rig.drain(), "add n@1 replay source 2\nsynced replay source 2\n");
    assert_eq!(rig.take(), "idle", "and nobody asks in vain");
    rig.set("a", 2);
    rig.listener.recover(rig.now);
    assert_eq!(requested.load(Ordering::Relaxed), 2, "each is to be noted");
    assert_eq!(rig.drain(), "add n@1 replay source 2\nsynced replay source 2\n");
    rig.listener.begin_replay(PODS);
    assert_eq!(rig.drain(), "add a@2 replay\nsynced replay\n");
    rig.listener.begin_replay(PODS);
    assert_eq!(rig.take(), "idle", "there was none to begin");
    rig.listener.replay(rig.now);
    assert_eq!(rig.drain(), "add n@1 replay source 2\nsynced replay source 2\n");
}

#[test]
fn a_replay_that_waits_to_be_noted_waits_no_longer_than_who_notes_it_is_there() {
    let (mut rig, _) = kept();
    rig.listener.detach(NODES);
    rig.listener.replay(rig.now);
    rig.listener.ungate_replays(PODS);
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
    rig.listener.replay(rig.now);
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");

    let (mut rig, _) = kept();
    rig.listener.detach(NODES);
    rig.listener.replay(rig.now);
    rig.listener.close();
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
    assert_eq!(rig.take(), "closed");

    let (mut rig, _) = kept();
    rig.listener.replay(rig.now);
    rig.listener.detach(PODS);
    rig.listener.detach(NODES);
    rig.attach(PODS);
    assert_eq!(rig.drain(), "add a@1 initial\nsynced initial\n");
    rig.listener.replay(rig.now);
    assert_eq!(
        rig.drain(),
        "add a@1 replay\nsynced replay\n",
        "who kept it is gone with it"
    );
}
