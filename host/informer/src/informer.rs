//! An informer with one handler and nobody to share it with: [`Informer`].
//!
//! The same reflector, loop and store as a [`SharedInformer`]'s. What is different is that the one handler may hold
//! them up: nobody else waits.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, Environment, EventHandler, IndexFunc, Snapshot};
use informant_object::SourceId;
use kube::Client;

use crate::handler::Registration;
use crate::metrics::InformerMetrics;
use crate::shared_informer::{
    AddIndexersError, InformerOptions, InformerStopped, SharedInformer, StartError, StopReport,
};
use crate::spec::SourceSpec;
use crate::status::SourceStatus;

/// What becomes of events while the handler is slow and its limits ([`ListenerOptions`]) are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Newer events fold into those that wait for their object: the handler misses steps in between, never the last
    /// state. The store is always new.
    #[default]
    Fold,
    /// The informer waits for the handler, and in the end does not read its connection. The handler is called for each
    /// event; the store is behind while it is slow. Two things it is not: what happens to an object before it was first
    /// shown is one event, its state; and an API server that is not read for long ends the watch, after which the
    /// *difference* is told.
    Block,
}

/// The handler of an [`Informer`].
pub struct InformerHandler {
    /// What is called.
    pub handler: Box<dyn EventHandler>,
    /// Its limits, resync and retries.
    pub options: ListenerOptions,
    /// What happens at the limits.
    pub when_full: WhenFull,
}

/// One source with one handler: lists and watches it, keeps its objects with their indexes, and tells the handler what
/// changes.
///
/// Source: client-go `NewInformer`, `NewIndexerInformer`, `NewInformerWithOptions`, which return a store and a
/// controller; here both are one.
#[derive(Debug)]
pub struct Informer {
    shared: SharedInformer,
    registration: Registration,
}

impl Informer {
    /// Starts an informer on the source that `spec` describes; see [`SharedInformer::start_with`] for what is wanted of
    /// `client`.
    ///
    /// # Errors
    /// [`StartError`] if the specification contradicts itself. A cluster that cannot be reached is no error but a
    /// state.
    pub fn start(
        spec: SourceSpec,
        client: Client,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        metrics: &InformerMetrics,
        options: InformerOptions,
        handler: InformerHandler,
    ) -> Result<Self, StartError> {
        let shared = SharedInformer::start_with(spec, client, environment, catalog, metrics, options)?;
        let InformerHandler {
            handler,
            options,
            when_full,
        } = handler;
        let registered = match when_full {
            WhenFull::Fold => shared.add_handler(handler, options),
            WhenFull::Block => shared.add_blocking_handler(handler, options),
        };
        Ok(Self {
            registration: registered?,
            shared,
        })
    }

    /// The handler: whether it is synced, what failed.
    #[must_use]
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// The objects as last published, with their indexes.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// The number under which the catalog knows this source.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.shared.source()
    }

    /// How the source is doing.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        self.shared.status()
    }

    /// Whether the first list is in the store and published.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared.has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced).
    ///
    /// # Errors
    /// [`InformerStopped`] if that comes first.
    pub async fn synced(&self) -> Result<(), InformerStopped> {
        self.shared.synced().await
    }

    /// Adds native indexes, all or none, and fills them from what is stored.
    ///
    /// # Errors
    /// A conflict of names, or [`InformerStopped`].
    pub async fn add_indexers(&self, indexes: Vec<Box<dyn IndexFunc>>) -> Result<(), AddIndexersError> {
        self.shared.add_indexers(indexes).await
    }

    /// Stops in order, within `deadline`, as [`SharedInformer::stop`] does.
    pub async fn stop(&self, deadline: Duration) -> StopReport {
        self.shared.stop(deadline).await
    }
}

impl std::fmt::Debug for InformerHandler {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("InformerHandler")
            .field("options", &self.options)
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}
