//! Handlers of durable informers across kills of their process; and indexes whose values come from outside.

use super::*;

/// The handler 0 in the first process, then the handler 1 in the next one.
fn started(handler: u32, continues: bool) -> [Entry; 2] {
    let added = Entry::HandlerAdded {
        handler,
        informer: 0,
        receives_every_state: false,
        min_interval_ms: 0,
        calls_per_second_max: None,
        limits_suspects: false,
        forgets_suspects: false,
    };
    let resumed = Entry::Resumed {
        handler,
        after: handler.checked_sub(1),
        continues,
    };
    [added, resumed]
}

/// The process of the handler 0 is killed; it did not store the ends of the incarnations `dropped`.
fn killed(dropped: &[&str]) -> Entry {
    Entry::Killed {
        handler: 0,
        dropped: dropped.iter().map(|uid| (*uid).to_owned()).collect(),
    }
}

/// The same entry for the handler 1.
fn next(entry: Entry) -> Entry {
    match entry {
        Entry::Begin(call) => Entry::Begin(Call {
            handler: 1,
            reason: "relist".into(),
            unknown: call.kind == EventKind::Delete,
            ..call
        }),
        Entry::End {
            namespace, name, ended, ..
        } => Entry::End {
            handler: 1,
            namespace,
            name,
            ended,
        },
        Entry::Synced { lane, there, .. } => Entry::Synced {
            handler: 1,
            lane,
            there,
        },
        entry => entry,
    }
}

fn as_unknown(entry: Entry) -> Entry {
    match entry {
        Entry::Begin(call) => Entry::Begin(Call { unknown: true, ..call }),
        entry => entry,
    }
}

fn removed(object: &ObjectVersion) -> Entry {
    Entry::Removed { object: object.clone() }
}

/// A process in which the handler receives `a` and its delete, and is killed before it accepts that; `a` was created
/// again, and is gone when the next process starts. The handler never received the second one.
fn two_incarnations() -> (Vec<Entry>, ObjectVersion) {
    two_incarnations_without(&[])
}

