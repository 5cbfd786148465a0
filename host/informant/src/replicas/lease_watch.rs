//! Watches the Leases of a namespace with an informer, and passes those of one group on.

use std::sync::Arc;

use informant_cache::listener::ListenerOptions;
use informant_cache::{Catalog, Environment, EventContext, EventHandler, HandlerError, SourceState};
use informant_informer::{ClusterClient, InformerMetrics, InformerStopped, SharedInformer, SourceSpec, StartError};
use informant_lease::Seen;
use informant_object::{KeyRef, Object};
use informant_spec::GroupVersionResource;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::sync::mpsc;

use super::lease_api::record;

/// A Lease of the group that was seen, or seen to be gone.
pub(super) struct SeenLease {
    pub(super) name: String,
    pub(super) seen: Seen,
}

/// News of a group's Leases.
pub(super) enum LeaseNews {
    Seen(SeenLease),
    /// All Leases that there were at first have been seen.
    Synced,
}

/// The informer of the Leases in one namespace. It stops when it is dropped.
pub(super) struct LeaseWatch {
    informer: SharedInformer,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LeaseWatchError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Stopped(#[from] InformerStopped),
}

struct Forward {
    group: Arc<str>,
    news: mpsc::UnboundedSender<LeaseNews>,
}

impl LeaseWatch {
    /// Starts to watch the Leases in `namespace`; those of `group` are sent to `news`. Its cache is of no use to
    /// anybody else, so it has a catalog and metrics of its own.
    pub(super) fn start(
        client: ClusterClient,
        (namespace, group): (&str, Arc<str>),
        environment: Arc<dyn Environment>,
        news: mpsc::UnboundedSender<LeaseNews>,
    ) -> Result<LeaseWatch, LeaseWatchError> {
        let resource = GroupVersionResource::new("coordination.k8s.io", "v1", "leases");
        let spec = SourceSpec {
            namespace: Some(namespace.to_owned()),
            ..SourceSpec::new("leases", resource, "Lease")
        };
        let metrics = InformerMetrics::default();
        let informer = SharedInformer::start(spec, client, environment, Catalog::new(), &metrics)?;
        informer.add_handler(Box::new(Forward { group, news }), ListenerOptions::default())?;
        Ok(LeaseWatch { informer })
    }

    /// Why the Leases are not watched now, if a request has failed.
    pub(super) fn failure(&self) -> Option<Arc<str>> {
        let status = self.informer.status();
        let (error, _) = status.last_error.filter(|_| status.state != SourceState::Live)?;
        Some(format!("the Leases cannot be listed and watched: {error}").into())
    }
}

impl Forward {
    fn send(&self, name: &str, seen: Seen) {
        let rest = name.strip_prefix(&*self.group);
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
            let name = name.to_owned();
            // Without a receiver the process stops.
            let _ = self.news.send(LeaseNews::Seen(SeenLease { name, seen }));
        }
    }

    fn send_object(&self, object: &Object) -> Result<(), HandlerError> {
        let lease: Lease = serde_json::from_slice(object.json())
            .map_err(|error| HandlerError::Permanent(format!("the Lease cannot be read: {error}")))?;
        self.send(object.name(), Seen::Record(record(&lease)));
        Ok(())
    }
}

impl EventHandler for Forward {
    fn on_add(&mut self, object: &Object, _: &EventContext) -> Result<(), HandlerError> {
        self.send_object(object)
    }

    fn on_update(&mut self, _: Option<&Object>, new: &Object, _: &EventContext) -> Result<(), HandlerError> {
        self.send_object(new)
    }

    fn on_delete(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        _: bool,
        _: &EventContext,
    ) -> Result<(), HandlerError> {
        self.send(key.name, Seen::Absent(last.map(|last| last.version().to_version())));
        Ok(())
    }

    fn on_synced(&mut self, _: &EventContext) -> Result<(), HandlerError> {
        let _ = self.news.send(LeaseNews::Synced);
        Ok(())
    }
}
