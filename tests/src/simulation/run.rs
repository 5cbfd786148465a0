//! One run: a seed in, a history and its violations out.

use std::time::Duration;

use informant_cache::Environment;

use super::checker::{self, Violation};
use super::dice::Dice;
use super::history::{Entry, History};
use super::schedule::Schedule;
use super::world::{Setting, World};

/// How long everything may take to come to rest once trouble has ended, in simulated time: longer than the longest back-off of
/// a listener (5 min), the longest life of a watch (10 min) and its silence together.
const REST: Duration = Duration::from_secs(1_800);

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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing");
    let history = runtime.block_on(play(seed));
    let violations = checker::check(&history);
    Run { history, violations }
}

async fn play(seed: u64) -> History {
    let mut dice = Dice::new(seed);
    let setting = Setting {
        history_events_max: dice.pick(&[3, 20, 10_000]),
        paging_at_zero: dice.percent(50),
        by_watch_list: dice.percent(70),
        server_knows_watch_list: dice.percent(80),
    };
    let world = World::new(seed, &setting);
    Schedule::new(world.clone(), dice).play().await;
    world.environment.sleep(REST).await;
    let [index, scan] = world.index_and_scan();
    world.record(Entry::Quiet {
        cluster: world.cluster(),
        store: world.stored(),
        index,
        scan,
    });
    let report = world.informer.stop(Duration::from_secs(10)).await;
    world.record(Entry::Fault {
        name: format!("stopped: {report:?}"),
    });
    world.take_history()
}
