//! Creates the instances of a version: the first ones, and those that are swapped in.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::Lane;
use informant_spec::Content;
use tokio_util::sync::CancellationToken;

use crate::actor::events::swap::instance_count;
use crate::actor::restart::InitFailures;
use crate::actor::slot::FirstInstance;
use crate::actor::{ActorKind, InstanceId, PluginContext};
use crate::capability::InitEffects;
use crate::component::roles::Role;
use crate::error::LoadProblem;
use crate::instance::Instance;
use crate::instance::config::PluginConfig;
use crate::instance::context::{PreviousVersion, StartCause};
use crate::instance::version::LoadedVersion;
use crate::plugin::{Plugin, lock};

/// How long a swap tries an `init` that asks to be tried again: 60 s. The running version continues meanwhile.
pub(crate) const INIT_RETRY_AT_SWAP: Duration = Duration::from_secs(60);

/// The instances of a version that is to be swapped in.
#[derive(Default)]
pub(super) struct Candidates {
    /// Those of each actor.
    pub(super) instances: [Vec<Instance>; 2],
    /// What they changed in the plugin's keys, if they are swapped in.
    pub(super) changes: InitEffects,
    /// Cancelled if those that handle events cannot be used: there are none, or the plugin stood by since.
    pub(super) term: CancellationToken,
}

/// The first instances of each actor.
pub(super) type FirstInstances = [Vec<FirstInstance>; 2];

impl Plugin {
    /// Loads the version in `content` and creates its instances.
    pub(super) async fn instantiate(
        &self,
        config: &Arc<PluginConfig>,
        content: &Content,
    ) -> Result<(LoadedVersion, Candidates), LoadProblem> {
        let version = self.0.context.runtime.load_version(content, config).await?;
        let candidates = self.candidates_of(config, &version).await?;
        Ok((version, candidates))
    }

    /// The instances of a version that is to follow the running one.
    pub(super) async fn candidates_of(
        &self,
        config: &Arc<PluginConfig>,
        version: &LoadedVersion,
    ) -> Result<Candidates, LoadProblem> {
        let running = lock(&self.0.version).clone();
        let is_same_number = self.0.context.config().spec.limits.instances == config.spec.limits.instances;
        let transfers =
            is_same_number && running.component.roles.has(Role::State) && version.component.roles.has(Role::State);
        let previous = transfers.then(|| PreviousVersion {
            version: running.manifest.version.clone(),
            digest: running.component.digest,
        });
        self.new_instances(config, version, previous).await
    }

    pub(super) async fn new_instances(
        &self,
        config: &Arc<PluginConfig>,
        version: &LoadedVersion,
        previous: Option<PreviousVersion>,
    ) -> Result<Candidates, LoadProblem> {
        self.0.context.runtime.check_version(version, &config.spec)?;
        candidates(&self.0.context, config, version, previous).await
    }
}

/// The instances that each actor of a plugin with `config` has.
fn ids(config: &PluginConfig) -> [(ActorKind, Lane); 2] {
    [(ActorKind::Events, instance_count(config)), (ActorKind::Index, 1)]
}

/// Creates the instances of `version` for each actor that needs them, to be swapped in, on the guests' runtime. If an
/// `init` asks to be tried again, all are created again, for [`INIT_RETRY_AT_SWAP`].
async fn candidates(
    context: &Arc<PluginContext>,
    config: &Arc<PluginConfig>,
    version: &LoadedVersion,
    previous: Option<PreviousVersion>,
) -> Result<Candidates, LoadProblem> {
    let (parts, config, version) = (Arc::clone(context), Arc::clone(config), version.clone());
    let make = async move {
        let until = parts.now() + INIT_RETRY_AT_SWAP;
        let mut failures = InitFailures::default();
        loop {
            let term = parts.ends_calls(ActorKind::Events);
            let was_standby = term.is_cancelled();
            let made = try_candidates(&parts, &config, &version, previous.as_ref());
            match parts.runtime.load_turns.run(&*parts.runtime.env, made).await {
                // It stood by meanwhile, which says nothing of the version.
                Err(_) if term.is_cancelled() && !was_standby && !parts.abort.is_cancelled() => {}
                Err((actor, problem @ LoadProblem::InitRetryable { .. })) if parts.now() < until => {
                    let wait = failures.wait(&problem).min(until - parts.now());
                    parts.log_init_failure(actor, &problem, wait);
                    parts.runtime.env.sleep(wait).await;
                }
                Err((_, LoadProblem::InitRetryable { role, message, .. })) => {
                    return Err(LoadProblem::InitGaveUp {
                        role,
                        message,
                        within: INIT_RETRY_AT_SWAP,
                    });
                }
                made => return made.map_err(|(_, problem)| problem),
            }
        }
    };
    context.runtime.on_guests(make).await?
}

/// Creates them once. A failure is that of an instance for this actor.
async fn try_candidates(
    parts: &PluginContext,
    config: &PluginConfig,
    version: &LoadedVersion,
    previous: Option<&PreviousVersion>,
) -> Result<Candidates, (ActorKind, LoadProblem)> {
    let mut candidates = Candidates {
        changes: InitEffects::new(config.spec.is_dry_run),
        term: parts.ends_calls(ActorKind::Events),
        ..Candidates::default()
    };
    let Candidates { instances, changes, .. } = &mut candidates;
    for (made, (actor, count)) in instances.iter_mut().zip(ids(config)) {
        if !actor.is_needed(version.component.roles) || parts.ends_calls(actor).is_cancelled() {
            continue;
        }
        let previous = previous.filter(|_| actor == ActorKind::Events);
        for number in 0..count {
            let id = InstanceId { actor, number };
            let instance = parts.instance(config, version, id, StartCause::Swap, previous.cloned(), changes);
            made.push(instance.await.map_err(|problem| (actor, problem))?);
        }
    }
    Ok(candidates)
}

/// Creates the first instances of `version` for each actor. None in place of one whose `init` asks to be tried again,
/// with that problem.
pub(super) async fn first_instances(
    context: &Arc<PluginContext>,
    version: &LoadedVersion,
) -> Result<FirstInstances, LoadProblem> {
    let (parts, version) = (Arc::clone(context), version.clone());
    let make = async move {
        let made = try_first_instances(&parts, &version);
        parts.runtime.load_turns.run(&*parts.runtime.env, made).await
    };
    context.runtime.on_guests(make).await?
}

async fn try_first_instances(parts: &PluginContext, version: &LoadedVersion) -> Result<FirstInstances, LoadProblem> {
    let config = parts.config();
    let mut made = [Vec::new(), Vec::new()];
    for (made, (actor, count)) in made.iter_mut().zip(ids(&config)) {
        for number in 0..count {
            if !actor.is_needed(version.component.roles) || (actor == ActorKind::Events && parts.is_standby()) {
                made.push(FirstInstance::NotNeeded);
                continue;
            }
            let id = InstanceId { actor, number };
            let mut changes = InitEffects::new(config.spec.is_dry_run);
            let instance = parts.instance(&config, version, id, StartCause::Start, None, &mut changes);
            made.push(match instance.await {
                Ok(instance) => FirstInstance::Made(Box::new(instance)),
                Err(problem @ LoadProblem::InitRetryable { .. }) => FirstInstance::Later(problem),
                Err(problem) => return Err(problem),
            });
            changes.commit();
        }
    }
    Ok(made)
}
