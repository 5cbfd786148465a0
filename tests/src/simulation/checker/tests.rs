use super::super::history::{Call, Ended, Entry, EventKind, History, ObjectVersion, Selection};
use super::{Clause, check};

mod restart;

fn object(name: &str, uid: &str, version: u64) -> ObjectVersion {
    ObjectVersion {
        namespace: "default".into(),
        name: name.into(),
        uid: uid.into(),
        version,
    }
}

fn written(object: &ObjectVersion) -> Entry {
    Entry::Written {
        object: object.clone(),
        group: "a".into(),
    }
}

fn begin(kind: EventKind, object: &ObjectVersion, stored: Option<u64>) -> Entry {
    Entry::Begin(Call {
        handler: 0,
        kind,
        object: object.clone(),
        old: None,
        unknown: false,
        reason: "watch".into(),
        stored,
    })
}

fn end(object: &ObjectVersion, ended: Ended) -> Entry {
    Entry::End {
        handler: 0,
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        ended,
    }
}

const NOTHING: [Clause; 0] = [];

fn handler_added(receives_every_state: bool) -> Entry {
    Entry::HandlerAdded {
        handler: 0,
        informer: 0,
        receives_every_state,
    }
}

fn selected(group: Option<&str>) -> Entry {
    Entry::Selected {
        informer: 0,
        selection: Selection {
            group: group.map(str::to_owned),
            ..Selection::default()
        },
    }
}

fn synced() -> Entry {
    Entry::Synced {
        handler: 0,
        there: vec![],
    }
}

fn at_rest(objects: &[&ObjectVersion]) -> Entry {
    let held: Vec<_> = objects.iter().map(|object| (*object).clone()).collect();
    Entry::AtRest {
        informer: 0,
        cluster: held.clone(),
        store: held,
    }
}

/// The clauses that a history violates.
fn clauses(entries: Vec<Entry>) -> Vec<Clause> {
    let history = History {
        entries: entries
            .into_iter()
            .enumerate()
            .map(|(at, entry)| (at as u64, entry))
            .collect(),
    };
    check(&history).into_iter().map(|violation| violation.clause).collect()
}

#[test]
fn add_update_and_delete_keep_the_contract() {
    let (first, second, last) = (object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3));
    let entries = vec![
        written(&first),
        begin(EventKind::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        written(&second),
        begin(EventKind::Update, &second, Some(2)),
        end(&second, Ended::Retry),
        begin(EventKind::Update, &second, Some(2)),
        end(&second, Ended::Ok),
        Entry::Removed { object: last.clone() },
        begin(EventKind::Delete, &last, None),
        end(&last, Ended::Ok),
        synced(),
        at_rest(&[]),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn older_state_after_newer_one_is_out_of_order() {
    let (old, new) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&old),
        written(&new),
        begin(EventKind::Add, &new, Some(2)),
        end(&new, Ended::Ok),
        begin(EventKind::Update, &old, Some(2)),
        end(&old, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::Ordered]);
}

#[test]
fn concurrent_calls_for_one_key_are_detected() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        written(&two),
        begin(EventKind::Add, &one, Some(2)),
        begin(EventKind::Update, &two, Some(2)),
    ];
    assert_eq!(clauses(entries), [Clause::OneAtATime]);
}

#[test]
fn state_that_never_existed_is_detected() {
    let ghost = object("a", "u1", 7);
    assert_eq!(
        clauses(vec![begin(EventKind::Add, &ghost, Some(7))]),
        [Clause::NoInvention]
    );
}

#[test]
fn repeated_delete_is_detected() {
    let gone = object("a", "u1", 2);
    let entries = vec![
        Entry::Removed { object: gone.clone() },
        begin(EventKind::Delete, &gone, None),
        end(&gone, Ended::Ok),
        begin(EventKind::Delete, &gone, None),
        end(&gone, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::DeleteSeenOnce]);
}

#[test]
fn update_across_incarnations_is_detected() {
    let (first, second) = (object("a", "u1", 1), object("a", "u2", 5));
    let entries = vec![
        written(&first),
        written(&second),
        begin(EventKind::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        begin(EventKind::Update, &second, Some(5)),
        end(&second, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::IncarnationSafe]);
}

#[test]
fn store_older_than_the_call_is_detected() {
    let (old, new) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![written(&old), written(&new), begin(EventKind::Add, &new, Some(1))];
    assert_eq!(clauses(entries), [Clause::SnapshotAtLeastAsNew]);
}

#[test]
fn synced_before_every_key_was_attempted_is_detected() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        Entry::Synced {
            handler: 0,
            there: vec![one.clone(), object("b", "u2", 1)],
        },
    ];
    assert_eq!(clauses(entries), [Clause::SyncComplete]);
}

