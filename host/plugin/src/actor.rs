//! The two actors of a plugin, and the context they share with its handle.
//!
//! ```text
//! Plugin ──ActorCommand──▶ mailbox ──▶ EventActor ──▶ one worker per instance ──▶ slot ──▶ instance
//!                                      IndexActor ──────────────────────────────▶ slot ──▶ instance
//! ```
//!
//! Each actor is a task; an instance makes one call at a time. A lost instance is rebuilt with back-off or quarantined
//! ([`restart`]), a new version is on [`probation`], and its predecessor's state is handed over by [`state_transfer`].

pub(crate) mod events;
pub(crate) mod index;
pub(crate) mod live_status;
pub(crate) mod mailbox;
pub(crate) mod probation;
pub(crate) mod replay;
pub(crate) mod restart;
pub(crate) mod slot;
pub(crate) mod standing;
pub(crate) mod state_transfer;
pub(crate) mod streak;
pub(crate) mod worker;

mod command_flag;
mod deliver;
mod failure_warnings;
mod outcomes;
mod relations;
mod source_rules;
mod timers;

mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};
}

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use informant_cache::listener::{Delivery, Pause};
use informant_cache::{ListenerHandle, LogThrottle, Moment, ReadyWatch};
use informant_spec::PluginSpec;
use tokio_util::sync::CancellationToken;

use crate::actor::live_status::LiveStatus;
pub(crate) use crate::actor::live_status::{InstanceId, PausedBy};
use crate::actor::mailbox::CommandSender;
use crate::actor::outcomes::Outcomes;
use crate::actor::probation::Probation;
pub use crate::actor::timers::TimerTriggered;
use crate::actor::timers::Timers;
use crate::bindings::informant::plugin::types::Failure;
use crate::capability::parts::{ActorWaker, CapabilityTask, PluginParts};
use crate::capability::permission::CallKind;
use crate::capability::{InitEffects, PluginCapabilities};
use crate::capture::Captures;
use crate::component::manifest::Manifest;
use crate::component::roles::{Role, Roles};
use crate::effects::Effects;
use crate::effects::share::LimitShare;
use crate::engine::cpu_meter::CpuMeter;
use crate::engine::scheduler::OverrunHistory;
use crate::engine::watchdog::CallWatchdog;
use crate::error::LoadProblem;
use crate::instance::config::PluginConfig;
use crate::instance::context::{InstanceStart, PreviousVersion, StartCause};
use crate::instance::guest::InstanceResources;
use crate::instance::version::LoadedVersion;
use crate::instance::wasi::WasiMode;
use crate::instance::{DeniedMemory, Instance};
use crate::metrics::PluginCounters;
use crate::observed::Observed;
use crate::runtime::Runtime;
use crate::status::PluginState;
use crate::sync::lock;
use crate::text::truncated;

/// Between two warnings of one plugin about memory that it was denied and that its calls survived: 60 s, as between two
/// batches of warnings about dead letters. Each says how many calls there were.
pub(crate) const DENIED_MEMORY_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// State shared by a plugin's handle and its actors.
pub(crate) struct PluginContext {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) listener: ListenerHandle,
    pub(crate) counters: PluginCounters,
    /// Ends running calls, and the tasks of capabilities.
    pub(crate) abort: CancellationToken,
    /// Ends the calls of event handlers when the plugin stands by.
    term: Mutex<CancellationToken>,
    pub(crate) capabilities: Arc<PluginCapabilities>,
    /// Whether it is in dry run, and what it would have done.
    pub(crate) effects: Arc<Effects>,
    /// Wakes the event actor, for capabilities.
    waker: Arc<ActorWaker>,
    /// Ends events.
    pub(crate) outcomes: Arc<Outcomes>,
    /// The configuration of new instances. Each actor has that of its own instance.
    config: Mutex<Arc<PluginConfig>>,
    /// The shortest time between two calls for one object, by the manifest of the event actor's version.
    min_interval: Mutex<Option<Duration>>,
    pub(crate) probation: Probation,
    pub(crate) overruns: Arc<OverrunHistory>,
    cpu: CpuMeter,
    /// Calls that are captured.
    pub(crate) captures: Arc<Captures>,
    /// Lines about calls that were denied memory.
    denials: Mutex<LogThrottle>,
    /// None, if it never had any.
    timers: Mutex<Option<Box<Timers>>>,
    /// Calls again what waits for a source or an index.
    _ready: ReadyWatch,
    status: Mutex<LiveStatus>,
}

/// The two actors of a plugin. Index functions have instances of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ActorKind {
    Events,
    Index,
}

