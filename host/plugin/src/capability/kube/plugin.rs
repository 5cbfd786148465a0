//! What the instances of a plugin share of the cluster, and what its section grants.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::{Catalog, Environment, Moment, Source, SourceState};
use informant_object::{KeyRef, Object, SourceId};
use informant_spec::{InformerGrant, KubeGrant, KubeVerb, PluginSpec, ResourceAttributes, allow_line};
use tokio::sync::Semaphore;

use super::api::{KubeApi, KubeError, KubeErrorCode, KubeWrite};
use super::metrics::{KubeSeries, KubeTraffic};
use super::writes::{OwnCache, OwnWrites, WRITES_LAST, Writes, WritesStatus, WritingKey};
use crate::capability::parts::{Current, PluginParts};
use crate::effects::Effects;
use crate::observed::CurrentCause;
use crate::sync::lock;

/// What a section of config.toml grants on the cluster, and as whom the plugin acts there.
pub(crate) struct KubeGrants {
    grants: Vec<KubeGrant>,
    informers: Vec<InformerGrant>,
    /// The user; none: Informant's own.
    identity: Option<Arc<str>>,
}

/// Whether an informer watches what a call is about, in the call's cluster and namespace.
pub(super) type IsWatched<'a> = &'a dyn Fn(&str, &ResourceAttributes<'_>) -> bool;

/// State shared by all instances of one plugin.
pub(crate) struct KubePlugin {
    pub(super) plugin: Arc<str>,
    /// None where there is no cluster.
    pub(super) api: Option<Arc<dyn KubeApi>>,
    pub(super) catalog: Catalog,
    pub(super) env: Arc<dyn Environment>,
    pub(super) series: Arc<KubeSeries>,
    /// Whether writes are dry runs, the writes of these, and how much of the rate this process has.
    pub(super) dry_run: Arc<Effects>,
    /// Permits of calls at once, and how many there are.
    permits: Mutex<(usize, Arc<Semaphore>)>,
    /// The grants of the present section, for deferred writes.
    grants: Mutex<Arc<Current<KubeGrants>>>,
    /// What the cache has of the plugin's objects.
    pub(super) cache: OwnCache,
    /// The plugin's last writes to them.
    pub(super) own: Arc<OwnWrites>,
    /// The writes that handlers deferred.
    pub(super) writes: Writes,
    reconciles: AtomicBool,
}

impl KubePlugin {
    pub(super) fn of(
        series: Arc<KubeSeries>,
        grants: &Arc<Current<KubeGrants>>,
        parts: &PluginParts<'_>,
    ) -> KubePlugin {
        let calls_max = parts.spec.limits.kube_calls;
        KubePlugin {
            plugin: Arc::clone(parts.plugin),
            api: parts.services.kube.clone(),
            catalog: parts.services.catalog.clone(),
            env: Arc::clone(parts.env),
            dry_run: Arc::clone(parts.dry_run),
            permits: Mutex::new((calls_max, Arc::new(Semaphore::new(calls_max)))),
            grants: Mutex::new(Arc::clone(grants)),
            cache: OwnCache::new(parts.services.catalog.clone(), &parts.spec.informers),
            own: Arc::default(),
            writes: Writes::new(&parts.spec.limits, Arc::clone(parts.waker), Arc::clone(&series)),
            series,
            reconciles: AtomicBool::new(false),
        }
    }

    pub(crate) fn status(&self) -> WritesStatus {
        self.writes.stats()
    }

    /// What its calls cost the API servers.
    pub(crate) fn traffic(&self) -> KubeTraffic {
        self.series.traffic()
    }

    /// The first `max` keys whose calls are spaced because they write to one object again and again, and how many there
    /// are.
    pub(crate) fn spaced_keys(&self, max: usize) -> (usize, Vec<WritingKey>) {
        self.writes.spaced_keys(self.env.now(), max)
    }

    /// Whether the cache lacks writes of earlier calls about this key, for the call that begins now.
    pub(crate) fn is_behind(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        self.writes.is_behind(self, source, key, self.env.now())
    }

    /// Whether it is a reconciler, and the cache will see a write of an earlier call about the same object.
    pub(super) fn awaits_write(&self, call: &CurrentCause) -> bool {
        let awaits = |(source, object): (SourceId, Object)| self.writes.awaits(self, source, object.key());
        self.reconciles() && call.object().is_some_and(awaits)
    }

    /// Whether its version is a reconciler.
    pub(super) fn reconciles(&self) -> bool {
        self.reconciles.load(Ordering::Relaxed)
    }

    pub(super) fn set_reconciles(&self, reconciles: bool) {
        self.reconciles.store(reconciles, Ordering::Relaxed);
    }

    /// Whether all sources of the plugin's informers in the cluster of `source` are live.
    pub(crate) fn is_live(&self, source: SourceId) -> bool {
        self.cache.is_live(source)
    }

    /// For a stop that ends after `deadline`: from [`WRITES_LAST`] before that on, no deferred write starts.
    pub(crate) fn end_writes(&self, deadline: Duration) {
        let left = deadline.saturating_sub(WRITES_LAST);
        self.writes.end_at(self.env.now() + left);
    }

    /// The field manager of writes that name none.
    pub(super) fn field_manager(&self) -> String {
        KubeWrite::default_manager(&self.plugin)
    }

    pub(super) fn set(&self, spec: &PluginSpec, grants: &Arc<Current<KubeGrants>>, now: Moment) {
        self.writes.set_limits(&spec.limits, self.dry_run.limit_share(), now);
        self.cache.set_informers(&spec.informers);
        let (calls_max, mut permits) = (spec.limits.kube_calls, lock(&self.permits));
        // For calls that start from now on.
        if permits.0 != calls_max {
            *permits = (calls_max, Arc::new(Semaphore::new(calls_max)));
        }
        *lock(&self.grants) = Arc::clone(grants);
    }

    pub(super) fn grants(&self) -> Arc<Current<KubeGrants>> {
        Arc::clone(&lock(&self.grants))
    }

    /// Whether `informer` watches what a call to `cluster` is about, at this moment. A call without a namespace is
    /// about all of them.
    pub(super) fn is_watched(&self, informer: &str, cluster: &str, call: &ResourceAttributes<'_>) -> bool {
        let Some(Ok(cluster)) = self.api.as_ref().map(|api| api.cluster(cluster)) else {
            return false;
        };
        let resource = call.resource.to_string();
        self.catalog.sources_of(informer).iter().any(|source| {
            let info = source.info();
            let reads_namespace = info.namespace.as_ref().is_none_or(|own| own == call.namespace);
            info.cluster == cluster && info.resource == resource && reads_namespace && is_readable(source)
        })
    }

    /// Whether an informer watches what a call to `cluster` is about, for grants.
    pub(super) fn watched_in(&self, cluster: &str) -> impl Fn(&str, &ResourceAttributes<'_>) -> bool {
        move |informer, call| self.is_watched(informer, cluster, call)
    }

    pub(super) fn permits(&self) -> Arc<Semaphore> {
        Arc::clone(&lock(&self.permits).1)
    }

    /// Counts a call that was made at `began` and has ended now.
    pub(super) fn count(&self, verb: KubeVerb, error: Option<&KubeError>, began: Moment) {
        self.series.count(verb, error, self.env.now() - began);
    }
}

impl KubeGrants {
    pub(super) fn new(spec: &PluginSpec) -> KubeGrants {
        KubeGrants {
            grants: spec.allow_kube.clone(),
            informers: spec.allow_informers.clone(),
            identity: identity_of(spec),
        }
    }

    pub(super) fn identity(&self) -> Option<Arc<str>> {
        self.identity.clone()
    }

    fn of_resource(&self, call: &ResourceAttributes<'_>) -> Option<&KubeGrant> {
        self.grants.iter().find(|grant| grant.allows(call))
    }

    /// The grant that allows `call`, as a line of config.toml. Empty: none does.
    pub(super) fn granting(&self, is_watched: IsWatched<'_>, call: &ResourceAttributes<'_>) -> String {
        if let Some(grant) = self.of_resource(call) {
            return allow_line(std::slice::from_ref(grant), &[], &[]);
        }
        let allows = |grant: &&InformerGrant| grant.allows_if_watched(call) && is_watched(&grant.informer, call);
        let grant = self.informers.iter().find(allows);
        grant.map_or_else(String::new, |grant| allow_line(&[], std::slice::from_ref(grant), &[]))
    }

    /// Checks that `call` is granted to `plugin`; the error has the line of config.toml that would grant it. A grant
    /// for an informer is one for what it watches at this moment, which `is_watched` knows.
    pub(super) fn authorize(
        &self,
        plugin: &str,
        is_watched: IsWatched<'_>,
        call: &ResourceAttributes<'_>,
    ) -> Result<(), KubeError> {
        let KubeGrants { grants, informers, .. } = self;
        if self.of_resource(call).is_some() {
            return Ok(());
        }
        let mut unwatched = Vec::new();
        for grant in informers.iter().filter(|grant| grant.allows_if_watched(call)) {
            if is_watched(&grant.informer, call) {
                return Ok(());
            }
            unwatched.push(format!(
                "; the informer {:?} does not watch {} there",
                grant.informer, call.resource
            ));
        }
        let message = format!(
            "{} is not granted{}; in config.toml, set in [plugin.{}]: {}",
            call,
            unwatched.concat(),
            plugin,
            allow_line(grants, informers, &[call.suggested_grant()])
        );
        Err(KubeError::new(KubeErrorCode::Denied, message))
    }
}

/// Whether `source` is watched, or may be soon: not if the API server has refused it from the start, or does not serve
/// it.
fn is_readable(source: &Source) -> bool {
    use SourceState::{Forbidden, Refused, Stopped, WaitingForResource};
    match source.state() {
        Stopped => false,
        Forbidden | Refused | WaitingForResource => source.is_synced(),
        _ => true,
    }
}

/// The user that a plugin acts as, as the API server calls it.
pub(crate) fn identity_of(spec: &PluginSpec) -> Option<Arc<str>> {
    spec.identity.as_ref().map(|account| account.to_string().into())
}
