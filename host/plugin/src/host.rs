//! The plugin host: what all plugins share, and the steps from a file to a running plugin.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use informant_cache::{Catalog, Environment, IndexFeedHandle, ListenerHandle, listener};
use informant_spec::{Content, ContentSource, Digest, INSTANCES_MAX, Language, Limits, OnFailure, PluginSpec};
use prometheus_client::metrics::counter::Counter;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::actor::PluginContext;
use crate::actor::config::PluginConfig;
use crate::actor::events::swap::{instance_count, source_identity};
use crate::artifacts::Artifacts;
use crate::artifacts::last_good::LastGood;
use crate::component::binary::SdkInfo;
use crate::component::context::DescribeContext;
use crate::component::file;
use crate::component::manifest::Manifest;
use crate::component::script::{Script, ScriptRunner};
use crate::component::{DENIED_IN_DESCRIBE, LoadedVersion, PluginComponent};
use crate::engine::compile::{CompileQueue, Compiler};
use crate::engine::scheduler::CpuScheduler;
use crate::engine::ticker::Ticker;
use crate::error::{HostError, LoadError, LoadProblem};
use crate::hostcalls::HostAccess;
use crate::hostcalls::http_client::HttpClient;
use crate::hostcalls::key_value::KeyValue;
use crate::hostcalls::kube_api::KubeApi;
use crate::instance::guest::{self, GuestState, InstanceResources};
use crate::instance::wasi::WasiMode;
use crate::instance::watchdog::CallWatchdog;
use crate::plugin::Plugin;
use crate::{PluginMetrics, Roles, engine};

/// The parts of a host.
pub struct HostOptions {
    /// The directory for compiled components. Created if it does not exist; only this user may write into it.
    pub cache_dir: PathBuf,
    /// The runtime for guests only: a guest holds a worker for up to 2 ms at a time. Its clock must be that of the
    /// informers, or lags are wrong.
    pub env: Arc<dyn Environment>,
    /// The same runtime, for blocking work (reading, compiling) and child processes.
    pub handle: Handle,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// The sources that plugins may read.
    pub catalog: Catalog,
    /// Its metrics.
    pub metrics: PluginMetrics,
    /// How plugins act on the cluster; none where they are only inspected.
    pub kube: Option<Arc<dyn KubeApi>>,
    /// What plugins remember; none: `kv` is denied.
    pub key_value: Option<Arc<dyn KeyValue>>,
    /// How plugins send HTTP requests; none where they are only inspected.
    pub http: Option<Arc<dyn HttpClient>>,
    /// The component that runs scripts; none: scripts are rejected.
    pub script_runner: Option<Cow<'static, [u8]>>,
}

/// Loads plugins. Cheap to clone.
#[derive(Clone)]
pub struct PluginHost(Arc<HostInner>);

pub(crate) struct HostInner {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) catalog: Catalog,
    pub(crate) metrics: PluginMetrics,
    pub(crate) kube: Option<Arc<dyn KubeApi>>,
    pub(crate) key_value: Option<Arc<dyn KeyValue>>,
    pub(crate) http: Option<Arc<dyn HttpClient>>,
    /// Where blocking work runs. None: where it is called, because none of it takes time.
    pub(crate) blocking_pool: Option<Handle>,
    pub(crate) linker: Linker<GuestState>,
    pub(crate) artifacts: Artifacts,
    pub(crate) script_runner: ScriptRunner,
    pub(crate) last_good: LastGood,
    pub(crate) scheduler: Arc<CpuScheduler>,
}

/// What is known of a component without running it.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its roles.
    pub roles: Roles,
    /// The interfaces it imports.
    pub imports: Vec<String>,
    /// Whether it is a script, or contains one: then it imports all interfaces.
    pub runs_script: bool,
    /// What a script imports by name from "informant", as far as its text shows.
    pub script_imports: Vec<String>,
    /// Functions of a newer contract that it imports. A call traps.
    pub stubs: Vec<String>,
    /// The contract version that it was built for.
    pub contract: String,
    /// The SDK that it was built with; none: it does not say.
    pub sdk: Option<SdkInfo>,
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// The file's sha256.
    pub digest: Digest,
    /// The file's length.
    pub size_bytes: usize,
}

