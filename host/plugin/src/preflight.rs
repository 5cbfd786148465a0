//! A preflight: creates and initializes a plugin's instances without starting it, with no informer or cluster to call.
//!
//! It finds a `config` that the plugin rejects before the plugin runs: `init` sees here what it sees in the daemon.

use std::sync::Arc;

use informant_spec::{Content, PluginSpec};
use tokio_util::sync::CancellationToken;

use crate::actor::{ActorKind, InstanceId, initialize};
use crate::capability::InitEffects;
use crate::engine::watchdog::CallWatchdog;
use crate::error::{LoadError, LoadProblem};
use crate::host::{Inspection, PluginHost};
use crate::instance::Instance;
use crate::instance::config::PluginConfig;
use crate::instance::context::StartCause;
use crate::instance::guest::InstanceResources;
use crate::instance::version::LoadedVersion;
use crate::runtime::Runtime;

/// The result of a preflight.
#[derive(Debug)]
pub struct Preflight {
    /// What is known of the component.
    pub inspection: Inspection,
    /// Why the plugin would not start, if so.
    pub failure: Option<LoadError>,
}

impl PluginHost {
    /// Inspects a plugin with this content as [`inspect`](Self::inspect) does, and initializes its instances as
    /// [`load`](Self::load) would. Keeps nothing of it. The caller checks a pinned digest.
    ///
    /// # Errors
    /// [`LoadError`], if it fails before the manifest is known.
    pub async fn preflight(&self, spec: &PluginSpec, content: &Content) -> Result<Preflight, LoadError> {
        let runtime = self.runtime();
        let config = PluginConfig::new(spec.clone());
        let described = runtime.describe(content, None, &config).await;
        let version = described.map_err(|problem| LoadError::new(spec.content.path(), problem))?;
        let started = start(runtime, &config, &version).await;
        Ok(Preflight {
            inspection: Inspection::of(&version),
            failure: started
                .err()
                .map(|problem| LoadError::new(spec.content.path(), problem)),
        })
    }
}

async fn start(runtime: &Arc<Runtime>, config: &Arc<PluginConfig>, version: &LoadedVersion) -> Result<(), LoadProblem> {
    runtime.check_version(version, &config.spec)?;
    for actor in [ActorKind::Events, ActorKind::Index] {
        if actor.is_needed(version.component.roles) {
            let (of, config, version) = (Arc::clone(runtime), Arc::clone(config), version.clone());
            runtime
                .on_guests(async move { init(&of, &config, &version, actor).await })
                .await??;
        }
    }
    Ok(())
}

/// Creates an instance for `actor` and initializes it.
async fn init(
    runtime: &Runtime,
    config: &PluginConfig,
    version: &LoadedVersion,
    actor: ActorKind,
) -> Result<(), LoadProblem> {
    let limits = config.spec.limits;
    let resources = InstanceResources {
        wasi_mode: actor.wasi_mode(),
        manifest: Arc::clone(&version.manifest),
        ..runtime.unlisted_resources(config)
    };
    let watchdog = CallWatchdog::new(Arc::clone(&runtime.env), limits.call, CancellationToken::new());
    let _running = resources.clock.run_guests();
    let mut instance = Instance::new(&runtime.engine, &version.component, resources, watchdog).await?;
    let id = InstanceId { actor, number: 0 };
    initialize(
        &mut instance,
        config,
        id,
        StartCause::Start,
        None,
        &mut InitEffects::default(),
    )
    .await
}