impl ActorKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            ActorKind::Events => "events",
            ActorKind::Index => "index",
        }
    }

    /// Whether its instance sees real clocks and random numbers.
    pub(crate) const fn wasi_mode(self) -> WasiMode {
        match self {
            ActorKind::Events => WasiMode::Real,
            ActorKind::Index => WasiMode::Deterministic,
        }
    }

    /// The kind of call that `init` of its instance is.
    pub(crate) const fn init(self) -> CallKind {
        match self {
            ActorKind::Events => CallKind::Init,
            ActorKind::Index => CallKind::IndexInit,
        }
    }

    /// Whether a component with `roles` needs this actor to have an instance.
    pub(crate) fn is_needed(self, roles: Roles) -> bool {
        match self {
            ActorKind::Events => roles.has_handler(),
            ActorKind::Index => roles.has(Role::IndexFuncs),
        }
    }
}

impl PluginContext {
    pub(crate) fn new(
        runtime: Arc<Runtime>,
        config: Arc<PluginConfig>,
        listener: ListenerHandle,
        version: &LoadedVersion,
    ) -> PluginContext {
        let counters = runtime.metrics.plugin(&config.spec.name);
        let series = runtime.metrics.effects.of(counters.plugin());
        let observed = Observed::new(counters.plugin(), runtime.services.observer.as_ref());
        let gate = runtime.services.gate.clone();
        let effects = Arc::new(Effects::new(
            config.spec.is_dry_run,
            &runtime.env,
            series,
            observed,
            gate,
            config.spec.is_divided,
        ));
        let (waker, abort) = (Arc::new(ActorWaker::default()), CancellationToken::new());
        let parts = PluginParts {
            plugin: counters.plugin(),
            spec: &config.spec,
            services: &runtime.services,
            env: &runtime.env,
            wall: &runtime.wall,
            dry_run: &effects,
            waker: &waker,
        };
        let capabilities = PluginCapabilities::new(&runtime.metrics.capabilities, &config.grants, &parts);
        let outcomes = Arc::new(Outcomes::new(
            counters.clone(),
            listener.clone(),
            &runtime,
            config.spec.on_failure,
        ));
        let feed = listener.feed().clone();
        let ready = runtime.services.catalog.watch_ready(move |ready| feed.ready(ready));
        let paused = config.spec.paused.then_some(PausedBy::Section);
        if paused.is_some() {
            listener.control().pause(Pause::Operator);
        }
        let cpu = CpuMeter::new(runtime.ticker.clock(), &counters.cpu);
        let context = PluginContext {
            capabilities: Arc::new(capabilities),
            term: Mutex::new(abort.child_token()),
            effects,
            waker,
            counters,
            abort,
            probation: Probation::new(runtime.env.now()),
            overruns: Arc::default(),
            cpu,
            captures: Arc::default(),
            denials: Mutex::new(LogThrottle::new(1, DENIED_MEMORY_WARNING_PERIOD)),
            timers: Mutex::default(),
            min_interval: Mutex::new(version.manifest.min_interval()),
            _ready: ready,
            status: Mutex::new(LiveStatus {
                instances: BTreeMap::new(),
                losses: Default::default(),
                streak: Arc::clone(outcomes.streak()),
                because: None,
                paused,
                is_standby: false,
                manifest: Arc::clone(&version.manifest),
                roles: version.component.roles,
                digest: version.component.digest,
                previous_digest: None,
                runner: version.component.runner.clone(),
                rolled_back: None,
                restarts: 0,
                reloads: 0,
                last_reload: None,
                reloads_so_far: VecDeque::new(),
                last_error: None,
            }),
            outcomes,
            runtime,
            config: Mutex::new(config),
            listener,
        };
        if context.is_standby() {
            context.end_term();
        }
        context
    }

    pub(crate) fn config(&self) -> Arc<PluginConfig> {
        Arc::clone(&lock(&self.config))
    }

    pub(crate) fn apply(&self, config: &Arc<PluginConfig>) {
        let now = self.now();
        self.set_listener_options(&config.spec);
        let paused = config.spec.paused;
        if paused != self.config().spec.paused {
            self.set_paused(paused.then_some(PausedBy::Section));
        }
        self.outcomes.set_on_failure(config.spec.on_failure);
        self.effects.configure(&config.spec);
        self.capabilities.configure(&config.spec, &config.grants, now);
        *lock(&self.config) = Arc::clone(config);
    }

