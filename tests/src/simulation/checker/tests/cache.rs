//! The budget of the caches.

use super::*;

fn cache(used_bytes: usize, bytes: usize, whole: usize, least_shed_bytes: Option<usize>) -> Vec<Clause> {
    let entry = Entry::CacheAtRest {
        max_bytes: 1_000,
        used_bytes,
        bytes,
        whole,
        least_shed_bytes,
    };
    clauses(vec![entry])
}

#[test]
fn caches_beyond_their_budget_are_detected() {
    assert_eq!(cache(900, 900, 5, None), NOTHING);
    assert_eq!(cache(1_100, 1_100, 5, None), [Clause::BudgetKept]);
    assert_eq!(cache(1_100, 1_100, 0, Some(50)), NOTHING, "heads alone may exceed it");
    assert_eq!(cache(900, 901, 5, None), [Clause::BudgetKept], "not counted");
    assert_eq!(cache(500, 500, 5, Some(201)), NOTHING, "no room to return");
    assert_eq!(cache(500, 500, 5, Some(200)), [Clause::BudgetKept], "room to return");
}

#[test]
fn bodies_older_than_their_heads_are_detected() {
    let read = |body: ObjectVersion| {
        let head = object("a", "u", 5);
        clauses(vec![Entry::BodyRead { head, body }])
    };
    assert_eq!(read(object("a", "u", 5)), NOTHING);
    assert_eq!(read(object("a", "u", 6)), NOTHING);
    assert_eq!(read(object("a", "u", 4)), [Clause::ShedNeverOlder]);
    assert_eq!(
        read(object("a", "v", 6)),
        [Clause::ShedNeverOlder],
        "another incarnation"
    );
}

#[test]
fn calls_before_what_they_read_are_detected() {
    let released = |waited_ms, missing: &[&str]| {
        clauses(vec![Entry::Released {
            handler: 0,
            waited_ms,
            wait_max_ms: 1_000,
            missing: missing.iter().map(|&name| name.to_owned()).collect(),
        }])
    };
    assert_eq!(released(0, &[]), NOTHING);
    assert_eq!(released(999, &["an index"]), [Clause::BarrierKept]);
    assert_eq!(released(1_000, &["an index"]), NOTHING, "it has waited for long enough");
}
