//! A changed section whose request the API server has not accepted yet. Until then the previous version is in effect.
//!
//! A running informer that can be reconfigured tries the new request itself, and keeps the previous one meanwhile. An
//! informer that has to be replaced continues until a request of the candidate was answered: it may have persisted
//! state and undelivered deletes, which end with it.

use std::sync::Arc;
use std::time::Duration;

use informant_config::InformerSection;

use super::InformerSupervisor;
use super::startup::{DiscoveryRetries, Refusal};
use crate::daemon::section_command::Reply;
use crate::daemon::status_registry::InformerPhase;
use crate::logging::cluster_field;

/// How soon to check whether a running informer has changed; the delay doubles up to [`RECONFIGURED_CHECK_MAX`].
const RECONFIGURED_CHECK_FIRST: Duration = Duration::from_millis(20);

/// The longest delay between these checks.
const RECONFIGURED_CHECK_MAX: Duration = Duration::from_secs(1);

pub(super) struct PendingChange {
    pub(super) section: Arc<InformerSection>,
    /// The running informer has to be replaced; otherwise it tries the new request itself.
    pub(super) replaces: bool,
    /// Answers the command, once.
    pub(super) reply: Option<Reply>,
}

impl PendingChange {
    /// An informer for `section` is to replace the running one.
    pub(super) fn replacement(section: Arc<InformerSection>, reply: Reply) -> Self {
        reply.set_step("waits for the API server to answer its new request");
        Self {
            section,
            replaces: true,
            reply: Some(reply),
        }
    }

    /// The running informer is being reconfigured to `section`.
    pub(super) fn of_running(section: Arc<InformerSection>, reply: Reply) -> Self {
        reply.set_step("waits for the first list of its new request");
        Self {
            section,
            replaces: false,
            reply: Some(reply),
        }
    }

    /// The section whose request the running informer tries.
    pub(super) fn in_place(&self) -> Option<&Arc<InformerSection>> {
        (!self.replaces).then_some(&self.section)
    }
}

impl InformerSupervisor {
    /// Waits until the API server accepts the new request. Shows why it does not.
    pub(super) async fn accepted(&self, change: &mut PendingChange) {
        if change.replaces {
            self.preflighted(&change.section, &mut change.reply).await;
        } else {
            self.reconfigured(&mut change.reply).await;
        }
    }

    /// Tries the request of another informer, as often as a source would.
    async fn preflighted(&self, section: &InformerSection, reply: &mut Option<Reply>) {
        let mut retries = DiscoveryRetries::default();
        loop {
            let connected = self.parts().connected(&mut self.cluster.watch()).await;
            let attempt = async {
                self.parts().preflight(&connected, section).await?;
                if let Some(reply) = reply.as_ref() {
                    reply.set_step("waits for its key file and the state database");
                }
                self.durables.validate(section).await.map_err(Refusal::from)
            };
            let Err(Refusal { reason: error, answer }) = attempt.await else {
                return;
            };
            let backoff = retries.delay(&*self.environment);
            let pause = answer.map_or(backoff, |answer| answer.retry_pause(backoff, self.environment.random()));
            if retries.is_logged(&error, self.environment.now()) {
                let (informer, cluster) = (self.status.name(), cluster_field(&self.status.cluster));
                let (url, attempts, retry_in_seconds) = (&connected.url, retries.attempts, pause.as_secs_f64());
                tracing::warn!(informer, cluster, %url, %error, attempts, retry_in_seconds, "changed section not accepted yet; keeping the previous informer");
            }
            self.answer(reply.take(), Err(error.into()));
            self.environment.sleep(pause).await;
        }
    }

    /// Waits until the running informer uses its new request. It retries, and logs failures, itself.
    async fn reconfigured(&self, reply: &mut Option<Reply>) {
        let mut delay = RECONFIGURED_CHECK_FIRST;
        // An informer that was stopped, because its cluster changed, starts with the new request.
        while let InformerPhase::Running(running) = self.status.phase()
            && let Some(change) = running.shared.reconfiguring()
        {
            if let Some(error) = change.last_error {
                self.answer(reply.take(), Err(error.into()));
            }
            self.environment.sleep(delay).await;
            delay = (delay * 2).min(RECONFIGURED_CHECK_MAX);
        }
    }
}
