//! Starts a source.

use std::sync::Arc;

use informant_cache::{
    Catalog, DeltaFifo, DeltaFifoOptions, Environment, IndexConflict, IndexFunc, PointerIndex, Source, SourceInfo,
    StoreWriter,
};
use informant_object::{PointerError, Shape};
use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::{InformerOptions, Members, SharedInformer};
use crate::api::{self, ApiError, CollectionRequest, ListQuery};
use crate::bodies::{BodyParts, ReadSpec};
use crate::cache_share::CacheShare;
use crate::cluster_client::{ClusterClient, ClusterLink};
use crate::environment::{BackgroundDropper, TokioEnvironment};
use crate::informer_loop::{InformerLoop, LoopParts};
use crate::metrics::{InformerMetrics, SourceMetrics};
use crate::reflector::{
    RECONFIGURE_HOLD_MAX, Reflector, ReflectorOptions, ReflectorParts, ReflectorProbation, SHARDS_HOLD_MAX,
};
use crate::source_name::{SourceName, log};
use crate::spec::SourceSpec;
use crate::status::{ReflectorState, StatusTracker, WatchListUse};
use crate::update_channel::{UpdateSender, channel};

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
    let request = CollectionRequest::of(spec).list(&ListQuery::ONE)?;
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

/// Whether a new source is visible to lookups at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Visibility {
    Public,
    /// Only after [`Catalog::swap_listed`].
    Staged,
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
        let client = client.into();
        Self::start_in(spec, client, environment, catalog, Visibility::Public, metrics, options)
    }

    /// Like [`start_with`](Self::start_with); `visibility` says whether the source is visible to lookups at once.
    pub(crate) fn start_in(
        spec: SourceSpec,
        client: ClusterClient,
        environment: Arc<dyn Environment>,
        catalog: Catalog,
        visibility: Visibility,
        metrics: &InformerMetrics,
        options: InformerOptions,
    ) -> Result<Self, StartError> {
        let spec = Arc::new(spec);
        let shape = spec.shape().map_err(|source| StartError::Drop {
            informer: spec.informer.clone(),
            source,
        })?;
        let indexes = indexes_of(&spec, options.index_funcs);
        let native_indexes: Vec<_> = indexes.iter().map(|index| (index.name().to_owned(), 0)).collect();
        let (source, store) = add_source(&catalog, &spec, visibility, indexes)?;
        let name = Arc::new(SourceName::of(&spec));
        source.add_shape(Arc::new(shape.clone()));
        let metrics = Arc::new(metrics.source(&spec.informer, &spec.cluster));
        for (index, _) in &native_indexes {
            metrics.set_index_attached(index, true);
        }
        let status = status_of(&name, &source, &metrics, &environment, &options.reflector);
        let dropper = BackgroundDropper::new(&*environment);
        let cache = Arc::new(CacheShare::join(vec![catalog.budget().clone(), options.budget]));
        let link = ClusterLink::new(client.clone(), Arc::clone(&environment), Arc::clone(&metrics));
        let read_spec = Arc::new(ReadSpec::new(Arc::clone(&spec), shape.clone()));
        let (sender, updates) = channel(options.channel_bytes_max, Arc::clone(&metrics));
        let (control, commands) = mpsc::unbounded_channel();
        let cancel = CancellationToken::new();
        let reflector_cancel = cancel.child_token();
        let informer_loop = InformerLoop::new(LoopParts {
            name: Arc::clone(&name),
            source: source.id(),
            namespace: spec.namespace.clone(),
            spec: Arc::clone(&spec),
            fifo: fifo_of(&spec, &*environment),
            store,
            updates,
            control: commands,
            environment: Arc::clone(&environment),
            status: Arc::clone(&status),
            metrics: Arc::clone(&metrics),
            dropper: dropper.clone(),
            cache: Arc::clone(&cache),
            bodies: BodyParts {
                source: Arc::clone(&source),
                spec: Arc::clone(&read_spec),
                link,
                metrics: Arc::clone(&metrics),
            },
            native_indexes,
            durable: options.durable.clone(),
            kept_deletes: catalog.kept_deletes().clone(),
            reflector: reflector_cancel.clone(),
        });
        let loop_ended = spawn_loop(&*environment, informer_loop, loop_end_guard(&status, &name));
        let informer = Self {
            name,
            client,
            source,
            catalog,
            environment,
            control,
            status,
            metrics,
            dropper,
            cache,
            read_spec,
            cancel,
            durable: options.durable,
            deletes_queued: watch::Sender::new(false),
            loop_ended,
            channel_bytes_max: options.channel_bytes_max,
            others: Arc::default(),
            reconfigure_lock: tokio::sync::Mutex::default(),
            members: std::sync::Mutex::new(Members::new(&spec, options.reflector)),
        };
        informer.start_reflector(
            &spec,
            shape,
            options.reflector,
            sender,
            FIRST_GENERATION,
            reflector_cancel,
        );
        Ok(informer)
    }

    /// Starts a reflector; every one but the first is on probation.
    pub(super) fn start_reflector(
        &self,
        spec: &SourceSpec,
        shape: Shape,
        options: ReflectorOptions,
        updates: UpdateSender,
        generation: u64,
        cancel: CancellationToken,
    ) {
        let reflector = Reflector::new(ReflectorParts {
            name: Arc::clone(&self.name),
            request: CollectionRequest::of(spec),
            shape,
            link: ClusterLink::new(
                self.client.clone(),
                Arc::clone(&self.environment),
                Arc::clone(&self.metrics),
            ),
            environment: Arc::clone(&self.environment),
            source: Arc::clone(&self.source),
            updates,
            status: Arc::clone(&self.status),
            metrics: Arc::clone(&self.metrics),
            cache: Arc::clone(&self.cache),
            options,
            others: Arc::clone(&self.others),
            generation,
            probation: (generation != FIRST_GENERATION).then(|| ReflectorProbation {
                control: self.control.clone(),
                list_submitted: Arc::default(),
                // Neither what is read now nor what was asked for last is other shards.
                hold_max: match [self.source.snapshot().shards(), self.members().spec.shards.as_ref()]
                    == [spec.shards.as_ref(); 2]
                {
                    true => RECONFIGURE_HOLD_MAX,
                    false => SHARDS_HOLD_MAX,
                },
            }),
        });
        let end_guard = TaskEndGuard {
            status: Arc::clone(&self.status),
            name: Arc::clone(&self.name),
            task: "reflector",
            generation: Some(generation),
        };
        let task = async move {
            // Dropping the reflector's future ends whatever it waits for: a connection, an answer, a pause.
            tokio::select! {
                biased;
                () = cancel.cancelled() => {}
                () = reflector.run() => {}
            }
            drop(end_guard);
        };
        self.environment.spawn("reflector", Box::pin(task));
    }
}

