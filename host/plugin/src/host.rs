//! The host: what all plugins share, and the way from a file to a running plugin.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use informant_cache::{Catalog, Environment, IndexFeedHandle, ListenerHandle, listener};
use prometheus_client::metrics::counter::Counter;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wasmtime::Engine;
use wasmtime::component::Linker;

use crate::artifact::Artifacts;
use crate::compile::{Compiler, Compiling};
use crate::component::{self, PluginComponent};
use crate::described::{DENIED_IN_DESCRIBE, Described};
use crate::error::{HostError, LoadError, Problem};
use crate::guest::{self, GuestState, Ration};
use crate::host_kube::KubeAccess;
use crate::host_store::{Access, Reader};
use crate::kube_api::KubeApi;
use crate::lanes::Lanes;
use crate::last_good::LastGood;
use crate::manifest::Manifest;
use crate::plugin::Plugin;
use crate::script::{Script, ScriptRunner, is_script};
use crate::shared::Shared;
use crate::spec::{Limits, OnFailure, PluginSpec};
use crate::terms::Terms;
use crate::ticker::Ticker;
use crate::wasi::World;
use crate::watch::Watch;
use crate::{Digest, PluginMetrics, Roles, engine, needs};

/// What a host is made of.
pub struct HostOptions {
    /// Where compiled components are kept. Made if it does not exist; must be this user's alone.
    pub cache_dir: PathBuf,
    /// The runtime that guests run on, and nothing else: a guest holds a worker for up to 2 ms at a time. Its moments
    /// must be those of the informers, or lags are wrong.
    pub env: Arc<dyn Environment>,
    /// The same runtime, for work that blocks (reading, compiling), and child processes.
    pub handle: Handle,
    /// Where components are compiled.
    pub compiler: Compiler,
    /// The sources that plugins may read.
    pub catalog: Catalog,
    /// Where it counts.
    pub metrics: PluginMetrics,
    /// How plugins act on the cluster; none where they are only looked at.
    pub kube: Option<Arc<dyn KubeApi>>,
    /// The component that runs scripts; none: scripts are refused.
    pub script_runner: Option<Cow<'static, [u8]>>,
}

/// Loads plugins. Cheap to clone.
#[derive(Clone)]
pub struct PluginHost(Arc<HostParts>);

pub(crate) struct HostParts {
    pub(crate) engine: Engine,
    pub(crate) ticker: Ticker,
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) catalog: Catalog,
    pub(crate) metrics: PluginMetrics,
    pub(crate) kube: Option<Arc<dyn KubeApi>>,
    handle: Handle,
    linker: Linker<GuestState>,
    artifacts: Artifacts,
    script_runner: ScriptRunner,
    last_good: LastGood,
    lanes: Arc<Lanes>,
}

/// What a component says about itself.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// Its roles.
    pub roles: Roles,
    /// The interfaces it imports.
    pub imports: Vec<String>,
    /// Its manifest.
    pub manifest: Arc<Manifest>,
    /// The file's sha256.
    pub digest: Digest,
    /// The file's length.
    pub size_bytes: usize,
}

impl Inspection {
    pub(crate) fn of(version: &Described) -> Inspection {
        let Described { component, manifest } = version;
        Inspection {
            roles: component.roles,
            imports: component.imports.clone(),
            manifest: Arc::clone(manifest),
            digest: component.digest,
            size_bytes: component.size_bytes,
        }
    }
}

impl PluginHost {
    pub(crate) fn parts(&self) -> &Arc<HostParts> {
        &self.0
    }