#[test]
fn undelivered_last_state_is_detected() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        written(&two),
        synced(),
        at_rest(&[&two]),
    ];
    assert_eq!(clauses(entries), [Clause::LastStateNeverLost]);
}

#[test]
fn missed_delete_is_a_lost_last_state() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        synced(),
        at_rest(&[]),
    ];
    assert_eq!(clauses(entries), [Clause::LastStateNeverLost]);
}

#[test]
fn permanently_rejected_state_is_not_lost() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Permanent),
        synced(),
        at_rest(&[&one]),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn undelivered_state_after_a_dead_letter_is_lost() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Permanent),
        written(&two),
        synced(),
        at_rest(&[&two]),
    ];
    assert_eq!(clauses(entries), [Clause::LastStateNeverLost]);
}

#[test]
fn store_that_differs_at_rest_is_detected() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        written(&two),
        Entry::AtRest {
            informer: 0,
            cluster: vec![two],
            store: vec![one],
        },
    ];
    assert_eq!(clauses(entries), [Clause::StoreConverges]);
}

#[test]
fn index_that_differs_from_a_scan_is_detected() {
    let entries = vec![Entry::IndexChecked {
        informer: 0,
        index: vec![("x".into(), vec!["default/a".into()])],
        scan: vec![],
    }];
    assert_eq!(clauses(entries), [Clause::IndexCoherent]);
}

/// An update as a watch delivers it, with the old state.
fn update(old: &ObjectVersion, new: &ObjectVersion) -> Entry {
    let mut entry = begin(EventKind::Update, new, Some(new.version));
    if let Entry::Begin(call) = &mut entry {
        call.old = Some(old.clone());
    }
    entry
}

#[test]
fn old_state_other_than_the_last_one_is_detected() {
    let states = [object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3)];
    let [one, two, three] = &states;
    let entries = vec![
        written(one),
        written(two),
        written(three),
        begin(EventKind::Add, one, Some(1)),
        end(one, Ended::Ok),
        update(two, three),
        end(three, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::Ordered]);
}

#[test]
fn unmarked_delete_without_the_final_state_is_detected() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        Entry::Removed { object: gone },
        begin(EventKind::Delete, &one, None),
        end(&one, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::TombstoneMarked]);
}

fn shown(kind: EventKind, object: &ObjectVersion) -> Entry {
    Entry::Shown {
        informer: 0,
        kind,
        object: object.clone(),
    }
}

fn marked(entry: Entry) -> Entry {
    let mut entry = entry;
    if let Entry::Begin(call) = &mut entry {
        call.unknown = true;
    }
    entry
}

#[test]
fn delete_marked_without_cause_is_detected() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = |was_shown: bool| {
        let mut entries = vec![
            written(&one),
            begin(EventKind::Add, &one, Some(1)),
            end(&one, Ended::Ok),
            Entry::Removed { object: gone.clone() },
        ];
        entries.extend(was_shown.then(|| shown(EventKind::Delete, &gone)));
        entries.push(marked(begin(EventKind::Delete, &one, None)));
        entries.push(end(&one, Ended::Ok));
        entries
    };
    assert_eq!(clauses(entries(true)), [Clause::TombstoneMarked]);
    // The watch was down.
    assert_eq!(clauses(entries(false)), NOTHING);
}

#[test]
fn lost_incarnation_that_the_watch_showed_is_detected() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = |receives_every_state| {
        vec![
            handler_added(receives_every_state),
            synced(),
            written(&one),
            Entry::Removed { object: gone.clone() },
            shown(EventKind::Add, &one),
            shown(EventKind::Delete, &gone),
            at_rest(&[]),
        ]
    };
    assert_eq!(clauses(entries(true)), [Clause::Resumable]);
    // An add and its delete may cancel out while a handler is slow.
    assert_eq!(clauses(entries(false)), NOTHING);
}

#[test]
fn later_incarnation_never_delivered_is_detected() {
    let (one, gone, again) = (object("a", "u1", 1), object("a", "u1", 2), object("a", "u2", 3));
    let entries = vec![
        handler_added(true),
        synced(),
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        Entry::Removed { object: gone.clone() },
        begin(EventKind::Delete, &gone, None),
        end(&gone, Ended::Ok),
        written(&again),
        at_rest(&[&again]),
    ];
    assert_eq!(clauses(entries), [Clause::LastStateNeverLost, Clause::AtLeastOnce]);
}

