//! Changes the request of a source, and what it stores, while it runs.

use std::sync::Arc;

use informant_cache::IndexConflict;
use informant_object::PointerError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::start::indexes_of;
use super::{InformerStopped, SharedInformer};
use crate::api::CollectionRequest;
use crate::informer_loop::{Candidate, Control, IndexersChange};
use crate::reflector::ReflectorOptions;
use crate::spec::SourceSpec;
use crate::update_channel::channel;

/// Why a change was rejected. The source keeps its previous configuration.
#[derive(Debug, thiserror::Error)]
pub enum ReconfigureError {
    /// The identity of a source cannot change.
    #[error("{what} cannot change while the informer runs: remove it and start another one")]
    AnotherSource {
        /// What differs.
        what: &'static str,
    },
    /// A pointer in `drop` is not allowed.
    #[error("invalid `drop`: {0}")]
    Drop(#[from] PointerError),
    /// Two indexes with the same name, including those of plugins.
    #[error(transparent)]
    Index(#[from] IndexConflict),
    /// Namespaces were given for a cluster-scoped resource.
    #[error("{resource} is cluster-scoped: remove `namespaces`")]
    NotNamespaced {
        /// The resource.
        resource: String,
    },
    /// A source that the change adds could not be started.
    #[error(transparent)]
    Start(#[from] super::StartError),
    /// The informer was stopped.
    #[error(transparent)]
    Stopped(#[from] InformerStopped),
}

impl SharedInformer {
    /// Changes selectors, `drop`, metadata only, native indexes, resync and how the state is fetched, while handlers
    /// stay registered and events flow.
    ///
    /// Returns once the change is accepted; it is applied in the background. Indexes, the default resync (for future
    /// handlers) and `relist_notify_unchanged` change at once. For another request or another shape of objects, a
    /// candidate reflector starts next to the current one: its first list is staged, and then handlers receive the
    /// *difference*, with reason `reconfigured`: objects that no longer belong to the source as deletes with their last
    /// state, new ones as adds, those stored in another shape as updates; unchanged ones are not delivered. Objects of
    /// shards that are no longer read are forgotten without a call, and those of shards that were not read before come
    /// with reason `takeover`: another process calls the handlers for them, or has called them until now. After another
    /// number of shards, all objects come so to handlers of which several processes share the work. While the
    /// new request is refused, too slow, or the cluster unreachable, the previous request stays in use, and
    /// [`ReflectorStatus::reconfiguring`](crate::ReflectorStatus::reconfiguring) has the reason. A later change
    /// replaces one that is in progress.
    ///
    /// # Errors
    /// [`ReconfigureError`]; nothing has changed then.
    pub async fn reconfigure(&self, spec: SourceSpec, reflector: ReflectorOptions) -> Result<(), ReconfigureError> {
        let _guard = self.reconfigure_lock.lock().await;
        let (before, reflector_before) = {
            let members = self.members();
            if members.stopped {
                return Err(InformerStopped.into());
            }
            (Arc::clone(&members.spec), members.reflector)
        };
        validate_identity(&before, &spec)?;
        spec.shape()?;
        if spec.indexes != before.indexes {
            let (done, changed) = oneshot::channel();
            let change = IndexersChange {
                removed: before.indexes.iter().map(|(name, _)| name.clone()).collect(),
                added: indexes_of(&spec, Vec::new()),
            };
            self.send_command(Control::ChangeIndexers(change, done))?;
            changed.await.map_err(|_| InformerStopped)??;
        }
        if spec.relist_notify_unchanged != before.relist_notify_unchanged {
            self.send_command(Control::NotifyUnchanged(spec.relist_notify_unchanged))?;
        }
        let other_request = CollectionRequest::of(&spec) != CollectionRequest::of(&before);
        let shape_changed = !spec.keeps_same_shape(&before);
        if shape_changed && !self.source.shapes().is_empty() {
            self.source.add_shape(Arc::new(spec.shape()?));
        }
        if other_request || shape_changed || reflector != reflector_before {
            self.start_candidate(&spec, reflector)?;
        }
        let spec = Arc::new(spec);
        self.read_spec.set(Arc::clone(&spec), spec.shape()?);
        let mut members = self.members();
        members.spec = spec;
        members.reflector = reflector;
        Ok(())
    }

    /// Waits until no change is in progress.
    ///
    /// # Errors
    /// [`InformerStopped`] if the informer is stopped before.
    pub async fn reconfigured(&self) -> Result<(), InformerStopped> {
        let mut state = self.status.reconfiguring();
        let mut ended = self.loop_ended.clone();
        tokio::select! {
            biased;
            done = state.wait_for(Option::is_none) => done.map(drop).map_err(|_| InformerStopped),
            _ = ended.wait_for(|ended| *ended) => Err(InformerStopped),
        }
    }

    /// Starts a candidate reflector next to the current one.
    fn start_candidate(&self, spec: &SourceSpec, options: ReflectorOptions) -> Result<(), ReconfigureError> {
        let shape = spec.shape()?;
        let generation = {
            let mut members = self.members();
            members.generation += 1;
            members.generation
        };
        let (sender, updates) = channel(self.channel_bytes_max, Arc::clone(&self.metrics));
        let cancel: CancellationToken = self.cancel.child_token();
        self.status.set_reconfiguring(generation);
        self.send_command(Control::StartCandidate(Candidate {
            generation,
            updates,
            spec: Arc::new(spec.clone()),
            reflector: cancel.clone(),
            replaced_other_shards: false,
        }))?;
        self.start_reflector(spec, shape, options, sender, generation, cancel);
        Ok(())
    }
}

/// The identity of a source cannot change; only its request and what it stores.
pub(crate) fn validate_identity(before: &SourceSpec, spec: &SourceSpec) -> Result<(), ReconfigureError> {
    let differing = [
        ("the informer's name", before.informer != spec.informer),
        ("the cluster", before.cluster != spec.cluster),
        (
            "the resource",
            before.resource != spec.resource || before.kind != spec.kind,
        ),
        ("the namespace", before.namespace != spec.namespace),
    ];
    match differing.into_iter().find(|(_, differs)| *differs) {
        Some((what, _)) => Err(ReconfigureError::AnotherSource { what }),
        None => Ok(()),
    }
}
