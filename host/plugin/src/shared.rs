//! What a plugin's handle and its actors share: what it is, what it may use, and how it fares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::{ListenerHandle, Moment};
use tokio_util::sync::CancellationToken;

use crate::bindings::informant::plugin::types::{Failure, InstanceRole};
use crate::described::Described;
use crate::error::Problem;
use crate::guest::Ration;
use crate::host::HostParts;
use crate::host_kube::{KubeAccess, KubeRights};
use crate::host_store::{Access, Reader};
use crate::instance::Instance;
use crate::lanes::Conduct;
use crate::manifest::Manifest;
use crate::metrics::PluginCounters;
use crate::status::{PluginState, Reload, StuckOn};
use crate::terms::Terms;
use crate::trial::Trial;
use crate::wasi::World;
use crate::watch::Watch;
use crate::{Digest, Roles};

/// What `store` and `kube` answer an index function.
const DENIED_IN_INDEX: &str =
    "an index function's answer must depend on its arguments alone: no call but log is answered in the role index";

/// The longest text kept of an error, in bytes.
const ERROR_BYTES_MAX: usize = 4_096;

/// What all parts of one plugin share.
pub(crate) struct Shared {
    pub(crate) host: Arc<HostParts>,
    pub(crate) listener: ListenerHandle,
    pub(crate) counters: PluginCounters,
    /// Ends calls that are under way, and the actors.
    pub(crate) abort: CancellationToken,
    kube: Arc<KubeRights>,
    /// What new instances are made under. Each actor has those of its own instance.
    terms: Mutex<Arc<Terms>>,
    pub(crate) trial: Trial,
    pub(crate) conduct: Arc<Conduct>,
    fares: Mutex<Fares>,
}

/// How the plugin fares.
pub(crate) struct Fares {
    /// Of each actor.
    pub(crate) states: [PluginState; 2],
    pub(crate) because: Option<String>,
    pub(crate) memory_bytes: [usize; 2],
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) roles: Roles,
    pub(crate) digest: Digest,
    pub(crate) previous_digest: Option<Digest>,
    /// Why the last good version runs and not the one that was wanted.
    pub(crate) rolled_back: Option<String>,
    pub(crate) restarts: u64,
    pub(crate) reloads: u64,
    pub(crate) last_reload: Option<Reload>,
    pub(crate) last_error: Option<(Moment, String)>,
    pub(crate) stuck_on: Option<StuckOn>,
}

/// The two actors of a plugin. Index functions have instances of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Events,
    Index,
}

impl Actor {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Actor::Events => "events",
            Actor::Index => "index",
        }
    }

    pub(crate) const fn role(self) -> InstanceRole {
        match self {
            Actor::Events => InstanceRole::Events,
            Actor::Index => InstanceRole::Index,
        }
    }

    /// What its instance sees of time and chance.
    pub(crate) const fn world(self) -> World {
        match self {
            Actor::Events => World::Real,
            Actor::Index => World::Still,
        }
    }

    /// Whether a component with `roles` needs this actor to have an instance.
    pub(crate) fn is_needed(self, roles: Roles) -> bool {
        match self {
            Actor::Events => roles.wants_events(),
            Actor::Index => roles.index_funcs,
        }
    }
}

impl Shared {
    pub(crate) fn new(
        host: Arc<HostParts>,
        terms: Arc<Terms>,
        listener: ListenerHandle,
        version: &Described,
    ) -> Shared {
        let counters = host.metrics.plugin(&terms.spec.name);
        let kube = KubeRights::new(
            counters.plugin(),
            host.kube.clone(),
            Arc::clone(&host.env),
            counters.kube(),
        );
        Shared {
            counters,
            kube: Arc::new(kube),
            abort: CancellationToken::new(),
            trial: Trial::new(host.env.now()),
            conduct: Arc::default(),
            fares: Mutex::new(Fares {
                states: [PluginState::Loaded; 2],
                because: None,
                memory_bytes: [0; 2],
                manifest: Arc::clone(&version.manifest),
                roles: version.component.roles,
                digest: version.component.digest,
                previous_digest: None,
                rolled_back: None,
                restarts: 0,
                reloads: 0,
                last_reload: None,
                last_error: None,
                stuck_on: None,
            }),
            host,
            terms: Mutex::new(terms),
            listener,
        }
    }

