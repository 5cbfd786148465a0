use super::super::history::{Call, Ended, Entry, EventKind, History, ObjectVersion, Selection};
use super::{Clause, check};

mod cache;
mod controllers;
mod deferred;
mod instances;
mod restart;
mod restored;
mod selection;
mod takeovers;
mod timed;

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
        instance: 0,
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
        min_interval_ms: 0,
        calls_per_second_max: None,
        limits_suspects: false,
        forgets_suspects: false,
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
        lane: 0,
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
            lane: 0,
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
fn a_state_with_five_traps_is_a_dead_letter() {
    let one = object("a", "u1", 1);
    let trapped = |times: usize| {
        let calls = [begin(EventKind::Add, &one, Some(1)), end(&one, Ended::Trap)];
        let mut entries = vec![written(&one)];
        entries.extend(std::iter::repeat_n(calls, times).flatten());
        entries.extend([synced(), at_rest(&[&one])]);
        clauses(entries)
    };
    assert_eq!(
        (trapped(4), trapped(5)),
        (vec![Clause::LastStateNeverLost], NOTHING.to_vec())
    );
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

fn with_reason(entry: Entry, because: &str) -> Entry {
    let mut entry = entry;
    if let Entry::Begin(call) = &mut entry {
        call.reason = because.to_owned();
    }
    entry
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
fn object_never_delivered_is_detected() {
    let one = object("a", "u1", 1);
    let entries = vec![handler_added(true), written(&one), synced(), at_rest(&[&one])];
    assert_eq!(clauses(entries), [Clause::AtLeastOnce]);
}

#[test]
fn the_end_of_a_list_does_not_wait_for_suspects() {
    let one = object("a", "u1", 1);
    let mut added = handler_added(true);
    if let Entry::HandlerAdded { limits_suspects, .. } = &mut added {
        *limits_suspects = true;
    }
    let synced = Entry::Synced {
        handler: 0,
        lane: 0,
        there: vec![one.clone()],
    };
    let suspects = |namespace: &str| Entry::Suspects {
        handler: 0,
        namespaces: vec![namespace.to_owned()],
    };
    let entries = |namespace| vec![added.clone(), written(&one), suspects(namespace), synced.clone()];
    assert_eq!(clauses(entries(&one.namespace)), NOTHING);
    assert_eq!(clauses(entries("other")), [Clause::SyncComplete]);
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
