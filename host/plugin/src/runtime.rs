//! What all plugins share: the engine, the compiled components, the services of capabilities; and how a version is
//! loaded.

pub(crate) mod clock_watch;
pub(crate) mod load_turns;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, Moment, listener};
use informant_spec::{Content, ContentSource, Digest, INSTANCES_MAX, Language, OnFailure, PluginSpec, Suffix};
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wasmtime::Engine;

use crate::artifacts::Artifacts;
use crate::artifacts::last_good::LastGood;
use crate::bodies::Bodies;
use crate::capability::parts::PluginParts;
use crate::capability::{Capabilities, PluginCapabilities, Services};
use crate::clock::WallClock;
use crate::component::by_digest::SharedByDigest;
use crate::component::manifest::Manifest;
use crate::component::runner::{Compiling, ScriptRunners};
use crate::component::script::Script;
use crate::component::{Offer, PluginComponent};
use crate::effects::Effects;
use crate::engine::scheduler::CpuScheduler;
use crate::engine::ticker::Ticker;
use crate::engine::watchdog::CallWatchdog;
use crate::error::{LoadProblem, RunnerProblem};
use crate::instance::config::PluginConfig;
use crate::instance::guest::{GuestState, InstanceResources};
use crate::instance::version::LoadedVersion;
use crate::instance::wasi::WasiMode;
use crate::metrics::PluginMetrics;
use crate::observed::Observed;
use crate::runtime::clock_watch::ClockWatch;
use crate::runtime::load_turns::LoadTurns;

/// What all plugins of a host share.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) services: Services,
    pub(crate) metrics: PluginMetrics,
    /// Where blocking work runs. None: where it is called, because none of it takes time.
    pub(crate) blocking_pool: Option<Handle>,
    pub(crate) offer: Arc<Offer<GuestState>>,
    pub(crate) artifacts: Artifacts,
    pub(crate) runners: ScriptRunners<GuestState>,
    /// The contents of plugins that are being loaded.
    pub(crate) contents: SharedByDigest<[u8]>,
    /// The manifests of plugins. Those that are no longer in use are forgotten with the next one.
    pub(crate) manifests: SharedByDigest<Manifest>,
    /// The documents that they were parsed from.
    pub(crate) documents: SharedByDigest<[u8]>,
    pub(crate) last_good: LastGood,
    pub(crate) load_turns: Arc<LoadTurns>,
    pub(crate) scheduler: Arc<CpuScheduler>,
    pub(crate) wall: WallClock,
    /// Notices that the clock was set, for timers.
    pub(crate) clock_watch: ClockWatch,
}

