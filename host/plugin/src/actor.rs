//! The two actors of a plugin, and the context they share with its handle.
//!
//! ```text
//! Plugin ──ActorCommand──▶ mailbox ──▶ EventActor ──▶ one worker per instance ──▶ slot ──▶ instance
//!                                      IndexActor ──────────────────────────────▶ slot ──▶ instance
//! ```
//!
//! Each actor is a task; an instance makes one call at a time. A lost instance is rebuilt with back-off or quarantined
//! ([`restart`]), a new version is on [`probation`], and its predecessor's state is handed over by [`state_transfer`].

pub(crate) mod config;
pub(crate) mod events;
pub(crate) mod index;
pub(crate) mod live_status;
pub(crate) mod mailbox;
pub(crate) mod probation;
pub(crate) mod restart;
pub(crate) mod slot;
pub(crate) mod state_transfer;
pub(crate) mod worker;

mod command_flag;
mod dead_letters;
mod deliver;
mod outcomes;
mod retries;
mod source_rules;

mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, Ordering};
}

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::listener::Pause;
use informant_cache::{ListenerHandle, Moment};
use tokio_util::sync::CancellationToken;

use crate::Roles;
use crate::actor::config::PluginConfig;
use crate::actor::live_status::LiveStatus;
pub(crate) use crate::actor::live_status::{InstanceId, PausedBy};
use crate::actor::outcomes::FailureWarnings;
use crate::actor::probation::Probation;
use crate::component::LoadedVersion;
use crate::component::context::{InstanceStart, PreviousVersion, StartCause};
use crate::component::manifest::{Manifest, WritesEnd};
use crate::effects::Effects;
use crate::engine::scheduler::OverrunHistory;
use crate::error::LoadProblem;
use crate::host::HostInner;
use crate::hostcalls::HostAccess;
use crate::hostcalls::http::{HttpAccess, HttpRights};
use crate::hostcalls::kube::{KubeAccess, KubeRights};
use crate::hostcalls::kv::{InitChanges, KvAccess, KvRights};
use crate::hostcalls::metrics::{MetricsAccess, PluginSeries};
use crate::hostcalls::store::{StoreAccess, StoreReader};
use crate::instance::Instance;
use crate::instance::bindings::informant::plugin::types::Failure;
use crate::instance::guest::InstanceResources;
use crate::instance::wasi::WasiMode;
use crate::instance::watchdog::CallWatchdog;
use crate::metrics::PluginCounters;
use crate::status::{PluginState, Reload};
use crate::writes::{OwnCache, Writes};

/// The reason every interface but `log` returns to an index function with `denied`.
pub(crate) const DENIED_IN_INDEX: &str =
    "an index function must depend on its arguments alone: in the role index, only log can be called";

/// The longest error text that is kept, in bytes.
const ERROR_BYTES_MAX: usize = 4_096;

/// State shared by a plugin's handle and its actors.
pub(crate) struct PluginContext {
    pub(crate) host: Arc<HostInner>,
    pub(crate) listener: ListenerHandle,
    pub(crate) counters: PluginCounters,
    /// Ends running calls and the actors.
    pub(crate) abort: CancellationToken,
    pub(crate) kube: Arc<KubeRights>,
    /// What the plugin remembers.
    pub(crate) kv: Arc<KvRights>,
    /// Whether it is in dry run, and what it would have done.
    pub(crate) effects: Arc<Effects>,
    /// Its own metrics.
    pub(crate) series: Arc<PluginSeries>,
    /// What its instances share of HTTP.
    pub(crate) http: Arc<HttpRights>,
    /// What the cache has of the plugin's objects.
    pub(crate) cache: Arc<OwnCache>,
    /// The writes that handlers deferred.
    pub(crate) writes: Writes,
    warnings: Mutex<FailureWarnings>,
    /// The configuration of new instances. Each actor has that of its own instance.
    config: Mutex<Arc<PluginConfig>>,
    pub(crate) probation: Probation,
    pub(crate) overruns: Arc<OverrunHistory>,
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

    /// Whether a component with `roles` needs this actor to have an instance.
    pub(crate) fn is_needed(self, roles: Roles) -> bool {
        match self {
            ActorKind::Events => roles.wants_events(),
            ActorKind::Index => roles.index_funcs,
        }
    }
}

impl PluginContext {
    pub(crate) fn new(
        host: Arc<HostInner>,
        config: Arc<PluginConfig>,
        listener: ListenerHandle,
        version: &LoadedVersion,
    ) -> PluginContext {
        let counters = host.metrics.plugin(&config.spec.name);
        let cache = Arc::new(OwnCache::new(host.catalog.clone(), &config.spec.informers));
        let effects = Arc::new(Effects::new(config.spec.is_dry_run, &host.env, counters.effects()));
        let kube = KubeRights::new(
            counters.plugin(),
            host.kube.clone(),
            Arc::clone(&host.env),
            counters.kube(),
            Arc::clone(&cache),
            Arc::clone(&effects),
            config.spec.limits.kube_calls,
        );
        let quota_bytes = config.spec.limits.kv_bytes;
        let kv = KvRights::new(
            counters.plugin(),
            host.key_value.clone(),
            quota_bytes,
            counters.kv(),
            Arc::clone(&effects),
        );
        let http = HttpRights::new(
            counters.plugin(),
            host.http.clone(),
            Arc::clone(&host.env),
            counters.http(),
            config.spec.limits,
            Arc::clone(&effects),
        );
        let paused = config.spec.paused.then_some(PausedBy::Section);
        if paused.is_some() {
            listener.control().pause(Pause::Operator);
        }
        PluginContext {
            writes: Writes::new(&config.spec.limits, counters.writes()),
            warnings: Mutex::default(),
            cache,
            effects,
            series: counters.custom(&host.env),
            counters,
            kube: Arc::new(kube),
            kv: Arc::new(kv),
            http: Arc::new(http),
            abort: CancellationToken::new(),
            probation: Probation::new(host.env.now()),
            overruns: Arc::default(),
            status: Mutex::new(LiveStatus {
                instances: BTreeMap::new(),
                losses: Default::default(),
                because: None,
                paused,
                manifest: Arc::clone(&version.manifest),
                roles: version.component.roles,
                digest: version.component.digest,
                previous_digest: None,
                rolled_back: None,
                restarts: 0,
                reloads: 0,
                last_reload: None,
                last_error: None,
            }),
            host,
            config: Mutex::new(config),
            listener,
        }
    }

