//! The plugin host: what all plugins share, and the steps from a file to a running plugin.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, ListenerHandle};
use informant_spec::{Content, ContentSource, Digest, PluginSpec};
use tokio::runtime::Handle;

use crate::actor::PluginContext;
use crate::actor::events::swap::{instance_count, source_identity};
use crate::artifacts::Artifacts;
use crate::artifacts::last_good::LastGood;
use crate::capability::Services;
use crate::clock::{ScenarioClock, WallClock};
use crate::component::binary::SdkInfo;
use crate::component::by_digest::SharedByDigest;
use crate::component::manifest::Manifest;
use crate::component::roles::Roles;
use crate::component::runner::{Compiling, RunnerSources, RunnerStatus, ScriptRunners};
use crate::engine;
use crate::engine::compile::{CompileQueue, Compiler};
use crate::engine::scheduler::CpuScheduler;
use crate::engine::ticker::Ticker;
use crate::error::{HostError, LoadError, LoadProblem};
use crate::instance::config::PluginConfig;
use crate::instance::guest;
use crate::instance::version::LoadedVersion;
use crate::metrics::PluginMetrics;
use crate::plugin::{self, Plugin};
use crate::runtime::Runtime;
use crate::runtime::clock_watch::ClockWatch;
use crate::runtime::load_turns::LoadTurns;

/// The parts of a host.
pub struct HostOptions {
    /// The directory for compiled components. Created if it does not exist; only this user may write into it.
    pub cache_dir: PathBuf,
    /// The runtime for guests only: a guest holds a worker for up to 2 ms at a time. Its clock must be that of the
    /// informers, or lags are wrong.
    pub env: Arc<dyn Environment>,
    /// The same runtime, for blocking work (reading, compiling) and child processes.
    pub handle: Handle,
    pub compiler: Compiler,
    pub services: Services,
    pub metrics: PluginMetrics,
    /// The components that run scripts. Scripts without one are rejected.
    pub script_runners: RunnerSources,
}

/// Loads plugins. Cheap to clone.
#[derive(Clone)]
pub struct PluginHost(Arc<Runtime>);

/// What is known of a component without running it.
#[derive(Clone, Debug)]
pub struct Inspection {
    pub roles: Roles,
    /// The interfaces it imports.
    pub imports: Vec<String>,
    /// Whether it is a script, or contains one: then it imports all interfaces.
    pub runs_script: bool,
    /// The runner of the script.
    pub runner: Option<Arc<RunnerStatus>>,
    /// What a script imports by name from "informant", as far as its text shows.
    pub script_imports: Vec<String>,
    /// Functions of a newer contract that it imports. A call traps.
    pub stubs: Vec<String>,
    /// The contract version that it was built for.
    pub contract: String,
    /// The SDK that it was built with; none: it does not say.
    pub sdk: Option<SdkInfo>,
    pub manifest: Arc<Manifest>,
    /// The manifest as the plugin wrote it, in JSON.
    pub document: Arc<[u8]>,
    /// The file's sha256.
    pub digest: Digest,
    pub size_bytes: usize,
    /// The memory that compiling it, or the runner of the script, is expected to take.
    pub compile_memory_bytes: u64,
}

impl Inspection {
    pub(crate) fn of(version: &LoadedVersion) -> Inspection {
        let LoadedVersion {
            component,
            manifest,
            document,
        } = version;
        Inspection {
            roles: component.roles,
            imports: component.imports.clone(),
            runs_script: component.script.is_some(),
            runner: component.runner.clone(),
            script_imports: component
                .script
                .as_ref()
                .map(|script| script.imports())
                .unwrap_or_default(),
            stubs: component.stubs.clone(),
            contract: component.contract.clone(),
            sdk: component.sdk.clone(),
            manifest: Arc::clone(manifest),
            document: Arc::clone(document),
            digest: component.digest,
            size_bytes: component.size_bytes,
            compile_memory_bytes: component.compile_memory_bytes,
        }
    }
}

impl PluginHost {
    #[cfg(feature = "simulation")]
    pub(crate) fn from_runtime(runtime: Runtime) -> PluginHost {
        PluginHost(Arc::new(runtime))
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.0
    }

    /// Starts the engine and its ticker.
    ///
    /// # Errors
    /// [`HostError`]: WebAssembly does not run on this machine, or the directory for artifacts is not safe.
    pub fn new(options: HostOptions) -> Result<PluginHost, HostError> {
        PluginHost::with_clock(options, WallClock::System)
    }

