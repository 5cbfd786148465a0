//! Calls that are due at a time: asked for by the handler, or kept apart by its interval and rate.

use super::*;

/// A history of a handler that asks, with its first call, for another one after 5 s; then `rest`, which happens `ms`
/// later.
fn asked(ms: u64, rest: Vec<Entry>) -> Vec<Clause> {
    let object = object("a", "u1", 1);
    let asked = Entry::Asked {
        handler: 0,
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        after_ms: 5_000,
    };
    let first = begin(EventKind::Add, &object, Some(1));
    let mut entries = vec![(0, handler_added(false)), (0, written(&object)), (0, first)];
    entries.extend([(0, end(&object, Ended::Ok)), (0, asked), (0, synced())]);
    entries.extend(rest.into_iter().map(|entry| (ms * 1_000_000, entry)));
    let violations = check(&History { entries });
    violations.into_iter().map(|violation| violation.clause).collect()
}

/// A call because the handler asked for it.
fn called_again(object: &ObjectVersion) -> Entry {
    with_reason(begin(EventKind::Update, object, Some(object.version)), "requeue-after")
}

#[test]
fn call_that_was_asked_for_is_made_once_when_due() {
    let object = object("a", "u1", 1);
    let call = || vec![called_again(&object), end(&object, Ended::Ok)];
    let rest = || vec![at_rest(&[&object])];
    assert_eq!(asked(5_000, [call(), rest()].concat()), NOTHING);
    assert_eq!(
        asked(4_999, [call(), rest()].concat()),
        [Clause::CalledAgain],
        "too early"
    );
    assert_eq!(
        asked(5_000, [call(), call(), rest()].concat()),
        [Clause::CalledAgain],
        "twice"
    );
    assert_eq!(asked(5_000, rest()), [Clause::CalledAgain], "never");
}

#[test]
fn asked_call_ends_with_a_dead_letter() {
    let object = object("a", "u1", 1);
    let trapped = |times| {
        let calls = std::iter::repeat_n([called_again(&object), end(&object, Ended::Trap)], times);
        let rest = calls.flatten().chain([at_rest(&[&object])]).collect();
        asked(5_000, rest)
    };
    assert_eq!((trapped(4), trapped(5)), (vec![Clause::CalledAgain], NOTHING.to_vec()));
}

#[test]
fn another_call_cancels_the_one_asked_for() {
    let object = object("a", "u1", 1);
    let other = with_reason(begin(EventKind::Update, &object, Some(1)), "resync");
    let ended = end(&object, Ended::Ok);
    let mut entries = vec![other, ended.clone()];
    assert_eq!(
        asked(1_000, [entries.clone(), vec![at_rest(&[&object])]].concat()),
        NOTHING
    );
    entries.extend([called_again(&object), ended]);
    assert_eq!(asked(9_000, entries), [Clause::CalledAgain]);
}

#[test]
fn failed_call_that_was_asked_for_is_retried() {
    let object = object("a", "u1", 1);
    let entries = vec![
        called_again(&object),
        end(&object, Ended::Retry),
        called_again(&object),
        end(&object, Ended::Ok),
        at_rest(&[&object]),
    ];
    assert_eq!(asked(6_000, entries), NOTHING);
}

/// The clauses that a handler with an interval of 5 s violates if it is called again after `ms`.
fn called_after(ms: u64) -> Vec<Clause> {
    let (first, second) = (object("a", "u1", 1), object("a", "u1", 2));
    let added = Entry::HandlerAdded {
        handler: 0,
        informer: 0,
        receives_every_state: false,
        min_interval_ms: 5_000,
        calls_per_second_max: None,
        limits_suspects: false,
        forgets_suspects: false,
    };
    let before = [
        added,
        written(&first),
        begin(EventKind::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        synced(),
        written(&second),
    ];
    let after = [
        begin(EventKind::Update, &second, Some(2)),
        end(&second, Ended::Ok),
        at_rest(&[&second]),
    ];
    let before = before.into_iter().map(|entry| (0, entry));
    let after = after.into_iter().map(|entry| (ms * 1_000_000, entry));
    let entries = before.chain(after).collect();
    let violations = check(&History { entries });
    violations.into_iter().map(|violation| violation.clause).collect()
}

#[test]
fn call_before_the_end_of_the_interval_is_detected() {
    assert_eq!(called_after(5_000), NOTHING);
    assert_eq!(called_after(4_999), [Clause::IntervalKept]);
}

/// The clauses that a handler with a rate of one call in a second violates if it is called for three objects, the last
/// of them after `ms`.
fn called_for_three(ms: u64) -> Vec<Clause> {
    let objects = ["a", "b", "c"].map(|name| object(name, &format!("u{name}"), 1));
    let added = Entry::HandlerAdded {
        handler: 0,
        informer: 0,
        receives_every_state: false,
        min_interval_ms: 0,
        calls_per_second_max: Some(1),
        limits_suspects: false,
        forgets_suspects: false,
    };
    let mut entries = vec![(0, added)];
    entries.extend(objects.iter().map(|object| (0, written(object))));
    for (object, at) in objects.iter().zip([0, 0, ms * 1_000_000]) {
        entries.push((at, begin(EventKind::Add, object, Some(1))));
        entries.push((at, end(object, Ended::Ok)));
    }
    let last = ms * 1_000_000;
    entries.extend([(last, synced()), (last, at_rest(&objects.each_ref()))]);
    let violations = check(&History { entries });
    violations.into_iter().map(|violation| violation.clause).collect()
}

#[test]
fn more_calls_in_a_second_than_the_rate_are_detected() {
    assert_eq!(called_for_three(1_000), NOTHING);
    assert_eq!(called_for_three(999), [Clause::RateKept]);
}

/// The clauses that a handler violates that limits suspects. Its first call traps, its second is about the same
/// namespace and takes from 1 s to 2 s, and its third begins after `ms`.
fn called_for_suspects(ms: u64) -> Vec<Clause> {
    let objects = ["a", "b", "c"].map(|name| object(name, &format!("u{name}"), 1));
    let added = Entry::HandlerAdded {
        handler: 0,
        informer: 0,
        receives_every_state: false,
        min_interval_ms: 0,
        calls_per_second_max: None,
        limits_suspects: true,
        forgets_suspects: false,
    };
    let mut entries = vec![(0, added)];
    entries.extend(objects.iter().map(|object| (0, written(object))));
    let [first, second, third] = &objects;
    entries.extend([
        (0, begin(EventKind::Add, first, Some(1))),
        (1_000, end(first, Ended::Trap)),
        (1_000, begin(EventKind::Add, second, Some(1))),
        (2_000, end(second, Ended::Ok)),
        (ms, begin(EventKind::Add, third, Some(1))),
        (ms, end(third, Ended::Ok)),
        (600_000, begin(EventKind::Add, first, Some(1))),
        (600_000, end(first, Ended::Ok)),
        (600_000, synced()),
        (600_000, at_rest(&objects.each_ref())),
    ]);
    entries.sort_by_key(|(ms, _)| *ms);
    let entries = entries.into_iter().map(|(ms, entry)| (ms * 1_000_000, entry));
    let violations = check(&History {
        entries: entries.collect(),
    });
    violations.into_iter().map(|violation| violation.clause).collect()
}

#[test]
fn calls_about_suspects_beyond_their_share_are_detected() {
    // A fifth of the time, and a second of it in advance.
    assert_eq!(called_for_suspects(5_000), NOTHING);
    assert_eq!(called_for_suspects(4_999), [Clause::PoisonLocal]);
    assert_eq!(called_for_suspects(1_500), [Clause::PoisonLocal], "two at once");
}
