//! Log lines about events under retry, limited in number.
//!
//! Costs nothing while nothing fails.

use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::RetriedKey;

use crate::actor::PluginContext;

/// Between two warnings of one plugin about events under retry: 60 s, as between two batches of warnings about dead
/// letters. Each says how many there are.
pub(crate) const RETRY_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// The warnings of one plugin.
#[derive(Debug, Default)]
pub(crate) struct RetryWarnings {
    last: Option<Moment>,
}

impl RetryWarnings {
    /// Calls failed: logs which events are retried, if a line is due.
    pub(crate) fn failed(&mut self, context: &PluginContext, now: Moment) {
        if !self.is_due(now) {
            return;
        }
        let (retrying, oldest) = context.listener.ledger().retried_keys(1);
        if let Some(oldest) = oldest.first() {
            self.last = Some(now);
            warn_of(context, retrying, oldest, now);
        }
    }

    fn is_due(&self, now: Moment) -> bool {
        self.last.is_none_or(|last| now - last >= RETRY_WARNING_PERIOD)
    }
}

fn warn_of(context: &PluginContext, retrying: usize, oldest: &RetriedKey, now: Moment) {
    let plugin: &str = context.counters.plugin();
    // A removed source no longer has a name.
    let info = context.host.catalog.info(oldest.source);
    let informer = info.as_ref().map(|info| info.informer.as_str());
    let cluster = info.as_ref().map(|info| info.cluster.as_str());
    let RetriedKey {
        event,
        attempts,
        result,
        error,
        ..
    } = oldest;
    tracing::warn!(
        plugin,
        retrying,
        informer,
        cluster = cluster.filter(|cluster| !cluster.is_empty()),
        event,
        key = oldest.key.as_ref().map(ToString::to_string),
        attempts,
        failing_seconds = (now - oldest.since).as_secs(),
        result,
        error,
        code = "events-stuck",
        "events under retry"
    );
}
