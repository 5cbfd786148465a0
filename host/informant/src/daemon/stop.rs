//! How a daemon ends in order.
//!
//! First nothing new begins (keepers), then informers take nothing more in and what they have accepted is delivered,
//! then plugins end, and last the admin server, which shows all of it. What is not delivered within the deadline is
//! counted and said.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::Daemon;
use super::board::{InformerPhase, PluginPhase};

/// How long an orderly stop may take.
pub const STOP_MAX: Duration = Duration::from_secs(10);

/// How much of the deadline is kept for what comes after delivery.
const ENDING: Duration = Duration::from_millis(500);

/// How an orderly stop went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StopReport {
    /// Events that were accepted and not delivered before the deadline.
    pub undelivered: u64,
}

impl Daemon {
    /// Stops everything within `deadline`: what was accepted is delivered, or counted in the report.
    pub async fn stop(self, deadline: Duration) -> StopReport {
        let until = Instant::now() + deadline;
        let before = self.discarded();
        self.board.set_stopping();
        self.stop.cancel();
        self.keepers.close();
        self.keepers.wait().await;
        self.stop_informers(until - ENDING).await;
        self.stop_plugins(until).await;
        let durables = self.durables.clone();
        // The disk is waited for; the task is lost only while the process ends.
        let _ = tokio::task::spawn_blocking(move || durables.close()).await;
        let undelivered = self.discarded() - before;
        self.admin.stop();
        StopReport { undelivered }
    }

    /// What listeners have dropped so far.
    fn discarded(&self) -> u64 {
        let listeners = self
            .board
            .plugins()
            .into_iter()
            .filter_map(|entry| match entry.phase() {
                PluginPhase::Running(plugin) => Some(plugin.listener().stats().counters.discarded),
                _ => None,
            });
        listeners.sum()
    }

    async fn stop_informers(&self, until: Instant) {
        let informers = self.board.informers();
        let places = informers.iter().flat_map(|entry| entry.places().into_values());
        let running = places.filter_map(|place| match place.phase {
            InformerPhase::Running(running) => Some(running.shared.clone()),
            _ => None,
        });
        let leaving = std::mem::take(&mut *self.board.leaving());
        let stopping = running.chain(leaving).map(|informer| async move {
            let report = informer.stop(until - Instant::now()).await;
            tracing::debug!(
                informer = informer.name(),
                clean = report.is_clean(),
                "informer stopped"
            );
        });
        join_all(stopping).await;
        self.board.set_stopped();
    }

    async fn stop_plugins(&self, until: Instant) {
        let stopping = self.board.plugins().into_iter().map(|entry| async move {
            if let PluginPhase::Running(plugin) = entry.phase() {
                let left = (until - Instant::now()).max(ENDING);
                let stopped = plugin.stop(left).await;
                tracing::debug!(plugin = %entry.name, undelivered = stopped.undelivered, "plugin stopped");
            }
        });
        join_all(stopping).await;
    }
}
