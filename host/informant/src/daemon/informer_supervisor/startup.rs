//! Starts an informer: waits for its cluster, discovers its resource, and starts the reflectors.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Backoff, BackoffOptions, Environment, LogThrottle, Moment};
use informant_config::{InformerSection, Resources};
use informant_informer::{ApiError, Discovered, InformerSpec, NamedInformer, discover_in, try_request};
use informant_spec::ResourceName;
use tokio::sync::watch;

use super::{ResolvedResource, spec};
use crate::cluster::Cluster;
use crate::daemon::cluster_registry::ClusterPhase;
use crate::daemon::durable_state::DurableState;
use crate::daemon::resource_follower;
use crate::daemon::status_registry::{InformerPhase, RunningInformer, StatusHandle, StatusRegistry};
use crate::logging::cluster_field;
use crate::metrics::Metrics;

/// The delay after the first failed discovery; it doubles with each further failure.
pub(crate) const DISCOVERY_RETRY_FIRST: Duration = Duration::from_secs(1);

/// The longest delay between discovery attempts, as long as between those of a pattern: a resource that is served later
/// is found as fast by its name as by `*`.
pub(crate) const DISCOVERY_RETRY_MAX: Duration = resource_follower::DISCOVERY_INTERVAL;

/// How often the log names another reason for which discovery fails. The text of some errors differs each time.
const DISCOVERY_LOG_PERIOD: Duration = Duration::from_secs(60);

/// A discovery that takes longer than 10 s is reported, and continues: a login program may need 30 s, and a request
/// without a response fails after 90 s.
const DISCOVERY_WAIT_REPORTED: Duration = Duration::from_secs(10);

/// How many requests one check of a changed pattern sends while each is refused: they may leave an audit entry each.
const PATTERN_REQUESTS_MAX: usize = 8;

#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) reason: String,
    /// If the API server refused a list.
    pub(super) answer: Option<ApiError>,
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self { reason, answer: None }
    }
}

/// Discoveries that failed in a row: when to try again, and which of them are logged. The status shows each.
#[derive(Debug)]
pub(super) struct DiscoveryRetries {
    pub(super) attempts: u64,
    backoff: Backoff,
    logged: String,
    lines: LogThrottle,
}

impl Default for DiscoveryRetries {
    fn default() -> Self {
        Self {
            attempts: 0,
            backoff: Backoff::new(BackoffOptions::around(DISCOVERY_RETRY_FIRST, DISCOVERY_RETRY_MAX)),
            logged: String::new(),
            lines: LogThrottle::new(1, DISCOVERY_LOG_PERIOD),
        }
    }
}

impl DiscoveryRetries {
    /// How long to wait after a failed attempt.
    pub(super) fn delay(&mut self, environment: &dyn Environment) -> Duration {
        self.attempts += 1;
        self.backoff.after_failure(environment.now(), environment.random())
    }

    /// Whether to log a failure: the same reason once, another one after [`DISCOVERY_LOG_PERIOD`].
    pub(super) fn is_logged(&mut self, error: &str, now: Moment) -> bool {
        let is_logged = self.logged != error && self.lines.line(now).is_some();
        if is_logged {
            error.clone_into(&mut self.logged);
        }
        is_logged
    }
}

pub(super) struct Startup<'k> {
    pub(super) status: &'k StatusHandle,
    pub(super) registry: &'k StatusRegistry,
    pub(super) environment: &'k Arc<dyn Environment>,
    pub(super) metrics: &'k Metrics,
    pub(super) durables: &'k DurableState,
}