impl Inspection {
    pub(crate) fn of(version: &LoadedVersion) -> Inspection {
        let LoadedVersion { component, manifest } = version;
        Inspection {
            roles: component.roles,
            imports: component.imports.clone(),
            runs_script: component.script.is_some(),
            script_imports: component
                .script
                .as_ref()
                .map(|script| script.imports())
                .unwrap_or_default(),
            stubs: component.stubs.clone(),
            contract: component.contract.clone(),
            sdk: component.sdk.clone(),
            manifest: Arc::clone(manifest),
            digest: component.digest,
            size_bytes: component.size_bytes,
        }
    }
}

impl PluginHost {
    pub(crate) fn from_inner(inner: HostInner) -> PluginHost {
        PluginHost(Arc::new(inner))
    }

    pub(crate) fn parts(&self) -> &Arc<HostInner> {
        &self.0
    }

    /// Starts the engine and its ticker.
    ///
    /// # Errors
    /// [`HostError`]: WebAssembly does not run on this machine, or the directory for artifacts is not safe.
    pub fn new(options: HostOptions) -> Result<PluginHost, HostError> {
        let engine_error = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let engine = engine::engine().map_err(engine_error)?;
        let HostOptions {
            cache_dir,
            env,
            handle,
            compiler,
            catalog,
            metrics,
            kube,
            key_value,
            http,
            script_runner,
        } = options;
        let compile_queue = CompileQueue::new(compiler, &engine, Arc::clone(&env), handle.clone());
        let artifacts = Artifacts::open(&engine, &cache_dir, compile_queue, handle.clone(), metrics.clone())?;
        Ok(PluginHost(Arc::new(HostInner {
            last_good: LastGood::new(artifacts.path()),
            scheduler: Arc::new(CpuScheduler::new(handle.metrics().num_workers())),
            artifacts,
            ticker: Ticker::start(&engine).map_err(HostError::Ticker)?,
            linker: guest::linker(&engine).map_err(engine_error)?,
            script_runner: ScriptRunner::new(script_runner),
            engine,
            env,
            catalog,
            metrics,
            kube,
            key_value,
            http,
            blocking_pool: Some(handle),
        })))
    }

    /// Inspects the component in the file `path`: validates and compiles it and asks for its manifest, which may depend
    /// on `config`. Keeps nothing of it.
    ///
    /// # Errors
    /// [`LoadError`], as [`load`](Self::load) would give.
    pub async fn inspect(&self, path: &Path, config: serde_json::Value) -> Result<Inspection, LoadError> {
        let read = self.0.read(&path.into()).await;
        let content = read.map_err(|problem| LoadError::new(path, problem))?;
        self.inspect_content(&content, config).await
    }

    /// As [`inspect`](Self::inspect), for a content.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect).
    pub async fn inspect_content(&self, content: &Content, config: serde_json::Value) -> Result<Inspection, LoadError> {
        let context = DescribeContext::new("inspect", config);
        let described = self.0.describe(content, None, &context, Limits::default()).await;
        let version = described.map_err(|problem| LoadError::new(content.origin().path(), problem))?;
        Ok(Inspection::of(&version))
    }

    /// Reads a plugin's content and [loads](Self::load_content) the plugin.
    ///
    /// # Errors
    /// [`LoadError`], which says what to change. Nothing of the plugin is kept in that case.
    pub async fn load(&self, spec: PluginSpec) -> Result<Plugin, LoadError> {
        match self.0.read(&spec.content).await {
            Ok(content) => self.load_content(spec, content).await,
            Err(problem) => Err(LoadError::new(spec.content.path(), problem).of_plugin(&spec.name)),
        }
    }