    /// As [`new`](Self::new), for a run of a scenario: on a runtime with one thread, whose clock may be paused. For
    /// guests it is `unix_time` now, since 1970. Records no version as good.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn for_scenario(options: HostOptions, unix_time: Duration) -> Result<PluginHost, HostError> {
        let clock = ScenarioClock::new(&options.env, unix_time);
        PluginHost::with_clock(options, WallClock::Scenario(clock))
    }

    fn with_clock(options: HostOptions, wall: WallClock) -> Result<PluginHost, HostError> {
        let engine_error = |error: wasmtime::Error| HostError::Engine(format!("{error:#}"));
        let engine = engine::engine().map_err(engine_error)?;
        let HostOptions {
            cache_dir,
            env,
            handle,
            compiler,
            services,
            metrics,
            script_runners,
        } = options;
        let compile_queue = CompileQueue::new(
            compiler,
            &engine,
            Arc::clone(&env),
            handle.clone(),
            metrics.artifacts.compiles.clone(),
        );
        let artifacts = Artifacts::open(
            &engine,
            &cache_dir,
            compile_queue,
            handle.clone(),
            metrics.artifacts.clone(),
        )?;
        Ok(PluginHost(Arc::new(Runtime {
            last_good: LastGood::new(artifacts.path().filter(|_| wall.scenario().is_none())),
            load_turns: Arc::new(LoadTurns::new(metrics.loads_waiting.clone())),
            scheduler: Arc::new(CpuScheduler::new(handle.metrics().num_workers())),
            artifacts,
            ticker: Ticker::start(&engine).map_err(HostError::Ticker)?,
            offer: guest::offer(&engine).map_err(engine_error)?,
            runners: ScriptRunners::new(script_runners),
            contents: SharedByDigest::default(),
            manifests: SharedByDigest::default(),
            documents: SharedByDigest::default(),
            engine,
            env,
            services,
            metrics,
            blocking_pool: Some(handle),
            wall,
            clock_watch: ClockWatch::default(),
        })))
    }

    /// Inspects a component or script: validates and compiles it and asks for its manifest, which may depend on
    /// `config`. Keeps nothing of it.
    ///
    /// # Errors
    /// [`LoadError`], as [`load`](Self::load) would give.
    pub async fn inspect(&self, content: &Content, config: serde_json::Value) -> Result<Inspection, LoadError> {
        let config = PluginConfig::new(PluginSpec {
            config,
            ..PluginSpec::new("inspect", content.origin().path())
        });
        let described = self.0.describe(content, None, &config).await;
        let version = described.map_err(|problem| LoadError::new(content.origin().path(), problem))?;
        Ok(Inspection::of(&version))
    }

    /// What a plugin with this content waits for, if its component or the runner of its script is being compiled.
    #[must_use]
    pub fn compiling(&self, content: &ContentSource) -> Option<Compiling> {
        self.0.compiling(content)
    }

    /// Sets the memory for all compiles together, [`COMPILE_MEMORY_DEFAULT_BYTES`] without. What is being compiled
    /// continues.
    ///
    /// [`COMPILE_MEMORY_DEFAULT_BYTES`]: crate::limits::COMPILE_MEMORY_DEFAULT_BYTES
    pub fn set_compile_memory(&self, bytes: u64) {
        self.0.artifacts.compile_queue().schedule().set_memory_max(bytes);
    }

    /// Whether nothing else is compiled next to what is expected to take so much memory. Next to what leaves a little,
    /// short ones may be.
    #[must_use]
    pub fn compiles_alone(&self, memory_bytes: u64) -> bool {
        self.0.artifacts.compile_queue().schedule().is_alone(memory_bytes)
    }

    /// Loads a plugin with this content: validates, compiles and describes the component, creates its
    /// instances and initializes them. It is not called before [`Plugin::start`]. The returned future may be dropped at
    /// any point. If the [gate](Services::gate) is closed, it is [in standby](Plugin::stand_by): its event handler gets
    /// no instance until it is to [act](Plugin::act).
    ///
    /// # Errors
    /// [`LoadError`], which says what to change. Nothing of the plugin is kept in that case.
    pub async fn load(&self, spec: PluginSpec, content: Content) -> Result<Plugin, LoadError> {
        let _after = self.0.contents.forget_unused();
        let bytes = self.0.contents.share(content.digest(), content.bytes());
        let (name, content) = (spec.name.clone(), content.sharing(bytes));
        let loaded = self.load_now(spec, &content).await;
        loaded.map_err(|problem| LoadError::new(content.origin().path(), problem).of_plugin(&name))
    }

    /// Loads the last good version of a plugin whose component was `refused` by [`load`](Self::load). None if none is
    /// known, if `sha256` pins another one, or if it does not load either.
    pub async fn load_last_good(&self, spec: PluginSpec, refused: &LoadError) -> Option<Plugin> {
        let content = self.0.last_good_content(&spec).await?;
        let (name, digest) = (spec.name.clone(), content.digest());
        match self.load_now(spec, &content).await {
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

    async fn load_now(&self, spec: PluginSpec, content: &Content) -> Result<Plugin, LoadProblem> {
        let (runtime, config) = (&self.0, PluginConfig::new(spec));
        let version = runtime.load_version(content, &config).await?;
        runtime.check_version(&version, &config.spec)?;
        let options = runtime.listener_options(&config.spec, version.manifest.min_interval());
        let listener = ListenerHandle::named(&config.spec.name, options);
        listener.control().set_catalog(runtime.services.catalog.clone());
        if config.spec.limits.instances > 1 {
            listener.consumer().set_lanes(
                instance_count(&config),
                source_identity(&runtime.services.catalog),
                runtime.env.now(),
            );
        }
        let feed = plugin::feed(&version);
        let context = Arc::new(PluginContext::new(Arc::clone(runtime), config, listener, &version));
        Plugin::new(context, version, feed).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::test_host;

    #[tokio::test]
    async fn a_load_that_ended_keeps_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let host = test_host(folder.path());
        let content = Content::new("greeter.wasm", *b"no component");
        let loaded = host.load(PluginSpec::new("greeter", "greeter.wasm"), content).await;
        assert!(loaded.is_err());
        assert_eq!(host.runtime().contents.known(), 0);
    }
}
