//! Measures what readers cost the store's writer: 40 threads that list 10,000 objects, without pause and ten times a
//! second each.
//!
//! ```text
//! cargo run --release -p informant-client-go --example store_under_readers
//! ```
//!
//! Prints ratios and fails if one is below its target. Without pause, 41 threads share the CPUs, so the writer's own
//! CPU time counts. At ten lists a second the wall-clock time counts, minus the time in which the writer was runnable
//! and all CPUs were busy with other programs or the readers, whose share is printed.

#![expect(clippy::print_stdout, reason = "it prints its results")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use informant_client_go::{Indexer, Object, Pointer, PointerIndex, Shape};

// As in the daemon.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const OBJECTS: usize = 10_000;
const READERS: usize = 40;
/// Alternates runs without and with readers, so that other load affects both.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_500);
const PACE: Duration = Duration::from_millis(100);

/// What readers may cost: half of the writes per second of the writer's own CPU time.
const CPU_RATIO_MIN: f64 = 0.5;
/// And a fifth of the writes per second that the writer could run, where they pause.
const WALL_RATIO_MIN: f64 = 0.8;

/// Writes per second, of several kinds of seconds.
#[derive(Clone, Copy, Default)]
struct Rate {
    of_cpu: f64,
    of_wall: f64,
    /// On the wall, less the time for which no processor was free.
    of_runnable: f64,
    /// What one list took of a reader's CPU time.
    list: Duration,
}

fn main() -> ExitCode {
    let pointer = Pointer::parse("/spec/nodeName").expect("a pointer");
    let store = Indexer::new(vec![Box::new(PointerIndex::new("node", pointer))]).expect("one index");
    let states: Vec<Vec<Object>> = (1..=2)
        .map(|version| (0..OBJECTS).map(|name| pod(name, version)).collect())
        .collect();
    states[0].iter().for_each(|object| drop(store.add(object.clone())));
    let (mut alone, mut unpaced, mut paced) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.push(write_beside(&store, &states, 0, None));
        unpaced.push(write_beside(&store, &states, READERS, None));
        paced.push(write_beside(&store, &states, READERS, Some(PACE)));
    }
    // Round by round: how busy the machine is otherwise changes from one to the next.
    let ratio = |with: &[Rate], which: fn(&Rate) -> f64| {
        median(
            with.iter()
                .zip(&alone)
                .map(|(with, without)| which(with) / which(without)),
        )
    };
    let cpu_ratio = ratio(&unpaced, |rate| rate.of_cpu);
    let runnable_ratio = ratio(&paced, |rate| rate.of_runnable);
    let of = |rates: &[Rate], which: fn(&Rate) -> f64| median(rates.iter().map(which));
    println!("{OBJECTS} objects, one index; writes a second");
    println!("                                         of CPU time    on the wall   when a processor was free");
    for (name, rates) in [
        ("without readers", &alone),
        ("40 threads that list without pause", &unpaced),
        ("40 threads with 10 lists a second", &paced),
    ] {
        let (cpu, wall) = (of(rates, |rate| rate.of_cpu), of(rates, |rate| rate.of_wall));
        println!(
            "  {name:<36} {cpu:>13.0} {wall:>14.0} {:>14.0}",
            of(rates, |rate| rate.of_runnable)
        );
    }
    let list = of(&paced, |rate| rate.list.as_secs_f64());
    let (micros, share) = (list * 1e6, list * READERS as f64 / PACE.as_secs_f64() * 100.0);
    println!("one list takes a reader {micros:.0} us of CPU time; 400 a second, {share:.0} % of a processor");
    println!("without pause: {cpu_ratio:.2} of the writes per CPU time, at least {CPU_RATIO_MIN}");
    println!(
        "with 10 lists a second: {runnable_ratio:.2} of the writes when a processor was free, at least {WALL_RATIO_MIN}"
    );
    println!(
        "                        {:.2} of them on the wall",
        ratio(&paced, |rate| rate.of_wall)
    );
    if cpu_ratio >= CPU_RATIO_MIN && runnable_ratio >= WALL_RATIO_MIN {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Writes for a round while `readers` list, without pause or once per `pace` each.
fn write_beside(store: &Indexer, states: &[Vec<Object>], readers: usize, pace: Option<Duration>) -> Rate {
    let (ends, lists, nanos) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let rate = thread::scope(|scope| {
        for reader in 0..readers {
            let (ends, lists, nanos) = (&ends, &lists, &nanos);
            scope.spawn(move || {
                // Not all at the same moment.
                thread::sleep(pace.unwrap_or_default() * reader as u32 / READERS as u32);
                while !ends.load(Ordering::Relaxed) {
                    let next = Instant::now() + pace.unwrap_or_default();
                    assert_eq!(store.list().len(), OBJECTS);
                    lists.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                nanos.fetch_add(thread_times().0.as_nanos() as u64, Ordering::Relaxed);
            });
        }
        while readers > 0 && lists.load(Ordering::Relaxed) < readers as u64 {
            thread::sleep(Duration::from_millis(1));
        }
        let rate = write(store, states);
        ends.store(true, Ordering::Relaxed);
        rate
    });
    let lists = lists.into_inner().max(1);
    Rate {
        list: Duration::from_nanos(nanos.into_inner() / lists),
        ..rate
    }
}

fn write(store: &Indexer, states: &[Vec<Object>]) -> Rate {
    let (began, (cpu_before, queued_before)) = (Instant::now(), thread_times());
    let mut writes = 0;
    while began.elapsed() < ROUND {
        for _ in 0..100 {
            // Strides through the store, so that no two writes in a row share much.
            let name = writes * 7_919 % OBJECTS;
            let state = &states[(writes / OBJECTS + 1) % states.len()];
            store.update(state[name].clone());
            writes += 1;
        }
    }
    let (wall, (cpu, queued)) = (began.elapsed(), thread_times());
    let per = |time: Duration| writes as f64 / time.as_secs_f64();
    Rate {
        of_cpu: per(cpu - cpu_before),
        of_wall: per(wall),
        of_runnable: per(wall.saturating_sub(queued - queued_before)),
        ..Rate::default()
    }
}

/// For how long the thread that asks ran, and for how long it wanted to and could not, as Linux counts it.
fn thread_times() -> (Duration, Duration) {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the time of threads");
    let mut nanos = text
        .split_whitespace()
        .map(|nanos| Duration::from_nanos(nanos.parse().expect("nanoseconds")));
    let mut next = || nanos.next().expect("two numbers at least");
    (next(), next())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// About a kilobyte, like a small pod.
fn pod(number: usize, version: usize) -> Object {
    let (namespace, node, padding) = (number % 20, number % 100 + version, "x".repeat(800));
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns-{namespace}","name":"pod-{number}","uid":"uid-{number}","resourceVersion":"{version}"}},"spec":{{"nodeName":"node-{node}"}},"status":{{"padding":"{padding}"}}}}"#
    );
    Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).expect("a pod")
}
