//! Which failures are retried, how often, at what rate; the list of keys under retry; pauses by an operator.

use super::*;

/// Fails what is delivered until `calls` calls were made or nothing is retried. Returns the calls made.
fn fail_calls(rig: &mut Rig, calls: u32, outcome: &DeliveryOutcome) -> u32 {
    for made in 0..calls {
        loop {
            match rig.listener.consumer().next(rig.now) {
                NextDelivery::Deliver(delivery) => {
                    rig.listener.consumer().done(delivery.token, outcome.clone(), rig.now);
                    break;
                }
                NextDelivery::WaitUntil(until) => rig.now = until,
                NextDelivery::Idle | NextDelivery::Closed => return made,
            }
        }
    }
    calls
}

fn trapped() -> DeliveryOutcome {
    DeliveryOutcome::Trapped("unreachable".to_owned())
}

fn later(seconds: u64) -> DeliveryOutcome {
    DeliveryOutcome::RetryAfter("busy".to_owned(), Duration::from_secs(seconds))
}

fn dead_letters(rig: &Rig) -> Vec<u32> {
    let letters = rig.listener.ledger().dead_letters().into_iter();
    letters.map(|letter| letter.attempts).collect()
}

/// `a update x3 for 5s, again in 4s: no luck`
fn retried(rig: &Rig, max: usize) -> String {
    let line = |retried: RetriedKey| {
        format!(
            "{} {} x{} for {:?}, again in {:?}: {}\n",
            retried.key.map_or(String::new(), |key| key.name().to_owned()),
            retried.event,
            retried.attempts,
            rig.now - retried.since,
            retried.next - rig.now,
            retried.error
        )
    };
    rig.listener
        .ledger()
        .retried_keys(max)
        .1
        .into_iter()
        .map(line)
        .collect()
}

#[test]
fn retryable_failures_never_become_dead_letters_by_default() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    assert_eq!(fail_calls(&mut rig, 200, &retryable()), 200);
    assert_eq!((dead_letters(&rig).len(), rig.stats().failing), (0, 1));
    rig.pass(seconds(300));
    assert_eq!(rig.drain(), "add a@1 watch try 200\n");
    assert_eq!(rig.stats().failing, 0);
}

#[test]
fn three_timeouts_or_five_traps_make_a_dead_letter() {
    let timeout = DeliveryOutcome::TimedOut("30 s".to_owned());
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    fail_calls(&mut rig, 5, &retryable());
    assert_eq!(fail_calls(&mut rig, 2, &timeout), 2);
    assert_eq!(fail_calls(&mut rig, 4, &trapped()), 4, "each cause has its own count");
    // Another version of the object starts the counts again.
    rig.set("a", 2);
    assert_eq!(fail_calls(&mut rig, 20, &timeout), 3);
    assert_eq!(dead_letters(&rig), [3]);
    rig.set("a", 3);
    assert_eq!(fail_calls(&mut rig, 20, &trapped()), 5);
    assert_eq!(dead_letters(&rig), [5]);
}

#[test]
fn fewer_attempts_than_crashes_limit_crashes_too() {
    let mut rig = Rig::new(with_attempts(3));
    rig.set("a", 1);
    // A trap may be tried five times.
    assert_eq!(fail_calls(&mut rig, 20, &trapped()), 3);
    assert_eq!(dead_letters(&rig), [3]);
}

#[test]
fn retry_after_never_counts_as_an_attempt() {
    let mut rig = Rig::new(with_attempts(2));
    rig.set("a", 1);
    assert_eq!(fail_calls(&mut rig, 50, &later(30)), 50);
    assert_eq!(rig.take(), "wait 30s");
    rig.pass(seconds(30));
    assert_eq!(rig.fail(), "add a@1 watch try 50");
    assert_eq!(dead_letters(&rig).len(), 0);
    rig.pass(seconds(2));
    assert_eq!(rig.take(), "add a@1 watch try 51", "its back-off did not grow either");
    rig.answer(later(1));
    rig.pass(seconds(1));
    assert_eq!(rig.fail(), "add a@1 watch try 52");
    assert_eq!(dead_letters(&rig), [2]);
}

