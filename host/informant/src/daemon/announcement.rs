//! Two processes on one configuration are noticed: each writes its name into one Lease, and finds the other's there.
//! Nothing is stopped by that. It is the [`Membership`] of a group of which one process is expected; with `[ha]` each
//! replica has a Lease of its own instead.
//!
//! Only a pod announces itself, and only if its service account may write the Lease. The Lease has the name of the
//! StatefulSet, which is that of the pod without its number.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_config::ClusterSection;
use informant_lease::{LeaseTimes, MemberRecord, Membership, MembershipInput};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::configuration::Announcement;
use super::status_registry::StatusRegistry;
use crate::cluster::{Cluster, ClusterError};
use crate::metrics::DaemonMetrics;
use crate::replicas::LeaseApi;

/// Two processes notice each other within 20 s, which is two renewals, and another one counts for 60 s after its name
/// was last found. No effect depends on the deadlines.
///
/// After the API server has refused access there is a pause of 5 min: rights change seldom, and each refusal is a line
/// of its audit log.
const TIMES: LeaseTimes = LeaseTimes {
    duration: Duration::from_secs(30),
    renew_deadline: Duration::from_secs(20),
    request_end: Duration::from_secs(25),
    retry: Duration::from_secs(10),
    refused: Duration::from_secs(300),
};

/// The pause before the next attempt to find out how to reach the API server: 10 s.
const CONNECT_PAUSE: Duration = Duration::from_secs(10);

/// How long a stop waits until the name is taken out of the Lease: 2 s. A name that stays does no harm.
const RELEASE_MAX: Duration = Duration::from_secs(2);

pub(super) struct AnnouncerParts {
    pub(super) environment: Arc<dyn Environment>,
    pub(super) registry: StatusRegistry,
    pub(super) metrics: DaemonMetrics,
}

/// The task that announces this process.
#[derive(Debug)]
pub(super) struct Announcer {
    end: CancellationToken,
    tasks: TaskTracker,
}

impl Announcer {
    /// Starts to announce this process, if it runs in a pod.
    pub(super) fn start(parts: AnnouncerParts) -> Self {
        let (end, tasks) = (CancellationToken::new(), TaskTracker::new());
        let environment = Arc::clone(&parts.environment);
        let run = run(parts, end.clone());
        environment.spawn("announcement", Box::pin(tasks.track_future(run)));
        Self { end, tasks }
    }

    /// Takes the name out of the Lease. Returns after [`RELEASE_MAX`] or `within` at the latest.
    pub(super) async fn end(&self, within: Duration) {
        self.end.cancel();
        self.tasks.close();
        // A name that is still there does no harm.
        let _ = tokio::time::timeout(within, self.tasks.wait()).await;
    }
}

async fn run(parts: AnnouncerParts, end: CancellationToken) {
    let report = Report::new(&parts);
    let found = end.run_until_cancelled(find_lease(&parts.environment, &report)).await;
    let Some(Some((leases, name, pod))) = found else {
        return;
    };
    let own = format!("{pod}_{:016x}", parts.environment.random());
    Renewal::new(leases, name, own.into(), parts.environment, report)
        .run(end)
        .await;
}

/// The Leases of this pod's namespace, the name of its own, and the pod's name; none outside of a pod.
async fn find_lease(environment: &Arc<dyn Environment>, report: &Report) -> Option<(LeaseApi, Arc<str>, String)> {
    let section = ClusterSection {
        in_cluster: true,
        ..ClusterSection::default()
    };
    loop {
        match Cluster::connect(&section).await {
            Ok(cluster) => {
                let pod = std::env::var("HOSTNAME").unwrap_or_default();
                let Some(set) = stateful_set(&pod) else {
                    report.set(Announcement::Failing {
                        reason: format!("its host name, {pod:?}, is not that of a pod of a StatefulSet").into(),
                        other: None,
                    });
                    return None;
                };
                let leases = LeaseApi::new(cluster.client, None, set, Arc::clone(environment));
                return Some((leases, set.into(), pod));
            }
            Err(ClusterError::InCluster(error)) => {
                let reason = format!("it does not run in a pod with a service account: {error}").into();
                report.set(Announcement::Off { reason });
                return None;
            }
            Err(error) => {
                let reason = error.to_string().into();
                report.set(Announcement::Failing { reason, other: None });
                environment.sleep(CONNECT_PAUSE).await;
            }
        }
    }
}

