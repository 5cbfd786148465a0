//! The simulation catches each seeded bug within a fixed number of seeds.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use informant_cache::seeded_bug::SeededBug;
use informant_tests::simulation::scenario::{SCENARIOS, Scenario};
use informant_tests::simulation::{Clause, has_replicas, run};

/// Each bug must be caught within this many seeds.
///
/// Nearly all are caught by the first few; one needs namespaces that change while a resync runs.
const SEEDS_MAX: u64 = 300;

/// Bugs that takeovers show must be caught within this many seeds: one in ten has replicas.
const SEEDS_WITH_TAKEOVERS_MAX: u64 = 3_000;

/// Random seeds contain no bookmarks that are ahead of events, no watches that stay silent to the end, and seldom a
/// change of namespaces at the right moment. Scenarios catch these bugs.
const BY_SCENARIO: [SeededBug; 3] = [
    SeededBug::BookmarkHidesEvents,
    SeededBug::SilentWatchStaysLive,
    SeededBug::ReattachOvertakesDeletes,
];

/// The clauses that have to show each of these bugs in seeds with replicas.
const BY_TAKEOVER: [(SeededBug, Clause); 7] = [
    (SeededBug::OthersDeletesNotKept, Clause::LastStateNeverLost),
    (SeededBug::StaleHolderWrites, Clause::OneReplicaActs),
    (SeededBug::DeleteLostAtTakeover, Clause::LastStateNeverLost),
    (SeededBug::WatermarkNotApplied, Clause::TakeoverRepeatsLittle),
    (SeededBug::WatermarkAheadOfQueue, Clause::LastStateNeverLost),
    (SeededBug::OldJournalAccepted, Clause::OneReplicaActs),
    (SeededBug::KeysBeforeWrites, Clause::RememberedWithWrites),
];

/// What the simulation of shared state in `host/state` catches. In whole programs a Lease would have to be renewed
/// while the journal is not written, which is rare.
const OF_SHARED_STATE: SeededBug = SeededBug::EndsBeforeWrite;

/// What the tests of the listener catch. In the system, nothing of a shard that was lost is handed out or passes the
/// gate.
const OF_SHARDS: SeededBug = SeededBug::LostShardDeletes;

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
    let notice = |wanted, seed| symptoms(bug, wanted, seed).map(|symptoms| format!("by seed {seed}: {symptoms}"));
    let by_seed = |wanted| (0..SEEDS_MAX).find_map(|seed| notice(wanted, seed));
    let by_takeover = |clause| {
        let mut seeds = (0..SEEDS_WITH_TAKEOVERS_MAX).filter(|seed| has_replicas(*seed));
        seeds.find_map(|seed| notice(Some(clause), seed))
    };
    let of_bug = |(other, clause): &(SeededBug, Clause)| (*other == bug).then_some(*clause);
    let clauses = BY_CLAUSE.iter().filter_map(of_bug).map(|clause| by_seed(Some(clause)));
    let at_takeovers = BY_TAKEOVER.iter().filter_map(of_bug).map(by_takeover);
    let found: Vec<Option<String>> = clauses.chain(at_takeovers).collect();
    match found.as_slice() {
        [] => by_seed(None),
        _ => found
            .into_iter()
            .collect::<Option<Vec<_>>>()
            .map(|found| found.join("; ")),
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
        .filter(|bug| !SeededBug::OF_LEASES.contains(bug) && ![OF_SHARED_STATE, OF_SHARDS].contains(bug))
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
                writeln!(table, "{bug:?}: not caught")
            }
        }
        .expect("writing to a string cannot fail");
    }
    println!("{table}");
    assert!(escaped.is_empty(), "not caught: {escaped:?}");
}