    /// Loads a plugin with this content: validates, compiles and describes the component, creates its
    /// instances and initializes them. It is not called before [`Plugin::start`]. The returned future may be dropped at
    /// any point.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_content(&self, spec: PluginSpec, content: Content) -> Result<Plugin, LoadError> {
        let name = spec.name.clone();
        let loaded = self.0.load(spec, &content).await;
        loaded.map_err(|problem| LoadError::new(content.origin().path(), problem).of_plugin(&name))
    }

    /// Loads the last good version of a plugin whose component was `refused` by [`load`](Self::load). None if none is
    /// known, if `sha256` pins another one, or if it does not load either.
    pub async fn load_last_good(&self, spec: PluginSpec, refused: &LoadError) -> Option<Plugin> {
        let content = self.0.last_good_content(&spec).await?;
        let (name, digest) = (spec.name.clone(), content.digest());
        match self.0.load(spec, &content).await {
            Ok(plugin) => {
                plugin.record_rejected_file(refused);
                Some(plugin)
            }
            Err(problem) => {
                tracing::warn!(plugin = name, digest = %digest.short(), error = %problem, "last good version rejected, too");
                None
            }
        }
    }
}

impl HostInner {
    /// Reads a plugin's content.
    pub(crate) async fn read(&self, source: &ContentSource) -> Result<Content, LoadProblem> {
        let source = source.clone();
        self.blocking(move || file::read(&source)).await?
    }

    /// Loads a plugin with this content.
    async fn load(self: &Arc<HostInner>, spec: PluginSpec, content: &Content) -> Result<Plugin, LoadProblem> {
        let config = PluginConfig::new(spec);
        let version = self.load_version(content, &config).await?;
        self.check_version(&version, &config.spec)?;
        let listener = ListenerHandle::new(self.listener_options(&config.spec));
        if config.spec.limits.instances > 1 {
            listener
                .consumer()
                .set_lanes(instance_count(&config), source_identity(&self.catalog), self.env.now());
        }
        let feed = feed(&version);
        let context = Arc::new(PluginContext::new(Arc::clone(self), config, listener, &version));
        Plugin::new(context, version, feed).await
    }

    /// Loads a version for `config` from `content`, and keeps that in case it proves good.
    pub(crate) async fn load_version(
        self: &Arc<HostInner>,
        content: &Content,
        config: &PluginConfig,
    ) -> Result<LoadedVersion, LoadProblem> {
        let spec = &config.spec;
        let version = self
            .describe(content, spec.sha256, &config.context, spec.limits)
            .await?;
        if !version.component.stubs.is_empty() {
            let (plugin, functions) = (&*spec.name, version.component.stubs.join(", "));
            tracing::warn!(
                plugin,
                functions,
                "plugin imports functions of a newer contract; calling one traps"
            );
        }
        let (last_good, kept) = (self.last_good.clone(), content.clone());
        self.blocking(move || last_good.keep(&kept)).await?;
        Ok(version)
    }

    /// Rejects a version that its section or the other plugins do not allow.
    ///
    /// # Errors
    /// [`LoadProblem::Needs`], [`LoadProblem::MetricType`].
    pub(crate) fn check_version(&self, version: &LoadedVersion, spec: &PluginSpec) -> Result<(), LoadProblem> {
        version.manifest.check_section(spec)?;
        self.metrics.check_declared(&spec.name, &version.manifest)
    }

    /// Records that `digest` is good for the plugin of `spec`.
    pub(crate) async fn record_good(&self, spec: &PluginSpec, digest: Digest) {
        let (last_good, name, source) = (self.last_good.clone(), spec.name.clone(), spec.content.clone());
        // It fails only while the process stops.
        let _ = self.blocking(move || last_good.record(&name, &source, digest)).await;
    }

    /// The last good version of the plugin with `config`, if there is one and it still loads.
    pub(crate) async fn last_good(self: &Arc<HostInner>, config: &PluginConfig) -> Option<LoadedVersion> {
        let content = self.last_good_content(&config.spec).await?;
        self.load_version(&content, config).await.ok()
    }

    /// What was kept of the last good version. None if it is not what was recorded, or not what `sha256` pins.
    async fn last_good_content(&self, spec: &PluginSpec) -> Option<Content> {
        let (last_good, name, source) = (self.last_good.clone(), spec.name.clone(), spec.content.clone());
        let find = move || {
            let (digest, kept) = last_good.find(&name, &source)?;
            file::read(&kept).ok().filter(|content| content.digest() == digest)
        };
        let found = self.blocking(find).await.ok()??;
        spec.sha256
            .is_none_or(|pinned| pinned == found.digest())
            .then_some(found)
    }

