use super::super::history::{Ended, Entry, History, ObjectVersion, Told};
use super::check;

fn object(name: &str, uid: &str, version: u64) -> ObjectVersion {
    ObjectVersion {
        namespace: "default".into(),
        name: name.into(),
        uid: uid.into(),
        version,
    }
}

fn written(object: &ObjectVersion) -> Entry {
    Entry::Written { object: object.clone() }
}

fn begin(told: Told, object: &ObjectVersion, stored: Option<u64>) -> Entry {
    Entry::Begin {
        handler: 0,
        told,
        object: object.clone(),
        old: None,
        unknown: false,
        reason: "watch".into(),
        stored,
    }
}

fn end(object: &ObjectVersion, ended: Ended) -> Entry {
    Entry::End {
        handler: 0,
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        ended,
    }
}

fn quiet(objects: &[&ObjectVersion]) -> Entry {
    let held: Vec<_> = objects.iter().map(|object| (*object).clone()).collect();
    Entry::Quiet {
        cluster: held.clone(),
        store: held,
        index: vec![],
        scan: vec![],
    }
}

/// The clauses that a history breaks.
fn clauses(entries: Vec<Entry>) -> Vec<&'static str> {
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
        quiet(&[]),
    ];
    assert_eq!(clauses(entries), Vec::<&str>::new());
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
    assert_eq!(clauses(entries), ["ordered"]);
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
    assert_eq!(clauses(entries), ["one at a time"]);
}

#[test]
fn a_state_that_never_was_is_an_invention() {
    let ghost = object("a", "u1", 7);
    assert_eq!(clauses(vec![begin(Told::Add, &ghost, Some(7))]), ["no invention"]);
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
    assert_eq!(clauses(entries), ["delete seen once"]);
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
    assert_eq!(clauses(entries), ["incarnation safe"]);
}

#[test]
fn a_store_older_than_the_call_is_noticed() {
    let (old, new) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![written(&old), written(&new), begin(Told::Add, &new, Some(1))];
    assert_eq!(clauses(entries), ["snapshot at least as new"]);
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
    assert_eq!(clauses(entries), ["sync complete"]);
}

#[test]
fn a_last_state_that_nobody_was_told_of_is_lost() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        written(&two),
        quiet(&[&two]),
    ];
    assert_eq!(clauses(entries), ["last state never lost"]);
}

#[test]
fn a_missed_delete_is_a_lost_last_state() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Ok),
        quiet(&[]),
    ];
    assert_eq!(clauses(entries), ["last state never lost"]);
}

#[test]
fn what_was_refused_for_good_is_a_dead_letter_and_not_lost() {
    let one = object("a", "u1", 1);
    let entries = vec![
        written(&one),
        begin(Told::Add, &one, Some(1)),
        end(&one, Ended::Permanent),
        quiet(&[&one]),
    ];
    assert_eq!(clauses(entries), Vec::<&str>::new());
}

#[test]
fn a_store_that_differs_from_the_cluster_at_rest_is_noticed() {
    let (one, two) = (object("a", "u1", 1), object("a", "u1", 2));
    let entries = vec![
        written(&one),
        written(&two),
        Entry::Quiet {
            cluster: vec![two],
            store: vec![one],
            index: vec![],
            scan: vec![],
        },
    ];
    assert_eq!(clauses(entries), ["store converges"]);
}

#[test]
fn an_index_that_differs_from_a_scan_is_noticed() {
    let entries = vec![Entry::Quiet {
        cluster: vec![],
        store: vec![],
        index: vec![("x".into(), vec!["default/a".into()])],
        scan: vec![],
    }];
    assert_eq!(clauses(entries), ["index coherent"]);
}
