//! Histories in which a backup of the API server is restored.

use super::*;

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
            instance: 0,
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
