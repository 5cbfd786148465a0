//! One run: from a seed to a history and its violations.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use informant_cache::Environment;

use super::checker::{self, Violation};
use super::controller::Controller;
use super::fed_index::FedIndex;
use super::history::History;
use super::process::Process;
use super::replicas::{self, Replicas};
use super::rng::Rng;
use super::schedule::Schedule;
use super::world::{Setting, World};

/// The deadline for coming to rest once faults have ended, in simulated time: longer than the longest back-off of a
/// listener (5 min), the longest duration of a watch (10 min) and its silence together.
pub(super) const REST_DEADLINE: Duration = Duration::from_secs(1_800);

/// One seed in so many has a WebAssembly handler.
const GUEST_SEEDS: u64 = 20;

/// In how many percent of the seeds the caches have a budget.
const CACHE_SEEDS_PERCENT: u64 = 40;

/// Separates the random numbers of the budget from those of others.
const CACHE_SALT: u64 = 0x6361_6368_652d_6d78;

/// The result of a run.
pub struct Run {
    /// Everything that happened.
    pub history: History,
    /// The violations of the contract.
    pub violations: Vec<Violation>,
}

/// Runs `seed` from the start until everything is at rest.
///
/// # Panics
/// If no runtime can be created, or the simulation itself fails.
#[must_use]
pub fn run(seed: u64) -> Run {
    run_world(play(seed))
}

/// Runs a world under paused time and checks its history.
pub(super) fn run_world(world: impl Future<Output = History>) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O can be built");
    let history = runtime.block_on(world);
    let violations = checker::check(&history);
    Run { history, violations }
}

/// The budget of the caches; most seeds have none. The scripted indexer does not read bodies.
fn cache_bytes_max(seed: u64) -> Option<usize> {
    let mut rng = Rng::new(seed ^ CACHE_SALT);
    let has_budget = rng.percent(CACHE_SEEDS_PERCENT) && !FedIndex::is_in(seed);
    has_budget.then(|| rng.pick(&[1_000, 12_000, 30_000, 60_000]))
}

/// Whether the seed has replicas. They exclude parts that work for all informers of one process, and restores: a
/// watermark is of one history. Of the parts that are killed, one is enough.
#[must_use]
pub fn has_replicas(seed: u64) -> bool {
    let has_guests = seed.is_multiple_of(GUEST_SEEDS);
    replicas::draws_replicas(seed) && !has_guests && !FedIndex::is_in(seed) && !Process::is_in(seed)
}

/// Whether these replicas divide the objects into shards.
#[must_use]
pub fn has_shards(seed: u64) -> bool {
    has_replicas(seed) && replicas::draws_shards(seed)
}

async fn play(seed: u64) -> History {
    let mut rng = Rng::new(seed);
    let setting = Setting {
        history_events_max: rng.pick(&[3, 20, 10_000]),
        paging_at_zero: rng.percent(50),
        server_knows_watch_list: rng.percent(80),
        cache_bytes_max: cache_bytes_max(seed),
        ..Setting::default()
    };
    let world = World::new(seed, &setting);
    let mut process = Process::of_seed(&world, seed);
    let mut fed_index = FedIndex::of_seed(&world, seed);
    // Both read the lines of guests.
    let has_guests = seed.is_multiple_of(GUEST_SEEDS);
    let mut controller = Controller::of_seed(&world, seed).filter(|_| !has_guests);
    let mut replicas = has_replicas(seed).then(|| Replicas::new(&world, seed));
    let playing = AtomicBool::new(true);
    // The schedule keeps the host of guests, which must live until the end.
    let mut schedule = Schedule::new(world.clone(), rng, has_guests, replicas.is_none());
    let schedule = async {
        schedule.play().await;
        playing.store(false, Ordering::Relaxed);
    };
    tokio::join!(
        schedule,
        Process::play(&mut process, &playing),
        FedIndex::play(&mut fed_index, &playing),
        Controller::play(&mut controller, &playing),
        Replicas::play(&mut replicas, &playing)
    );
    if let Some(fed_index) = &mut fed_index {
        fed_index.finish().await;
    }
    world.environment.sleep(REST_DEADLINE).await;
    if let Some(fed_index) = &fed_index {
        fed_index.record_rest();
    }
    if let Some(process) = &process {
        process.record_rest();
    }
    if let Some(replicas) = &replicas {
        replicas.record_rest();
    }
    let Some(controller) = &mut controller else {
        return end(&world).await;
    };
    controller.record_rest();
    let history = end(&world).await;
    controller.stop().await;
    history
}

/// Waits until no further events can come, and stops everything. Returns the history.
pub(super) async fn run_to_rest(world: &World) -> History {
    world.environment.sleep(REST_DEADLINE).await;
    end(world).await
}

/// Records that everything is at rest, and stops it.
async fn end(world: &World) -> History {
    world.record_rest();
    for watched in world.informers() {
        watched.stop(world).await;
    }
    world.take_history()
}