impl Startup<'_> {
    /// Waits until the cluster has a client.
    pub(super) async fn connected(&self, clusters: &mut watch::Receiver<ClusterPhase>) -> Arc<Cluster> {
        loop {
            let phase = clusters.borrow_and_update().clone();
            match phase {
                ClusterPhase::Connected(cluster) => return cluster,
                ClusterPhase::Connecting { last_error } => {
                    self.status.set_phase(InformerPhase::Discovering { last_error })
                }
                ClusterPhase::Removed => {}
            }
            if clusters.changed().await.is_err() {
                // The cluster is gone, and this informer is about to be removed.
                return std::future::pending().await;
            }
        }
    }

    /// Discovers the resource, with retries, and starts the informer.
    pub(super) async fn run(&self, cluster: &Cluster) {
        let found = self.discover(cluster).await;
        let (informer, cluster_name) = (self.status.name(), cluster_field(&self.status.cluster));
        match self.start(cluster, &found).await {
            Ok(shared) => {
                tracing::info!(informer, cluster = cluster_name, resource = %found, "informer started");
                let discovered = found.one();
                self.status
                    .set_phase(InformerPhase::Running(Arc::new(RunningInformer { shared, discovered })));
            }
            Err(reason) => {
                tracing::error!(informer, cluster = cluster_name, resource = %found, error = %reason, code = "watch-not-live", "informer refused");
                self.status.set_phase(InformerPhase::Refused { reason: reason.into() });
            }
        }
    }

    /// Waits until a retiring informer of this name and cluster has delivered its deletes: delivered later than the new
    /// adds, they would remove objects that exist. Waits at most as long as a source may take to drain, 15 minutes.
    pub(super) async fn wait_for_retiring(&self) {
        for informer in self.registry.retiring_of(self.status.name(), &self.status.cluster) {
            self.status.set_phase(InformerPhase::Discovering {
                last_error: Some("waiting until handlers have received the deletes of the previous informer".into()),
            });
            informer.drained().await;
            self.status.set_phase(InformerPhase::Discovering { last_error: None });
        }
    }

    /// Lets an informer with a resource pattern follow what the API server serves: for the section that is `attempted`,
    /// if it is being reconfigured. Does not end.
    pub(super) async fn follow(&self, cluster: &Cluster, attempted: Option<Arc<InformerSection>>) {
        if let InformerPhase::Running(running) = self.status.phase()
            && let Some(section) = attempted.or_else(|| self.status.section())
            && let Resources::Several(pattern) = &section.resource.value
        {
            let follower = resource_follower::ResourceFollower {
                status: self.status,
                section: &section,
                pattern,
                informer: &running.shared,
                client: &cluster.client,
                environment: self.environment,
            };
            follower.run().await;
        }
        std::future::pending().await
    }

    async fn start(&self, cluster: &Cluster, found: &ResolvedResource) -> Result<NamedInformer, String> {
        let section = self.status.section().ok_or("it was removed")?;
        let mut spec = self.spec(&section, found)?;
        spec.durable = self.durables.persistence(&section, &cluster.url, &spec).await?;
        NamedInformer::start(
            spec,
            cluster.sources.clone(),
            Arc::clone(self.environment),
            self.registry.catalog().clone(),
            &self.metrics.informers,
        )
        .map_err(|error| error.to_string())
    }

    /// The spec of an informer for `section`, unless its namespaces are those of a cluster-scoped resource.
    fn spec(&self, section: &InformerSection, found: &ResolvedResource) -> Result<InformerSpec, String> {
        if let (
            Some(namespace),
            ResolvedResource::One(Discovered {
                gvr, namespaced: false, ..
            }),
        ) = (section.namespaces.first(), found)
        {
            return Err(format!(
                "`namespaces` names {namespace}, but {gvr} is cluster-scoped: remove `namespaces`"
            ));
        }
        Ok(spec(self.status, section, found))
    }

    /// Checks that the API server accepts the requests of an informer for `section`, without changing the present one:
    /// discovers its resource and requests one object of each source. Of the resources of a pattern, one has to be
    /// readable; each check tries some of them, because the rest may be forbidden.
    pub(super) async fn preflight(&self, cluster: &Cluster, section: &InformerSection) -> Result<(), Refusal> {
        let spec = self.spec(section, &self.resolve(cluster, section).await?)?;
        let mut sources: Vec<_> = spec.sources().collect();
        let mut result = Ok(());
        if let Resources::Several(pattern) = &section.resource.value {
            result = Err(format!("no served resource matches `{pattern}`").into());
            let first = self.environment.random() % sources.len().max(1) as u64;
            sources.rotate_left(first as usize);
            sources.truncate(PATTERN_REQUESTS_MAX);
        }
        for source in sources {
            let answer = try_request(&cluster.client, &source).await;
            let namespace = source.namespace.map(|name| format!(" in namespace {name}"));
            let list = format!("list of {}{}", source.resource, namespace.unwrap_or_default());
            result = answer.map_err(|error| Refusal {
                reason: format!("{list}: {error}"),
                answer: Some(error),
            });
            if result.is_ok() == spec.resources.is_some() {
                break;
            }
        }
        result
    }

    async fn resolve(&self, cluster: &Cluster, section: &InformerSection) -> Result<ResolvedResource, String> {
        let environment = Arc::clone(self.environment);
        match &section.resource.value {
            Resources::One(name) => one(cluster, environment, name).await,
            Resources::Several(pattern) => {
                resource_follower::first(self.status, &cluster.client, environment, pattern, section).await
            }
        }
    }

    async fn discover(&self, cluster: &Cluster) -> ResolvedResource {
        let mut retries = DiscoveryRetries::default();
        let (informer, of) = (self.status.name(), &self.status.cluster);
        let Some(section) = self.status.section() else {
            return std::future::pending().await;
        };
        let mut is_wait_logged = false;
        loop {
            let attempt = self.resolve(cluster, &section);
            let report = || self.report_wait(cluster, !std::mem::replace(&mut is_wait_logged, true));
            let error = match report_if_slow(&**self.environment, attempt, report).await {
                Ok(found) => {
                    self.metrics.daemon.discovered(informer, of, true);
                    return found;
                }
                Err(error) => error,
            };
            self.metrics.daemon.discovered(informer, of, false);
            let delay = retries.delay(&**self.environment);
            let retry_in_seconds = delay.as_secs_f64();
            let cluster_name = cluster_field(of);
            if retries.is_logged(&error, self.environment.now()) {
                let attempts = retries.attempts;
                tracing::warn!(informer, cluster = cluster_name, url = %cluster.url, %error, attempts, retry_in_seconds, code = "watch-not-live", "discovery failed; retrying");
            }
            self.status.set_phase(InformerPhase::Discovering {
                last_error: Some(error.into()),
            });
            self.environment.sleep(delay).await;
        }
    }

    /// Shows, and logs if `is_new`, that the API server has not responded yet.
    fn report_wait(&self, cluster: &Cluster, is_new: bool) {
        let waited_seconds = DISCOVERY_WAIT_REPORTED.as_secs();
        if is_new {
            let (informer, cluster_name) = (self.status.name(), cluster_field(&self.status.cluster));
            tracing::warn!(informer, cluster = cluster_name, url = %cluster.url, waited_seconds, code = "watch-not-live", "discovery is waiting for the API server");
        }
        let reason = format!("discovery is waiting for the API server; no response within {waited_seconds} s");
        self.status.set_phase(InformerPhase::Discovering {
            last_error: Some(reason.into()),
        });
    }
}