    /// The configuration of new instances.
    pub(crate) fn config(&self) -> Arc<PluginConfig> {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes `config` the plugin's configuration.
    pub(crate) fn apply(&self, config: &Arc<PluginConfig>) {
        self.listener
            .control()
            .set_options(self.host.listener_options(&config.spec), self.now());
        self.writes.set_limits(&config.spec.limits, self.now());
        let paused = config.spec.paused;
        if paused != self.config().spec.paused {
            self.set_paused(paused.then_some(PausedBy::Section));
        }
        self.set_config(Arc::clone(config));
    }

    fn set_config(&self, config: Arc<PluginConfig>) {
        self.cache.set_informers(&config.spec.informers);
        self.kv.set_quota(config.spec.limits.kv_bytes);
        self.http.set_limits(config.spec.limits);
        self.effects.set_dry_run(config.spec.is_dry_run);
        self.kube.set_calls_max(config.spec.limits.kube_calls);
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Creates the instance `id` of `version` with `config` and calls its `init`, which adds to `changes` what it
    /// changed in the plugin's keys. They are empty after a failure.
    ///
    /// # Errors
    /// Why the instance could not be created or initialized.
    pub(crate) async fn instance(
        &self,
        config: &PluginConfig,
        version: &LoadedVersion,
        id: InstanceId,
        because: StartCause,
        previous: Option<PreviousVersion>,
        changes: &mut InitChanges,
    ) -> Result<Instance, LoadProblem> {
        let call_max = config.spec.limits.call;
        let watchdog = CallWatchdog::new(Arc::clone(&self.host.env), call_max, self.abort.clone());
        let _running = self.host.ticker.clock().run_guests();
        let mut instance = Instance::new(
            &self.host.engine,
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
        let catalog = &self.host.catalog;
        let access = match actor {
            ActorKind::Events => HostAccess {
                reader: StoreReader::new(catalog.clone(), StoreAccess::Granted(Arc::clone(&config.grants))),
                kube: KubeAccess::Granted {
                    rights: Arc::clone(&self.kube),
                    grants: Arc::clone(&config.kube),
                    awaits_writes: manifest.writes == WritesEnd::Seen,
                },
                kv: KvAccess::Granted(Arc::clone(&self.kv)),
                metrics: MetricsAccess::Granted(Arc::clone(manifest)),
                http: HttpAccess::Granted {
                    rights: Arc::clone(&self.http),
                    grants: Arc::clone(&config.http),
                },
            },
            ActorKind::Index => HostAccess::denied(catalog, DENIED_IN_INDEX),
        };
        let resources = self.host.instance_resources(
            self.counters.plugin(),
            config.spec.limits,
            actor.wasi_mode(),
            access,
            self.counters.log_dropped.clone(),
        );
        InstanceResources {
            overruns: Arc::clone(&self.overruns),
            ..resources
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.host.env.now()
    }

    pub(crate) fn status(&self) -> MutexGuard<'_, LiveStatus> {
        // Changed by single assignments: whole after any panic.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state of an instance.
    pub(crate) fn set_state(&self, id: InstanceId, state: PluginState, because: Option<String>) {
        let combined = {
            let mut status = self.status();
            status.instance(id).state = state;
            if status.state() == PluginState::Running {
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
        let were_spaced = self.writes.lift_spacing(now);
        self.listener.control().end_slow_downs(now) || were_spaced
    }

    /// Whether too much of what calls committed waits to be written.
    pub(crate) fn is_full(&self) -> bool {
        self.writes.is_full() || self.kv.is_full()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.status().paused.is_some()
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
        status.last_reload = Some(Reload {
            at: now,
            refused: Some(truncated(&because)),
        });
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
///
/// # Errors
/// [`LoadProblem::Trapped`], [`LoadProblem::Init`], [`LoadProblem::InitRetryable`].
pub(crate) async fn initialize(
    instance: &mut Instance,
    config: &PluginConfig,
    id: InstanceId,
    because: StartCause,
    previous: Option<PreviousVersion>,
    changes: &mut InitChanges,
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
    let answer = instance.init(&context, changes).await;
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

/// The message of a failure.
pub(crate) fn message_of(failure: Failure) -> String {
    match failure {
        Failure::Retryable(message) | Failure::Permanent(message) => truncated(&message),
        Failure::RetryAfter(later) => truncated(&later.message),
    }
}

pub(crate) fn truncated(text: &str) -> String {
    let end = text.floor_char_boundary(ERROR_BYTES_MAX);
    match end < text.len() {
        true => format!("{}…", &text[..end]),
        false => text.to_owned(),
    }
}
