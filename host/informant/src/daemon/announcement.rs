//! Two processes on one configuration are noticed: each writes its name into one Lease, and finds the other's there.
//! Nothing is stopped by that.
//!
//! ```text
//! every 10 s   GET Lease ──▶ another name has replaced the own one? ──▶ log, metric, status
//!              PUT Lease with the own name, under the version that was read      (404: POST; 409: read again)
//! at the end   PUT Lease without a name
//! ```
//!
//! The clocks of two machines are never compared. Only a name that replaces this process's own counts: it was written
//! afterwards, so its process runs. What the Lease says before the first write may be left by a process that was
//! killed.
//!
//! Only a pod announces itself, and only if its service account may write the Lease. The Lease has the name of the
//! StatefulSet, which is that of the pod without its number.

mod lease;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, Moment};
use informant_config::ClusterSection;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::lease::{LeaseClient, LeaseProblem, Written, holder, wall_clock};
use super::configuration::Announcement;
use super::status_registry::StatusRegistry;
use crate::cluster::{Cluster, ClusterError};
use crate::metrics::DaemonMetrics;

/// How often a process writes its name: 10 s. Two processes notice each other within twice that.
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// How long another process counts after its name was last found: 30 s, which is three renewals. The Lease names it as
/// its duration.
const OTHER_COUNTS: Duration = Duration::from_secs(30);

/// The pause after the API server has refused access to the Lease: 5 min. Rights change seldom, and each refusal is a
/// line of its audit log.
const REFUSED_PAUSE: Duration = Duration::from_secs(300);

/// How long a stop waits until the name is taken out of the Lease: 2 s. A name that stays does no harm.
const RELEASE_MAX: Duration = Duration::from_secs(2);

/// How often one renewal reads the Lease because somebody else wrote it meanwhile. The next renewal continues.
const READS_MAX: usize = 3;

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
    let Some(Some((lease, pod))) = found else {
        return;
    };
    let own = format!("{pod}_{:016x}", parts.environment.random());
    announce(Renewal::new(lease, own, parts.environment, report), end).await;
}

/// Renews until `end`, and then takes the name out of the Lease.
async fn announce(mut renewal: Renewal, end: CancellationToken) {
    if end.run_until_cancelled(renewal.renew_forever()).await.is_none() {
        renewal.release().await;
    }
}

/// The Lease of this pod, and the pod's name; none outside of a pod.
async fn find_lease(environment: &Arc<dyn Environment>, report: &Report) -> Option<(LeaseClient, String)> {
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
                return Some((LeaseClient::new(cluster.client, set), pod));
            }
            Err(ClusterError::InCluster(error)) => {
                let reason = format!("it does not run in a pod with a service account: {error}").into();
                report.set(Announcement::Off { reason });
                return None;
            }
            Err(error) => {
                let reason = error.to_string().into();
                report.set(Announcement::Failing { reason, other: None });
                environment.sleep(RENEW_EVERY).await;
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
    lease: LeaseClient,
    /// `POD_NUMBER`, with a number that no other process has: a container that is restarted keeps its pod's name.
    own: String,
    began: MicroTime,
    environment: Arc<dyn Environment>,
    others: Others,
    report: Report,
}

/// What the Lease has shown of other processes.
#[derive(Default)]
struct Others {
    /// Whether the own name has been in the Lease.
    has_written: bool,
    /// Another name that was found in its place, and when.
    last: Option<(Arc<str>, Moment)>,
}

impl Others {
    fn found(&mut self, holder: &str, own: &str, now: Moment) {
        if self.has_written && !holder.is_empty() && holder != own {
            self.last = Some((holder.into(), now));
        }
    }

    fn current(&self, now: Moment) -> Option<Arc<str>> {
        let (name, found) = self.last.as_ref()?;
        (now - *found < OTHER_COUNTS).then(|| Arc::clone(name))
    }
}

impl Renewal {
    fn new(lease: LeaseClient, own: String, environment: Arc<dyn Environment>, report: Report) -> Self {
        Self {
            lease,
            own,
            began: wall_clock(),
            environment,
            others: Others::default(),
            report,
        }
    }

    async fn renew_forever(&mut self) -> Infallible {
        loop {
            let pause = match self.renew().await {
                Ok(()) => {
                    let other = self.others.current(self.environment.now());
                    let lease = self.lease.to_string().into();
                    self.report.set(Announcement::Announced { lease, other });
                    RENEW_EVERY
                }
                Err(problem) => {
                    let reason: Arc<str> = format!("Lease {}: {}", self.lease, problem.message).into();
                    self.report_failure(&reason);
                    if problem.is_forbidden {
                        // Another process is not reported for longer than it counts.
                        self.environment.sleep(OTHER_COUNTS).await;
                        self.report_failure(&reason);
                        REFUSED_PAUSE - OTHER_COUNTS
                    } else {
                        RENEW_EVERY
                    }
                }
            };
            self.environment.sleep(pause).await;
        }
    }

    fn report_failure(&self, reason: &Arc<str>) {
        self.report.set(Announcement::Failing {
            reason: Arc::clone(reason),
            other: self.others.current(self.environment.now()),
        });
    }

    async fn renew(&mut self) -> Result<(), LeaseProblem> {
        for _ in 0..READS_MAX {
            let read = self.lease.read(&*self.environment).await?;
            if let Some(lease) = &read {
                self.others.found(holder(lease), &self.own, self.environment.now());
            }
            let spec = LeaseSpec {
                holder_identity: Some(self.own.clone()),
                lease_duration_seconds: i32::try_from(OTHER_COUNTS.as_secs()).ok(),
                acquire_time: Some(self.began.clone()),
                renew_time: Some(wall_clock()),
                ..LeaseSpec::default()
            };
            if self.lease.write(&*self.environment, read.as_ref(), spec).await? == Written::Done {
                self.others.has_written = true;
                return Ok(());
            }
        }
        Err(LeaseProblem {
            message: format!("others wrote it {READS_MAX} times while it was renewed"),
            is_forbidden: false,
        })
    }

    /// Takes the own name out of the Lease, if it is there, so that who reads it sees that this process has ended.
    async fn release(&self) {
        let released = async {
            for _ in 0..READS_MAX {
                let Ok(Some(read)) = self.lease.read(&*self.environment).await else {
                    return;
                };
                if holder(&read) != self.own {
                    return;
                }
                let spec = LeaseSpec {
                    holder_identity: Some(String::new()),
                    renew_time: Some(wall_clock()),
                    ..read.spec.clone().unwrap_or_default()
                };
                match self.lease.write(&*self.environment, Some(&read), spec).await {
                    // A renewal that was on its way has arrived.
                    Ok(Written::Conflict) => {}
                    Ok(Written::Done) | Err(_) => return,
                }
            }
        };
        tokio::select! {
            biased;
            () = released => {}
            () = self.environment.sleep(RELEASE_MAX) => {}
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
