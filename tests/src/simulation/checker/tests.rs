use super::super::history::{Call, Ended, Entry, History, ObjectVersion, Selection, Told};
use super::{Clause, check};

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

fn begin(told: Told, object: &ObjectVersion, stored: Option<u64>) -> Entry {
    Entry::Begin(Call {
        handler: 0,
        told,
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

fn came(keeps_all: bool) -> Entry {
    Entry::Came {
        handler: 0,
        informer: 0,
        keeps_all,
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

fn quiet(objects: &[&ObjectVersion]) -> Entry {
    let held: Vec<_> = objects.iter().map(|object| (*object).clone()).collect();
    Entry::Quiet {
        informer: 0,
        cluster: held.clone(),
        store: held,
    }
}

/// The clauses that a history breaks.
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
fn a_life_from_add_to_delete_keeps_the_contract() {
    let (first, second, last) = (object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3));
    let entries = vec![
        written(&first),
        begin(Told::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        written(&second),
        begin(Told::Update, &second, Some(2)),
        end(&second, Ended::Retry),
        begin(Told::Update, &second, Some(2)),
        end(&second, Ended::Ok),
        Entry::Removed { object: last.clone() },
        begin(Told::Delete, &last, None),
        end(&last, Ended::Ok),
        synced(),
        quiet(&[]),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn an_older_state_after_a_newer_one_is_out_of_order() {
    let (old, new) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&old),
        written(&new),
        begin(Told::Add, &new, Some(2)),
        end(&new, Ended::Ok),
        begin(Told::Update, &old, Some(2)),
        end(&old, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::Ordered]);
}

#[test]
fn two_calls_about_one_key_at_once_are_noticed() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        written(&two),
        begin(Told::Add, &one, Some(2)),
        begin(Told::Update, &two, Some(2)),
    ];
    assert_eq!(clauses(entries), [Clause::OneAtATime]);
}

#[test]
fn a_state_that_never_was_is_an_invention() {
    let ghost = object("a", "u1", 7);
    assert_eq!(clauses(vec![begin(Told::Add, &ghost, Some(7))]), [Clause::NoInvention]);
}

#[test]
fn a_delete_told_twice_is_noticed() {
    let gone = object("a", "u1", 2);
    let entries = vec![
        Entry::Removed { object: gone.clone() },
        begin(Told::Delete, &gone, None),
        end(&gone, Ended::Ok),
        begin(Told::Delete, &gone, None),
        end(&gone, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::DeleteSeenOnce]);
}

#[test]
fn an_update_from_one_incarnation_to_the_next_is_noticed() {
    let (first, second) = (object("a", "u1", 1), object("a", "u2", 5));
    let entries = vec![
        written(&first),
        written(&second),
        begin(Told::Add, &first, Some(1)),
        end(&first, Ended::Ok),
        begin(Told::Update, &second, Some(5)),
        end(&second, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::IncarnationSafe]);
}

#[test]
fn a_store_older_than_the_call_is_noticed() {
    let (old, new) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![written(&old), written(&new), begin(Told::Add, &new, Some(1))];
    assert_eq!(clauses(entries), [Clause::SnapshotAtLeastAsNew]);
}

#[test]
fn synced_before_every_key_was_attempted_is_noticed() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        Entry::Synced {
            handler: 0,
            there: vec![("default".into(), "a".into()), ("default".into(), "b".into())],
        },
    ];
    assert_eq!(clauses(entries), [Clause::SyncComplete]);
}

#[test]
fn a_last_state_that_nobody_was_told_of_is_lost() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        written(&two),
        synced(),
        quiet(&[&two]),
    ];
    assert_eq!(clauses(entries), [Clause::LastStateNeverLost]);
}

#[test]
fn a_missed_delete_is_a_lost_last_state() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        synced(),
        quiet(&[]),
    ];
    assert_eq!(clauses(entries), [Clause::LastStateNeverLost]);
}

#[test]
fn what_was_refused_for_good_is_a_dead_letter_and_not_lost() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Permanent),
        synced(),
        quiet(&[&one]),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn what_comes_after_a_dead_letter_and_is_not_told_is_lost() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Permanent),
        written(&two),
        synced(),
        quiet(&[&two]),
    ];
    assert_eq!(clauses(entries), [Clause::LastStateNeverLost]);
}

#[test]
fn a_store_that_differs_from_the_cluster_at_rest_is_noticed() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        written(&two),
        Entry::Quiet {
            informer: 0,
            cluster: vec![two],
            store: vec![one],
        },
    ];
    assert_eq!(clauses(entries), [Clause::StoreConverges]);
}

#[test]
fn an_index_that_differs_from_a_scan_is_noticed() {
    let entries = vec![Entry::Looked {
        informer: 0,
        index: vec![("x".into(), vec!["default/a".into()])],
        scan: vec![],
    }];
    assert_eq!(clauses(entries), [Clause::IndexCoherent]);
}

