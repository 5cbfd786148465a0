//! Starts a source.

use std::future::Future;
use std::sync::Arc;

use informant_cache::{
    Catalog, DeltaFifo, DeltaFifoOptions, Environment, IndexConflict, IndexFunc, PointerIndex, Source, SourceInfo,
    StoreWriter,
};
use informant_object::{PointerError, Shape, SourceId};
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{EnvironmentRef, InformerOptions, Members, SharedInformer};
use crate::api::{self, ApiError, CollectionRequest, ListQuery};
use crate::cluster_client::{ClusterClient, ClusterLink};
use crate::environment::{BackgroundDropper, TokioEnvironment};
use crate::informer_loop::{InformerLoop, LoopParts};
use crate::metrics::{InformerMetrics, SourceMetrics};
use crate::reflector::{Reflector, ReflectorOptions, ReflectorParts};
use crate::source_name::{SourceName, log};
use crate::spec::SourceSpec;
use crate::status::{ReflectorState, StatusTracker, WatchListUse};
use crate::update_channel::channel;

/// Requests one object of the source that `spec` describes, to learn whether its API server supports the request.
///
/// # Errors
/// [`ApiError`] as the source would show it: an unsupported field selector has the cause
/// [`UnsupportedSelector`](crate::ApiErrorCause::UnsupportedSelector).
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn try_request(client: &Client, spec: &SourceSpec) -> Result<(), ApiError> {
    // Only waits for the response, with a deadline: without randomness, so any seed will do.
    let environment: Arc<dyn Environment> = Arc::new(TokioEnvironment::current(0));
    let query = ListQuery {
        // With version "0" an API server may ignore the limit.
        version: None,
        limit: 1,
        continuation: None,
    };
    let request = request_of(spec).list(&query)?;
    api::open(client, &environment, request).await.map(drop)
}

/// The number of a source's first reflector.
const FIRST_GENERATION: u64 = 1;