    /// This process has that part of the plugin's rates from now on. What was taken from them stays taken.
    pub(crate) fn share_limits(&self, share: LimitShare) {
        if !self.effects.set_limit_share(share) {
            return;
        }
        let config = self.config();
        self.set_listener_options(&config.spec);
        self.capabilities.configure(&config.spec, &config.grants, self.now());
    }

    /// Wakes its event actor, once there is one.
    fn waker_of_actor(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = Arc::clone(&self.waker);
        Arc::new(move || waker.wake())
    }

    /// What runs besides its actors.
    pub(crate) fn tasks(&self) -> Vec<CapabilityTask> {
        self.capabilities.tasks(&self.abort)
    }

    /// Its event actor receives its commands from now on.
    pub(crate) fn set_event_actor(&self, commands: CommandSender, wake: Arc<dyn Fn() + Send + Sync>) {
        self.listener.consumer().set_waker(Arc::clone(&wake));
        self.waker.set(wake);
        self.outcomes.set_actor(commands);
    }

    /// Creates the instance `id` of `version` with `config` and calls its `init`, which adds to `changes` what it
    /// changed in the plugin's keys. They are empty after a failure.
    /// Errors: why the instance could not be created or initialized.
    pub(crate) async fn instance(
        &self,
        config: &PluginConfig,
        version: &LoadedVersion,
        id: InstanceId,
        because: StartCause,
        previous: Option<PreviousVersion>,
        changes: &mut InitEffects,
    ) -> Result<Instance, LoadProblem> {
        let call_max = config.spec.limits.call;
        let watchdog = CallWatchdog::new(Arc::clone(&self.runtime.env), call_max, self.ends_calls(id.actor));
        let watchdog = watchdog.metered(&self.cpu);
        let _running = self.runtime.ticker.clock().run_guests();
        let mut instance = Instance::new(
            &self.runtime.engine,
            &version.component,
            self.instance_resources(config, id.actor, &version.manifest),
            watchdog,
        )
        .await?;
        initialize(&mut instance, config, id, because, previous, changes).await?;
        Ok(instance)
    }

