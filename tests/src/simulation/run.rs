//! One run: a seed in, a history and its violations out.

use std::future::Future;
use std::time::Duration;

use informant_cache::Environment;

use super::checker::{self, Violation};
use super::dice::Dice;
use super::history::History;
use super::schedule::Schedule;
use super::world::{Setting, World};

/// How long everything may take to come to rest once trouble has ended, in simulated time: longer than the longest
/// back-off of a listener (5 min), the longest life of a watch (10 min) and its silence together.
pub(super) const REST: Duration = Duration::from_secs(1_800);

/// How a run went.
pub struct Run {
    /// All that happened.
    pub history: History,
    /// What broke the contract.
    pub violations: Vec<Violation>,
}

/// Runs the history that `seed` makes, from the beginning to rest.
///
/// # Panics
/// If no runtime can be made, or the world itself breaks down.
#[must_use]
pub fn run(seed: u64) -> Run {
    run_world(play(seed))
}

/// Runs a world under paused time and judges its history.
pub(super) fn run_world(world: impl Future<Output = History>) -> Run {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing");
    let history = runtime.block_on(world);
    let violations = checker::check(&history);
    Run { history, violations }
}

async fn play(seed: u64) -> History {
    let mut dice = Dice::new(seed);
    let setting = Setting {
        history_events_max: dice.pick(&[3, 20, 10_000]),
        paging_at_zero: dice.percent(50),
        server_knows_watch_list: dice.percent(80),
        ..Setting::default()
    };
    let world = World::new(seed, &setting);
    Schedule::new(world.clone(), dice).play().await;
    come_to_rest(&world).await
}

/// Waits until nothing more can come, and ends everything. Returns what happened.
pub(super) async fn come_to_rest(world: &World) -> History {
    world.environment.sleep(REST).await;
    world.record_rest();
    for watched in world.informers() {
        watched.stop(world).await;
    }
    world.take_history()
}