impl Runtime {
    /// Reads objects of which the cache has only the head.
    pub(crate) fn bodies(&self) -> Bodies<'_> {
        Bodies {
            catalog: &self.services.catalog,
            env: &*self.env,
        }
    }

    /// What the wall clock would have shown when the environment began.
    pub(crate) fn began(&self) -> Timestamp {
        let passed = self.env.now() - Moment::ZERO;
        self.wall.now().checked_sub(passed).unwrap_or(Timestamp::MIN)
    }

    /// Loads a version for `config` from `content`, and keeps that in case it proves good.
    pub(crate) async fn load_version(
        self: &Arc<Runtime>,
        content: &Content,
        config: &PluginConfig,
    ) -> Result<LoadedVersion, LoadProblem> {
        let spec = &config.spec;
        let version = self.describe(content, spec.sha256, config).await?;
        if !version.component.stubs.is_empty() {
            let (plugin, functions) = (&*spec.name, version.component.stubs.join(", "));
            tracing::warn!(
                plugin,
                functions,
                "plugin imports functions of a newer contract; calling one traps"
            );
        }
        let (last_good, kept) = (self.last_good.clone(), content.clone());
        let keep = self.blocking(move || last_good.keep(&kept));
        self.load_turns.run(&*self.env, keep).await?;
        Ok(version)
    }

    /// Rejects a version that its section or the other plugins do not allow.
    /// Errors: [`LoadProblem::Needs`], [`LoadProblem::MetricType`].
    pub(crate) fn check_version(&self, version: &LoadedVersion, spec: &PluginSpec) -> Result<(), LoadProblem> {
        version.manifest.check_section(spec)?;
        self.metrics.capabilities.check(&spec.name, &version.manifest)
    }

    /// Records that `digest` is good for the plugin of `spec`.
    pub(crate) async fn record_good(&self, spec: &PluginSpec, digest: Digest) {
        let (last_good, name, source) = (self.last_good.clone(), spec.name.clone(), spec.content.clone());
        // It fails only while the process stops.
        let _ = self.blocking(move || last_good.record(&name, &source, digest)).await;
    }

    /// The last good version of the plugin with `config`, if there is one and it still loads.
    pub(crate) async fn last_good(self: &Arc<Runtime>, config: &PluginConfig) -> Option<LoadedVersion> {
        let content = self.last_good_content(&config.spec).await?;
        self.load_version(&content, config).await.ok()
    }

    /// What was kept of the last good version. None if it is not what was recorded, or not what `sha256` pins.
    pub(crate) async fn last_good_content(&self, spec: &PluginSpec) -> Option<Content> {
        let (last_good, name, source) = (self.last_good.clone(), spec.name.clone(), spec.content.clone());
        let find = move || last_good.find(&name, &source);
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
        &self,
        content: &Content,
        pin: Option<Digest>,
        config: &PluginConfig,
    ) -> Result<LoadedVersion, LoadProblem> {
        let digest = content.digest();
        if let Some(pinned) = pin.filter(|pinned| *pinned != digest) {
            return Err(LoadProblem::Pin { found: digest, pinned });
        }
        let component = match content.language() {
            Language::Script(suffix) => self.script(content, suffix).await?,
            Language::Wasm => self.component(content).await?,
        };
        let context = config.context.clone();
        let resources = InstanceResources {
            manifest: Arc::default(),
            wasi_mode: WasiMode::Deterministic,
            ..self.unlisted_resources(config)
        };
        let watchdog = CallWatchdog::new(Arc::clone(&self.env), config.spec.limits.call, CancellationToken::new());
        let (turns, env) = (Arc::clone(&self.load_turns), Arc::clone(&self.env));
        let describe = async move {
            let describe = LoadedVersion::describe(component, &context, resources, watchdog);
            turns.run(&*env, describe).await
        };
        let version = self.on_guests(describe).await??;
        let digest = Digest::of(&version.document);
        Ok(LoadedVersion {
            manifest: self.manifests.share(digest, &version.manifest),
            document: self.documents.share(digest, &version.document),
            ..version
        })
    }

    async fn component(&self, content: &Content) -> Result<PluginComponent<GuestState>, LoadProblem> {
        let (bytes, digest) = (Arc::clone(content.bytes()), content.digest());
        let file = content.origin().path();
        let component = PluginComponent::new(bytes, digest, file, &self.artifacts, &self.offer).await;
        match (component, Suffix::of(file)) {
            // Probably a script in a language without a runner.
            (Err(LoadProblem::NotWasm { is_text: true, .. }), Some(suffix)) => {
                Err(self.runners.unknown(&suffix).into())
            }
            (Ok(component), _) if component.runner.is_some() && component.script.is_none() => {
                Err(RunnerProblem::IsPlugin.into())
            }
            (component, _) => component,
        }
    }

    /// The runner of the script in `content`, with that script.
    async fn script(&self, content: &Content, suffix: &Suffix) -> Result<PluginComponent<GuestState>, LoadProblem> {
        let mut script = Script::new(content)?;
        let runner = self.runners.get(suffix)?;
        if suffix.is_typed() {
            let (digest, text) = (content.digest(), Arc::clone(content.bytes()));
            script.text = self.artifacts.erased(digest, text, &script.name).await?;
        }
        let pool = self.blocking_pool.as_ref();
        let component = runner.component(pool, &self.artifacts, &self.offer, &*self.env).await?;
        Ok(component.with_script(Arc::new(script), content.digest()))
    }

    /// What the plugin with this content waits for, if it is being compiled.
    pub(crate) fn compiling(&self, content: &ContentSource) -> Option<Compiling> {
        match content.language() {
            Language::Script(suffix) => {
                let schedule = self.artifacts.compile_queue().schedule();
                self.runners.get(suffix).ok()?.compiling(schedule)
            }
            Language::Wasm => self.artifacts.compiling(content.path()).map(|job| Compiling {
                what: "its component".to_owned(),
                since: job.since,
                waits_for_bytes: job.is_waiting.then_some(job.memory_bytes),
            }),
        }
    }

    /// Runs `work`, which calls a guest, on the guests' runtime.
    pub(crate) async fn on_guests<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, LoadProblem> {
        let (mut answer, answered) = oneshot::channel();
        let task = async move {
            let done = tokio::select! {
                biased;
                done = work => done,
                // The caller is gone.
                () = answer.closed() => return,
            };
            let _ = answer.send(done);
        };
        self.env.spawn("plugin-load", Box::pin(task));
        answered.await.map_err(|_| LoadProblem::Stopping)
    }

    /// For instances that only describe or initialize themselves. Their metrics are not in the output.
    pub(crate) fn unlisted_resources(&self, config: &PluginConfig) -> InstanceResources {
        let plugin = Arc::from(config.spec.name.as_str());
        let parts = PluginParts {
            plugin: &plugin,
            spec: &config.spec,
            services: &self.services,
            env: &self.env,
            wall: &self.wall,
            dry_run: &Arc::new(Effects::new(
                false,
                &self.env,
                Arc::default(),
                Observed::default(),
                None,
                false,
            )),
            waker: &Arc::default(),
        };
        let capabilities = PluginCapabilities::new(&Capabilities::default(), &config.grants, &parts);
        self.instance_resources(config, Arc::new(capabilities))
    }

    /// For instances of an unknown version.
    pub(crate) fn instance_resources(
        &self,
        config: &PluginConfig,
        capabilities: Arc<PluginCapabilities>,
    ) -> InstanceResources {
        InstanceResources {
            limits: config.spec.limits,
            wasi_mode: WasiMode::Real,
            observed: Observed::new(capabilities.log.plugin(), self.services.observer.as_ref()),
            capabilities,
            grants: config.grants.clone(),
            manifest: Arc::default(),
            clock: Arc::clone(self.ticker.clock()),
            scheduler: Arc::clone(&self.scheduler),
            overruns: Arc::default(),
            wall: self.wall.clone(),
        }
    }

    /// `min_interval` is that of the manifest.
    pub(crate) fn listener_options(
        &self,
        spec: &PluginSpec,
        min_interval: Option<Duration>,
    ) -> listener::ListenerOptions {
        listener::ListenerOptions {
            pending_events_max: spec.limits.pending,
            pending_bytes_max: pending_bytes_max(self.services.catalog.budget().max_bytes()),
            resync: spec.resync,
            min_interval: spec.min_interval.or(min_interval),
            calls_per_second_max: spec.calls_per_second_max,
            on_failure: match spec.on_failure {
                OnFailure::Skip => listener::FailurePolicy::Skip,
                OnFailure::Retry | OnFailure::Quarantine => listener::FailurePolicy::Retry,
            },
            retry: retry_policy(spec),
            limits_suspects: true,
            seed: self.env.random(),
            ..listener::ListenerOptions::default()
        }
    }
}

// A section's limits and defaults are those of the listener.
const _: () = assert!(INSTANCES_MAX == listener::LANES_MAX as u32);

fn retry_policy(spec: &PluginSpec) -> listener::RetryOptions {
    let informant_spec::RetryPolicy { initial, max, attempts } = spec.retry;
    listener::RetryOptions { initial, max, attempts }
}

/// The smallest limit on the bytes of a plugin's pending states: 1 MiB.
const PENDING_BYTES_MIN: usize = 1 << 20;

/// The part of the cache budget that the pending states of one plugin may take: a 32nd.
const PENDING_BUDGET_PART: usize = 32;

/// The limit on the bytes of a plugin's pending states, with a cache budget of `budget` bytes.
fn pending_bytes_max(budget: Option<usize>) -> usize {
    let default = listener::ListenerOptions::default().pending_bytes_max;
    budget.map_or(default, |budget| {
        (budget / PENDING_BUDGET_PART).clamp(PENDING_BYTES_MIN, default)
    })
}
