//! Retries, dead letters and requeue.

use super::*;

/// The remaining wait, in whole milliseconds.
fn wait(rig: &mut Rig) -> u128 {
    match rig.listener.consumer().next(rig.now) {
        NextDelivery::WaitUntil(until) => (until - rig.now).as_millis(),
        other => panic!("expected WaitUntil: {other:?}"),
    }
}

fn letters(rig: &Rig) -> String {
    let line = |letter: DeadLetter| {
        format!(
            "{} {} {} after {}: {}: {}\n",
            letter.key, letter.event, letter.reason, letter.attempts, letter.result, letter.error
        )
    };
    rig.listener.ledger().dead_letters().into_iter().map(line).collect()
}

/// Fails until nothing is retried. Returns the number of attempts.
fn exhaust(rig: &mut Rig) -> u32 {
    let mut tries = 0;
    loop {
        match rig.listener.consumer().next(rig.now) {
            NextDelivery::Deliver(delivery) => {
                tries += 1;
                rig.listener.consumer().done(delivery.token, retryable(), rig.now);
            }
            NextDelivery::WaitUntil(until) => rig.now = until,
            _ => return tries,
        }
    }
}

#[test]
fn failure_is_retried_with_growing_back_off() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(rig.fail(), "add a@1 watch");
    let mut expected = 1_000;
    for attempt in 1..9 {
        let waited = wait(&mut rig);
        assert!((expected..=expected * 5 / 4).contains(&waited), "{attempt}: {waited}");
        rig.pass(Duration::from_millis(waited as u64 + 1));
        assert_eq!(rig.fail(), format!("add a@1 watch try {attempt}"));
        expected = (expected * 2).min(240_000);
    }
}

#[test]
fn retry_now_ends_the_back_off() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(rig.fail(), "add a@1 watch");
    wait(&mut rig);
    rig.listener.control().retry_now();
    assert_eq!(rig.fail(), "add a@1 watch try 1");
    let waited = wait(&mut rig);
    assert!((2_000..=2_500).contains(&waited), "{waited}");
}

#[test]
fn a_failing_key_delays_no_other() {
    let mut rig = Rig::new(options());
    rig.set("poison", 1);
    rig.fail();
    for name in ["a", "b", "c"] {
        rig.set(name, 1);
    }
    assert_eq!(rig.drain(), "add a@1 watch\nadd b@1 watch\nadd c@1 watch\n");
}

#[test]
fn keys_that_fail_together_retry_at_different_times() {
    let mut rig = Rig::new(options());
    rig.sets("a b c d", 1);
    rig.take_all();
    rig.answer_all(&retryable());
    let mut times = Vec::new();
    while let NextDelivery::WaitUntil(until) = rig.listener.consumer().next(rig.now) {
        times.push(until);
        rig.now = until;
        rig.take();
    }
    times.dedup();
    assert_eq!(times.len(), 4);
}

#[test]
fn the_same_seed_gives_the_same_waits() {
    let waits = |seed| {
        let mut rig = Rig::new(ListenerOptions { seed, ..options() });
        rig.set("a", 1);
        rig.fail();
        wait(&mut rig)
    };
    assert_eq!(waits(7), waits(7));
    assert_ne!(waits(7), waits(8));
}

#[test]
fn newer_events_fold_without_shortening_the_back_off() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.drain();
    rig.set("a", 2);
    rig.fail();
    rig.pass(seconds(3));
    rig.fail();
    let before = wait(&mut rig);
    rig.set("a", 3);
    rig.set("a", 4);
    assert_eq!(
        (wait(&mut rig), rig.stats().pending, rig.counters().coalesced),
        (before, 1, 2)
    );
    rig.pass(seconds(3));
    // A newer state starts at attempt 0, but the back-off keeps growing.
    assert_eq!(rig.fail(), "update a@1->4 watch");
    assert!(wait(&mut rig) >= 4_000);
}

#[test]
fn events_during_a_failing_call_fold_in() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.drain();
    rig.set("a", 2);
    rig.take();
    rig.set("a", 3);
    rig.set("a", 4);
    rig.answer(DeliveryOutcome::TimedOut("30 s".to_owned()));
    assert_eq!((rig.stats().pending, rig.stats().failing), (1, 1));
    rig.pass(seconds(2));
    assert_eq!(rig.drain(), "update a@1->4 watch\n");
}

#[test]
fn retry_after_is_honored_and_bounded() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    rig.answer(DeliveryOutcome::RetryAfter(
        "busy".to_owned(),
        Duration::from_millis(250),
    ));
    assert_eq!(wait(&mut rig), 250);
    rig.pass(Duration::from_millis(250));
    rig.take();
    rig.answer(DeliveryOutcome::RetryAfter("busy".to_owned(), seconds(1 << 40)));
    assert_eq!(wait(&mut rig), RETRY_AFTER_MAX.as_millis());
}

