//! Deferred writes: sent once after a successful call, never after a failed one.

use super::*;

/// A history of a handler whose first call defers a write and ends like this; then `rest`.
fn deferred(ended: Ended, rest: Vec<Entry>) -> Vec<Clause> {
    let object = object("a", "u1", 1);
    let (namespace, name) = (object.namespace.clone(), object.name.clone());
    let deferred = Entry::Deferred {
        handler: 0,
        namespace,
        name,
    };
    let mut entries = vec![
        handler_added(false),
        written(&object),
        begin(EventKind::Add, &object, Some(1)),
    ];
    entries.extend([deferred, end(&object, ended), synced()]);
    entries.extend(rest);
    clauses(entries)
}

#[test]
fn write_of_a_successful_call_is_sent_once() {
    let object = object("a", "u1", 1);
    let sent = || Entry::Sent {
        handler: 0,
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    let call = || [begin(EventKind::Update, &object, Some(1)), end(&object, Ended::Ok)];
    let call = || call().map(|entry| with_reason(entry, "resync")).to_vec();
    let rest = || vec![at_rest(&[&object])];
    let violated = [Clause::WritesAfterSuccess];
    assert_eq!(deferred(Ended::Ok, [vec![sent()], call(), rest()].concat()), NOTHING);
    assert_eq!(deferred(Ended::Ok, vec![sent(), sent()]), violated, "twice");
    assert_eq!(deferred(Ended::Ok, rest()), violated, "never");
    assert_eq!(deferred(Ended::Ok, call()), violated, "not before the next call");
}

#[test]
fn write_of_a_failed_call_is_never_sent() {
    let object = object("a", "u1", 1);
    let sent = Entry::Sent {
        handler: 0,
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    for ended in [Ended::Retry, Ended::Trap, Ended::Permanent] {
        assert_eq!(deferred(ended, vec![sent.clone()]), [Clause::WritesAfterSuccess]);
    }
}