    /// What new instances are made under.
    pub(crate) fn terms(&self) -> Arc<Terms> {
        Arc::clone(&self.terms.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_terms(&self, terms: Arc<Terms>) {
        *self.terms.lock().unwrap_or_else(PoisonError::into_inner) = terms;
    }

    /// Makes an instance of `version` for `actor` under `terms` and lets it initialize.
    ///
    /// # Errors
    /// What went wrong in it.
    pub(crate) async fn instance(&self, terms: &Terms, version: &Described, actor: Actor) -> Result<Instance, Problem> {
        let call_max = terms.spec.limits.call;
        let watch = Watch::new(Arc::clone(&self.host.env), call_max, self.abort.clone());
        let _running = self.host.ticker.clock().run_guests();
        let mut instance =
            Instance::new(&self.host.engine, &version.component, self.ration(terms, actor), watch).await?;
        let answer = instance
            .init(actor.role(), &terms.config)
            .await
            .map_err(|report| Problem::Trapped(*report))?;
        answer.map_err(|failure| Problem::Init {
            role: actor.as_str(),
            message: message_of(failure),
        })?;
        Ok(instance)
    }

    fn ration(&self, terms: &Terms, actor: Actor) -> Ration {
        let (access, kube) = match actor {
            Actor::Events => (
                Access::Granted(Arc::clone(&terms.grants)),
                KubeAccess::Granted(Arc::clone(&self.kube), Arc::clone(&terms.kube)),
            ),
            Actor::Index => (Access::Denied(DENIED_IN_INDEX), KubeAccess::Denied(DENIED_IN_INDEX)),
        };
        let reader = Reader::new(self.host.catalog.clone(), access);
        let ration = self.host.ration(
            self.counters.plugin(),
            terms.spec.limits,
            actor.world(),
            reader,
            kube,
            self.counters.log_dropped.clone(),
        );
        Ration {
            conduct: Arc::clone(&self.conduct),
            ..ration
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.host.env.now()
    }

    pub(crate) fn fares(&self) -> MutexGuard<'_, Fares> {
        // Changed by single assignments: whole after any panic.
        self.fares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what `actor` does now.
    pub(crate) fn set_state(&self, actor: Actor, state: PluginState, because: Option<String>) {
        let combined = {
            let mut fares = self.fares();
            fares.states[actor as usize] = state;
            if state == PluginState::Running {
                fares.because = None;
            }
            fares.because = because.or_else(|| fares.because.take());
            fares.state()
        };
        self.counters.state(combined);
    }

    /// Notes how much memory `actor`'s instance has; 0: it has no instance.
    pub(crate) fn set_memory(&self, actor: Actor, bytes: usize) {
        let mut fares = self.fares();
        fares.memory_bytes[actor as usize] = bytes;
        let live = fares.memory_bytes.iter().filter(|bytes| **bytes > 0).count();
        let total: usize = fares.memory_bytes.iter().sum();
        self.counters.instances.set(i64::try_from(live).unwrap_or(i64::MAX));
        self.counters.memory.set(i64::try_from(total).unwrap_or(i64::MAX));
    }

    /// Notes that the last good version runs because the one that was wanted is none.
    pub(crate) fn note_roll_back(&self, because: String) {
        let now = self.now();
        let mut fares = self.fares();
        fares.last_error = Some((now, truncated(&because)));
        fares.last_reload = Some(Reload {
            at: now,
            refused: Some(truncated(&because)),
        });
        fares.rolled_back = Some(truncated(&because));
        drop(fares);
        self.counters.reloaded("rolled-back");
    }

    /// Notes an instance that was lost, or could not be made.
    pub(crate) fn lost(&self, reason: &'static str, error: &str) {
        let now = self.now();
        let mut fares = self.fares();
        fares.restarts += 1;
        fares.last_error = Some((now, truncated(error)));
        drop(fares);
        self.counters.restarted(reason);
    }
}

impl Fares {
    /// What the plugin does, which is what its worse-off actor does.
    pub(crate) fn state(&self) -> PluginState {
        use PluginState::{Draining, Loaded, Quarantined, Restarting, Running, Stopped};
        const WORST_FIRST: [PluginState; 6] = [Quarantined, Restarting, Draining, Running, Loaded, Stopped];
        WORST_FIRST
            .into_iter()
            .find(|state| self.states.contains(state))
            .unwrap_or(Loaded)
    }
}

/// The text of a failure.
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
