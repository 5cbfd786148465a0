//! The simulation catches each seeded bug within a fixed number of seeds.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use informant_cache::seeded_bug::SeededBug;
use informant_tests::simulation::scenario::{SCENARIOS, Scenario};
use informant_tests::simulation::{Clause, run};

/// Each bug must be caught within this many seeds.
///
/// Nearly all are caught by the first few; one needs namespaces that change while a resync runs.
const SEEDS_MAX: u64 = 300;

/// Random seeds contain no bookmarks that are ahead of events, no watches that stay silent to the end, no takeovers,
/// and seldom a change of namespaces at the right moment. Scenarios catch these bugs.
const BY_SCENARIO: [SeededBug; 4] = [
    SeededBug::BookmarkHidesEvents,
    SeededBug::SilentWatchStaysLive,
    SeededBug::ReattachOvertakesDeletes,
    SeededBug::DeleteLostAtTakeover,
];

/// Bugs of parts that the simulation does not have; the tests of `informant-state` catch them
/// (`shared/tests/simulation.rs`).
const ELSEWHERE: [SeededBug; 2] = [SeededBug::OldJournalAccepted, SeededBug::EndsBeforeWrite];

/// The clauses that have to show each of these bugs.
const BY_CLAUSE: [(SeededBug, Clause); 24] = [
    (SeededBug::EveryDeleteMarked, Clause::TombstoneMarked),
    (SeededBug::ShortLivedObjectVanishes, Clause::Resumable),
    (SeededBug::NewIncarnationMissed, Clause::AtLeastOnce),
    (SeededBug::RestoredStateRejected, Clause::StoreConverges),
    (SeededBug::SavedStateNotRestored, Clause::StateTransferred),
    (SeededBug::OnlyLastIncarnationStored, Clause::AtLeastOnce),
    (SeededBug::PartialIndexAttached, Clause::IndexCoherent),
    (SeededBug::RequeueNotCanceled, Clause::CalledAgain),
    (SeededBug::FailedCallWrites, Clause::WritesAfterSuccess),
    (SeededBug::IntervalNotKept, Clause::IntervalKept),
    (SeededBug::RateNotKept, Clause::RateKept),
    (SeededBug::SuspectsNotLimited, Clause::PoisonLocal),
    (SeededBug::KeysStoredLate, Clause::RememberedWithSuccess),
    (SeededBug::KeysBeforeWrites, Clause::RememberedWithWrites),
    (SeededBug::LaneFollowsSource, Clause::InstanceKept),
    (SeededBug::BudgetIgnored, Clause::BudgetKept),
    (SeededBug::ShedForever, Clause::BudgetKept),
    (SeededBug::OldBodyTaken, Clause::ShedNeverOlder),
    (SeededBug::BarrierIgnored, Clause::BarrierKept),
    (SeededBug::RelatedChangeDropped, Clause::ReconciledLast),
    (SeededBug::ReconciledConcurrently, Clause::ReconciledOneAtATime),
    (SeededBug::PrunedByPartialView, Clause::PrunedByWholeView),
    (SeededBug::TimerRunNotRecorded, Clause::TimerOnce),
    (SeededBug::FailedCallWrites, Clause::EffectsAfterSuccess),
];

/// The effects of a run with a bug: the violated clauses, only the wanted one if there is one, or a panic.
fn symptoms(bug: SeededBug, wanted: Option<Clause>, seed: u64) -> Option<String> {
    // A bug may make the code panic; the panic message is not wanted.
    let ran = bug.run_with(|| std::panic::catch_unwind(|| run(seed).violations));
    let Ok(violations) = ran else {
        return Some("the run panicked".to_owned());
    };
    let mut clauses: Vec<&str> = violations.iter().map(|violation| violation.clause.as_str()).collect();
    clauses.sort_unstable();
    clauses.dedup();
    clauses.retain(|found| wanted.is_none_or(|wanted| *found == wanted.as_str()));
    (!clauses.is_empty()).then(|| clauses.join(", "))
}

/// What catches the bug first, and how.
fn caught(bug: SeededBug) -> Option<String> {
    if BY_SCENARIO.contains(&bug) {
        return caught_by_scenario(bug);
    }
    let by_seed = |wanted| {
        let mut seeds = 0..SEEDS_MAX;
        seeds.find_map(|seed| symptoms(bug, wanted, seed).map(|symptoms| format!("by seed {seed}: {symptoms}")))
    };
    let of_bug = BY_CLAUSE.iter().filter(|(other, _)| *other == bug);
    let wanted: Vec<Option<Clause>> = of_bug.map(|(_, clause)| Some(*clause)).collect();
    match wanted.as_slice() {
        [] => by_seed(None),
        clauses => {
            let found: Option<Vec<String>> = clauses.iter().map(|clause| by_seed(*clause)).collect();
            found.map(|found| found.join("; "))
        }
    }
}

fn caught_by_scenario(bug: SeededBug) -> Option<String> {
    let mut scenarios = SCENARIOS.iter().copied().flatten();
    let notice = |scenario: &Scenario| {
        let failure = bug.run_with(|| scenario.failure());
        failure.map(|failure| format!("by {}: {}", scenario.name, failure.lines().next().unwrap_or_default()))
    };
    scenarios.find_map(|scenario| scenario.bugs.contains(&bug).then(|| notice(scenario)).flatten())
}

#[test]
#[expect(clippy::print_stdout, reason = "how soon each is caught is the result")]
fn every_seeded_bug_is_caught() {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let bugs: Vec<SeededBug> = SeededBug::ALL
        .iter()
        .copied()
        .filter(|bug| !ELSEWHERE.contains(bug) && !SeededBug::OF_LEASES.contains(bug))
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = (*bug, caught(*bug));
                    found
                        .lock()
                        .expect("no thread panics while holding the lock")
                        .push(result);
                }
            });
        }
    });
    let mut found = found.into_inner().expect("no thread panics while holding the lock");
    found.sort();
    let (mut table, mut escaped) = (String::new(), Vec::new());
    for (bug, caught) in found {
        match caught {
            Some(how) => writeln!(table, "{bug:?}: caught {how}"),
            None => {
                escaped.push(bug);
                writeln!(table, "{bug:?}: not caught by {SEEDS_MAX} seeds")
            }
        }
        .expect("writing to a string cannot fail");
    }
    println!("{table}");
    assert!(escaped.is_empty(), "not caught by {SEEDS_MAX} seeds: {escaped:?}");
}