/// An update as a watch tells it, with the old state.
fn update(old: &ObjectVersion, new: &ObjectVersion) -> Entry {
    let mut entry = begin(Told::Update, new, Some(new.version));
    if let Entry::Begin(call) = &mut entry {
        call.old = Some(old.clone());
    }
    entry
}

#[test]
fn an_old_state_that_is_not_the_one_told_last_is_out_of_order() {
    let states = [object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3)];
    let [one, two, three] = &states;
    let entries = vec![
        written(one),
        written(two),
        written(three),
        begin(Told::Add, one, Some(1)),
        end(one, Ended::Ok),
        update(two, three),
        end(three, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::Ordered]);
}

#[test]
fn a_delete_that_shows_another_state_than_the_last_and_does_not_say_so_is_noticed() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        Entry::Removed { object: gone },
        begin(Told::Delete, &one, None),
        end(&one, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::TombstoneMarked]);
}

fn with_reason(entry: Entry, because: &str) -> Entry {
    let mut entry = entry;
    if let Entry::Begin(call) = &mut entry {
        call.reason = because.to_owned();
    }
    entry
}

#[test]
fn a_delete_for_another_request_may_show_a_state_in_between_and_so_may_its_requeue() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let refused_and_requeued = |first: &str| {
        vec![
            written(&one),
            begin(Told::Add, &one, Some(1)),
            end(&one, Ended::Ok),
            Entry::Removed { object: gone.clone() },
            with_reason(begin(Told::Delete, &one, None), first),
            end(&one, Ended::Permanent),
            with_reason(begin(Told::Delete, &one, None), "requeue"),
            end(&one, Ended::Ok),
        ]
    };
    assert_eq!(clauses(refused_and_requeued("reconfigured")), NOTHING);
    assert!(clauses(refused_and_requeued("watch")).contains(&Clause::TombstoneMarked));
}

#[test]
fn life_after_a_delete_is_noticed() {
    let (one, gone) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        Entry::Removed { object: gone.clone() },
        begin(Told::Delete, &gone, None),
        end(&gone, Ended::Ok),
        begin(Told::Add, &one, None),
    ];
    assert_eq!(clauses(entries), [Clause::DeleteSeenOnce, Clause::Ordered]);
}

#[test]
fn an_object_that_leaves_the_selection_may_come_back() {
    let (inside, outside, again) = (object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3));
    let entries = vec![
        selected(Some("a")),
        written(&inside),
        begin(Told::Add, &inside, Some(1)),
        end(&inside, Ended::Ok),
        Entry::Written {
            object: outside.clone(),
            group: "b".into(),
        },
        begin(Told::Delete, &outside, None),
        end(&outside, Ended::Ok),
        written(&again),
        begin(Told::Add, &again, Some(3)),
        end(&again, Ended::Ok),
        synced(),
        quiet(&[&again]),
    ];
    assert_eq!(clauses(entries), NOTHING);
}

#[test]
fn a_state_that_a_watch_leaves_out_is_noticed() {
    let states = [object("a", "u1", 1), object("a", "u1", 2), object("a", "u1", 3)];
    let [one, two, three] = &states;
    let entries = |keeps_all| {
        vec![
            came(keeps_all),
            written(one),
            begin(Told::Add, one, Some(1)),
            end(one, Ended::Ok),
            written(two),
            written(three),
            update(one, three),
            end(three, Ended::Ok),
        ]
    };
    assert_eq!(clauses(entries(true)), [Clause::Resumable]);
    // Others may be told the difference alone.
    assert_eq!(clauses(entries(false)), NOTHING);
}

#[test]
fn a_state_that_is_told_again_without_a_reason_is_noticed() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
    ];
    assert_eq!(clauses(entries), [Clause::Resumable]);
}

#[test]
fn a_handler_that_was_never_told_of_an_object_is_noticed() {
    let one = object("a", "u1", 1);
    let entries = vec![came(true), written(&one), synced(), quiet(&[&one])];
    assert_eq!(clauses(entries), [Clause::AtLeastOnce]);
}

#[test]
fn a_handler_that_is_never_told_it_is_synced_is_noticed() {
    let entries = vec![came(true), quiet(&[])];
    assert_eq!(clauses(entries), [Clause::SyncComplete]);
}

#[test]
fn what_a_handler_is_told_after_it_left_is_not_judged() {
    let ghost = object("a", "u1", 7);
    let entries = vec![
        came(true),
        Entry::Left { handler: 0 },
        begin(Told::Add, &ghost, None),
        end(&ghost, Ended::Ok),
    ];
    assert_eq!(clauses(entries), NOTHING);
}
