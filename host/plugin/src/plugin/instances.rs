//! Creates the instances of a version: the first ones, and those that are swapped in.

use std::sync::Arc;
use std::time::Duration;

use crate::actor::config::PluginConfig;
use crate::actor::restart::InitFailures;
use crate::actor::slot::FirstInstance;
use crate::actor::{ActorKind, PluginContext};
use crate::component::LoadedVersion;
use crate::component::context::{PreviousVersion, StartCause};
use crate::component::file::PluginFile;
use crate::error::LoadProblem;
use crate::instance::Instance;
use crate::plugin::{Plugin, lock};

/// How long a swap tries an `init` that asks to be tried again: 60 s. The running version continues meanwhile.
pub const INIT_RETRY_AT_SWAP: Duration = Duration::from_secs(60);

/// An instance for each actor that needs one.
pub(super) type Instances = [Option<Instance>; 2];

impl Plugin {
    /// Loads the version in `file` and creates its instances.
    pub(super) async fn instantiate(
        &self,
        config: &Arc<PluginConfig>,
        file: &PluginFile,
    ) -> Result<(LoadedVersion, Instances), LoadProblem> {
        let version = self.0.context.host.load_version(file, config).await?;
        let running = lock(&self.0.version).clone();
        let transfers = running.component.roles.state && version.component.roles.state;
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

/// Creates an instance of `version` for each actor that needs one, to be swapped in, on the guests' runtime. An `init`
/// that asks to be tried again is, for [`INIT_RETRY_AT_SWAP`].
async fn instances(
    context: &Arc<PluginContext>,
    config: &Arc<PluginConfig>,
    version: &LoadedVersion,
    previous: Option<PreviousVersion>,
) -> Result<Instances, LoadProblem> {
    let (parts, config, version) = (Arc::clone(context), Arc::clone(config), version.clone());
    let make = async move {
        let roles = version.component.roles;
        let until = parts.now() + INIT_RETRY_AT_SWAP;
        let mut made = [None, None];
        for (slot, actor) in made.iter_mut().zip([ActorKind::Events, ActorKind::Index]) {
            if !actor.is_needed(roles) {
                continue;
            }
            let mut failures = InitFailures::default();
            let previous = previous.clone().filter(|_| actor == ActorKind::Events);
            *slot = loop {
                let instance = parts.instance(&config, &version, actor, StartCause::Swap, previous.clone());
                match instance.await {
                    Ok(instance) => break Some(instance),
                    Err(problem @ LoadProblem::InitRetryable { .. }) if parts.now() < until => {
                        let wait = failures.wait(&problem).min(until - parts.now());
                        parts.log_init_failure(actor, &problem, wait);
                        parts.host.env.sleep(wait).await;
                    }
                    Err(LoadProblem::InitRetryable { role, message, .. }) => {
                        return Err(LoadProblem::InitGaveUp { role, message });
                    }
                    Err(problem) => return Err(problem),
                }
            };
        }
        Ok(made)
    };
    context.host.on_guests(make).await?
}

/// Creates the first instance of `version` for each actor that needs one. None in place of one whose `init` asks to be
/// tried again, with that problem.
pub(super) async fn first_instances(
    context: &Arc<PluginContext>,
    version: &LoadedVersion,
) -> Result<[FirstInstance; 2], LoadProblem> {
    let (parts, version) = (Arc::clone(context), version.clone());
    let make = async move {
        let (roles, config) = (version.component.roles, parts.config());
        let mut made = [FirstInstance::NotNeeded, FirstInstance::NotNeeded];
        for (slot, actor) in made.iter_mut().zip([ActorKind::Events, ActorKind::Index]) {
            if !actor.is_needed(roles) {
                continue;
            }
            *slot = match parts.instance(&config, &version, actor, StartCause::Start, None).await {
                Ok(instance) => FirstInstance::Made(Box::new(instance)),
                Err(problem @ LoadProblem::InitRetryable { .. }) => FirstInstance::Later(problem),
                Err(problem) => return Err(problem),
            };
        }
        Ok(made)
    };
    context.host.on_guests(make).await?
}