    /// Starts the engine and its ticker.
    ///
    /// # Errors
    /// [`HostError`]: WebAssembly does not run here, or the folder for artifacts is not safe.
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
            script_runner,
        } = options;
        let compiling = Compiling::new(compiler, &engine, Arc::clone(&env), handle.clone());
        let artifacts = Artifacts::open(&engine, &cache_dir, compiling, handle.clone(), metrics.clone())?;
        Ok(PluginHost(Arc::new(HostParts {
            last_good: LastGood::new(artifacts.path()),
            lanes: Arc::new(Lanes::new(handle.metrics().num_workers())),
            artifacts,
            ticker: Ticker::start(&engine).map_err(HostError::Ticker)?,
            linker: guest::linker(&engine).map_err(engine_error)?,
            script_runner: ScriptRunner::new(script_runner),
            engine,
            env,
            catalog,
            metrics,
            kube,
            handle,
        })))
    }

    /// Looks at the component in the file `path`: judges and compiles it and asks for its manifest. Nothing of it
    /// stays.
    ///
    /// # Errors
    /// [`LoadError`], as [`load`](Self::load) would give.
    pub async fn inspect(&self, path: &Path) -> Result<Inspection, LoadError> {
        let found = self
            .0
            .describe(path.to_owned(), None, Arc::from("inspect"), Limits::default())
            .await;
        let (version, _) = found.map_err(|problem| LoadError::new(path, problem))?;
        Ok(Inspection::of(&version))
    }

    /// Loads a plugin: judges, compiles and describes its component, makes its instances and lets them initialize. It
    /// is not called before [`Plugin::start`].
    ///
    /// # Errors
    /// [`LoadError`], which says what to change. Nothing of the plugin stays then.
    pub async fn load(&self, spec: PluginSpec) -> Result<Plugin, LoadError> {
        let (name, path) = (spec.name.clone(), spec.component.clone());
        let loaded = self.0.load(spec, path.clone()).await;
        loaded.map_err(|problem| LoadError::new(&path, problem).of_plugin(&name))
    }

    /// Loads the last version that proved good of a plugin whose component was `refused` by [`load`](Self::load). None
    /// if none is known, if `sha256` pins another one, or if it does not load either.
    pub async fn load_last_good(&self, spec: PluginSpec, refused: &LoadError) -> Option<Plugin> {
        let (digest, path) = self.0.find_last_good(&spec).await?;
        let name = spec.name.clone();
        match self.0.load(spec, path).await {
            Ok(plugin) => {
                plugin.is_rolled_back(refused);
                Some(plugin)
            }
            Err(problem) => {
                tracing::warn!(plugin = name, digest = %digest.short(), %problem, "the last good version of a plugin is refused too");
                None
            }
        }
    }
}

impl HostParts {
    /// Loads a plugin, with the component in the file `path`.
    async fn load(self: &Arc<HostParts>, spec: PluginSpec, path: PathBuf) -> Result<Plugin, Problem> {
        judge(&spec)?;
        let version = self.version(path, &spec).await?;
        needs::judge(&version.manifest, &spec)?;
        let listener = ListenerHandle::new(self.listener_options(&spec));
        let feed = feed(&version);
        let shared = Arc::new(Shared::new(Arc::clone(self), Terms::new(spec)?, listener, &version));
        Plugin::new(shared, version, feed).await
    }

    /// Makes a version for `spec` of the component in the file `path`, and keeps the component in case it proves good.
    pub(crate) async fn version(self: &Arc<HostParts>, path: PathBuf, spec: &PluginSpec) -> Result<Described, Problem> {
        let name = Arc::from(spec.name.as_str());
        let (version, bytes) = self.describe(path, spec.sha256, name, spec.limits).await?;
        let (last_good, digest, file) = (self.last_good.clone(), version.component.digest, spec.component.clone());
        self.blocking(move || last_good.keep(&file, digest, &bytes)).await?;
        Ok(version)
    }

    /// Notes that `digest` is good for the plugin of `spec`.
    pub(crate) async fn note_good(&self, spec: &PluginSpec, digest: Digest) {
        let (last_good, name, file) = (self.last_good.clone(), spec.name.clone(), spec.component.clone());
        // It fails only while everything ends.
        let _ = self.blocking(move || last_good.note(&name, &file, digest)).await;
    }

    /// The version that was last good for the plugin of `spec`, if there is one and it still is fit to run.
    pub(crate) async fn last_good(self: &Arc<HostParts>, spec: &PluginSpec) -> Option<Described> {
        let (_, path) = self.find_last_good(spec).await?;
        self.version(path, spec).await.ok()
    }

    async fn find_last_good(&self, spec: &PluginSpec) -> Option<(Digest, PathBuf)> {
        let (last_good, name, file) = (self.last_good.clone(), spec.name.clone(), spec.component.clone());
        let found = self.blocking(move || last_good.find(&name, &file)).await.ok()??;
        spec.sha256.is_none_or(|pinned| pinned == found.0).then_some(found)
    }