#[test]
fn restored_api_server_may_go_back_once() {
    let (one, two, three) = (object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3));
    let entries = |restored: bool| {
        let mut entries = vec![
            handler_added(true),
            synced(),
            written(&one),
            begin(EventKind::Add, &one, Some(1)),
            end(&one, Ended::Ok),
            written(&three),
            update(&one, &three),
            end(&three, Ended::Ok),
        ];
        entries.extend(restored.then(|| Entry::Restored {
            version: 1,
            objects: vec![one.clone()],
        }));
        entries.extend([
            with_reason(update(&three, &one), "restored"),
            end(&one, Ended::Ok),
            written(&two),
            update(&one, &two),
            end(&two, Ended::Ok),
            at_rest(&[&two]),
        ]);
        entries
    };
    assert_eq!(clauses(entries(true)), NOTHING);
    assert_eq!(clauses(entries(false)), [Clause::Ordered]);
}

#[test]
fn restored_object_may_be_added_after_its_delete() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = |objects: Vec<ObjectVersion>| {
        vec![
            handler_added(true),
            synced(),
            written(&one),
            begin(EventKind::Add, &one, Some(1)),
            end(&one, Ended::Ok),
            Entry::Removed { object: gone.clone() },
            begin(EventKind::Delete, &gone, None),
            end(&gone, Ended::Ok),
            Entry::Restored { version: 1, objects },
            with_reason(begin(EventKind::Add, &one, Some(1)), "restored"),
            end(&one, Ended::Ok),
            at_rest(&[&one]),
        ]
    };
    assert_eq!(clauses(entries(vec![one.clone()])), NOTHING);
    assert_eq!(clauses(entries(vec![])), [Clause::DeleteSeenOnce]);
}

fn with_reason(entry: Entry, because: &str) -> Entry {
    let mut entry = entry;
    if let Entry::Begin(call) = &mut entry {
        call.reason = because.to_owned();
    }
    entry
}

#[test]
fn reconfigured_delete_and_its_requeue_may_carry_intermediate_states() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let refused_and_requeued = |first: &str| {
        vec![
            written(&one),
            begin(EventKind::Add, &one, Some(1)),
            end(&one, Ended::Ok),
            Entry::Removed { object: gone.clone() },
            with_reason(begin(EventKind::Delete, &one, None), first),
            end(&one, Ended::Permanent),
            with_reason(begin(EventKind::Delete, &one, None), "requeue"),
            end(&one, Ended::Ok),
        ]
    };
    assert_eq!(clauses(refused_and_requeued("reconfigured")), NOTHING);
    assert!(clauses(refused_and_requeued("watch")).contains(&Clause::TombstoneMarked));
}

#[test]
fn call_after_the_delete_is_detected() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        Entry::Removed { object: gone.clone() },
        begin(EventKind::Delete, &gone, None),
        end(&gone, Ended::Ok),
        begin(EventKind::Add, &one, None),
    ];
    assert_eq!(clauses(entries), [Clause::DeleteSeenOnce, Clause::Ordered]);
}

#[test]
fn object_that_leaves_the_selection_may_come_back() {
    let (inside, outside, again) = (object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3));
    let entries = vec![
        selected(Some("a")),
        written(&inside),
        begin(EventKind::Add, &inside, Some(1)),
        end(&inside, Ended::Ok),
        Entry::Written {
            object: outside.clone(),
            group: "b".into(),
        },
        begin(EventKind::Delete, &outside, None),
        end(&outside, Ended::Ok),
        written(&again),
        begin(EventKind::Add, &again, Some(3)),
        end(&again, Ended::Ok),
        synced(),
        at_rest(&[&again]),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn skipped_watch_state_is_detected() {
    let states = [object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3)];
    let [one, two, three] = &states;
    let entries = |receives_every_state, seen: Entry| {
        vec![
            handler_added(receives_every_state),
            written(one),
            begin(EventKind::Add, one, Some(1)),
            end(one, Ended::Ok),
            written(two),
            seen,
            written(three),
            update(one, three),
            end(three, Ended::Ok),
        ]
    };
    let seen = || shown(EventKind::Update, two);
    assert_eq!(clauses(entries(true, seen())), [Clause::Resumable]);
    // Other handlers may receive only the folded change.
    assert_eq!(clauses(entries(false, seen())), NOTHING);
    // The watch was down then.
    assert_eq!(clauses(entries(true, shown(EventKind::Add, one))), NOTHING);
}

