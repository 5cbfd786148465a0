//! What is done when a version's trial ends: a good one is noted, a bad one gives way to the last good one.

use super::{Plugin, lock};
use crate::described::Described;
use crate::error::LoadError;
use crate::plugin::{Swapped, Takeover};
use crate::status::PluginState;
use crate::trial::Verdict;

impl Plugin {
    /// Waits until the version that runs has proved good, or bad: see [`TRIAL`](crate::limits::TRIAL). To be followed
    /// by [`conclude_trial`](Self::conclude_trial), by one caller at a time, who may stop waiting at any point.
    pub async fn trial_ends(&self) {
        let shared = &self.0.shared;
        shared.trial.ends(&*shared.host.env).await;
    }

    /// Acts on a trial that has ended. A good version is noted as the one to go back to. One that came to quarantine is
    /// replaced by the last good one, which is then shown the whole cache: what it remembered went with it. Returns the
    /// swap, if one was made; its feed and roles are to be looked at as after any other.
    ///
    /// Nothing is gone back to if no other version is known to be good, or if `sha256` pins this one.
    pub async fn conclude_trial(&self) -> Option<Swapped> {
        let _one_at_a_time = self.0.swapping.lock().await;
        let shared = &self.0.shared;
        match shared.trial.verdict(shared.now())? {
            Verdict::Good => {
                self.note_good().await;
                None
            }
            Verdict::Failed { because } => self.roll_back(&because).await,
        }
    }

    /// It was loaded because its file was `refused`.
    pub(crate) fn is_rolled_back(&self, refused: &LoadError) {
        let shared = &self.0.shared;
        shared.trial.spare();
        let good = self.digest().short();
        tracing::error!(plugin = self.name(), %good, %refused, "a component is refused; the last good one runs");
        shared.note_roll_back(format!("{good}, the last good version, runs: {refused}"));
    }

    async fn note_good(&self) {
        let shared = &self.0.shared;
        if shared.fares().state() == PluginState::Quarantined {
            return;
        }
        let version = lock(&self.0.version).clone();
        let digest = version.component.digest;
        *lock(&self.0.good) = Some(version);
        shared.host.note_good(&shared.terms().spec, digest).await;
    }

    async fn roll_back(&self, because: &str) -> Option<Swapped> {
        let shared = &self.0.shared;
        let plugin: &str = shared.counters.plugin();
        let failed = self.digest();
        let Some(version) = self.last_good().await else {
            tracing::error!(plugin, digest = %failed.short(), because, "a new version failed, and there is no other one to go back to");
            return None;
        };
        match self.exchange(shared.terms(), version, Takeover::RollBack).await {
            Ok(swapped) => {
                let good = swapped.digest.short();
                let text = format!("rolled back from {} to {good}: {because}", failed.short());
                tracing::error!(plugin, failed = %failed.short(), %good, because, "a new version failed; the last good one runs again");
                shared.note_roll_back(text);
                Some(swapped)
            }
            Err(problem) => {
                tracing::error!(plugin, failed = %failed.short(), because, %problem, "a new version failed, and the last good one is refused too");
                None
            }
        }
    }

    /// The last good version, if it is another one than runs now and nothing forbids it.
    async fn last_good(&self) -> Option<Described> {
        let shared = &self.0.shared;
        let (running, terms) = (self.digest(), shared.terms());
        let fits = |version: &Described| {
            let digest = version.component.digest;
            digest != running && terms.spec.sha256.is_none_or(|pinned| pinned == digest)
        };
        let kept = lock(&self.0.good).clone().filter(fits);
        if kept.is_some() {
            return kept;
        }
        shared.host.last_good(&terms.spec).await.filter(fits)
    }
}