/// Waits for `attempt`, and calls `report` once if that takes longer than [`DISCOVERY_WAIT_REPORTED`].
async fn report_if_slow<T>(
    environment: &dyn Environment,
    attempt: impl Future<Output = T>,
    report: impl FnOnce(),
) -> T {
    let mut attempt = pin!(attempt);
    tokio::select! {
        biased;
        found = &mut attempt => found,
        () = environment.sleep(DISCOVERY_WAIT_REPORTED) => {
            report();
            attempt.await
        }
    }
}

async fn one(
    cluster: &Cluster,
    environment: Arc<dyn Environment>,
    name: &ResourceName,
) -> Result<ResolvedResource, String> {
    let found = discover_in(&cluster.client, environment, name).await;
    found.map(ResolvedResource::One).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use informant_informer::TokioEnvironment;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_a_slow_discovery_is_reported_and_it_continues() {
        let environment = TokioEnvironment::current(0);
        for (seconds, reported) in [(9, false), (50, true)] {
            let mut is_reported = false;
            let attempt = environment.sleep(Duration::from_secs(seconds));
            report_if_slow(&environment, attempt, || is_reported = true).await;
            assert_eq!(is_reported, reported, "after {seconds} s");
        }
    }

    #[test]
    fn changing_discovery_errors_are_logged_once_a_minute() {
        let mut retries = DiscoveryRetries::default();
        let due: Vec<u64> = (0..100)
            .filter(|second| {
                let now = Moment::ZERO + Duration::from_secs(*second);
                retries.is_logged(&format!("connection {second} refused"), now)
            })
            .collect();
        assert_eq!(due, [0, 60]);
        let later = Moment::ZERO + Duration::from_secs(1_000);
        assert!(
            !retries.is_logged("connection 60 refused", later),
            "it was logged before"
        );
    }
}