    fn instance_resources(
        &self,
        config: &PluginConfig,
        actor: ActorKind,
        manifest: &Arc<Manifest>,
    ) -> InstanceResources {
        InstanceResources {
            wasi_mode: actor.wasi_mode(),
            manifest: Arc::clone(manifest),
            overruns: Arc::clone(&self.overruns),
            ..self.runtime.instance_resources(config, Arc::clone(&self.capabilities))
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.runtime.env.now()
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, LiveStatus> {
        // Changed by single assignments: whole after any panic.
        lock(&self.status)
    }

    pub(crate) fn set_state(&self, id: InstanceId, state: PluginState, because: Option<String>) {
        let combined = {
            let mut status = self.status();
            status.instance(id).state = state;
            if status.worst_of_instances() == PluginState::Running {
                status.because = None;
            }
            status.because = because.or_else(|| status.because.take());
            status.state()
        };
        self.counters.state(combined);
    }

    /// Pauses or resumes the event handler. Returns whether that is a change.
    pub(crate) fn set_paused(&self, paused: Option<PausedBy>) -> bool {
        // Both change under one lock, so that they agree under concurrent calls.
        let mut status = self.status();
        if status.paused.is_some() == paused.is_some() {
            return false;
        }
        status.paused = paused;
        match paused {
            Some(_) => self.listener.control().pause(Pause::Operator),
            None => self.listener.control().resume(Pause::Operator),
        }
        self.counters.state(status.state());
        true
    }

    /// Calls at once what was slowed down because its handler wrote, or asked for calls, again and again. Returns
    /// whether there was any.
    pub(crate) fn end_slow_downs(&self) -> bool {
        let now = self.now();
        let were_spaced = self.capabilities.end_slow_downs(now);
        self.listener.control().end_slow_downs(now) || were_spaced
    }

    fn set_listener_options(&self, spec: &PluginSpec) {
        let mut options = self.runtime.listener_options(spec, *lock(&self.min_interval));
        let share = self.effects.limit_share();
        options.calls_per_second_max = options.calls_per_second_max.map(|max| share.of(max));
        self.listener.control().set_options(options, self.now());
    }

    /// Puts the manifest of a version to work.
    pub(crate) fn activate(&self, manifest: &Arc<Manifest>) {
        self.capabilities.activate(manifest);
        let min_interval = manifest.min_interval();
        if std::mem::replace(&mut *lock(&self.min_interval), min_interval) != min_interval {
            self.set_listener_options(&self.config().spec);
        }
        let relations = relations::of_manifest(manifest, &self.runtime.services.catalog);
        self.listener.control().set_relations(relations);
    }

    /// Whether the cache may lack what a reconciler looks for: a write of an earlier call, or anything of its kinds.
    fn is_behind(&self, delivery: &Delivery) -> bool {
        let kube = &self.capabilities.kube;
        let lacks_write = delivery.key().is_some_and(|key| kube.is_behind(delivery.source, key));
        lacks_write || !kube.is_live(delivery.source)
    }

    /// Whether too much of what calls committed waits to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.capabilities.is_full()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.status().paused.is_some()
    }

    /// Counts calls that were denied memory and returned, and logs that if a line is due.
    pub(crate) fn memory_denied(&self, actor: ActorKind, denied: &DeniedMemory) {
        self.counters.memory_denied.inc_by(denied.calls);
        if let Some(calls) = lock(&self.denials).shared_line(denied.calls, self.now()) {
            let (plugin, role, cause): (&str, _, _) = (self.counters.plugin(), actor.as_str(), &denied.cause);
            tracing::warn!(plugin, role, calls, cause, "plugin denied memory; its calls returned");
        }
    }

    /// Notes how much memory an instance has; 0: there is none.
    pub(crate) fn set_memory(&self, id: InstanceId, bytes: usize) {
        let mut status = self.status();
        status.instance(id).memory_bytes = bytes;
        self.show_instances(&status);
    }

    /// The plugin has no instance `id` any more.
    pub(crate) fn forget_instance(&self, id: InstanceId) {
        let mut status = self.status();
        status.instances.remove(&id);
        self.show_instances(&status);
    }

    fn show_instances(&self, status: &LiveStatus) {
        let gauge = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.counters.instances.set(gauge(status.live()));
        self.counters.memory.set(gauge(status.memory_bytes()));
    }

    /// Records that the last good version runs because the configured one failed or was rejected.
    pub(crate) fn record_rollback(&self, because: String) {
        let now = self.now();
        let mut status = self.status();
        status.last_error = Some((now, truncated(&because)));
        status.reloaded(now, Some(truncated(&because)));
        status.rolled_back = Some(truncated(&because));
        drop(status);
        self.counters.reloaded("rolled-back");
    }

    /// Logs that `init` of an instance for `actor` is tried again after `wait`.
    pub(crate) fn log_init_failure(&self, actor: ActorKind, problem: &LoadProblem, wait: Duration) {
        let plugin: &str = self.counters.plugin();
        tracing::warn!(
            plugin,
            role = actor.as_str(),
            error = %problem,
            retry_in_seconds = wait.as_secs_f64(),
            "plugin not initialized; trying again"
        );
    }

    /// Counts an instance that was lost or could not be created.
    pub(crate) fn count_loss(&self, reason: &'static str, error: &str) {
        let now = self.now();
        let mut status = self.status();
        status.restarts += 1;
        status.last_error = Some((now, truncated(error)));
        drop(status);
        self.counters.restarted(reason);
    }
}

/// Calls `init` of a new instance.
/// Errors: [`LoadProblem::Trapped`], [`LoadProblem::Init`], [`LoadProblem::InitRetryable`].
pub(crate) async fn initialize(
    instance: &mut Instance,
    config: &PluginConfig,
    id: InstanceId,
    because: StartCause,
    previous: Option<PreviousVersion>,
    changes: &mut InitEffects,
) -> Result<(), LoadProblem> {
    let role = id.actor.as_str();
    let context = config.context.to_init_json(&InstanceStart {
        role,
        instance: id.number.into(),
        instances: match id.actor {
            ActorKind::Events => config.spec.limits.instances,
            ActorKind::Index => 1,
        },
        because,
        previous,
    });
    let answer = instance.init(id.actor.init(), &context, changes).await;
    let answer = answer.map_err(|report| LoadProblem::Trapped(*report))?;
    answer.map_err(|failure| {
        let after = match &failure {
            Failure::RetryAfter(later) => Some(Duration::from_millis(later.after_ms.into())),
            Failure::Retryable(_) | Failure::Permanent(_) => None,
        };
        let is_permanent = matches!(failure, Failure::Permanent(_));
        let message = message_of(failure);
        match is_permanent {
            true => LoadProblem::Init { role, message },
            false => LoadProblem::InitRetryable { role, message, after },
        }
    })
}

pub(crate) fn message_of(failure: Failure) -> String {
    match failure {
        Failure::Retryable(message) | Failure::Permanent(message) => truncated(&message),
        Failure::RetryAfter(later) => truncated(&later.message),
    }
}
