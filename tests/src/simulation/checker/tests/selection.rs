//! Histories in which the informer's selection changes.

use super::*;

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
