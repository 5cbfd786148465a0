//! What readers cost the store's writer: 40 threads that list 10,000 objects, without pause and ten times a second each.
//!
//! ```text
//! cargo run --release -p informant-cache --example store_under_readers
//! ```
//!
//! Prints ratios and ends with an error if one is below what is promised. Without pause, 41 threads share the processors, so it is the writer's own
//! CPU time that counts; at ten lists a second the time on the wall.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use informant_cache::PointerIndex;
use informant_cache::blocking::Indexer;
use informant_object::{Object, Pointer, Shape};

const OBJECTS: usize = 10_000;
const READERS: usize = 40;
/// Without readers and with them in turn, so that what else the machine does weighs on both.
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(1_500);
const PACE: Duration = Duration::from_millis(100);

/// What readers may cost: half of the writes per second of the writer's own CPU time.
const CPU_RATIO_MIN: f64 = 0.5;
/// And a fifth of the writes per second on the wall, where they pause.
const WALL_RATIO_MIN: f64 = 0.8;

/// Writes per second.
#[derive(Clone, Copy)]
struct Rate {
    of_cpu: f64,
    of_wall: f64,
}

fn main() -> ExitCode {
    let store = Indexer::new(vec![Box::new(PointerIndex::new(
        "node",
        Pointer::parse("/spec/nodeName").expect("a pointer"),
    ))])
    .expect("one index");
    let states: Vec<Vec<Object>> = (1..=2)
        .map(|version| (0..OBJECTS).map(|name| pod(name, version)).collect())
        .collect();
    states[0].iter().for_each(|object| drop(store.add(object.clone())));
    let mut unpaced = Vec::new();
    let mut paced = Vec::new();
    let mut alone = Vec::new();
    for _ in 0..ROUNDS {
        alone.push(write_beside(&store, &states, 0, None));
        unpaced.push(write_beside(&store, &states, READERS, None));
        paced.push(write_beside(&store, &states, READERS, Some(PACE)));
    }
    let of = |rates: &[Rate], which: fn(&Rate) -> f64| median(rates.iter().map(which).collect());
    let (cpu, wall) = (|rate: &Rate| rate.of_cpu, |rate: &Rate| rate.of_wall);
    let cpu_ratio = of(&unpaced, cpu) / of(&alone, cpu);
    // Round by round: how busy the machine is otherwise changes from one to the next.
    let wall_ratio = median(
        paced
            .iter()
            .zip(&alone)
            .map(|(with, without)| with.of_wall / without.of_wall)
            .collect(),
    );
    println!("writes a second of the writer's CPU time, {OBJECTS} objects, one index");
    println!("  without readers                      {:>9.0}", of(&alone, cpu));
    println!(
        "  {READERS} threads that list without pause    {:>9.0}   {cpu_ratio:.2} of it, at least {CPU_RATIO_MIN}",
        of(&unpaced, cpu)
    );
    println!("writes a second on the wall");
    println!("  without readers                      {:>9.0}", of(&alone, wall));
    println!(
        "  {READERS} threads with 10 lists a second     {:>9.0}   {wall_ratio:.2} of it, at least {WALL_RATIO_MIN}",
        of(&paced, wall)
    );
    if cpu_ratio >= CPU_RATIO_MIN && wall_ratio >= WALL_RATIO_MIN {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Writes for a round while `readers` list, without pause or once per `pace` each.
fn write_beside(store: &Indexer, states: &[Vec<Object>], readers: usize, pace: Option<Duration>) -> Rate {
    let (ends, lists) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for reader in 0..readers {
            let (ends, lists) = (&ends, &lists);
            scope.spawn(move || {
                // Not all at the same moment.
                thread::sleep(pace.unwrap_or_default() * reader as u32 / READERS as u32);
                while !ends.load(Ordering::Relaxed) {
                    let next = Instant::now() + pace.unwrap_or_default();
                    assert_eq!(store.list().len(), OBJECTS);
                    lists.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            });
        }
        while readers > 0 && lists.load(Ordering::Relaxed) < readers as u64 {
            thread::sleep(Duration::from_millis(1));
        }
        let rate = write(store, states);
        ends.store(true, Ordering::Relaxed);
        rate
    })
}

fn write(store: &Indexer, states: &[Vec<Object>]) -> Rate {
    let (began, cpu_before) = (Instant::now(), thread_cpu_time());
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
    let (wall, cpu) = (began.elapsed(), thread_cpu_time() - cpu_before);
    Rate {
        of_cpu: writes as f64 / cpu.as_secs_f64(),
        of_wall: writes as f64 / wall.as_secs_f64(),
    }
}

/// The CPU time of the thread that asks, as Linux counts it.
fn thread_cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts the CPU time of threads");
    let nanos = text.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("nanoseconds come first"))
}

fn median(mut values: Vec<f64>) -> f64 {
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
