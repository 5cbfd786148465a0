//! The last dead letters, and how many a batch of outcomes creates.

use super::*;

fn last(rig: &Rig) -> Option<String> {
    let letter = rig.listener.ledger().last_dead_letters(1).pop();
    letter.map(|letter| letter.key.name().to_owned())
}

#[test]
fn last_dead_letter_is_the_newest_still_listed() {
    let mut rig = Rig::new(options());
    assert_eq!(last(&rig), None);
    for name in ["b", "a", "c"] {
        rig.set(name, 1);
        rig.take();
        rig.answer(permanent());
        assert_eq!(last(&rig).as_deref(), Some(name));
    }
    let names = |max| {
        let letters = rig.listener.ledger().last_dead_letters(max).into_iter();
        letters.map(|letter| letter.key.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(2), ["a", "c"], "oldest first");
    assert_eq!(names(9), ["b", "a", "c"]);
    rig.set("c", 2);
    rig.take();
    rig.answer(DeliveryOutcome::Ok);
    assert_eq!(last(&rig).as_deref(), Some("a"));
}

#[test]
fn replay_during_the_last_attempt_gives_no_extra_attempt() {
    let mut rig = Rig::new(with_attempts(10));
    rig.set("a", 1);
    for _ in 1..10 {
        rig.fail();
        rig.pass(seconds(600));
    }
    assert_eq!(rig.take(), "add a@1 watch try 9");
    rig.listener.control().replay(rig.now);
    assert_eq!(rig.take(), "idle", "it waits behind the delivery in flight");
    rig.answer(retryable());
    let letters = || {
        rig.listener
            .ledger()
            .dead_letters()
            .into_iter()
            .map(|letter| letter.attempts)
    };
    assert_eq!(letters().collect::<Vec<_>>(), [10]);
    assert_eq!(rig.drain(), "add a@1 replay\nsynced replay\n");
    assert_eq!(last(&rig), None, "and it succeeded");
}

#[test]
fn done_batch_returns_the_number_of_dead_letters() {
    let mut rig = Rig::new(options());
    for name in ["a", "b", "c", "d"] {
        rig.set(name, 1);
        rig.take();
    }
    let outcomes = [DeliveryOutcome::Ok, permanent(), retryable(), permanent()];
    let tokens = rig.in_flight.drain(..).map(|delivery| delivery.token);
    let answers: Vec<_> = tokens.zip(outcomes).collect();
    assert_eq!(rig.listener.consumer().done_batch(answers, rig.now), 2);
    assert_eq!(rig.listener.consumer().done_batch([], rig.now), 0);
}
