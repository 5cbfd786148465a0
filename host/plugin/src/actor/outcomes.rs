//! Passes the outcomes of events on: to the listener and the log. For calls, and for the writes that follow them.

use std::sync::PoisonError;

use informant_cache::Moment;
use informant_cache::listener::{DeliveryOutcome, DeliveryToken};
use informant_object::{Key, SourceId};

use crate::actor::PluginContext;
use crate::actor::dead_letters::DeadLetterWarnings;
use crate::actor::retries::RetryWarnings;

/// The warnings of one plugin about events that failed.
#[derive(Debug, Default)]
pub(crate) struct FailureWarnings {
    dead_letters: DeadLetterWarnings,
    retries: RetryWarnings,
}

impl PluginContext {
    /// Reports outcomes to the listener. `has_failed`: one of them is a failure that is worth a warning.
    pub(crate) fn answer(
        &self,
        outcomes: impl IntoIterator<Item = (DeliveryToken, DeliveryOutcome)>,
        has_failed: bool,
        now: Moment,
    ) {
        let dead = self.listener.consumer().done_batch(outcomes, now);
        if dead == 0 && !has_failed {
            return;
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if dead > 0 {
            warnings.dead_letters.count(self, dead, now);
        }
        if has_failed {
            warnings.retries.failed(self, now);
        }
    }

    /// Logs that an event failed, at level debug. A trap is logged with the loss of the instance.
    pub(crate) fn log_failure(
        &self,
        source: SourceId,
        key: Option<&Key>,
        event: &'static str,
        attempt: u32,
        outcome: &DeliveryOutcome,
    ) {
        let (DeliveryOutcome::Permanent(error)
        | DeliveryOutcome::Retryable(error)
        | DeliveryOutcome::RetryAfter(error, _)) = outcome
        else {
            return;
        };
        let plugin: &str = self.counters.plugin();
        // A removed source no longer has a name.
        let info = self.host.catalog.info(source);
        let informer = info.as_ref().map(|info| info.informer.as_str());
        let cluster = info.as_ref().map(|info| info.cluster.as_str());
        let cluster = cluster.filter(|cluster| !cluster.is_empty());
        let (key, result) = (key.map(ToString::to_string), outcome.as_str());
        tracing::debug!(
            plugin,
            informer,
            cluster,
            event,
            key,
            attempt,
            result,
            error,
            "handler failed"
        );
    }
}