#[test]
fn retries_are_limited_and_new_events_are_not() {
    let mut rig = Rig::new(options());
    let names: Vec<String> = (0..35).map(|number| format!("bad-{number:02}")).collect();
    for name in &names {
        rig.set(name, 1);
    }
    rig.take_all();
    rig.answer_all(&retryable());
    rig.pass(seconds(2));
    let mut per_second = Vec::new();
    for second in 0..4 {
        let fresh = format!("good-{second}");
        rig.set(&fresh, 1);
        let delivered = rig.drain();
        assert!(delivered.contains(&format!("add {fresh}@1")), "{delivered}");
        per_second.push(delivered.lines().count() - 1);
        assert_eq!(rig.drain(), "", "nothing more within the second");
        rig.pass(seconds(1));
    }
    assert_eq!(per_second, [10, 10, 10, 5]);
    assert_eq!(rig.counters().retries_limited, 25);
}

#[test]
fn slow_handler_has_at_most_ten_retries_before_new_event() {
    let mut rig = Rig::new(options());
    for number in 0..100 {
        rig.set(&format!("bad-{number:02}"), 1);
    }
    rig.take_all();
    rig.answer_all(&retryable());
    rig.pass(seconds(2));
    for _ in 0..5 {
        rig.take();
        rig.pass(seconds(10));
    }
    rig.set("good", 1);
    let before = rig.take_all();
    let place = before.lines().position(|line| line.starts_with("add good"));
    assert!(place.is_some_and(|place| place <= 10), "{before}");
}

#[test]
fn waiting_for_retries_in_flight_ends_with_them() {
    let mut rig = Rig::new(ListenerOptions {
        retries_per_second_max: 1,
        ..options()
    });
    rig.sets("a b", 1);
    rig.take_all();
    rig.answer_all(&retryable());
    rig.pass(seconds(5));
    rig.take();
    rig.pass(seconds(5));
    assert_eq!(rig.take(), "idle", "one retry at a time");
    rig.answer(DeliveryOutcome::Ok);
    assert!(rig.take().starts_with("add "));
}

#[test]
fn keys_under_retry_are_listed_oldest_first() {
    let mut rig = Rig::new(options());
    rig.set("a", 1);
    rig.take();
    rig.answer(DeliveryOutcome::Retryable("é".repeat(RETRY_ERROR_BYTES_MAX)));
    assert_eq!(
        rig.listener.ledger().retried_keys(1).1[0].error.len(),
        RETRY_ERROR_BYTES_MAX
    );
    rig.pass(seconds(5));
    rig.sets("b c", 1);
    assert_eq!(rig.take_all().lines().count(), 3);
    rig.answer_all(&later(60));
    insta::assert_snapshot!(retried(&rig, 2), @r"
    a add x2 for 5s, again in 60s: busy
    b add x1 for 0ns, again in 60s: busy
    ");
    assert_eq!(rig.listener.ledger().retried_keys(0).0, 3);
    let (count, oldest) = rig.listener.ledger().retried_after("retryable");
    assert_eq!((count, oldest), (3, rig.listener.ledger().retried_keys(1).1.pop()));
    assert_eq!(rig.listener.ledger().retried_after("trap"), (0, None));
    rig.pass(seconds(60));
    rig.drain();
    assert_eq!(rig.listener.ledger().retried_keys(10), (0, Vec::new()));
}

#[test]
fn only_selected_keys_under_retry_are_counted_and_listed() {
    let mut rig = Rig::new(options());
    rig.sets("a b c d", 1);
    rig.take_all();
    rig.answer_all(&retryable());
    let selects = |source, key: Option<KeyRef<'_>>| source == PODS && key.is_some_and(|key| key.name != "b");
    let (count, listed) = rig.listener.ledger().retried_keys_of(2, selects);
    let names: Vec<String> = listed.iter().map(|key| key.key.as_ref().unwrap().to_string()).collect();
    assert_eq!(
        (count, names),
        (3, vec!["default/a".to_owned(), "default/c".to_owned()])
    );
    assert_eq!(rig.listener.ledger().retried_keys_of(9, |_, _| false), (0, Vec::new()));
}

#[test]
fn deletes_that_fail_without_end_become_dead_letters() {
    let mut rig = Rig::new(ListenerOptions {
        retried_deletes_max: 2,
        ..options()
    });
    rig.sets("a b c d", 1);
    rig.drain();
    for name in ["a", "b", "c"] {
        rig.delete(name);
        rig.fail();
    }
    assert_eq!(
        (rig.stats().failing, dead_letters(&rig).len()),
        (3, 0),
        "one is covered by d"
    );
    rig.delete("d");
    rig.fail();
    assert_eq!((rig.stats().failing, dead_letters(&rig).len()), (3, 1));
    // The one that d had covered follows at its next failure.
    rig.pass(seconds(2));
    rig.take_all();
    rig.answer_all(&retryable());
    assert_eq!((rig.stats().failing, dead_letters(&rig).len()), (2, 2));
}

#[test]
fn changed_policy_shortens_back_offs_but_not_requested_waits() {
    let slow = RetryOptions {
        initial: seconds(3_600),
        max: seconds(7_200),
        attempts: 0,
    };
    let mut rig = Rig::new(ListenerOptions {
        retry: slow,
        ..options()
    });
    rig.sets("a b", 1);
    rig.take_all();
    rig.answer(retryable());
    rig.answer(later(600));
    rig.listener.control().set_options(options(), rig.now);
    assert_eq!(rig.take(), "wait 300s");
    rig.pass(seconds(300));
    assert_eq!(rig.take_all(), "add a@1 watch try 1\n");
    rig.pass(seconds(300));
    assert_eq!(rig.take_all(), "add b@1 watch try 1\n");
}

#[test]
fn back_off_keeps_closed_listener_open_unless_retries_ended() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.fail();
    rig.listener.control().close();
    assert_eq!(rig.take(), "add b@1 watch");
    rig.listener.control().end_retries();
    assert!(rig.take().starts_with("wait"), "a call is running");
    rig.answer(retryable());
    assert_eq!(rig.take(), "closed");
    assert_eq!(rig.listener.control().abandon(), 2, "and they are counted");
}