#[test]
fn states_of_a_first_list_begun_again_may_be_merged() {
    let states = [1, 2, 3, 4, 5].map(|version| object("a", "u1", version));
    let [one, two, three, four, five] = &states;
    let entries = |selected_before_synced: bool| {
        let mut entries = vec![
            handler_added(true),
            written(one),
            begin(EventKind::Add, one, Some(1)),
            end(one, Ended::Ok),
        ];
        match selected_before_synced {
            true => entries.extend([selected(None), synced()]),
            false => entries.extend([synced(), selected(None)]),
        }
        for state in [two, three] {
            entries.extend([written(state), shown(EventKind::Update, state)]);
        }
        entries.extend([update(one, three), end(three, Ended::Ok)]);
        entries
    };
    assert_eq!(clauses(entries(true)), NOTHING);
    assert_eq!(clauses(entries(false)), [Clause::Resumable]);
    // The replay has ended.
    let mut later = entries(true);
    for state in [four, five] {
        later.extend([written(state), shown(EventKind::Update, state)]);
    }
    later.extend([update(three, five), end(five, Ended::Ok)]);
    assert_eq!(clauses(later), [Clause::Resumable]);
}

#[test]
fn repeated_state_without_a_reason_is_detected() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        begin(EventKind::Add, &one, Some(1)),
        end(&one, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::Resumable]);
}

#[test]
fn version_may_come_again_after_a_restored_state_that_failed() {
    let (restored, accepted) = (object("a", "u1", 1), object("a", "u1", 2));
    let failed = |reason| {
        [
            with_reason(begin(EventKind::Update, &restored, Some(1)), reason),
            end(&restored, Ended::Retry),
        ]
    };
    let mut entries = vec![
        written(&restored),
        written(&accepted),
        begin(EventKind::Add, &accepted, Some(2)),
        end(&accepted, Ended::Ok),
        Entry::Restored {
            version: 1,
            objects: vec![restored.clone()],
        },
    ];
    entries.extend(["restored", "retry"].into_iter().flat_map(failed));
    entries.extend([
        written(&accepted),
        begin(EventKind::Update, &accepted, Some(2)),
        end(&accepted, Ended::Trap),
        begin(EventKind::Update, &accepted, Some(2)),
        end(&accepted, Ended::Ok),
    ]);
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn object_never_delivered_is_detected() {
    let one = object("a", "u1", 1);
    let entries = vec![handler_added(true), written(&one), synced(), at_rest(&[&one])];
    assert_eq!(clauses(entries), [Clause::AtLeastOnce]);
}

#[test]
fn handler_that_never_synced_is_detected() {
    let entries = vec![handler_added(true), at_rest(&[])];
    assert_eq!(clauses(entries), [Clause::SyncComplete]);
}

#[test]
fn calls_after_removal_are_not_checked() {
    let ghost = object("a", "u1", 7);
    let entries = vec![
        handler_added(true),
        Entry::HandlerRemoved { handler: 0 },
        begin(EventKind::Add, &ghost, None),
        end(&ghost, Ended::Ok),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn state_that_a_swap_loses_is_detected() {
    let one = object("a", "u1", 1);
    let call = |calls: u64, ended: Ended| {
        let remembers = Entry::Remembers { handler: 0, calls };
        [remembers, begin(EventKind::Add, &one, Some(1)), end(&one, ended)]
    };
    let entries = |calls: [[Entry; 3]; 3]| [vec![written(&one)], calls.concat()].concat();
    let trapped = [call(1, Ended::Retry), call(2, Ended::Trap), call(1, Ended::Ok)];
    assert_eq!(clauses(entries(trapped)), NOTHING);
    let forgot = [call(1, Ended::Retry), call(2, Ended::Retry), call(1, Ended::Ok)];
    assert_eq!(clauses(entries(forgot)), [Clause::StateTransferred]);
    let survived = [call(1, Ended::Retry), call(2, Ended::Trap), call(3, Ended::Ok)];
    assert_eq!(clauses(entries(survived)), [Clause::StateTransferred]);
}

#[test]
fn retry_across_a_restore_does_not_follow_it() {
    let (first, second) = (object("a", "u1", 20), object("a", "u2", 23));
    let call = |kind, object: &ObjectVersion, stored| {
        Entry::Begin(Call {
            handler: 0,
            kind,
            object: object.clone(),
            old: None,
            unknown: kind == EventKind::Delete,
            reason: "restored".into(),
            stored,
        })
    };
    let restored = |objects: Vec<ObjectVersion>| Entry::Restored { version: 21, objects };
    let entries = vec![
        written(&first),
        restored(vec![first.clone()]),
        written(&second),
        call(EventKind::Add, &second, Some(23)),
        end(&second, Ended::Retry),
        restored(vec![first.clone()]),
        call(EventKind::Add, &second, Some(23)),
        end(&second, Ended::Ok),
        call(EventKind::Delete, &second, Some(20)),
        end(&second, Ended::Ok),
        call(EventKind::Add, &first, Some(20)),
        end(&first, Ended::Ok),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

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