    /// Runs blocking work on the blocking pool, if there is one.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, LoadProblem> {
        match &self.blocking_pool {
            Some(handle) => handle.spawn_blocking(work).await.map_err(|_| LoadProblem::Stopping),
            None => Ok(work()),
        }
    }

    /// Validates, compiles and describes the component or script in `content`.
    pub(crate) async fn describe(
        self: &Arc<HostInner>,
        content: &Content,
        pin: Option<Digest>,
        context: &DescribeContext,
        limits: Limits,
    ) -> Result<LoadedVersion, LoadProblem> {
        let digest = content.digest();
        if let Some(pinned) = pin.filter(|pinned| *pinned != digest) {
            return Err(LoadProblem::Pin { found: digest, pinned });
        }
        let component = match content.language() {
            Language::JavaScript => {
                let script = Script::new(content)?;
                self.script_runner
                    .run(script, digest, &self.artifacts, &self.linker)
                    .await?
            }
            Language::Wasm => {
                PluginComponent::new(Arc::clone(content.bytes()), digest, &self.artifacts, &self.linker).await?
            }
        };
        let context = context.clone();
        let resources = self.instance_resources(
            &Arc::from(context.plugin.as_str()),
            limits,
            WasiMode::Deterministic,
            HostAccess::denied(&self.catalog, DENIED_IN_DESCRIBE),
            Counter::default(),
        );
        let watchdog = CallWatchdog::new(Arc::clone(&self.env), limits.call, CancellationToken::new());
        self.on_guests(async move { LoadedVersion::describe(component, &context, resources, watchdog).await })
            .await?
    }

    /// Runs `work`, which calls a guest, on the guests' runtime.
    pub(crate) async fn on_guests<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, LoadProblem> {
        let (answer, answered) = oneshot::channel();
        let task = async move {
            // The caller may be gone.
            let _ = answer.send(work.await);
        };
        self.env.spawn("plugin-load", Box::pin(task));
        answered.await.map_err(|_| LoadProblem::Stopping)
    }

    pub(crate) fn instance_resources(
        &self,
        plugin: &Arc<str>,
        limits: Limits,
        wasi_mode: WasiMode,
        access: HostAccess,
        log_dropped: Counter,
    ) -> InstanceResources {
        let clock = Arc::clone(self.ticker.clock());
        InstanceResources {
            plugin: Arc::clone(plugin),
            limits,
            wasi_mode,
            access,
            clock,
            scheduler: Arc::clone(&self.scheduler),
            overruns: Arc::default(),
            log_dropped,
        }
    }

    /// The options of the listener of a plugin with this section.
    pub(crate) fn listener_options(&self, spec: &PluginSpec) -> listener::ListenerOptions {
        listener::ListenerOptions {
            pending_events_max: spec.limits.pending,
            resync: spec.resync,
            min_interval: spec.min_interval,
            calls_per_second_max: spec.calls_per_second_max,
            on_failure: match spec.on_failure {
                OnFailure::Skip => listener::FailurePolicy::Skip,
                OnFailure::Retry | OnFailure::Quarantine => listener::FailurePolicy::Retry,
            },
            retry: retry_policy(spec),
            seed: self.env.random(),
            ..listener::ListenerOptions::default()
        }
    }
}

// A section's limits and defaults are those of the listener.
const _: () = assert!(INSTANCES_MAX == listener::LANES_MAX as u32);

fn retry_policy(spec: &PluginSpec) -> listener::RetryPolicy {
    let informant_spec::RetryPolicy { initial, max, attempts } = spec.retry;
    listener::RetryPolicy { initial, max, attempts }
}

/// A feed for the indexes that `version` computes.
pub(crate) fn feed(version: &LoadedVersion) -> Option<IndexFeedHandle> {
    let names = version.manifest.index_names();
    version
        .component
        .roles
        .index_funcs
        .then(|| IndexFeedHandle::new(names.iter().cloned()))
}
