//! [`Informer`]: an informer with a single handler.
//!
//! It has the same reflector, loop and store as a [`SharedInformer`], but its handler may block them, because no other
//! handler depends on them.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, Environment, EventHandler, IndexFunc, Snapshot};
use informant_object::SourceId;

use crate::cluster_client::ClusterClient;
use crate::handler::Registration;
use crate::metrics::InformerMetrics;
use crate::shared_informer::{
    AddIndexersError, InformerOptions, InformerStopped, SharedInformer, StartError, StopReport,
};
use crate::spec::SourceSpec;
use crate::status::ReflectorStatus;

/// What happens to events when a slow handler has reached its limits ([`ListenerOptions`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Newer events are merged with the queued ones of the same object: the handler misses intermediate steps, never
    /// the last state. The store stays current.
    #[default]
    Fold,
    /// The informer waits for the handler, and eventually stops reading its connection. The handler is called for each
    /// event, and the store lags while the handler is slow. There are two limits. The changes of an object before it
    /// was first delivered become one event: its state. And an API server whose watch is not read for long ends it;
    /// the handler then receives the *difference*.
    Block,
}

/// The handler of an [`Informer`].
pub struct InformerHandler {
    /// The handler itself.
    pub handler: Box<dyn EventHandler>,
    /// Its limits, resync and retries.
    pub options: ListenerOptions,
    /// What happens at the limits.
    pub when_full: WhenFull,
}

/// One source with one handler: lists and watches it, stores its objects with their indexes, and notifies the handler
/// of changes.
///
/// Source: client-go `NewInformer`, `NewIndexerInformer`, `NewInformerWithOptions`, which return a store and a
/// controller; here both are one.
#[derive(Debug)]
pub struct Informer {
    shared: SharedInformer,
    registration: Registration,
}

impl Informer {
    /// Starts an informer on the source that `spec` describes; see [`SharedInformer::start_with`] for the requirements
    /// on `client`.
    ///
    /// # Errors
    /// [`StartError`] if the specification is invalid. An unreachable cluster is not an error but a state.
    pub fn start(
        spec: SourceSpec,
        client: impl Into<ClusterClient>,
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

    /// The handler's registration: whether it is synced, what failed.
    #[must_use]
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// The objects as last published, with their indexes.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// The source's number in the catalog.
    #[must_use]
    pub fn source(&self) -> SourceId {
        self.shared.source()
    }

    /// The status of the source.
    #[must_use]
    pub fn status(&self) -> ReflectorStatus {
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