/// Why an informer could not be started. Nothing runs then.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A pointer in `drop` is not allowed.
    #[error("informer {informer}: invalid `drop`: {source}")]
    Drop {
        /// The informer.
        informer: String,
        /// What is wrong.
        source: PointerError,
    },
    /// Two indexes with the same name, or one with the name of a built-in one.
    #[error("informer {informer}: {source}")]
    Index {
        /// The informer.
        informer: String,
        /// What is wrong.
        source: IndexConflict,
    },
    /// Its durable storage could not be opened.
    #[error("informer {informer}: cannot open its durable storage: {source}")]
    Durable {
        /// The informer.
        informer: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl SharedInformer {
    /// Starts an informer on the source that `spec` describes.
    ///
    /// `client` is a [`Client`], or a [`ClusterClient`] that the sources of a cluster share. It must not retry by
    /// itself (`Config::default_retry = false`): the informer paces retries, and a lower layer that retries hides
    /// failures from it. Nor may it decompress watches; they are requested uncompressed.
    ///
    /// # Errors
    /// [`StartError`] if the specification is invalid. An unreachable cluster is not an error but a state.
    pub fn start(
        spec: SourceSpec,
        client: impl Into<ClusterClient>,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        metrics: &InformerMetrics,
    ) -> Result<Self, StartError> {
        Self::start_with(spec, client, environment, catalog, metrics, InformerOptions::default())
    }

    /// Like [`start`](Self::start), with options.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        spec: SourceSpec,
        client: impl Into<ClusterClient>,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        metrics: &InformerMetrics,
        options: InformerOptions,
    ) -> Result<Self, StartError> {
        let register = |info| catalog.add_source(info);
        Self::start_in(spec, client, environment, &catalog, register, metrics, options)
    }

    /// Like [`start_with`](Self::start_with), but not among the informer's sources until [`Catalog::swap_listed`] shows
    /// it.
    pub(crate) fn start_staged(
        spec: SourceSpec,
        client: impl Into<ClusterClient>,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        metrics: &InformerMetrics,
        options: InformerOptions,
    ) -> Result<Self, StartError> {
        let register = |info| catalog.add_staged_source(info);
        Self::start_in(spec, client, environment, &catalog, register, metrics, options)
    }

    fn start_in(
        spec: SourceSpec,
        client: impl Into<ClusterClient>,
        environment: Arc<dyn Environment>,
        catalog: &Catalog,
        register: impl FnOnce(SourceInfo) -> SourceId,
        metrics: &InformerMetrics,
        options: InformerOptions,
    ) -> Result<Self, StartError> {
        let client = client.into();
        let shape = shape_of(&spec)?;
        let id = register(info_of(&spec));
        let indexes = indexes_of(&spec, options.index_funcs);
        let native_indexes: Vec<_> = indexes.iter().map(|index| (index.name().to_owned(), 0)).collect();
        let store = store_of(catalog, id, &spec, indexes)?;
        let name = Arc::new(SourceName::of(&spec));
        let source = catalog.source(id).expect("the source was just added");
        if spec.of_pattern {
            source.set_of_pattern();
        }
        source.add_shape(Arc::new(shape.clone()));
        let metrics = metrics_of(&spec, metrics, &native_indexes);
        let status = Arc::new(status_of(&name, &source, &metrics, &environment, &options.reflector));
        let dropper = BackgroundDropper::new(&*environment);
        let (sender, updates) = channel(options.channel_bytes_max, Arc::clone(&metrics));
        let (control, commands) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let reflector_cancel = cancel.child_token();
        let informer_loop = InformerLoop::new(LoopParts {
            name: name.clone(),
            source: id,
            namespace: spec.namespace.clone(),
            fifo: fifo_of(&spec, environment.random()),
            store,
            updates,
            control: commands,
            environment: Arc::clone(&environment),
            status: Arc::clone(&status),
            metrics: Arc::clone(&metrics),
            dropper: dropper.clone(),
            native_indexes,
            durable: options.durable.clone(),
            reflector: reflector_cancel.clone(),
        });
        let reflector = Reflector::new(ReflectorParts {
            name: name.clone(),
            request: request_of(&spec),
            shape,
            link: ClusterLink {
                cluster: client.clone(),
                environment: Arc::clone(&environment),
                metrics: Arc::clone(&metrics),
            },
            environment: Arc::clone(&environment),
            source: Arc::clone(&source),
            updates: sender,
            status: Arc::clone(&status),
            metrics: Arc::clone(&metrics),
            options: options.reflector,
            generation: FIRST_GENERATION,
            probation: None,
        });
        let (ended, loop_ended) = watch::channel(false);
        spawn_loop(&environment, informer_loop, &status, &name, ended);
        spawn_reflector(&environment, reflector, &status, FIRST_GENERATION, reflector_cancel);
        Ok(Self {
            name,
            client,
            source,
            catalog: catalog.clone(),
            environment: EnvironmentRef(environment),
            control,
            status,
            metrics,
            dropper,
            cancel,
            durable: options.durable,
            deletes_queued: watch::Sender::new(false),
            loop_ended,
            channel_bytes_max: options.channel_bytes_max,
            reconfigure_lock: tokio::sync::Mutex::default(),
            members: std::sync::Mutex::new(Members::of(spec, options.reflector)),
        })
    }
}

impl Members {
    /// No consumers yet.
    fn of(spec: SourceSpec, reflector: ReflectorOptions) -> Self {
        Self {
            spec: Arc::new(spec),
            reflector,
            generation: FIRST_GENERATION,
            handlers: Vec::new(),
            listeners: Vec::new(),
            stopped: false,
        }
    }
}

fn shape_of(spec: &SourceSpec) -> Result<Shape, StartError> {
    spec.shape().map_err(|source| StartError::Drop {
        informer: spec.informer.clone(),
        source,
    })
}

fn metrics_of(spec: &SourceSpec, metrics: &InformerMetrics, native_indexes: &[(String, u64)]) -> Arc<SourceMetrics> {
    let metrics = metrics.source(&spec.informer, &spec.cluster);
    for (index, _) in native_indexes {
        metrics.set_index_attached(index, true);
    }
    Arc::new(metrics)
}

fn status_of(
    name: &Arc<SourceName>,
    source: &Arc<Source>,
    metrics: &Arc<SourceMetrics>,
    environment: &Arc<dyn Environment>,
    reflector: &ReflectorOptions,
) -> StatusTracker {
    let status = StatusTracker::new(
        Arc::clone(name),
        Arc::clone(source),
        Arc::clone(metrics),
        Arc::clone(environment),
    );
    status.begin_generation(FIRST_GENERATION);
    if !reflector.watch_list {
        status.set_watch_list(WatchListUse::Off);
    }
    status
}

