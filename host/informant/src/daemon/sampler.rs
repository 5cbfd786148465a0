//! Adds a point to the [history](super::history) every 10 s.

use jiff::Timestamp;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::history::STEP;
use super::status_registry::{PluginPhase, StatusRegistry};

/// Samples until the stop begins.
pub(super) async fn run(registry: StatusRegistry, stop: CancellationToken) {
    let mut step = interval(STEP);
    step.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stop.run_until_cancelled(step.tick()).await.is_some() {
        let entries = registry.plugins();
        let running = entries.iter().filter_map(|entry| match entry.phase() {
            PluginPhase::Running(plugin) => Some(plugin),
            _ => None,
        });
        let plugins: Vec<_> = running.collect();
        let cache_bytes = registry.catalog().budget().used_bytes() as u64;
        registry.history().sample(&plugins, cache_bytes, Timestamp::now());
    }
}
