//! A preflight: creates and initializes a plugin's instances without starting it, with no informer or cluster to call.
//!
//! It finds a `config` that the plugin rejects before the plugin runs. In `init`, calls of `store` return `not-ready`
//! and calls of `kube` return `unavailable`, as while the daemon starts. If `init` fails after such a call, the result
//! says little: it may succeed in the daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use crate::actor::config::PluginConfig;
use crate::actor::{ActorKind, message_of};
use crate::component::LoadedVersion;
use crate::error::{LoadError, LoadProblem};
use crate::host::{self, HostInner, Inspection, PluginHost};
use crate::hostcalls::kube::KubeAccess;
use crate::hostcalls::store::{StoreAccess, StoreReader};
use crate::instance::Instance;
use crate::instance::watchdog::CallWatchdog;
use crate::spec::PluginSpec;

/// The result of a preflight.
#[derive(Debug)]
pub struct Preflight {
    /// What is known of the component.
    pub inspection: Inspection,
    /// Why the plugin would not start, if so.
    pub failure: Option<PreflightFailure>,
}

/// Why a plugin would not start.
#[derive(Debug)]
pub struct PreflightFailure {
    /// What is wrong.
    pub error: LoadError,
    /// Whether `init` called `store` or `kube` before, which have no data in a preflight: it may succeed in the daemon.
    pub called_host: bool,
}

/// Tracks whether a guest called `store` or `kube` during a preflight.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreflightCalls(Arc<AtomicBool>);

impl PreflightCalls {
    /// Records such a call; returns the reason to answer it with.
    pub(crate) fn record(&self) -> &'static str {
        self.0.store(true, Ordering::Relaxed);
        "this is a preflight of init: no informer runs and no cluster is connected"
    }

    fn has_calls(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PluginHost {
    /// Inspects a plugin as [`inspect`](Self::inspect) does, and initializes its instances as [`load`](Self::load)
    /// would. Keeps nothing of it. The caller checks a pinned digest.
    ///
    /// # Errors
    /// [`LoadError`], if it fails before the manifest is known.
    pub async fn preflight(&self, spec: &PluginSpec) -> Result<Preflight, LoadError> {
        let parts = self.parts();
        let name = Arc::from(spec.name.as_str());
        let describe = async {
            let file = parts.read(&spec.component).await?;
            parts.describe(&file, None, name, spec.limits).await
        };
        let described = describe.await;
        let version = described.map_err(|problem| LoadError::new(&spec.component, problem))?;
        let calls = PreflightCalls::default();
        let started = start(parts, spec, &version, &calls).await;
        Ok(Preflight {
            inspection: Inspection::of(&version),
            failure: started.err().map(|problem| PreflightFailure {
                error: LoadError::new(&spec.component, problem),
                called_host: calls.has_calls(),
            }),
        })
    }
}

async fn start(
    parts: &Arc<HostInner>,
    spec: &PluginSpec,
    version: &LoadedVersion,
    calls: &PreflightCalls,
) -> Result<(), LoadProblem> {
    host::validate(spec)?;
    version.manifest.check_grants(spec)?;
    let config = PluginConfig::new(spec.clone())?;
    for actor in [ActorKind::Events, ActorKind::Index] {
        if actor.is_needed(version.component.roles) {
            let (of, config, version, calls) = (Arc::clone(parts), Arc::clone(&config), version.clone(), calls.clone());
            let init = async move { init(&of, &config, &version, actor, &calls).await };
            parts.on_guests(init).await??;
        }
    }
    Ok(())
}

/// Creates an instance for `actor` and initializes it.
async fn init(
    parts: &HostInner,
    config: &PluginConfig,
    version: &LoadedVersion,
    actor: ActorKind,
    calls: &PreflightCalls,
) -> Result<(), LoadProblem> {
    let limits = config.spec.limits;
    let reader = StoreReader::new(parts.catalog.clone(), StoreAccess::Preflight(calls.clone()));
    let kube = KubeAccess::Preflight(calls.clone());
    let plugin = Arc::from(config.spec.name.as_str());
    let resources = parts.instance_resources(&plugin, limits, actor.wasi_mode(), reader, kube, Counter::default());
    let watchdog = CallWatchdog::new(Arc::clone(&parts.env), limits.call, CancellationToken::new());
    let _running = resources.clock.run_guests();
    let mut instance = Instance::new(&parts.engine, &version.component, resources, watchdog).await?;
    let answer = instance.init(actor.role(), &config.config).await;
    answer
        .map_err(|report| LoadProblem::Trapped(*report))?
        .map_err(|failure| LoadProblem::Init {
            role: actor.as_str(),
            message: message_of(failure),
        })
}