    /// Does what blocks where it may.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Problem> {
        self.handle.spawn_blocking(work).await.map_err(|_| Problem::Stopping)
    }

    /// Judges, compiles and describes the component or script in the file `path`. With its bytes.
    pub(crate) async fn describe(
        self: &Arc<HostParts>,
        path: PathBuf,
        pin: Option<Digest>,
        plugin: Arc<str>,
        limits: Limits,
    ) -> Result<(Described, Arc<[u8]>), Problem> {
        let (component, bytes) = match is_script(&path) {
            true => {
                let script = self.blocking(move || Script::read(&path)).await??;
                let (runner, bytes) = (&self.script_runner, Arc::from(&script.text[..]));
                (runner.run(script, pin, &self.artifacts, &self.linker).await?, bytes)
            }
            false => {
                let bytes: Arc<[u8]> = self.blocking(move || component::read(&path)).await??.into();
                let component = PluginComponent::new(Arc::clone(&bytes), pin, &self.artifacts, &self.linker).await?;
                (component, bytes)
            }
        };
        let reader = Reader::new(self.catalog.clone(), Access::Denied(DENIED_IN_DESCRIBE));
        let kube = KubeAccess::Denied(DENIED_IN_DESCRIBE);
        let ration = self.ration(&plugin, limits, World::Still, reader, kube, Counter::default());
        let watch = Watch::new(Arc::clone(&self.env), limits.call, CancellationToken::new());
        let version = self.on_guests(Described::ask(component, ration, watch)).await??;
        Ok((version, bytes))
    }

    /// Runs `work`, which calls a guest, where guests run.
    pub(crate) async fn on_guests<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        let (answer, answered) = oneshot::channel();
        let task = async move {
            // Whoever asked may have gone.
            let _ = answer.send(work.await);
        };
        self.env.spawn("plugin-load", Box::pin(task));
        answered.await.map_err(|_| Problem::Stopping)
    }

    pub(crate) fn ration(
        &self,
        plugin: &Arc<str>,
        limits: Limits,
        world: World,
        reader: Reader,
        kube: KubeAccess,
        log_dropped: Counter,
    ) -> Ration {
        let clock = Arc::clone(self.ticker.clock());
        Ration {
            plugin: Arc::clone(plugin),
            limits,
            world,
            reader,
            kube,
            clock,
            lanes: Arc::clone(&self.lanes),
            conduct: Arc::default(),
            log_dropped,
        }
    }

    /// How the listener of a plugin with this section behaves.
    pub(crate) fn listener_options(&self, spec: &PluginSpec) -> listener::ListenerOptions {
        listener::ListenerOptions {
            pending_events_max: spec.limits.pending,
            resync: spec.resync,
            on_failure: match spec.on_failure {
                OnFailure::Skip => listener::OnFailure::Skip,
                OnFailure::Retry | OnFailure::Quarantine => listener::OnFailure::Retry,
            },
            seed: self.env.random(),
            ..listener::ListenerOptions::default()
        }
    }
}

/// Where the indexes that `version` computes go.
pub(crate) fn feed(version: &Described) -> Option<IndexFeedHandle> {
    let names = version.manifest.index_names();
    version
        .component
        .roles
        .index_funcs
        .then(|| IndexFeedHandle::new(names.iter().cloned()))
}

/// What is wrong with a section, whatever its component.
pub(crate) fn judge(spec: &PluginSpec) -> Result<(), Problem> {
    let limits = &spec.limits;
    let refuse = |problem: String| Err(Problem::Spec(problem));
    if spec.name.is_empty() {
        return refuse("the plugin has no name".to_owned());
    }
    if !spec.config.is_object() {
        return refuse("`config` is not a table".to_owned());
    }
    if limits.instances != 1 {
        return refuse(format!(
            "limits.instances is {}, and more than one is not built yet: set it to 1",
            limits.instances
        ));
    }
    if limits.pending == 0 || limits.memory_bytes == 0 || limits.cpu.is_zero() || limits.call.is_zero() {
        return refuse(
            "a limit of 0 leaves nothing to run with: limits.memory, cpu, call and pending are more than 0".to_owned(),
        );
    }
    for (number, (alias, _)) in spec.informers.iter().enumerate() {
        if spec.informers[..number].iter().any(|(other, _)| other == alias) {
            return refuse(format!("`informers` gives the name {alias:?} twice"));
        }
    }
    Ok(())
}
