//! A plugin's access to the cluster, as granted by config.toml.

use std::sync::{Arc, Mutex, PoisonError};

use informant_cache::{Environment, Moment};
use informant_spec::{KubeGrant, KubeVerb, ResourceAttributes, allow_line};
use tokio::sync::Semaphore;

use super::metrics::KubeCounters;
use crate::effects::Effects;
use crate::hostcalls::kube_api::{KubeApi, KubeError, KubeErrorCode};
use crate::writes::{OwnCache, OwnWrites};

/// Whether an instance's calls are made at all.
#[derive(Clone)]
pub(crate) enum KubeAccess {
    /// As far as the plugin's grants allow.
    Granted {
        /// Those of the plugin.
        rights: Arc<KubeRights>,
        /// What its section grants.
        grants: Arc<KubeGrants>,
        /// Whether an event ends only when the cache has seen its deferred writes.
        awaits_writes: bool,
    },
    /// Never, for this reason.
    Denied(&'static str),
}

/// The grants of one plugin, which may change while its instances run: each call is checked against the current ones.
pub(crate) struct KubeGrants(Mutex<Arc<[KubeGrant]>>);

/// State shared by all instances of one plugin.
pub(crate) struct KubeRights {
    pub(super) plugin: Arc<str>,
    /// None where there is no cluster.
    pub(super) api: Option<Arc<dyn KubeApi>>,
    pub(super) env: Arc<dyn Environment>,
    counters: KubeCounters,
    /// Whether writes are dry runs, and the writes of these.
    pub(super) effects: Arc<Effects>,
    /// Permits of calls at once, and how many there are.
    permits: Mutex<(usize, Arc<Semaphore>)>,
    /// What the cache has of the plugin's objects.
    pub(crate) cache: Arc<OwnCache>,
    /// The plugin's last writes to them.
    pub(crate) own: Arc<OwnWrites>,
}

impl KubeAccess {
    pub(super) fn rights(&self) -> Result<(&KubeRights, &KubeGrants), KubeError> {
        match self {
            KubeAccess::Granted { rights, grants, .. } => Ok((rights, grants)),
            KubeAccess::Denied(reason) => Err(KubeError::new(KubeErrorCode::Denied, *reason)),
        }
    }

    /// Whether an event ends only when the cache has seen its deferred writes.
    pub(super) fn awaits_writes(&self) -> bool {
        matches!(
            self,
            KubeAccess::Granted {
                awaits_writes: true,
                ..
            }
        )
    }

    /// The field manager of writes that name none.
    pub(super) fn field_manager(&self) -> String {
        match self {
            KubeAccess::Granted { rights, .. } => format!("informant-{}", rights.plugin),
            KubeAccess::Denied(_) => String::new(),
        }
    }
}

impl KubeRights {
    pub(crate) fn new(
        plugin: &Arc<str>,
        api: Option<Arc<dyn KubeApi>>,
        env: Arc<dyn Environment>,
        counters: KubeCounters,
        cache: Arc<OwnCache>,
        effects: Arc<Effects>,
        calls_max: usize,
    ) -> KubeRights {
        KubeRights {
            plugin: Arc::clone(plugin),
            api,
            env,
            counters,
            effects,
            permits: Mutex::new((calls_max, Arc::new(Semaphore::new(calls_max)))),
            cache,
            own: Arc::default(),
        }
    }

    /// Lets so many calls be made at once, of those that start from now on.
    pub(crate) fn set_calls_max(&self, calls_max: usize) {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        if permits.0 != calls_max {
            *permits = (calls_max, Arc::new(Semaphore::new(calls_max)));
        }
    }

    /// Permits of calls at once.
    pub(super) fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.permits.lock().unwrap_or_else(PoisonError::into_inner).1)
    }

    /// Counts a call that was made at `began` and has ended now.
    pub(crate) fn count(&self, verb: KubeVerb, error: Option<&KubeError>, began: Moment) {
        self.counters.count(verb, error, self.env.now() - began);
    }
}

impl KubeGrants {
    pub(crate) fn new(grants: &[KubeGrant]) -> KubeGrants {
        KubeGrants(Mutex::new(Arc::from(grants)))
    }

    /// Replaces the grants.
    pub(crate) fn set(&self, grants: &[KubeGrant]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::from(grants);
    }

    fn now(&self) -> Arc<[KubeGrant]> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Checks that `call` is granted to `plugin`; the error has the line of config.toml that would grant it.
    pub(super) fn authorize(&self, plugin: &str, call: &ResourceAttributes<'_>) -> Result<(), KubeError> {
        let grants = self.now();
        if grants.iter().any(|grant| grant.allows(call)) {
            return Ok(());
        }
        let message = format!(
            "{} is not granted; in config.toml, set in [plugin.{}]: {}",
            call,
            plugin,
            allow_line(&grants, &[call.suggested_grant()])
        );
        Err(KubeError::new(KubeErrorCode::Denied, message))
    }
}