#[test]
fn stop_waits_only_for_keys_that_can_be_delivered() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.fail();
    assert_eq!(
        (
            rig.listener.feed().busy_keys(PODS),
            rig.listener.feed().deliverable_keys(PODS)
        ),
        (2, 1)
    );
    rig.listener.control().pause(Pause::Operator);
    assert_eq!(rig.listener.feed().deliverable_keys(PODS), 0);
}

#[test]
fn paused_handler_receives_the_difference_when_resumed() {
    let mut rig = Rig::new(options());
    rig.sets("a b", 1);
    rig.drain();
    rig.set("a", 2);
    assert_eq!(rig.take(), "update a@1->2 watch");
    rig.listener.control().pause(Pause::Operator);
    rig.answer(DeliveryOutcome::Ok);
    for version in 3..6 {
        rig.set("a", version);
    }
    rig.set("c", 1);
    rig.delete("c");
    rig.delete("b");
    rig.listener.control().requeue(PODS, key("a"), rig.now);
    assert_eq!(
        (rig.take(), rig.stats().pending, rig.stats().paused),
        ("idle".to_owned(), 2, true)
    );
    // Another reason to pause does not end this one.
    rig.listener.control().pause(Pause::Swap);
    rig.listener.control().resume(Pause::Swap);
    rig.listener.control().pause(Pause::Quarantine);
    rig.listener.control().resume(Pause::Quarantine);
    rig.set("a", 6);
    assert_eq!((rig.take(), rig.stats().pending), ("idle".to_owned(), 2));
    rig.listener.control().resume(Pause::Operator);
    assert_eq!(rig.drain(), "update a@2->6 watch\ndelete b@1 watch\n");
    assert!(!rig.stats().keyed);
}

#[test]
fn deletes_dropped_with_their_source_are_counted() {
    let mut rig = Rig::new(options());
    rig.sets("a b c", 1);
    rig.drain();
    rig.delete("a");
    rig.fail();
    rig.delete("b");
    rig.set("c", 2);
    rig.listener.feed().detach(PODS);
    assert_eq!((rig.counters().discarded, rig.counters().deletes_discarded), (3, 2));
}
