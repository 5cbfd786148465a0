//! Swapping in another version, and the record of reloads.

use std::path::Path;
use std::sync::Arc;

use informant_cache::IndexFeedHandle;
use informant_spec::Digest;
use tokio::sync::oneshot;

use crate::actor::mailbox::{ActorCommand, CandidateInstance, SwapKind};
use crate::component::manifest::Manifest;
use crate::component::roles::Roles;
use crate::error::{LoadError, LoadProblem};
use crate::instance::config::PluginConfig;
use crate::instance::version::LoadedVersion;
use crate::plugin::instances::Candidates;
use crate::plugin::{Plugin, lock};
use crate::status::PluginState;

/// The result of a swap.
#[derive(Clone, Debug)]
pub struct Swapped {
    /// The version that ran before.
    pub previous: Digest,
    /// The version that runs now.
    pub digest: Digest,
    /// The previous roles. If the plugin wants events now and did not before, attach its listener.
    pub previous_roles: Roles,
    /// The previous manifest, and that of the version that runs now.
    pub manifests: [Arc<Manifest>; 2],
    /// The previous feed. If [`Plugin::index_feed`] returns another one, replace it in the informers.
    pub previous_feed: Option<IndexFeedHandle>,
    /// Bytes of the transferred state; none if none was transferred.
    pub state_bytes: Option<usize>,
}

impl Swapped {
    /// Whether objects of this kind lead to others than before, or are delivered now or were: detach the listener from
    /// their informers, and attach it again.
    #[must_use]
    pub fn leads_otherwise(&self, api_version: &str, kind: &str) -> bool {
        let [before, now] = &self.manifests;
        !before.relates_like(now, api_version, kind)
    }
}

impl Plugin {
    /// Swaps in the instances of `version` with `config`.
    pub(super) async fn swap_in(
        &self,
        config: Arc<PluginConfig>,
        version: LoadedVersion,
        candidates: Candidates,
        kind: SwapKind,
    ) -> Result<Swapped, LoadProblem> {
        let context = &self.0.context;
        let previous_feed = self.index_feed();
        let feed = match (&previous_feed, super::feed(&version)) {
            (Some(old), Some(new)) if old.names() == new.names() => Some(old.clone()),
            (_, new) => new,
        };
        let was_quarantined = context.status().state() == PluginState::Quarantined;
        let Candidates {
            instances,
            changes,
            term,
        } = candidates;
        let (mut state_bytes, mut changes) = (None, Some(changes));
        for (actor, instances) in self.0.actors.iter().zip(instances) {
            let (done, swapped_in) = oneshot::channel();
            let candidate = CandidateInstance {
                config: Arc::clone(&config),
                version: version.clone(),
                instances,
                // The event actor comes first.
                changes: changes.take().unwrap_or_default(),
                term: term.clone(),
                feed: feed.clone(),
                kind,
                done,
            };
            actor.send(ActorCommand::Swap(Box::new(candidate))).await;
            // The event actor alone may reject the swap; nothing has changed in that case.
            let state = swapped_in.await.map_err(|_| LoadProblem::Stopping)??;
            state_bytes = state_bytes.or(state);
        }
        *lock(&self.0.feed) = feed;
        let before = std::mem::replace(&mut *lock(&self.0.version), version.clone());
        if kind == SwapKind::Reload && !was_quarantined {
            // A fallback until a version has passed its probation.
            lock(&self.0.good).get_or_insert(before);
        }
        self.apply_config(&config);
        if context.is_paused() {
            self.interrupt_batch().await;
        }
        let mut status = context.status();
        status.reloads += 1;
        status.rolled_back = None;
        let previous_manifest = std::mem::replace(&mut status.manifest, Arc::clone(&version.manifest));
        status.runner.clone_from(&version.component.runner);
        let previous_roles = std::mem::replace(&mut status.roles, version.component.roles);
        let previous = std::mem::replace(&mut status.digest, version.component.digest);
        if previous != status.digest {
            status.previous_digest = Some(previous);
        }
        Ok(Swapped {
            previous,
            digest: version.component.digest,
            previous_roles,
            manifests: [previous_manifest, version.manifest],
            previous_feed,
            state_bytes,
        })
    }

    /// Records that a version was not loaded, for example because its file cannot be read. The running one continues.
    #[must_use]
    pub fn refuse(&self, error: LoadError) -> LoadError {
        let error = self.note(error);
        self.count(Some(&error));
        error
    }

    /// Clears the last [`refuse`](Self::refuse): the file has the content of the running version again.
    pub fn clear_refusal(&self) {
        let mut status = self.0.context.status();
        let Some(reload) = status.last_reload.take_if(|reload| reload.refused.is_some()) else {
            return;
        };
        status
            .last_error
            .take_if(|(_, error)| reload.refused.as_ref() == Some(error));
    }

    fn count(&self, refused: Option<&LoadError>) {
        let context = &self.0.context;
        context
            .counters
            .reloaded(if refused.is_none() { "ok" } else { "refused" });
        let mut status = context.status();
        status.reloaded(context.now(), refused.map(ToString::to_string));
        if refused.is_none() {
            // It belonged to another version.
            status.last_error = None;
        }
    }

    /// Records the result of a reload.
    pub(super) fn record_result<T>(&self, path: &Path, result: Result<T, LoadProblem>) -> Result<T, LoadError> {
        match result {
            Ok(done) => {
                self.count(None);
                Ok(done)
            }
            Err(problem) => Err(self.refuse(LoadError::new(path, problem))),
        }
    }

    /// Records why a version was rejected.
    fn note(&self, error: LoadError) -> LoadError {
        let context = &self.0.context;
        let error = error.of_plugin(self.name());
        context.status().last_error = Some((context.now(), error.to_string()));
        error
    }
}
