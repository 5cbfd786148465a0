//! Lets an informer with `resource = "*"` or `"apps/v1/*"` follow what its API server serves: new kinds are started,
//! removed kinds are ended.
//!
//! Discovery is repeated at an interval; there is no watch that covers aggregated servers too. A group that does not
//! answer keeps its known resources. A kind ends only when successive responses lack it and its own requests get 404: a
//! single response may come from an API server that starts or lags.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, SourceState, around};
use informant_config::{InformerSection, WATCHES_MAX};
use informant_informer::{
    AbsentResources, ApiErrorCause, Discovered, NamedInformer, ServedResources, discover_matching,
};
use informant_spec::{GroupVersionResource, ResourcePattern};
use kube::Client;

use super::informer_supervisor::{ResolvedResource, spec};
use super::status_registry::StatusHandle;
use crate::logging::cluster_field;

/// The interval of discovery, plus or minus 20 %. Each round costs two responses of some 100 KiB in a usual cluster; a
/// server before Kubernetes 1.27 sends a small one for each version of each group, some thirty.
pub(super) const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);

/// `log_unless!(quiet, warn, …)`: an event at this level, or at level debug if `quiet`.
macro_rules! log_unless {
    ($quiet:expr, $level:ident, $($event:tt)+) => {
        if $quiet {
            tracing::debug!($($event)+)
        } else {
            tracing::$level!($($event)+)
        }
    };
}

/// The first discovery.
pub(super) async fn first(
    status: &StatusHandle,
    client: &Client,
    environment: Arc<dyn Environment>,
    pattern: &ResourcePattern,
    section: &InformerSection,
) -> Result<ResolvedResource, String> {
    let served = discover_matching(client, environment, pattern, &section.exclude).await;
    let served = served.map_err(|error| format!("discovery of `{pattern}`: {error}"))?;
    let (served, left_out) = within_watches(served, section, &BTreeSet::new());
    warn_of_limit(status, &left_out, pattern);
    Ok(ResolvedResource::Several(served))
}

/// Matching resources that are not watched.
#[derive(Default)]
struct DiscoveryGaps {
    /// Resources above the limit of watches.
    left_out: Vec<String>,
    /// Group versions that do not answer, with the error.
    unavailable_groups: BTreeMap<String, String>,
}

/// Why the resources could not be updated.
struct FollowError {
    error: String,
    is_unreachable: bool,
}

/// Keeps one informer up to date with discovery.
pub(super) struct ResourceFollower<'f> {
    pub(super) status: &'f StatusHandle,
    pub(super) section: &'f InformerSection,
    pub(super) pattern: &'f ResourcePattern,
    pub(super) informer: &'f NamedInformer,
    pub(super) client: &'f Client,
    pub(super) environment: &'f Arc<dyn Environment>,
}

impl ResourceFollower<'_> {
    /// Runs discovery and applies changes until it is dropped.
    pub(super) async fn run(self) {
        let mut before = DiscoveryGaps::default();
        let mut absent = AbsentResources::default();
        let mut last_error = None;
        loop {
            match self.once(&mut absent).await {
                Ok(now) => {
                    if now.left_out != before.left_out {
                        warn_of_limit(self.status, &now.left_out, self.pattern);
                    }
                    self.log_unavailable_groups(&before, &now);
                    before = now;
                    last_error = None;
                }
                Err(FollowError { error, is_unreachable }) => {
                    let (informer, cluster) = (self.status.name(), cluster_field(&self.status.cluster));
                    // The cluster logs once that nothing answers.
                    let is_quiet = last_error.as_ref() == Some(&error)
                        || (is_unreachable && self.informer.is_api_server_away().await);
                    log_unless!(is_quiet, warn, informer, cluster, pattern = %self.pattern, %error, "discovery failed; keeping the previously known resources");
                    last_error = Some(error);
                }
            }
            let pause = around(DISCOVERY_INTERVAL, self.environment.random());
            self.environment.sleep(pause).await;
        }
    }

    /// Runs discovery once and applies changes.
    async fn once(&self, absent: &mut AbsentResources) -> Result<DiscoveryGaps, FollowError> {
        let environment = Arc::clone(self.environment);
        let served = discover_matching(self.client, environment, self.pattern, &self.section.exclude).await;
        let served = served.map_err(|error| FollowError {
            is_unreachable: error.cause() == ApiErrorCause::Unreachable,
            error: error.to_string(),
        })?;
        self.log_unused_excludes(&served);
        let before = ServedResources {
            resources: self.informer.spec().resources.unwrap_or_default(),
            ..ServedResources::default()
        };
        let running: BTreeSet<_> = before.resources.keys().cloned().collect();
        let unavailable_groups = served.unread.clone();
        let served = absent.keep_until_gone(served.after(&before), &before, |resource| self.is_gone(resource));
        let (served, left_out) = within_watches(served, self.section, &running);
        if served.resources != before.resources {
            self.log_changes(&before, &served);
            let spec = spec(self.status, self.section, &ResolvedResource::Several(served));
            self.informer.reconfigure(spec).await.map_err(|error| FollowError {
                is_unreachable: false,
                error: error.to_string(),
            })?;
        }
        Ok(DiscoveryGaps {
            left_out,
            unavailable_groups,
        })
    }

    /// Whether the API server answers 404 to the requests of all sources of `resource`.
    fn is_gone(&self, resource: &GroupVersionResource) -> bool {
        let statuses = self.informer.sources().into_iter();
        let mut of_resource = statuses.filter(|source| source.spec().resource == *resource);
        of_resource.all(|source| source.status().state == SourceState::WaitingForResource)
    }

    /// Logs, once each, the `exclude` entries that match nothing.
    fn log_unused_excludes(&self, served: &ServedResources) {
        let section = (self.pattern, &self.section.exclude);
        for (entry, idle) in self.status.update_exclude_warnings(section, &served.exclusions) {
            let (informer, pattern) = (self.status.name(), self.pattern);
            tracing::warn!(informer, %pattern, exclude = %entry, hint = %idle, "exclude entry has no effect");
        }
    }

    /// Logs the group versions that stopped answering and those that answer again. A changed error is not logged again.
    fn log_unavailable_groups(&self, before: &DiscoveryGaps, now: &DiscoveryGaps) {
        let (informer, cluster) = (self.status.name(), cluster_field(&self.status.cluster));
        for (version, why) in &now.unavailable_groups {
            if !before.unavailable_groups.contains_key(version) {
                tracing::warn!(informer, cluster, group_version = %version, error = %why, "discovery failed; keeping the previously known resources");
            }
        }
        for version in before.unavailable_groups.keys() {
            if !now.unavailable_groups.contains_key(version) {
                tracing::info!(informer, cluster, group_version = %version, "discovery recovered");
            }
        }
    }

    fn log_changes(&self, before: &ServedResources, now: &ServedResources) {
        let (informer, cluster) = (self.status.name(), cluster_field(&self.status.cluster));
        for new in now.resources.keys().filter(|new| !before.resources.contains_key(*new)) {
            tracing::info!(informer, cluster, resource = %new, "resource discovered");
        }
        for gone in before
            .resources
            .keys()
            .filter(|gone| !now.resources.contains_key(*gone))
        {
            tracing::info!(informer, cluster, resource = %gone, "resource no longer served");
        }
    }
}

