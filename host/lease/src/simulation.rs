//! Several replicas on a naive API server, with clocks of their own, pauses, kills, partitions and edits by hand.
//!
//! ```text
//! seed ──▶ faults ──▶ World: Process (Membership, Members, Election) ⇄ network ⇄ Server
//!                       │ gates after each event, effects as they arrive, writes of the Lease
//!                       ▼
//!                     clauses
//! ```
//!
//! An effect asks the gate, is sent a little later, and arrives after some time unless its process cancels it before at
//! `request_end`. A process that is paused between asking and sending sends when it continues. What is sent after
//! `request_end` is left out: no lease can prevent it.

mod clauses;
mod faults;
mod process;
mod rng;
mod world;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informant_cache::seeded_bug::SeededBug;
use informant_cache::{Division, Moment, ShardHash};

use self::clauses::{Clause, Violation};
use self::faults::{Fault, Planned, Target};
use self::world::{EFFECTS_END, World};
use crate::{LEASE_DURATION_MAX, LeaseTimes};

/// How many seeds run, unless `INFORMANT_LEASE_SEEDS` has another number.
const SEEDS: u64 = 1_000;

/// Each bug must be caught within this many seeds.
const SEEDS_OF_BUG_MAX: u64 = 1_000;

/// For how many durations faults begin.
const FAULTY_DURATIONS: u32 = 10;

/// How long after the layout is the wanted one all members have equal shares at the latest: eight shards move one after
/// another, each after its effects, and one that has moved does not move again for a minute.
const SHARES_ARE_EQUAL_WITHIN: Duration = Duration::from_secs(300);

/// How long three replicas take to be replaced one after another, to change the layout, and to get equal shares.
const LAYOUT_CHANGE_WITHIN: Duration = Duration::from_secs(400);

struct Run {
    violations: Vec<Violation>,
    effects: usize,
    lines: Vec<String>,
}

fn run(seed: u64, records: bool) -> Run {
    let times = if seed.is_multiple_of(2) {
        LeaseTimes::DEFAULT
    } else {
        LeaseTimes::FAST
    };
    let hosts = 2 + (seed / 2 % 4) as usize;
    let is_divided = seed / 8 % 4 == 1;
    let mut world = World::new(seed, hosts, times, is_divided);
    world.lines = records.then(Vec::new);
    for host in 0..hosts {
        let at = Moment::ZERO + world.rng().up_to(times.duration);
        world.start(host, at);
    }
    let (from, to) = (
        Moment::ZERO + times.duration * 2,
        Moment::ZERO + times.duration * FAULTY_DURATIONS,
    );
    let planned = faults::plan(world.rng(), (hosts, is_divided), &times, from, to);
    for planned in planned {
        world.plan(planned);
    }
    let quiet = to + times.duration * 2;
    world.quiet(quiet);
    let mut acts = quiet + acts_within(&times);
    if is_divided {
        // The layout changes once all processes are of one division.
        acts = acts + acts_within(&times) + EFFECTS_END * 3;
    }
    world.must_act(acts);
    world.run(acts + times.duration * 3);
    if is_divided && world.checker.violations.is_empty() {
        world.run(acts + SHARES_ARE_EQUAL_WITHIN);
        world.look_at_shares();
    }
    // A hand-over to a newer version takes as long as its effects.
    if world.longest_gap > times.retry * 2 {
        let text = format!(
            "no process acts for a key for {:?} after all faults have ended",
            world.longest_gap
        );
        world.checker.violate(Clause::SomebodyActs, quiet, text);
    }
    Run {
        violations: std::mem::take(&mut world.checker.violations),
        effects: world.checker.effects,
        lines: world.lines.take().unwrap_or_default(),
    }
}

/// How long after all faults have ended some process acts at the latest: the Lease may have been edited just before,
/// and requests may have been refused.
fn acts_within(times: &LeaseTimes) -> Duration {
    LEASE_DURATION_MAX + times.refused + times.request_max() * 3 + times.retry * 2
}

fn seeds() -> u64 {
    let seeds = std::env::var("INFORMANT_LEASE_SEEDS").ok();
    seeds.map_or(SEEDS, |seeds| seeds.parse().expect("INFORMANT_LEASE_SEEDS is a number"))
}

/// Runs all seeds on all cores, and returns what `found` makes of each.
fn each_seed<T: Send>(seeds: u64, found: impl Fn(u64) -> Option<T> + Sync) -> Vec<T> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut all = Vec::new();
        while let seed @ 0.. = next.fetch_add(1, Ordering::Relaxed)
            && seed < seeds
        {
            all.extend(found(seed));
        }
        all
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no run panics"))
            .collect()
    })
}

#[test]
fn clauses_hold_for_all_seeds() {
    let effects = AtomicU64::new(0);
    let violations = each_seed(seeds(), |seed| {
        let run = run(seed, false);
        effects.fetch_add(run.effects as u64, Ordering::Relaxed);
        run.violations
            .first()
            .map(|violation| format!("seed {seed}: {violation}"))
    });
    assert!(
        violations.is_empty(),
        "{} seeds fail:\n{}",
        violations.len(),
        violations.join("\n")
    );
    assert!(effects.into_inner() > seeds() * 100, "hardly anything happens");
}