#[test]
fn the_last_attempt_makes_a_dead_letter() {
    let mut rig = Rig::new(with_attempts(10));
    rig.set("a", 1);
    assert_eq!(exhaust(&mut rig), 10);
    insta::assert_snapshot!(letters(&rig), @"default/a add watch after 10: retryable: no luck");
    assert_eq!(
        (
            rig.counters().dead_lettered,
            rig.counters().retried,
            rig.stats().pending
        ),
        (1, 9, 0)
    );
}

#[test]
fn permanent_failure_becomes_a_dead_letter_at_once() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    rig.set("a", 2);
    rig.answer(permanent());
    assert_eq!(letters(&rig), "default/a add watch after 1: permanent: no use\n");
    assert_eq!(
        rig.take(),
        "update a@1->2 watch",
        "the key's next event goes out as usual"
    );
    assert_eq!(rig.stats().dead_letters, 1);
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(rig.stats().dead_letters, 0, "success removes the letter");
}

#[test]
fn a_key_has_one_dead_letter_at_most() {
    let mut rig = Rig::new(options());
    for version in 1..=3 {
        rig.set("a", version);
        rig.take();
        rig.answer(permanent());
    }
    assert_eq!(letters(&rig), "default/a update watch after 1: permanent: no use\n");
}

#[test]
fn oldest_dead_letter_is_evicted_and_counted() {
    let mut rig = Rig::new(ListenerOptions {
        dead_letters_max: 2,
        ..options()
    });
    rig.sets("a b c", 1);
    rig.take_all();
    rig.answer_all(&permanent());
    assert_eq!(letters(&rig).lines().count(), 2);
    assert!(!letters(&rig).contains("default/a"));
    assert_eq!(
        (rig.counters().dead_lettered, rig.counters().dead_letters_evicted),
        (3, 1)
    );
}

#[test]
fn error_text_is_cut_at_its_limit() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    rig.answer(DeliveryOutcome::Permanent("ä".repeat(ERROR_BYTES_MAX)));
    assert_eq!(rig.listener.ledger().dead_letters()[0].error.len(), ERROR_BYTES_MAX);
}

#[test]
fn replaced_poisoned_state_makes_no_dead_letter() {
    let mut rig = Rig::new(with_attempts(1));
    rig.set("a", 1);
    rig.take();
    rig.set("a", 2);
    rig.answer(retryable());
    rig.pass(seconds(2));
    assert_eq!(rig.drain(), "add a@2 watch\n");
    assert_eq!(rig.counters().dead_lettered, 0);
}

#[test]
fn failing_delete_delays_the_next_incarnation_only_temporarily() {
    let mut rig = Rig::new(options());
    rig.write(PODS, state("a", "first", 1, 0));
    rig.drain();
    rig.delete("a");
    assert_eq!(rig.fail(), "delete a@1 watch");
    rig.write(PODS, state("a", "second", 2, 0));
    rig.pass(seconds(2));
    assert_eq!(rig.fail(), "delete a@1 watch try 1");
    rig.pass(seconds(3));
    assert_eq!(rig.take(), "delete a@1 watch try 2");
    rig.answer(permanent());
    assert_eq!(rig.drain(), "add a@2 watch\n");
}

#[test]
fn with_skip_a_failure_is_counted_and_dropped() {
    let mut rig = Rig::new(ListenerOptions {
        on_failure: FailurePolicy::Skip,
        ..options()
    });
    rig.sets("a b", 1);
    rig.fail();
    rig.take();
    rig.answer(DeliveryOutcome::Trapped("unreachable".to_owned()));
    assert_eq!(rig.take(), "idle");
    assert_eq!((rig.counters().skipped, rig.stats().dead_letters), (2, 0));
}

#[test]
fn failing_synced_is_retried_then_dropped() {
    let mut rig = Rig::bare(options());
    rig.attach(PODS);
    assert_eq!(rig.fail(), "synced initial");
    rig.pass(seconds(2));
    assert_eq!(rig.take(), "synced initial try 1");
    rig.answer(permanent());
    assert_eq!((rig.counters().skipped, rig.stats().dead_letters), (1, 0));
    assert!(rig.listener.feed().has_synced(PODS));
}

#[test]
fn requeue_delivers_current_state_and_success_removes_dead_letter() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    rig.answer(permanent());
    assert_eq!(
        rig.listener.control().requeue(PODS, key("a"), rig.now),
        RequeueResult::Queued
    );
    assert_eq!(rig.take(), "add a@1 requeue");
    assert_eq!(
        rig.listener.control().requeue(PODS, key("a"), rig.now),
        RequeueResult::Waiting
    );
    rig.answer(permanent());
    assert_eq!(letters(&rig), "default/a add requeue after 1: permanent: no use\n");
    rig.listener.control().requeue(PODS, key("a"), rig.now);
    rig.drain();
    assert_eq!(letters(&rig), "");
}

#[test]
fn requeue_delivers_the_last_delete_of_an_absent_key() {
    let mut rig = Rig::new(options());
    rig.sets("a", 1);
    rig.drain();
    rig.delete_in(PODS, "a", true);
    rig.take();
    rig.answer(permanent());
    rig.listener.control().requeue(PODS, key("a"), rig.now);
    assert_eq!(rig.drain(), "delete a@1? requeue\n");
    assert_eq!(
        rig.listener.control().requeue(PODS, key("a"), rig.now),
        RequeueResult::Unknown
    );
}

