//! Creates the instances of a version: the first ones, and those that are swapped in.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::Shard;

use crate::actor::config::PluginConfig;
use crate::actor::events::swap::instance_count;
use crate::actor::restart::InitFailures;
use crate::actor::slot::FirstInstance;
use crate::actor::{ActorKind, InstanceId, PluginContext};
use crate::component::LoadedVersion;
use crate::component::context::{PreviousVersion, StartCause};
use crate::component::file::PluginFile;
use crate::error::LoadProblem;
use crate::instance::Instance;
use crate::plugin::{Plugin, lock};

/// How long a swap tries an `init` that asks to be tried again: 60 s. The running version continues meanwhile.
pub const INIT_RETRY_AT_SWAP: Duration = Duration::from_secs(60);

/// The instances of each actor.
pub(super) type Instances = [Vec<Instance>; 2];

/// The first instances of each actor.
pub(super) type FirstInstances = [Vec<FirstInstance>; 2];

impl Plugin {
    /// Loads the version in `file` and creates its instances.
    pub(super) async fn instantiate(
        &self,
        config: &Arc<PluginConfig>,
        file: &PluginFile,
    ) -> Result<(LoadedVersion, Instances), LoadProblem> {
        let version = self.0.context.host.load_version(file, config).await?;
        let running = lock(&self.0.version).clone();
        let is_same_number = self.0.context.config().spec.limits.instances == config.spec.limits.instances;
        let transfers = is_same_number && running.component.roles.state && version.component.roles.state;
        let previous = transfers.then(|| PreviousVersion {
            version: running.manifest.version.clone(),
            digest: running.component.digest,
        });
        let instances = self.new_instances(config, &version, previous).await?;
        Ok((version, instances))
    }

    pub(super) async fn new_instances(
        &self,
        config: &Arc<PluginConfig>,
        version: &LoadedVersion,
        previous: Option<PreviousVersion>,
    ) -> Result<Instances, LoadProblem> {
        self.0.context.host.check_version(version, &config.spec)?;
        instances(&self.0.context, config, version, previous).await
    }
}

/// The instances that each actor of a plugin with `config` has.
fn ids(config: &PluginConfig) -> [(ActorKind, Shard); 2] {
    [(ActorKind::Events, instance_count(config)), (ActorKind::Index, 1)]
}

/// Creates the instances of `version` for each actor that needs them, to be swapped in, on the guests' runtime. An
/// `init` that asks to be tried again is, for [`INIT_RETRY_AT_SWAP`].
async fn instances(
    context: &Arc<PluginContext>,
    config: &Arc<PluginConfig>,
    version: &LoadedVersion,
    previous: Option<PreviousVersion>,
) -> Result<Instances, LoadProblem> {
    let (parts, config, version) = (Arc::clone(context), Arc::clone(config), version.clone());
    let make = async move {
        let until = parts.now() + INIT_RETRY_AT_SWAP;
        let mut made = [Vec::new(), Vec::new()];
        for (made, (actor, count)) in made.iter_mut().zip(ids(&config)) {
            if !actor.is_needed(version.component.roles) {
                continue;
            }
            let previous = previous.clone().filter(|_| actor == ActorKind::Events);
            for number in 0..count {
                let id = InstanceId { actor, number };
                made.push(instance_until(&parts, &config, &version, id, previous.clone(), until).await?);
            }
        }
        Ok(made)
    };
    context.host.on_guests(make).await?
}

/// Creates one of them. An `init` that asks to be tried again is, until `until`.
async fn instance_until(
    parts: &PluginContext,
    config: &PluginConfig,
    version: &LoadedVersion,
    id: InstanceId,
    previous: Option<PreviousVersion>,
    until: Moment,
) -> Result<Instance, LoadProblem> {
    let mut failures = InitFailures::default();
    loop {
        let instance = parts.instance(config, version, id, StartCause::Swap, previous.clone());
        match instance.await {
            Err(problem @ LoadProblem::InitRetryable { .. }) if parts.now() < until => {
                let wait = failures.wait(&problem).min(until - parts.now());
                parts.log_init_failure(id.actor, &problem, wait);
                parts.host.env.sleep(wait).await;
            }
            Err(LoadProblem::InitRetryable { role, message, .. }) => {
                return Err(LoadProblem::InitGaveUp { role, message });
            }
            made => return made,
        }
    }
}

/// Creates the first instances of `version` for each actor. None in place of one whose `init` asks to be tried again,
/// with that problem.
pub(super) async fn first_instances(
    context: &Arc<PluginContext>,
    version: &LoadedVersion,
) -> Result<FirstInstances, LoadProblem> {
    let (parts, version) = (Arc::clone(context), version.clone());
    let make = async move {
        let config = parts.config();
        let mut made = [Vec::new(), Vec::new()];
        for (made, (actor, count)) in made.iter_mut().zip(ids(&config)) {
            for number in 0..count {
                if !actor.is_needed(version.component.roles) {
                    made.push(FirstInstance::NotNeeded);
                    continue;
                }
                let id = InstanceId { actor, number };
                made.push(
                    match parts.instance(&config, &version, id, StartCause::Start, None).await {
                        Ok(instance) => FirstInstance::Made(Box::new(instance)),
                        Err(problem @ LoadProblem::InitRetryable { .. }) => FirstInstance::Later(problem),
                        Err(problem) => return Err(problem),
                    },
                );
            }
        }
        Ok(made)
    };
    context.host.on_guests(make).await?
}