impl Members {
    /// No consumer yet, and the first reflector.
    fn new(spec: &Arc<SourceSpec>, reflector: ReflectorOptions) -> Members {
        Members {
            spec: Arc::clone(spec),
            reflector,
            generation: FIRST_GENERATION,
            handlers: Vec::new(),
            listeners: Vec::new(),
            stopped: false,
        }
    }
}

/// The status of a new source, in its first generation.
fn status_of(
    name: &Arc<SourceName>,
    source: &Arc<Source>,
    metrics: &Arc<SourceMetrics>,
    environment: &Arc<dyn Environment>,
    reflector: &ReflectorOptions,
) -> Arc<StatusTracker> {
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
    Arc::new(status)
}

/// The queue between the reflector and the loop.
fn fifo_of(spec: &SourceSpec, environment: &dyn Environment) -> DeltaFifo {
    DeltaFifo::new(DeltaFifoOptions {
        skip_unchanged: !spec.relist_notify_unchanged,
        hash_seed: environment.random(),
    })
}

/// Runs the loop as a task. The receiver shows `true` once it has ended.
fn spawn_loop(
    environment: &dyn Environment,
    informer_loop: InformerLoop,
    end_guard: TaskEndGuard,
) -> watch::Receiver<bool> {
    let (ended, loop_ended) = watch::channel(false);
    let task = async move {
        informer_loop.run().await;
        drop(end_guard);
        ended.send_replace(true);
    };
    environment.spawn("informer-loop", Box::pin(task));
    loop_ended
}

/// Adds a source to the catalog, and its store. If its indexes conflict, the source is removed again.
fn add_source(
    catalog: &Catalog,
    spec: &SourceSpec,
    visibility: Visibility,
    indexes: Vec<Box<dyn IndexFunc>>,
) -> Result<(Arc<Source>, StoreWriter), StartError> {
    let id = match visibility {
        Visibility::Public => catalog.add_source(info_of(spec)),
        Visibility::Staged => catalog.add_staged_source(info_of(spec)),
    };
    let mut store = StoreWriter::publishing_to(catalog, id).expect("the source was just added");
    store.set_shards(spec.shards);
    if let Err(source) = store.add_indexers(indexes) {
        catalog.remove_source(id);
        let informer = spec.informer.clone();
        return Err(StartError::Index { informer, source });
    }
    let source = catalog.source(id).expect("the source was just added");
    if spec.of_pattern {
        source.set_of_pattern();
    }
    Ok((source, store))
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

fn loop_end_guard(status: &Arc<StatusTracker>, name: &Arc<SourceName>) -> TaskEndGuard {
    TaskEndGuard {
        status: Arc::clone(status),
        name: Arc::clone(name),
        task: "informer loop",
        generation: None,
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
        namespaced: spec.namespaced,
        partial: spec.label_selector.is_some() || spec.field_selector.is_some() || spec.shards.is_some(),
    }
}

pub(super) fn indexes_of(spec: &SourceSpec, more: Vec<Box<dyn IndexFunc>>) -> Vec<Box<dyn IndexFunc>> {
    let pointers = spec
        .indexes
        .iter()
        .map(|(name, pointer)| -> Box<dyn IndexFunc> { Box::new(PointerIndex::new(name.clone(), pointer.clone())) });
    pointers.chain(more).collect()
}