/// `INFORMANT_LEASE_SEED=7 cargo test -p informant-lease --lib replays -- --nocapture` shows what happens in seed 7.
#[test]
#[expect(clippy::print_stdout, reason = "it is there to be read")]
fn a_seed_replays() {
    let seed = std::env::var("INFORMANT_LEASE_SEED").ok();
    let shown: Option<u64> = seed.map(|seed| seed.parse().expect("INFORMANT_LEASE_SEED is a number"));
    let (first, second) = (run(shown.unwrap_or(3), true), run(shown.unwrap_or(3), true));
    assert!(first.lines == second.lines && first.lines.len() > 100);
    if shown.is_some() {
        println!("{}", first.lines.join("\n"));
        first.violations.iter().for_each(|violation| println!("{violation}"));
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "how soon each is caught is the result")]
fn every_seeded_bug_of_leases_is_caught() {
    let wanted = |bug| match bug {
        SeededBug::LateRenewalReopens => Clause::ClosedStaysClosed,
        SeededBug::LeaseCountsFromAnswer => Clause::EndsBeforeExpiry,
        SeededBug::ReleasedTooEarly | SeededBug::OtherShardHash => Clause::FormerHolderFenced,
        SeededBug::PreferredIgnored => Clause::PreferredFirst,
        SeededBug::UnreadyMemberActs => Clause::OnlyReadyActs,
        SeededBug::UnboundedShare => Clause::EqualShares,
        _ => Clause::OneGate,
    };
    let caught = |bug: SeededBug| {
        let is_caught = |seed: &u64| {
            let violations = bug.run_with(|| run(*seed, false).violations);
            violations.iter().any(|violation| violation.clause == wanted(bug))
        };
        (0..SEEDS_OF_BUG_MAX).find(is_caught)
    };
    let found = each_seed(SeededBug::OF_LEASES.len() as u64, |number| {
        let bug = SeededBug::OF_LEASES[number as usize];
        Some((bug, caught(bug)))
    });
    for (bug, seed) in &found {
        println!("{bug:?}: {:?} by seed {seed:?}", wanted(*bug));
    }
    assert!(
        found.iter().all(|(_, seed)| seed.is_some()),
        "a bug is not caught: {found:?}"
    );
}

/// Kills the holder. Returns how long no process acted.
fn takeover(seed: u64, times: LeaseTimes) -> Duration {
    let mut world = World::new(seed, 3, times, false);
    for host in 0..3 {
        world.start(host, Moment::ZERO);
    }
    let at = Moment::ZERO + times.duration * 5 + world.rng().up_to(times.duration);
    let fault = Fault::Kill(0, times.duration * 10);
    let (target, lasts) = (Target::Holder, Duration::ZERO);
    world.plan(Planned {
        at,
        target,
        fault,
        lasts,
    });
    world.must_act(at);
    world.run(at + times.duration * 2);
    assert!(world.checker.violations.is_empty(), "{:?}", world.checker.violations);
    world.longest_gap
}

#[test]
fn successor_of_a_killed_holder_acts_in_time() {
    for (times, max) in [(LeaseTimes::DEFAULT, 15_500), (LeaseTimes::FAST, 4_400)] {
        let mut gaps = each_seed(200, |seed| Some(takeover(seed, times)));
        gaps.sort_unstable();
        let longest = gaps.last().copied().unwrap_or_default();
        let least = times.duration - times.retry - Duration::from_millis(200);
        assert!(gaps[0] >= least && longest <= Duration::from_millis(max), "{gaps:?}");
    }
}

/// Three members that work by one shard, then by eight, then by two. Returns how long no process acted for a key.
fn layout_changes(seed: u64) -> Duration {
    let times = LeaseTimes::DEFAULT;
    let mut world = World::new(seed, 3, times, false);
    for host in 0..3 {
        world.start(host, Moment::ZERO);
    }
    let from = Moment::ZERO + times.duration * 5;
    for (at, shards) in [(from, 8), (from + LAYOUT_CHANGE_WITHIN, 2)] {
        let hash = ShardHash::Mixed;
        let (target, lasts) = (Target::Host(0), Duration::ZERO);
        let fault = Fault::Configure(Division { shards, hash });
        world.plan(Planned {
            at,
            target,
            fault,
            lasts,
        });
    }
    world.must_act(from);
    for until in [LAYOUT_CHANGE_WITHIN, LAYOUT_CHANGE_WITHIN * 2] {
        world.run(from + until);
        world.look_at_shares();
    }
    assert!(world.checker.violations.is_empty(), "{:?}", world.checker.violations);
    world.longest_gap
}

#[test]
fn layout_change_interrupts_for_two_hand_overs_at_most() {
    let gaps = each_seed(100, |seed| Some(layout_changes(seed)));
    let longest = gaps.iter().max().copied().unwrap_or_default();
    // The others end what they do, then the holder of the first shard does, and the Leases are written.
    assert!(longest <= EFFECTS_END * 2 + Duration::from_secs(5), "{longest:?}");
}