/// The StatefulSet whose pod has this name: `informant` of `informant-0`.
pub(super) fn stateful_set(pod: &str) -> Option<&str> {
    let (set, number) = pod.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !set.is_empty()).then_some(set)
}

/// Writes the own name into a Lease again and again.
struct Renewal {
    leases: LeaseApi,
    name: Arc<str>,
    membership: Membership,
    environment: Arc<dyn Environment>,
    report: Report,
}

impl Renewal {
    /// `own` is the pod's name and a number that no other process has: a container that is restarted keeps the name.
    fn new(leases: LeaseApi, name: Arc<str>, own: Arc<str>, environment: Arc<dyn Environment>, report: Report) -> Self {
        let record = MemberRecord {
            version: env!("CARGO_PKG_VERSION").into(),
            digest: report.registry.configuration().digest.clone(),
            layout: "1".into(),
            is_ready: true,
            address: "".into(),
        };
        Self {
            leases,
            name,
            membership: Membership::new(own, TIMES, &record),
            environment,
            report,
        }
    }

    /// Renews until `end`, and then takes the name out of the Lease.
    async fn run(mut self, end: CancellationToken) {
        let mut input = MembershipInput::Clock;
        while let Some(next) = end.run_until_cancelled(self.step(input)).await {
            input = next;
        }
        let environment = Arc::clone(&self.environment);
        let release = async {
            let mut input = MembershipInput::Stop;
            while !self.membership.has_ended() {
                input = self.step(input).await;
            }
        };
        tokio::select! {
            biased;
            () = release => {}
            () = environment.sleep(RELEASE_MAX) => {}
        }
    }

    /// Handles `input`, and waits for the next one.
    async fn step(&mut self, input: MembershipInput) -> MembershipInput {
        let now = self.environment.boot_now();
        let request = self.membership.step(now, input);
        self.show();
        match request {
            Some(request) => {
                let (id, answer) = self.leases.clone().send(Arc::clone(&self.name), request).await;
                MembershipInput::Answer(id, answer)
            }
            None => {
                // Another process is not shown for longer than it counts.
                let wake = self.membership.next_wake().min(now + TIMES.retry);
                self.environment.sleep(wake - now).await;
                MembershipInput::Clock
            }
        }
    }

    fn show(&self) {
        let other = self.membership.other(self.environment.boot_now()).cloned();
        let lease = format!("{}/{}", self.leases.namespace(), self.name);
        match self.membership.failure() {
            Some(failure) => {
                let reason = format!("Lease {lease}: {failure}").into();
                self.report.set(Announcement::Failing { reason, other });
            }
            None if self.membership.has_written() => {
                let lease = lease.into();
                self.report.set(Announcement::Announced { lease, other });
            }
            None => {}
        }
    }
}

/// Where an [`Announcement`] is seen: the status, the metric and the log, which has a line for each change.
struct Report {
    registry: StatusRegistry,
    metrics: DaemonMetrics,
}

impl Report {
    fn new(parts: &AnnouncerParts) -> Self {
        Self {
            registry: parts.registry.clone(),
            metrics: parts.metrics.clone(),
        }
    }

    fn set(&self, announcement: Announcement) {
        let before = self.registry.configuration().announcement.replace(announcement.clone());
        let had_other = before.as_ref().is_some_and(|before| before.other().is_some());
        let was_announced = matches!(&before, Some(Announcement::Announced { .. }));
        self.metrics.other_process(announcement.other().is_some());
        match announcement {
            Announcement::Announced {
                lease,
                other: Some(other),
            } if !had_other => {
                tracing::warn!(%lease, %other, code = "two-processes", "two processes act on this configuration");
            }
            Announcement::Announced { lease, other: None } if had_other => {
                tracing::info!(%lease, "the other process is gone");
            }
            Announcement::Announced { lease, .. } if !was_announced => {
                tracing::info!(%lease, "process announced to others");
            }
            Announcement::Failing { reason, .. } if !matches!(&before, Some(Announcement::Failing { .. })) => {
                tracing::info!(%reason, "process not announced to others");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
