//! Controllers: their calls, what they prune and send, and their timer.

use super::super::super::history::{Controlled, ControlledMap};
use super::*;

/// The violated clauses of a process that does this.
fn violated(did: Vec<Controlled>) -> Vec<Clause> {
    let started = Controlled::Started { recorded_ms: None };
    let entries = std::iter::once(started).chain(did).map(Entry::Controller);
    clauses(entries.collect())
}

fn began(call: &str, primary: Option<&ObjectVersion>, children: &[&ObjectVersion]) -> Controlled {
    Controlled::Began {
        call: call.to_owned(),
        namespace: "default".to_owned(),
        name: "a".to_owned(),
        primary: primary.cloned(),
        children: children.iter().map(|child| (*child).clone()).collect(),
    }
}

fn ended(ended: Ended) -> Controlled {
    let (namespace, name) = ("default".to_owned(), "a".to_owned());
    Controlled::Ended { namespace, name, ended }
}

fn wrote() -> Controlled {
    let (namespace, name) = ("default".to_owned(), "a".to_owned());
    Controlled::Wrote { namespace, name }
}

fn rest(primary: Option<&ObjectVersion>, children: &[&ObjectVersion], wanted: usize) -> Controlled {
    let map = ControlledMap {
        namespace: "default".to_owned(),
        name: "a".to_owned(),
        primary: primary.cloned(),
        children: children.iter().map(|child| (*child).clone()).collect(),
        wanted,
    };
    Controlled::AtRest { maps: vec![map] }
}

#[test]
fn reconcile_that_misses_a_last_state_is_detected() {
    let (one, two) = (object("a", "u", 1), object("a", "u", 2));
    let (child, later) = (object("a-0", "c", 3), object("a-0", "c", 4));
    let after = |call: Controlled, result, at_rest| violated(vec![call, ended(result), at_rest]);
    let seen = || began("C1", Some(&two), &[&child]);
    let lost = [Clause::ReconciledLast];
    assert_eq!(after(seen(), Ended::Ok, rest(Some(&two), &[&child], 1)), NOTHING);
    assert_eq!(after(began("C1", None, &[]), Ended::Ok, rest(None, &[], 0)), NOTHING);
    assert_eq!(
        after(began("C1", Some(&one), &[]), Ended::Ok, rest(Some(&two), &[], 0)),
        lost
    );
    assert_eq!(after(seen(), Ended::Ok, rest(None, &[], 0)), lost, "its end");
    assert_eq!(
        after(seen(), Ended::Ok, rest(Some(&two), &[&later], 1)),
        lost,
        "of a child"
    );
    assert_eq!(
        after(seen(), Ended::Ok, rest(Some(&two), &[&child], 2)),
        lost,
        "a child"
    );
    assert_eq!(
        after(seen(), Ended::Retry, rest(Some(&two), &[&child], 1)),
        lost,
        "a retry"
    );
    assert_eq!(violated(vec![rest(Some(&two), &[], 0)]), lost, "no call");
}

#[test]
fn concurrent_reconciles_of_one_object_are_detected() {
    let one = object("a", "u", 1);
    let call = |name| began(name, Some(&one), &[]);
    assert_eq!(violated(vec![call("C1"), ended(Ended::Ok), call("C2")]), NOTHING);
    assert_eq!(violated(vec![call("C1"), Controlled::Killed, call("C2")]), NOTHING);
    assert_eq!(violated(vec![call("C1"), call("C2")]), [Clause::ReconciledOneAtATime]);
}

#[test]
fn pruning_by_a_partial_view_is_detected() {
    let pruned = |gaps: &[&str]| Controlled::Pruned {
        namespace: "default".to_owned(),
        name: "a".to_owned(),
        gaps: gaps.iter().map(|gap| (*gap).to_owned()).collect(),
    };
    assert_eq!(violated(vec![pruned(&[])]), NOTHING);
    assert_eq!(violated(vec![pruned(&["not live"])]), [Clause::PrunedByWholeView]);
}

#[test]
fn effects_of_a_failed_reconcile_are_detected() {
    let one = object("a", "u", 1);
    let recorded = || Controlled::Recorded { call: "C1".to_owned() };
    let after = |result| violated(vec![began("C1", Some(&one), &[]), ended(result), wrote(), recorded()]);
    assert_eq!(after(Ended::Ok), NOTHING);
    for failed in [Ended::Retry, Ended::Permanent, Ended::Trap] {
        assert_eq!(after(failed), [Clause::EffectsAfterSuccess; 2]);
    }
    assert_eq!(violated(vec![wrote()]), [Clause::EffectsAfterSuccess], "of no call");
}

/// A run of the timer that was due then, and how it ended.
fn run(scheduled_ms: i64, missed: u32, ended: Ended) -> [Controlled; 2] {
    let call = format!("T{scheduled_ms}");
    let began = Controlled::TimerBegan {
        call,
        scheduled_ms,
        missed,
    };
    [began, Controlled::TimerEnded { ended }]
}

#[test]
fn timer_that_fires_twice_or_never_is_detected() {
    let runs = |runs: Vec<[Controlled; 2]>| violated(runs.concat());
    let first = || run(10_000, 0, Ended::Ok);
    assert_eq!(runs(vec![first(), run(20_000, 0, Ended::Ok)]), NOTHING);
    assert_eq!(
        runs(vec![first(), run(40_000, 2, Ended::Ok)]),
        NOTHING,
        "two are missed"
    );
    let retried = vec![first(), run(20_000, 0, Ended::Retry), run(20_000, 0, Ended::Permanent)];
    assert_eq!(runs(retried), NOTHING);
    assert_eq!(runs(vec![first(), first()]), [Clause::TimerOnce]);
    assert_eq!(
        runs(vec![first(), run(30_000, 0, Ended::Ok)]),
        [Clause::TimerOnce],
        "one is left out"
    );
    let [began, _] = first();
    assert_eq!(violated(vec![began.clone(), began]), [Clause::TimerOnce], "two at once");
}

#[test]
fn timer_without_its_record_after_a_kill_is_detected() {
    let process = |recorded: i64| {
        let runs = (1..=4).flat_map(|number| run(10_000 * number, 0, Ended::Ok));
        let recorded_ms = Some(recorded);
        let next = [Controlled::Killed, Controlled::Started { recorded_ms }];
        violated(runs.chain(next).collect())
    };
    assert_eq!(process(40_000), NOTHING);
    assert_eq!(process(20_000), NOTHING, "the last two were being recorded");
    assert_eq!(process(10_000), [Clause::TimerOnce]);
    assert_eq!(process(50_000), [Clause::TimerOnce], "it has not ended");
    let short = |recorded| [run(20_000, 0, Ended::Ok).to_vec(), vec![Controlled::Killed, recorded]].concat();
    let recorded = |recorded| Controlled::Started {
        recorded_ms: Some(recorded),
    };
    let first = vec![recorded(10_000)];
    let repeated = [
        first.clone(),
        short(recorded(10_000)),
        short(recorded(10_000)),
        short(recorded(10_000)),
    ]
    .concat();
    assert_eq!(violated(repeated), NOTHING, "killed before each record");
    let back = [
        vec![recorded(10_000)],
        short(recorded(20_000)),
        vec![Controlled::Killed, recorded(10_000)],
    ]
    .concat();
    assert_eq!(violated(back), [Clause::TimerOnce], "a record that is lost");
}
