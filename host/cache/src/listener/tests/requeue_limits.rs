//! The limits on requeues: the shortest wait, kept deletes and their bytes.

use super::*;

/// Answers the requeued calls of `a` with a request for another one after `wait`, `calls` times. Returns how long the
/// listener waits for the next.
fn calls_in_a_row(rig: &mut Rig, calls: u32, wait: Duration) -> String {
    for _ in 0..calls {
        assert_eq!(rig.take_all().lines().count(), 1);
        rig.answer(again(wait));
        if let NextDelivery::WaitUntil(until) = rig.listener.consumer().next(rig.now) {
            rig.now = until;
        }
    }
    rig.drain_and_requeue(wait)
}

impl Rig {
    /// Asks for another call of `a`, which is due, and returns how long the listener waits for it.
    fn drain_and_requeue(&mut self, wait: Duration) -> String {
        self.take_all();
        self.answer_all(&again(wait));
        self.take()
    }
}

/// How often in a row each listed key asked for another call, and when it is due.
fn slowed(rig: &Rig) -> Vec<(String, u32, Duration)> {
    let (count, keys) = rig.listener.ledger().slowed_keys(10);
    assert_eq!((count, rig.stats().slowed), (keys.len(), keys.len()));
    keys.iter()
        .map(|slowed| (slowed.key.name().to_owned(), slowed.requeues, slowed.next - rig.now))
        .collect()
}

#[test]
fn shortest_wait_is_a_tenth_of_a_second() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(calls_in_a_row(&mut rig, 0, Duration::ZERO), "wait 100ms");
    let longest = Duration::from_millis(u64::from(u32::MAX));
    rig.set("a", 2);
    assert_eq!(rig.drain_and_requeue(longest), "wait 4294967.295s");
}

#[test]
fn unchanged_object_is_requeued_slower_after_twenty_calls() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(calls_in_a_row(&mut rig, 19, Duration::ZERO), "wait 100ms", "call 20");
    assert_eq!(slowed(&rig), []);
    rig.pass(seconds(1));
    assert_eq!(rig.drain_and_requeue(Duration::ZERO), "wait 10s", "call 21");
    assert_eq!(slowed(&rig), [("a".to_owned(), 21, seconds(10))]);
    assert_eq!(rig.listener.ledger().slowed_keys(0), (1, Vec::new()));
    // A filtered arrival is a new version, too.
    rig.set("a", 2);
    rig.take();
    rig.answer(DeliveryOutcome::Filtered);
    rig.pass(seconds(10));
    assert_eq!(rig.drain_and_requeue(Duration::ZERO), "wait 100ms");
    assert_eq!(slowed(&rig), []);
}

#[test]
fn call_without_a_request_ends_the_row() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(calls_in_a_row(&mut rig, 20, Duration::ZERO), "wait 10s");
    rig.pass(seconds(10));
    rig.drain();
    assert_eq!(slowed(&rig), []);
    rig.listener.control().requeue(PODS, key("a"), rig.now);
    assert_eq!(rig.drain_and_requeue(Duration::ZERO), "wait 100ms");
}

#[test]
fn replaced_handler_is_called_at_once_and_counts_anew() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(calls_in_a_row(&mut rig, 20, Duration::ZERO), "wait 10s");
    assert!(rig.listener.control().end_slow_downs(rig.now));
    assert!(!rig.listener.control().end_slow_downs(rig.now), "it was ended");
    assert_eq!(slowed(&rig), []);
    assert_eq!(calls_in_a_row(&mut rig, 19, Duration::ZERO), "wait 100ms");
    rig.pass(seconds(1));
    assert_eq!(rig.drain_and_requeue(Duration::ZERO), "wait 10s");
    // A call that is being made is not made twice.
    rig.pass(seconds(10));
    rig.take_all();
    rig.listener.control().end_slow_downs(rig.now);
    assert_eq!(rig.take(), "idle");
    rig.answer_all(&again(Duration::ZERO));
    assert_eq!(rig.take(), "wait 100ms");
}

#[test]
fn patient_handler_is_never_listed_as_slowed() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(calls_in_a_row(&mut rig, 40, seconds(60)), "wait 60s");
    assert_eq!(slowed(&rig), []);
}

#[test]
fn resync_of_an_unchanged_object_continues_the_row() {
    let mut rig = Rig::new(ListenerOptions {
        resync: Some(seconds(1)),
        ..options()
    });
    rig.set("a", 1);
    for _ in 0..21 {
        rig.take_all();
        rig.answer_all(&again(seconds(5)));
        rig.pass(seconds(1));
    }
    assert_eq!(rig.stats().slowed, 1);
}

#[test]
fn too_many_requeued_deletes_drop_the_one_due_first() {
    let mut rig = Rig::new(ListenerOptions {
        requeued_deletes_max: 2,
        ..options()
    });
    rig.sets("a b c object", 1);
    rig.take_all();
    rig.answer_all(&again(seconds(1)));
    for (name, wait) in [("a", 20), ("b", 10), ("c", 30)] {
        rig.delete(name);
        rig.take();
        rig.answer(again(seconds(wait)));
    }
    assert_eq!((rig.stats().requeues, rig.counters().requeues_dropped), (3, 1));
    rig.pass(seconds(30));
    assert_eq!(
        rig.drain(),
        "update object@->1 requeue-after\ndelete a@1 requeue-after\ndelete c@1 requeue-after\n"
    );
}

#[test]
fn requeued_deletes_above_the_byte_limit_keep_metadata_only() {
    let mut rig = Rig::new(ListenerOptions {
        pending_bytes_max: 6_000,
        ..options()
    });
    for name in ["a", "b"] {
        rig.write(PODS, state(name, "u", 1, 4_000));
        rig.drain();
        rig.delete(name);
        rig.take();
        rig.answer(again(seconds(5)));
    }
    assert!((4_000..5_000).contains(&rig.stats().bytes), "{}", rig.stats().bytes);
    assert_eq!(rig.counters().deletes_cut, 1);
    rig.pass(seconds(5));
    let mut last = |name: &str| {
        assert_eq!(rig.take(), format!("delete {name}@1 requeue-after"));
        let Notification::Delete { last: Some(last), .. } = &rig.last_taken().notification else {
            panic!("a delete with its last state")
        };
        last.size_bytes()
    };
    assert!(last("a") > 4_000);
    assert!(last("b") < 1_000);
}