#[test]
fn requeue_delivers_current_state_after_a_failed_delete() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.drain();
    rig.delete("a");
    rig.take();
    rig.answer(permanent());
    rig.write(PODS, state("a", "second", 5, 0));
    rig.take();
    rig.answer(permanent());
    rig.listener.control().requeue(PODS, key("a"), rig.now);
    assert_eq!(rig.drain(), "add a@5 requeue\n");
}

#[test]
fn requeue_leaves_keys_to_a_running_cursor() {
    let mut rig = Rig::bare(options());
    rig.sets("a b", 1);
    rig.attach(PODS);
    assert_eq!(
        rig.listener.control().requeue(PODS, key("b"), rig.now),
        RequeueResult::Waiting
    );
    assert_eq!(
        rig.listener.control().requeue(NODES, key("b"), rig.now),
        RequeueResult::Unknown
    );
    rig.listener.control().close();
    assert_eq!(
        rig.listener.control().requeue(PODS, key("b"), rig.now),
        RequeueResult::Closed
    );
}

#[test]
fn dead_letters_respect_the_byte_limit() {
    let size = state("a", "u", 1, 10_000).size_bytes();
    let mut rig = Rig::new(ListenerOptions {
        pending_bytes_max: 2 * size,
        ..options()
    });
    for name in ["a", "b", "c"] {
        rig.write(PODS, state(name, "u", 1, 10_000));
        rig.drain();
        rig.delete(name);
        rig.take();
        rig.answer(permanent());
    }
    let sizes: Vec<usize> = rig
        .listener
        .ledger()
        .dead_letters()
        .into_iter()
        .map(|letter| letter.delete.unwrap().last.unwrap().size_bytes())
        .collect();
    assert_eq!(sizes[..2], [size, size]);
    assert!(sizes[2] < 1_000);
}

#[test]
fn detach_removes_the_dead_letters_of_the_source() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    rig.answer(permanent());
    rig.listener.feed().detach(PODS);
    assert_eq!(letters(&rig), "");
}

/// Delivers everything; "poison" fails, and costs the handler its memory. Returns the deliveries of the others and of
/// "poison".
fn lose_memory_over_poison(rig: &mut Rig) -> (usize, usize) {
    let (mut others, mut poisoned) = (0, 0);
    loop {
        match rig.listener.consumer().next(rig.now) {
            NextDelivery::Deliver(delivery) if delivery.key().is_some_and(|key| key.name == "poison") => {
                poisoned += 1;
                rig.listener.consumer().done(
                    delivery.token,
                    DeliveryOutcome::Trapped("unreachable".to_owned()),
                    rig.now,
                );
                rig.listener.consumer().recover(0, rig.now);
            }
            NextDelivery::Deliver(delivery) => {
                others += usize::from(delivery.key().is_some());
                rig.listener
                    .consumer()
                    .done(delivery.token, DeliveryOutcome::Ok, rig.now);
            }
            NextDelivery::WaitUntil(until) => rig.now = until,
            NextDelivery::Idle | NextDelivery::Closed => return (others, poisoned),
        }
    }
}

#[test]
fn object_that_kills_instances_becomes_a_dead_letter() {
    let mut rig = Rig::new(options());
    rig.sets("a poison b", 1);
    // Each of the five failures is followed by a replay, which delivers the two others; none of them gives it further
    // attempts.
    assert_eq!(lose_memory_over_poison(&mut rig), (1 + 5 * 2, 5));
    assert_eq!(letters(&rig), "default/poison add replay after 5: trap: unreachable\n");
    // A newer state is new, whether it is delivered directly or by a running cursor.
    rig.set("poison", 2);
    assert_eq!(rig.fail(), "update poison@1->2 watch");
    rig.listener.consumer().recover(0, rig.now);
    rig.set("poison", 3);
    assert_eq!(lose_memory_over_poison(&mut rig).1, 5);
    // A new version of the handler receives it again.
    rig.listener.control().replay(rig.now);
    assert_eq!(
        rig.drain(),
        "add a@1 replay\nadd b@1 replay\nadd poison@3 replay\nsynced replay\n"
    );
    assert_eq!(letters(&rig), "");
}

#[test]
fn recover_delivers_states_newer_than_their_dead_letter() {
    let mut rig = Rig::new(options());
    rig.sets("a z", 1);
    assert_eq!(rig.take_all(), "add a@1 watch\nadd z@1 watch\n");
    rig.answer_all(&DeliveryOutcome::Permanent("no".to_owned()));
    rig.listener.consumer().recover(0, rig.now);
    // Left to the cursor, which has not reached it.
    rig.set("z", 2);
    assert_eq!(rig.drain(), "add z@2 replay\nsynced replay\n");
    assert_eq!(letters(&rig), "default/a add watch after 1: permanent: no\n");
}