/// The same; the process did not store the ends of `dropped`. `u9` is the only incarnation of `b`, which the handler
/// accepted and which is gone, if it is one of them.
fn two_incarnations_without(dropped: &[&str]) -> (Vec<Entry>, ObjectVersion) {
    let (first, second) = (object("a", "u1", 1), object("a", "u2", 3));
    let mut entries = Vec::from(started(0, true));
    if dropped.contains(&"u9") {
        let other = object("b", "u9", 5);
        entries.extend([
            written(&other),
            begin(EventKind::Add, &other, Some(5)),
            end(&other, Ended::Ok),
            removed(&object("b", "u9", 6)),
        ]);
    }
    entries.extend([
        written(&first),
        begin(EventKind::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        removed(&object("a", "u1", 2)),
        begin(EventKind::Delete, &object("a", "u1", 2), None),
        // The kill comes before the answer.
        written(&second),
        killed(dropped),
        removed(&object("a", "u2", 4)),
    ]);
    entries.extend(started(1, true));
    (entries, second)
}

#[test]
fn unaccepted_delete_may_be_repeated_after_a_kill() {
    let (mut entries, ..) = two_incarnations();
    let last = object("a", "u1", 2);
    entries.extend([
        next(begin(EventKind::Delete, &last, None)),
        next(end(&last, Ended::Ok)),
        next(synced()),
        at_rest(&[]),
    ]);
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn delete_that_a_kill_lost_is_detected() {
    let (mut entries, second) = two_incarnations();
    // It has the name of the lost one, so the last state of the key is right.
    entries.extend([
        next(begin(EventKind::Delete, &second, None)),
        next(end(&second, Ended::Ok)),
        next(synced()),
        at_rest(&[]),
    ]);
    assert_eq!(clauses(entries), [Clause::IncarnationSafe, Clause::AtLeastOnce]);
}

#[test]
fn delete_that_was_counted_as_not_stored_is_not_lost() {
    let (mut entries, second) = two_incarnations_without(&["u1"]);
    entries.extend([
        next(begin(EventKind::Delete, &second, None)),
        next(end(&second, Ended::Ok)),
        next(synced()),
        at_rest(&[]),
    ]);
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn delete_counted_as_not_stored_excuses_no_other() {
    let (mut entries, second) = two_incarnations_without(&["u9", "u8"]);
    entries.extend([
        next(begin(EventKind::Delete, &second, None)),
        next(end(&second, Ended::Ok)),
        next(synced()),
        at_rest(&[]),
    ]);
    assert_eq!(clauses(entries), [Clause::IncarnationSafe, Clause::AtLeastOnce]);
}

#[test]
fn kill_excuses_one_undeleted_incarnation_of_a_key() {
    let (first, second) = (object("a", "u1", 1), object("a", "u2", 3));
    let mut entries = Vec::from(started(0, true));
    entries.extend([
        written(&first),
        begin(EventKind::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        removed(&object("a", "u1", 2)),
        written(&second),
        begin(EventKind::Add, &second, Some(3)),
        end(&second, Ended::Ok),
        removed(&object("a", "u2", 4)),
        killed(&["u1", "u2"]),
    ]);
    entries.extend(started(1, true));
    entries.extend([next(synced()), at_rest(&[])]);
    let found = clauses(entries);
    assert_eq!(found.last(), Some(&Clause::AtLeastOnce), "{found:?}");
}

#[test]
fn later_incarnation_before_the_delete_of_the_earlier_is_detected() {
    let (mut entries, second) = two_incarnations();
    let first = object("a", "u1", 2);
    entries.extend([
        next(begin(EventKind::Delete, &second, None)),
        next(end(&second, Ended::Ok)),
        next(begin(EventKind::Delete, &first, None)),
        next(end(&first, Ended::Ok)),
        next(synced()),
        at_rest(&[]),
    ]);
    assert_eq!(clauses(entries), [Clause::IncarnationSafe]);
}

#[test]
fn state_after_a_delete_accepted_before_a_kill_is_detected() {
    let first = object("a", "u1", 1);
    let mut entries = Vec::from(started(0, true));
    entries.extend([
        written(&first),
        begin(EventKind::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        removed(&object("a", "u1", 2)),
        begin(EventKind::Delete, &object("a", "u1", 2), None),
        end(&first, Ended::Ok),
        killed(&[]),
    ]);
    entries.extend(started(1, true));
    entries.extend([
        next(begin(EventKind::Add, &first, Some(1))),
        next(end(&first, Ended::Ok)),
    ]);
    assert_eq!(clauses(entries), [Clause::DeleteSeenOnce, Clause::Ordered]);
}

#[test]
fn only_a_continuing_handler_may_skip_what_was_accepted() {
    let there = object("a", "u1", 1);
    let history = |continues| {
        let mut entries = Vec::from(started(0, continues));
        entries.extend([
            written(&there),
            begin(EventKind::Add, &there, Some(1)),
            end(&there, Ended::Ok),
            killed(&[]),
        ]);
        entries.extend(started(1, continues));
        entries.extend([next(synced()), at_rest(&[&there])]);
        clauses(entries)
    };
    assert_eq!(history(true), NOTHING);
    assert_eq!(history(false), [Clause::AtLeastOnce]);
}

#[test]
fn deletes_by_a_restore_may_be_repeated_after_a_kill() {
    let (before, gone) = (object("a", "u1", 1), object("a", "u2", 5));
    let mut entries = Vec::from(started(0, true));
    entries.extend([
        written(&before),
        removed(&object("a", "u1", 2)),
        written(&gone),
        begin(EventKind::Add, &gone, Some(5)),
        end(&gone, Ended::Ok),
        Entry::Restored {
            version: 1,
            objects: vec![before.clone()],
        },
        as_unknown(begin(EventKind::Delete, &gone, Some(1))),
        end(&gone, Ended::Ok),
        begin(EventKind::Add, &before, Some(1)),
        end(&before, Ended::Ok),
        killed(&[]),
    ]);
    entries.extend(started(1, true));
    entries.extend([
        next(begin(EventKind::Delete, &gone, Some(1))),
        next(end(&gone, Ended::Ok)),
        next(begin(EventKind::Add, &before, Some(1))),
        next(end(&before, Ended::Ok)),
        next(synced()),
        at_rest(&[&before]),
    ]);
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn delete_of_an_object_that_exists_is_detected() {
    let there = object("a", "u1", 1);
    let mut entries = vec![selected(None), handler_added(false), written(&there)];
    entries.push(Entry::Begin(Call {
        handler: 0,
        kind: EventKind::Delete,
        object: there,
        old: None,
        unknown: true,
        reason: "relist".into(),
        stored: None,
        instance: 0,
    }));
    assert_eq!(clauses(entries), [Clause::NoInvention]);
}

fn queried(at_rest: bool, index: Option<&[&str]>) -> Entry {
    let under_a_value = |keys: &[&str]| vec![("v".to_owned(), keys.iter().map(|key| (*key).to_owned()).collect())];
    Entry::FedIndexChecked {
        informer: 0,
        at_rest,
        index: index.map(under_a_value),
        model: under_a_value(&["a", "b"]),
    }
}

#[test]
fn plugin_index_that_is_complete_or_not_ready_is_coherent() {
    let entries = vec![
        queried(false, None),
        queried(false, Some(&["a", "b"])),
        queried(true, Some(&["a", "b"])),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn partial_answer_of_a_plugin_index_is_detected() {
    assert_eq!(clauses(vec![queried(false, Some(&["a"]))]), [Clause::IndexCoherent]);
}

#[test]
fn plugin_index_not_ready_at_rest_is_detected() {
    assert_eq!(clauses(vec![queried(true, None)]), [Clause::IndexCoherent]);
}

#[test]
fn kept_value_besides_the_accepted_state_is_detected() {
    let (first, second) = (object("a", "u1", 1), object("a", "u1", 2));
    let history = |kept_version: Option<u64>| {
        let mut entries = Vec::from(started(0, true));
        entries.extend([
            written(&first),
            begin(EventKind::Add, &first, Some(1)),
            end(&first, Ended::Ok),
            written(&second),
            update(&first, &second),
            end(&second, Ended::Ok),
        ]);
        let value = |version| (first.namespace.clone(), first.name.clone(), version);
        let values = kept_version.map(value).into_iter().collect();
        entries.push(Entry::Kept { handler: 0, values });
        clauses(entries)
    };
    assert_eq!(history(Some(2)), NOTHING);
    assert_eq!(history(Some(1)), [Clause::RememberedWithSuccess]);
    assert_eq!(history(None), [Clause::RememberedWithSuccess]);
}

#[test]
fn kept_value_whose_write_was_not_sent_is_detected() {
    let there = object("a", "u1", 1);
    let (namespace, name) = (there.namespace.clone(), there.name.clone());
    let write = |sent: bool| match sent {
        true => Entry::Sent {
            handler: 0,
            namespace: namespace.clone(),
            name: name.clone(),
        },
        false => Entry::Deferred {
            handler: 0,
            namespace: namespace.clone(),
            name: name.clone(),
        },
    };
    let history = |is_sent: bool, is_found: bool| {
        let mut entries = Vec::from(started(0, true));
        entries.extend([
            written(&there),
            begin(EventKind::Add, &there, Some(1)),
            write(false),
            end(&there, Ended::Ok),
            synced(),
        ]);
        entries.extend(is_sent.then(|| write(true)));
        entries.push(killed(&[]));
        entries.extend(started(1, true));
        let found = is_found.then(|| (namespace.clone(), name.clone(), there.version));
        entries.push(Entry::Found {
            handler: 1,
            values: found.into_iter().collect(),
        });
        entries.extend([
            next(begin(EventKind::Add, &there, Some(1))),
            next(end(&there, Ended::Ok)),
            next(synced()),
            at_rest(&[&there]),
        ]);
        clauses(entries)
    };
    assert_eq!(history(true, true), NOTHING);
    assert_eq!(history(true, false), NOTHING, "it was not persisted yet");
    assert_eq!(history(false, false), NOTHING);
    assert_eq!(history(false, true), [Clause::RememberedWithWrites]);
}
