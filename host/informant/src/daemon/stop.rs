//! Stops a daemon in order.
//!
//! Supervisors stop first, so that nothing new starts. Then informers stop receiving and deliver what they accepted;
//! then plugins stop. The admin server stops last, so that it can show the progress. Events that are not delivered
//! within the deadline are counted and logged. Keys that wait for a retry are not waited for.
//!
//! A disk that hangs can hold this up without end. `informant run` then ends the process
//! ([`SignalThread`](crate::signals::SignalThread)).

use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use super::status_registry::{InformerPhase, PluginPhase};
use super::{Daemon, Presence};
use crate::logging::cluster_field;

/// How long a graceful stop may take.
pub(crate) const STOP_MAX: Duration = Duration::from_secs(10);

/// The part of the deadline that is reserved for what follows delivery.
const AFTER_DELIVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShutdownReport {
    /// Events that were accepted but not delivered before the deadline.
    pub undelivered: u64,
    /// Keys of these events that waited for a retry, which a stop does not wait for.
    pub retrying: u64,
}

impl Daemon {
    /// Stops everything within `deadline`. Accepted events are delivered, or counted in the report.
    pub async fn stop(self, deadline: Duration) -> ShutdownReport {
        let until = Instant::now() + deadline;
        let before = self.discarded();
        self.registry.set_stopping();
        if let Presence::Replica(replica) = &self.presence {
            // First, so that another replica acts soon. What was accepted here and not handled is handled there.
            let _activity = self.activities.begin("Lease: hand over");
            replica.leave(until - AFTER_DELIVERY).await;
        }
        self.stop.cancel();
        self.supervisors.close();
        {
            let _activity = self.activities.begin("supervisors: end");
            self.supervisors.wait().await;
        }
        self.end_writes(until);
        let retrying = self.stop_informers(until - AFTER_DELIVERY).await;
        self.stop_plugins(until).await;
        let durables = self.durables.clone();
        let activity = self.activities.begin("state database: close");
        // Waits for the disk; the task is lost only while the process stops.
        let _ = tokio::task::spawn_blocking(move || durables.close()).await;
        drop(activity);
        if let Presence::Announced(announcer) = &self.presence {
            // Not earlier: until here this process had effects.
            let _activity = self.activities.begin("Lease: release");
            announcer.end((until - Instant::now()).max(AFTER_DELIVERY)).await;
        }
        let undelivered = self.discarded() - before;
        self.admin.stop();
        drop(self.admin_socket);
        self.health.stop();
        ShutdownReport { undelivered, retrying }
    }

    /// Tells the plugins by when their deferred writes must have ended.
    fn end_writes(&self, until: Instant) {
        for entry in self.registry.plugins() {
            if let PluginPhase::Running(plugin) = entry.phase() {
                plugin.end_writes(until - Instant::now());
            }
        }
    }

    /// How many events listeners have dropped so far.
    fn discarded(&self) -> u64 {
        let listeners = self
            .registry
            .plugins()
            .into_iter()
            .filter_map(|entry| match entry.phase() {
                PluginPhase::Running(plugin) => Some(plugin.listener().control().stats().counters.discarded),
                _ => None,
            });
        listeners.sum()
    }

    /// Returns how many keys waited for a retry.
    async fn stop_informers(&self, until: Instant) -> u64 {
        let informers = self.registry.informers();
        let statuses = informers.iter().flat_map(|entry| entry.by_cluster().into_values());
        let running = statuses.filter_map(|status| match status.phase {
            InformerPhase::Running(running) => Some(running.shared.clone()),
            _ => None,
        });
        let retiring = std::mem::take(&mut *self.registry.retiring());
        let stopping = running.chain(retiring).map(|informer| async move {
            let _activity = self.activities.begin(match &*informer.spec().source.cluster {
                "" => format!("informer {}", informer.name()),
                cluster => format!("informer {} in cluster {cluster}", informer.name()),
            });
            let report = informer.stop(until - Instant::now()).await;
            tracing::debug!(
                informer = informer.name(),
                cluster = cluster_field(&informer.spec().source.cluster),
                reason = "shutdown",
                undelivered = report.undelivered,
                "informer stopped"
            );
            report.retrying
        });
        let retrying = join_all(stopping).await;
        self.registry.set_stopped();
        retrying.into_iter().sum()
    }

    async fn stop_plugins(&self, until: Instant) {
        let stopping = self.registry.plugins().into_iter().map(|entry| async move {
            if let PluginPhase::Running(plugin) = entry.phase() {
                let _activity = self.activities.begin(format!("plugin {}", entry.name));
                let left = (until - Instant::now()).max(AFTER_DELIVERY);
                let stopped = plugin.stop(left).await;
                tracing::debug!(plugin = %entry.name, undelivered = stopped.undelivered, "plugin stopped");
            }
        });
        join_all(stopping).await;
    }
}