/// The store of a new source. If its indexes conflict, the source is removed again.
fn store_of(
    catalog: &Catalog,
    id: SourceId,
    spec: &SourceSpec,
    indexes: Vec<Box<dyn IndexFunc>>,
) -> Result<StoreWriter, StartError> {
    let mut store = StoreWriter::publishing_to(catalog, id).expect("the source was just added");
    if let Err(source) = store.add_indexers(indexes) {
        catalog.remove_source(id);
        let informer = spec.informer.clone();
        return Err(StartError::Index { informer, source });
    }
    Ok(store)
}

fn fifo_of(spec: &SourceSpec, hash_seed: u64) -> DeltaFifo {
    DeltaFifo::new(DeltaFifoOptions {
        skip_unchanged: !spec.relist_notify_unchanged,
        hash_seed,
    })
}

fn spawn_loop(
    environment: &Arc<dyn Environment>,
    informer_loop: InformerLoop,
    status: &Arc<StatusTracker>,
    name: &Arc<SourceName>,
    ended: watch::Sender<bool>,
) {
    let end_guard = TaskEndGuard {
        status: Arc::clone(status),
        name: Arc::clone(name),
        task: "informer loop",
        generation: None,
    };
    let task = async move {
        informer_loop.run().await;
        drop(end_guard);
        ended.send_replace(true);
    };
    environment.spawn("informer-loop", Box::pin(task));
}

pub(super) fn spawn_reflector(
    environment: &Arc<dyn Environment>,
    reflector: Reflector,
    status: &Arc<StatusTracker>,
    generation: u64,
    cancel: CancellationToken,
) {
    let end_guard = TaskEndGuard {
        status: Arc::clone(status),
        name: reflector.name(),
        task: "reflector",
        generation: Some(generation),
    };
    let task = async move {
        // Dropping the reflector's future ends whatever it waits for: a connection, an answer, a pause.
        or_cancelled(&cancel, reflector.run()).await;
        drop(end_guard);
    };
    environment.spawn("reflector", Box::pin(task));
}

async fn or_cancelled(cancel: &CancellationToken, task: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = task => {}
    }
}

/// Reports that a task is over, even if it panicked: a source without a task must not look alive.
struct TaskEndGuard {
    status: Arc<StatusTracker>,
    name: Arc<SourceName>,
    task: &'static str,
    /// The reflector's number: a replaced reflector, or one on probation, does not change the source's state.
    generation: Option<u64>,
}

impl Drop for TaskEndGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            log!(
                error,
                self.name,
                task = self.task,
                "source stopped: its task panicked, which is a bug in Informant"
            );
            let text = format!(
                "the {} panicked, which is a bug in Informant; the source is no longer served",
                self.task
            );
            self.status.set_error(text);
        }
        if self
            .generation
            .is_none_or(|generation| self.status.is_current(generation))
        {
            self.status.set_reflector_state(ReflectorState::Stopped);
        }
    }
}

fn info_of(spec: &SourceSpec) -> SourceInfo {
    SourceInfo {
        informer: spec.informer.clone(),
        cluster: spec.cluster.clone(),
        api_version: spec.resource.api_version(),
        kind: spec.kind.clone(),
        resource: format!("{}/{}", spec.resource.api_version(), spec.resource.plural),
        namespace: spec.namespace.clone(),
    }
}

pub(super) fn indexes_of(spec: &SourceSpec, more: Vec<Box<dyn IndexFunc>>) -> Vec<Box<dyn IndexFunc>> {
    let pointers = spec
        .indexes
        .iter()
        .map(|(name, pointer)| -> Box<dyn IndexFunc> { Box::new(PointerIndex::new(name.clone(), pointer.clone())) });
    pointers.chain(more).collect()
}

pub(super) fn request_of(spec: &SourceSpec) -> CollectionRequest {
    let text = |selector: Option<String>| selector.unwrap_or_default();
    CollectionRequest {
        path: spec.path(),
        label_selector: text(spec.label_selector.as_ref().map(ToString::to_string)),
        field_selector: text(spec.field_selector.as_ref().map(ToString::to_string)),
        metadata_only: spec.metadata_only,
    }
}
