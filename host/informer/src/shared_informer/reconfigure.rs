//! How what a source asks for, and what it keeps of it, changes while it runs.

use std::sync::Arc;

use informant_cache::IndexConflict;
use informant_object::PointerError;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::start::{indexes_of, request_of, spawn_reflector};
use super::{InformerStopped, SharedInformer};
use crate::informer_loop::{Candidate, Control, IndexersChange};
use crate::reflector::{Probation, Reflector, ReflectorOptions, ReflectorParts};
use crate::spec::SourceSpec;
use crate::update_channel::channel;

/// Why a change was refused. What ran before runs on as it was.
#[derive(Debug, thiserror::Error)]
pub enum ReconfigureError {
    /// Another resource, cluster or namespace is another source.
    #[error("{what} cannot change while it runs: remove the informer and start another one")]
    AnotherSource {
        /// What differs.
        what: &'static str,
    },
    /// What is to be dropped may not be.
    #[error("drop: {0}")]
    Drop(#[from] PointerError),
    /// Two indexes of one name, be it one of a plugin.
    #[error(transparent)]
    Index(#[from] IndexConflict),
    /// A namespace was named for a resource that lives outside of namespaces.
    #[error("{resource} is not in namespaces: name none")]
    NotNamespaced {
        /// The resource.
        resource: String,
    },
    /// A source that was new in the change could not be started.
    #[error(transparent)]
    Start(#[from] super::StartError),
    /// Nobody is there to change.
    #[error(transparent)]
    Stopped(#[from] InformerStopped),
}

impl SharedInformer {
    /// Changes selectors, what is cut, metadata only, native indexes, resync and how the state is obtained, while
    /// handlers stay and events flow.
    ///
    /// Returns once the change is accepted; it takes place in the background. Indexes, the default resync (for handlers
    /// to come) and `relist_notify_unchanged` change at once. Another request, or another shape of objects, is tried
    /// out beside the reflector that runs: its first list is staged, and then the *difference* is told, reason
    /// `reconfigured`: what no longer belongs to the source as deletes with their last state, what is new as adds, what
    /// is kept in another form as updates; what is the same nobody hears of. While the new request is refused,
    /// unreachable or too slow, what ran before goes on, and
    /// [`SourceStatus::reconfiguring`](crate::SourceStatus::reconfiguring) says why. A further change takes the place
    /// of one that is under way.
    ///
    /// # Errors
    /// [`ReconfigureError`]; nothing is changed then.
    pub async fn reconfigure(&self, spec: SourceSpec, reflector: ReflectorOptions) -> Result<(), ReconfigureError> {
        let _turn = self.reconfigure_lock.lock().await;
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
        let other_request = request_of(&spec) != request_of(&before);
        let shape_changed = !spec.keeps_same_shape(&before);
        if other_request || shape_changed || reflector != reflector_before {
            self.start_candidate(&spec, reflector, shape_changed)?;
        }
        let mut members = self.members();
        members.spec = Arc::new(spec);
        members.reflector = reflector;
        Ok(())
    }

    /// Waits until no change is under way.
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

    /// Starts a reflector on probation beside the one that runs.
    fn start_candidate(
        &self,
        spec: &SourceSpec,
        options: ReflectorOptions,
        shape_changed: bool,
    ) -> Result<(), ReconfigureError> {
        let shape = spec.shape()?;
        let generation = {
            let mut members = self.members();
            members.generation += 1;
            members.generation
        };
        // One that is under way may be in yet another shape.
        let shape_changed = shape_changed || self.status.reconfiguring().borrow().is_some();
        let (sender, updates) = channel(self.channel_bytes_max, Arc::clone(&self.metrics));
        let cancel: CancellationToken = self.cancel.child_token();
        self.status.set_reconfiguring();
        self.send_command(Control::StartCandidate(Candidate {
            generation,
            updates,
            reflector: cancel.clone(),
        }))?;
        let reflector = Reflector::new(ReflectorParts {
            name: self.name.clone(),
            request: request_of(spec),
            shape,
            client: self.client.clone(),
            environment: Arc::clone(&self.environment.0),
            source: Arc::clone(&self.source),
            updates: sender,
            status: Arc::clone(&self.status),
            metrics: Arc::clone(&self.metrics),
            options,
            generation,
            probation: Some(Probation {
                control: self.control.clone(),
                shape_changed,
                list_submitted: Arc::default(),
            }),
        });
        spawn_reflector(&self.environment.0, reflector, &self.status, generation, cancel);
        Ok(())
    }
}

/// What a source is cannot change; only what is asked of it and kept of it.
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