/// Limits `served` to the allowed number of watches; resources that are running already come first.
fn within_watches(
    mut served: ServedResources,
    section: &InformerSection,
    running: &BTreeSet<GroupVersionResource>,
) -> (ServedResources, Vec<String>) {
    let of_each = section.namespaces.len().max(1);
    let is_watched = |found: &Discovered| section.namespaces.is_empty() || found.namespaced;
    let mut candidates: Vec<_> = served.resources.values().filter(|found| is_watched(found)).collect();
    candidates.sort_by_key(|found| !running.contains(&found.gvr));
    let over_limit: Vec<_> = candidates
        .iter()
        .skip(WATCHES_MAX / of_each)
        .map(|found| found.gvr.clone())
        .collect();
    for resource in &over_limit {
        served.resources.remove(resource);
    }
    (served, over_limit.iter().map(ToString::to_string).collect())
}

fn warn_of_limit(status: &StatusHandle, left_out: &[String], pattern: &ResourcePattern) {
    if !left_out.is_empty() {
        let (informer, cluster) = (status.name(), cluster_field(&status.cluster));
        let resources = left_out.join(", ");
        tracing::warn!(
            informer,
            cluster,
            %pattern,
            limit = WATCHES_MAX,
            resources,
            hint = "list what you do not need in `exclude`",
            "watch limit reached; some resources are not watched"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_config::{Config, SourceFile};

    fn section(namespaces: &str) -> Arc<InformerSection> {
        let text = format!("[informer.all]\nresource = \"*\"\n{namespaces}");
        let config = Config::parse(&SourceFile::new("config.toml", text)).unwrap();
        Arc::new(config.informers["all"].clone())
    }

    fn served(count: usize) -> ServedResources {
        let mut served = ServedResources::default();
        for number in 0..count {
            let gvr = GroupVersionResource::new("example.com", "v1", format!("things{number:03}"));
            let kind = format!("Thing{number}");
            let namespaced = number % 2 == 0;
            let found = Discovered {
                gvr: gvr.clone(),
                kind,
                namespaced,
                other_names: Vec::new(),
            };
            served.resources.insert(gvr, found);
        }
        served
    }

    #[test]
    fn running_resources_stay_when_the_watch_limit_is_exceeded() {
        let all = served(WATCHES_MAX + 2);
        let last = all.resources.keys().next_back().unwrap().clone();
        let (kept, left_out) = within_watches(all, &section(""), &BTreeSet::from([last.clone()]));
        assert_eq!(kept.resources.len(), WATCHES_MAX);
        assert!(kept.resources.contains_key(&last));
        assert_eq!(left_out, ["example.com/v1/things255", "example.com/v1/things256"]);
    }

    #[test]
    fn each_namespace_counts_as_a_watch() {
        let (kept, left_out) = within_watches(served(400), &section("namespaces = [\"a\", \"b\"]"), &BTreeSet::new());
        let watched = kept.resources.values().filter(|found| found.namespaced).count();
        assert_eq!(watched, WATCHES_MAX / 2);
        assert_eq!(left_out.len(), 200 - WATCHES_MAX / 2);
    }
}
