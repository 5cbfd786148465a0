//! The rules, with compiles that only take time.

use std::fmt::Write as _;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::{Instant, sleep};

use super::*;

const MIB: u64 = 1 << 20;

/// A compile: its name, when it is asked for, its expected memory in MiB, and how many seconds it takes.
type Compile = (&'static str, u64, u64, u64);

fn digest(name: &str) -> Digest {
    Digest::of(name.as_bytes())
}

/// Runs `compiles`; each takes its time on `processors` with this memory in MiB. Returns when each began and ended, in
/// seconds, in the order of their beginnings.
async fn run(memory: u64, processors: usize, compiles: &[Compile]) -> String {
    let schedule = CompileSchedule::new(processors, CompileGauges::default());
    schedule.set_memory_max(memory * MIB);
    let start = Instant::now();
    let one = async |(name, asked, memory, seconds): Compile| {
        sleep(Duration::from_secs(asked)).await;
        let turn = schedule.enter(digest(name), memory * MIB, Moment::ZERO);
        turn.begins().await;
        let began = start.elapsed().as_secs();
        sleep(Duration::from_secs(seconds)).await;
        (began, name, start.elapsed().as_secs())
    };
    let mut ran = join_all(compiles.iter().copied().map(one)).await;
    ran.sort_unstable();
    ran.iter().fold(String::new(), |mut text, (began, name, ended)| {
        writeln!(text, "{name} {began}-{ended}").unwrap();
        text
    })
}

#[tokio::test(start_paused = true)]
async fn compiles_that_fit_together_run_side_by_side() {
    let compiles = [("a", 0, 40, 2), ("b", 0, 40, 2), ("c", 0, 40, 2)];
    insta::assert_snapshot!(run(512, 8, &compiles).await, @r"
    a 0-2
    b 0-2
    c 0-2
    ");
    insta::assert_snapshot!(run(100, 8, &compiles).await, @r"
    a 0-2
    b 0-2
    c 2-4
    ");
}

#[tokio::test(start_paused = true)]
async fn no_more_compiles_run_than_there_are_processors() {
    let compiles = [("a", 0, 40, 2), ("b", 0, 40, 2), ("c", 0, 40, 2)];
    insta::assert_snapshot!(run(512, 1, &compiles).await, @r"
    a 0-2
    b 0-2
    c 2-4
    ");
}

#[tokio::test(start_paused = true)]
async fn a_compile_above_the_memory_runs_alone() {
    let compiles = [
        ("short before", 0, 40, 2),
        ("too large", 0, 398, 5),
        ("other", 3, 150, 1),
        ("short after", 3, 40, 2),
    ];
    insta::assert_snapshot!(run(128, 8, &compiles).await, @r"
    short before 0-2
    too large 2-7
    other 7-8
    short after 8-10
    ");
    let schedule = CompileSchedule::new(8, CompileGauges::default());
    schedule.set_memory_max(512 * MIB);
    let alone = [40, 96, 417, 479, 480, 513].map(|memory| schedule.is_alone(memory * MIB));
    assert_eq!(alone, [false, false, false, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn what_leaves_memory_for_short_compiles_only_is_not_alone() {
    let compiles = [("large", 0, 450, 4), ("other", 1, 97, 1), ("short", 1, 62, 1)];
    insta::assert_snapshot!(run(512, 8, &compiles).await, @r"
    large 0-4
    short 1-2
    other 4-5
    ");
    // The smallest one takes more than is left here.
    let compiles = [("large", 0, 480, 4), ("short", 1, 33, 1)];
    insta::assert_snapshot!(run(512, 8, &compiles).await, @r"
    large 0-4
    short 4-5
    ");
}

#[tokio::test(start_paused = true)]
async fn short_compiles_do_not_wait_for_long_ones() {
    // Two long ones would fit into the memory, and into the places, but leave a part of both.
    let compiles = [
        ("long", 0, 250, 10),
        ("next long", 0, 250, 10),
        ("short", 1, 90, 1),
        ("next short", 3, 40, 1),
    ];
    let ran = "long 0-10\nnext long 10-20\nshort 1-2\nnext short 3-4\n";
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&run(512, 8, &compiles).await), sorted(ran));
    assert_eq!(sorted(&run(2_048, 2, &compiles).await), sorted(ran));
}

#[tokio::test(start_paused = true)]
async fn short_compiles_pass_what_waits_for_long_ones() {
    let shorts = (0..=PASSES_MAX.into()).map(|at| ("short", at, 40, 1));
    let compiles: Vec<Compile> = [("long", 0, 250, 10), ("next long", 0, 250, 10)]
        .into_iter()
        .chain(shorts)
        .collect();
    let ran = run(512, 8, &compiles).await;
    let shorts: Vec<&str> = ran.lines().filter(|line| line.starts_with("short")).collect();
    assert_eq!((shorts.len(), shorts.last().copied()), (9, Some("short 8-9")), "{ran}");
    assert!(ran.ends_with("next long 10-20\n"), "{ran}");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_compile_is_passed_by_a_limited_number() {
    // Of the short ones, one ends in each second, and another arrives.
    let shorts = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];
    let shorts = shorts.iter().zip(0..).map(|(name, at)| (*name, at, 80, 2));
    let compiles: Vec<Compile> = shorts.chain([("large", 0, 398, 1)]).collect();
    let ran = run(256, 8, &compiles).await;
    let before = ran.lines().take_while(|line| !line.starts_with("large")).count();
    // The first one was there before.
    assert_eq!(before, 1 + PASSES_MAX as usize, "{ran}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_turn_lets_others_begin() {
    let gauges = CompileGauges::default();
    let schedule = CompileSchedule::new(8, gauges.clone());
    schedule.set_memory_max(64 * MIB);
    let enter = |name: &str| schedule.enter(digest(name), 40 * MIB, Moment::ZERO);
    let (first, second, third) = (enter("first"), enter("second"), enter("third"));
    first.begins().await;
    let counts = || [&gauges.waiting, &gauges.running, &gauges.memory_bytes].map(Gauge::get);
    assert_eq!(counts(), [2, 1, 40 << 20]);
    assert!(second.is_waiting() && schedule.of(digest("second")).unwrap().is_waiting);
    drop(second);
    assert_eq!((counts(), third.is_waiting()), ([1, 1, 40 << 20], true));
    assert_eq!(schedule.of(digest("second")), None);
    drop(first);
    third.begins().await;
    assert_eq!(counts(), [0, 1, 40 << 20]);
    third.began(Moment::ZERO + Duration::from_secs(3));
    let expected = CompileJob {
        digest: digest("third"),
        memory_bytes: 40 * MIB,
        since: Moment::ZERO + Duration::from_secs(3),
        is_waiting: false,
    };
    assert_eq!(schedule.of(digest("third")), Some(expected));
    drop(third);
    assert_eq!(counts(), [0, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn more_memory_lets_those_begin_that_fit() {
    let schedule = CompileSchedule::new(8, CompileGauges::default());
    schedule.set_memory_max(64 * MIB);
    let _first = schedule.enter(digest("first"), 40 * MIB, Moment::ZERO);
    let second = schedule.enter(digest("second"), 40 * MIB, Moment::ZERO);
    assert!(second.is_waiting());
    schedule.set_memory_max(80 * MIB);
    assert!(!second.is_waiting());
}

#[test]
fn the_expected_memory_is_what_was_measured_and_more() {
    // Bytes of the component and of its functions, and the measured MiB, of the guests of the tests.
    let measured = [
        (45_871, 31_000, 2),
        (304_360, 241_000, 17),
        (1_357_482, 1_143_000, 55),
        (4_211_060, 2_653_000, 113),
        (11_889_240, 7_455_000, 267),
        (21_455_130, 6_616_000, 395),
    ];
    for (component, code, mib) in measured {
        let expected = expected_memory_bytes(component, code);
        assert!(
            expected >= mib * MIB && expected <= (mib + 90) * MIB,
            "{mib} MiB: {expected}"
        );
    }
    assert!(expected_memory_bytes(usize::MAX, usize::MAX) > 0);
}
