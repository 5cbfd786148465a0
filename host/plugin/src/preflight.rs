//! A preflight: creates and initializes a plugin's instances without starting it, with no informer or cluster to call.
//!
//! It finds a `config` that the plugin rejects before the plugin runs: `init` sees here what it sees in the daemon.

use std::sync::Arc;

use informant_spec::{Content, PluginSpec};
use prometheus_client::metrics::counter::Counter;
use tokio_util::sync::CancellationToken;

use crate::actor::config::PluginConfig;
use crate::actor::{ActorKind, DENIED_IN_INDEX, InstanceId, initialize};
use crate::component::LoadedVersion;
use crate::component::context::StartCause;
use crate::effects::{EffectFamilies, Effects};
use crate::error::{LoadError, LoadProblem};
use crate::host::{HostInner, Inspection, PluginHost};
use crate::hostcalls::HostAccess;
use crate::hostcalls::kv::{InitChanges, KvAccess, KvFamilies, KvRights};
use crate::hostcalls::metrics::MetricsAccess;
use crate::instance::watchdog::CallWatchdog;
use crate::instance::{DENIED_IN_INIT, Instance};

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
        let parts = self.parts();
        let config = PluginConfig::new(spec.clone());
        let described = parts.describe(content, None, &config.context, spec.limits).await;
        let version = described.map_err(|problem| LoadError::new(spec.content.path(), problem))?;
        let started = start(parts, &config, &version).await;
        Ok(Preflight {
            inspection: Inspection::of(&version),
            failure: started
                .err()
                .map(|problem| LoadError::new(spec.content.path(), problem)),
        })
    }
}

async fn start(parts: &Arc<HostInner>, config: &Arc<PluginConfig>, version: &LoadedVersion) -> Result<(), LoadProblem> {
    parts.check_version(version, &config.spec)?;
    for actor in [ActorKind::Events, ActorKind::Index] {
        if actor.is_needed(version.component.roles) {
            let (of, config, version) = (Arc::clone(parts), Arc::clone(config), version.clone());
            parts
                .on_guests(async move { init(&of, &config, &version, actor).await })
                .await??;
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
) -> Result<(), LoadProblem> {
    let limits = config.spec.limits;
    let plugin = Arc::from(config.spec.name.as_str());
    let access = match actor {
        ActorKind::Events => {
            let counters = KvFamilies::default().of(&plugin);
            let api = parts.key_value.clone();
            let effects = Effects::new(false, &parts.env, EffectFamilies::default().of(&plugin));
            let (max, effects) = (limits.kv_bytes, Arc::new(effects));
            HostAccess {
                kv: KvAccess::Granted(Arc::new(KvRights::new(&plugin, api, max, counters, effects))),
                metrics: MetricsAccess::Granted(Arc::clone(&version.manifest)),
                ..HostAccess::denied(&parts.catalog, DENIED_IN_INIT)
            }
        }
        ActorKind::Index => HostAccess::denied(&parts.catalog, DENIED_IN_INDEX),
    };
    let wasi_mode = actor.wasi_mode();
    let resources = parts.instance_resources(&plugin, limits, wasi_mode, access, Counter::default());
    let watchdog = CallWatchdog::new(Arc::clone(&parts.env), limits.call, CancellationToken::new());
    let _running = resources.clock.run_guests();
    let mut instance = Instance::new(&parts.engine, &version.component, resources, watchdog).await?;
    let id = InstanceId { actor, number: 0 };
    initialize(
        &mut instance,
        config,
        id,
        StartCause::Start,
        None,
        &mut InitChanges::default(),
    )
    .await
}
