//! The end of a version's probation: a good version is recorded, a bad one is rolled back to the last good one.

use super::{Plugin, lock};
use crate::actor::mailbox::SwapKind;
use crate::actor::probation::ProbationResult;
use crate::error::LoadError;
use crate::instance::version::LoadedVersion;
use crate::plugin::Swapped;
use crate::status::PluginState;

impl Plugin {
    /// Waits until the running version has passed or failed its probation. Call
    /// [`conclude_probation`](Self::conclude_probation) afterwards. For one caller at a time; the future may be dropped
    /// at any point.
    pub async fn probation_ends(&self) {
        let context = &self.0.context;
        context.probation.ended(&*context.runtime.env).await;
    }

    /// Acts on a probation that has ended. A good version is recorded as the one to roll back to. A quarantined one is
    /// replaced by the last good one, which receives a replay of the cache, because its state was lost. Returns the
    /// swap, if there was one; handle its feed and roles as after any other swap.
    ///
    /// There is no rollback if no other version is known to be good, or if `sha256` pins this one.
    pub async fn conclude_probation(&self) -> Option<Swapped> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let context = &self.0.context;
        match context.probation.take_result(context.now())? {
            ProbationResult::Passed => {
                self.record_good().await;
                None
            }
            ProbationResult::Failed { because } => self.roll_back(&because).await,
        }
    }

    /// Records that the last good version was loaded because its file was `refused`.
    pub(crate) fn record_rejected_file(&self, refused: &LoadError) {
        let context = &self.0.context;
        context.probation.skip();
        let good = self.digest().short();
        tracing::error!(plugin = self.name(), %good, error = %refused, code = "plugin-not-reloaded", "component rejected; running the last good version");
        context.record_rollback(format!("running {good}, the last good version: {refused}"));
    }

    async fn record_good(&self) {
        let context = &self.0.context;
        if context.status().state() == PluginState::Quarantined {
            return;
        }
        let version = lock(&self.0.version).clone();
        let digest = version.component.digest;
        *lock(&self.0.good) = Some(version);
        context.runtime.record_good(&context.config().spec, digest).await;
    }

    async fn roll_back(&self, because: &str) -> Option<Swapped> {
        let context = &self.0.context;
        let plugin: &str = context.counters.plugin();
        let failed = self.digest();
        let Some(version) = self.last_good().await else {
            if context.status().reloads == 0 {
                tracing::error!(plugin, failed = %failed.short(), reason = because, code = "plugin-quarantined", "plugin failed soon after its start; no earlier version to roll back to");
                return None;
            }
            tracing::error!(plugin, failed = %failed.short(), reason = because, code = "plugin-quarantined", "new version failed; no previous version to roll back to");
            return None;
        };
        let config = context.config();
        let swapped = match self.new_instances(&config, &version, None).await {
            Ok(candidates) => self.swap_in(config, version, candidates, SwapKind::RollBack).await,
            Err(problem) => Err(problem),
        };
        match swapped {
            Ok(swapped) => {
                let good = swapped.digest.short();
                let text = format!("rolled back from {} to {good}: {because}", failed.short());
                tracing::error!(plugin, failed = %failed.short(), %good, reason = because, code = "plugin-not-reloaded", "new version failed; rolled back to the last good version");
                context.record_rollback(text);
                Some(swapped)
            }
            Err(problem) => {
                tracing::error!(plugin, failed = %failed.short(), reason = because, error = %problem, code = "plugin-quarantined", "new version failed; the last good version was rejected, too");
                None
            }
        }
    }

    /// The last good version, if it is not the running one and `sha256` allows it.
    async fn last_good(&self) -> Option<LoadedVersion> {
        let context = &self.0.context;
        let (running, config) = (self.digest(), context.config());
        let fits = |version: &LoadedVersion| {
            let digest = version.component.digest;
            digest != running && config.spec.sha256.is_none_or(|pinned| pinned == digest)
        };
        let kept = lock(&self.0.good).clone().filter(fits);
        if kept.is_some() {
            return kept;
        }
        context.runtime.last_good(&config).await.filter(fits)
    }
}
