//! Lets an informer of `resource = "*"` or `"apps/v1/*"` follow what its API server serves: kinds that appear start,
//! kinds that go end.
//!
//! What is served is asked for at a pace; there is no watch for it that would know of aggregated servers too. A group
//! that does not answer has lost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_informer::{Discovered, GroupVersionResource, NamedInformer, ResourcePattern, Served, discover_matching};
use kube::Client;

use super::board::OwnPlace;
use super::informer_keeper::{Found, jitter, spec};
use crate::config::{InformerSection, WATCHES_MAX};

/// How often the API server is asked what it serves, plus or minus a fifth. Two answers of some 100 KiB in a usual
/// cluster; from a server before Kubernetes 1.27 a small one for each version of each group, some thirty.
pub(super) const SERVED_PACE: Duration = Duration::from_secs(10);

/// What is served at first.
pub(super) async fn first(
    client: &Client,
    environment: Arc<dyn Environment>,
    pattern: &ResourcePattern,
    section: &InformerSection,
) -> Result<Found, String> {
    let served = discover_matching(client, environment, pattern, &section.exclude).await;
    let served = served.map_err(|error| format!("asking what is served of `{pattern}`: {error}"))?;
    let (served, left_out) = within_watches(served, section, &BTreeSet::new());
    warn_of(&left_out, pattern);
    Ok(Found::Several(served))
}

/// What is not followed of what is served.
#[derive(Default)]
struct Gaps {
    /// There are too many.
    left_out: Vec<String>,
    /// Versions of groups that do not answer, with the reason.
    unread: BTreeMap<String, String>,
}

/// Keeps one informer in step.
pub(super) struct Follower<'f> {
    pub(super) place: &'f OwnPlace,
    pub(super) section: &'f InformerSection,
    pub(super) pattern: &'f ResourcePattern,
    pub(super) informer: &'f NamedInformer,
    pub(super) client: &'f Client,
    pub(super) environment: &'f Arc<dyn Environment>,
}

impl Follower<'_> {
    /// Asks, and takes in what changed, until it is dropped.
    pub(super) async fn run(self) {
        let mut before = Gaps::default();
        let mut trouble = None;
        loop {
            match self.once().await {
                Ok(now) => {
                    if now.left_out != before.left_out {
                        warn_of(&now.left_out, self.pattern);
                    }
                    self.say_unread(&before, &now);
                    before = now;
                    trouble = None;
                }
                Err(error) => {
                    if trouble.as_ref() != Some(&error) {
                        let (informer, cluster) = (self.place.name(), &self.place.cluster);
                        tracing::warn!(%informer, %cluster, "what is served of `{}` is not known, nothing is changed: {error}", self.pattern);
                    }
                    trouble = Some(error);
                }
            }
            let pause = SERVED_PACE.mul_f64(jitter(self.environment.random()));
            self.environment.sleep(pause).await;
        }
    }

    /// Asks, and takes in what changed.
    async fn once(&self) -> Result<Gaps, String> {
        let environment = Arc::clone(self.environment);
        let served = discover_matching(self.client, environment, self.pattern, &self.section.exclude).await;
        let served = served.map_err(|error| error.to_string())?;
        self.say_idle(&served);
        let before = Served {
            resources: self.informer.spec().resources.unwrap_or_default(),
            ..Served::default()
        };
        let running: BTreeSet<_> = before.resources.keys().cloned().collect();
        let unread = served.unread.clone();
        let (served, left_out) = within_watches(served.after(&before), self.section, &running);
        if served.resources != before.resources {
            self.say(&before, &served);
            let spec = spec(self.place, self.section, &Found::Several(served));
            self.informer
                .reconfigure(spec)
                .await
                .map_err(|error| error.to_string())?;
        }
        Ok(Gaps { left_out, unread })
    }

    /// Which entries of `exclude` leave nothing out, once.
    fn say_idle(&self, served: &Served) {
        let judged = (self.pattern, &self.section.exclude);
        for (entry, idle) in self.place.judge_exclude(judged, &served.exclusions) {
            let (informer, pattern) = (self.place.name(), self.pattern);
            tracing::warn!(%informer, exclude = %entry, "`exclude`: of `{pattern}`, `{entry}` {idle}");
        }
    }

    /// Which versions of groups do not answer any more, and which do again. Why is said once, though it may change.
    fn say_unread(&self, before: &Gaps, now: &Gaps) {
        let (informer, cluster) = (self.place.name(), &self.place.cluster);
        for (version, why) in &now.unread {
            if !before.unread.contains_key(version) {
                tracing::warn!(%informer, %cluster, "what {version} serves is not known, what was known of it goes on: {why}");
            }
        }
        for version in before.unread.keys() {
            if !now.unread.contains_key(version) {
                tracing::info!(%informer, %cluster, "what {version} serves is known again");
            }
        }
    }

    fn say(&self, before: &Served, now: &Served) {
        let (informer, cluster) = (self.place.name(), &self.place.cluster);
        for new in now.resources.keys().filter(|new| !before.resources.contains_key(*new)) {
            tracing::info!(%informer, %cluster, resource = %new, "a resource appeared");
        }
        for gone in before
            .resources
            .keys()
            .filter(|gone| !now.resources.contains_key(*gone))
        {
            tracing::info!(%informer, %cluster, resource = %gone, "a resource is served no more");
        }
    }
}

/// As many of `served` as there may be watches; those that run already come first.
fn within_watches(
    mut served: Served,
    section: &InformerSection,
    running: &BTreeSet<GroupVersionResource>,
) -> (Served, Vec<String>) {
    let of_each = section.namespaces.len().max(1);
    let is_watched = |found: &Discovered| section.namespaces.is_empty() || found.namespaced;
    let mut by_turn: Vec<_> = served.resources.values().filter(|found| is_watched(found)).collect();
    by_turn.sort_by_key(|found| !running.contains(&found.gvr));
    let too_many: Vec<_> = by_turn
        .iter()
        .skip(WATCHES_MAX / of_each)
        .map(|found| found.gvr.clone())
        .collect();
    for resource in &too_many {
        served.resources.remove(resource);
    }
    (served, too_many.iter().map(ToString::to_string).collect())
}

fn warn_of(left_out: &[String], pattern: &ResourcePattern) {
    if !left_out.is_empty() {
        tracing::warn!(
            "`{pattern}` is more than the {WATCHES_MAX} watches that a cluster is asked for; left out: {}; name what is not needed in `exclude`",
            left_out.join(", ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, SourceFile};

    fn section(namespaces: &str) -> Arc<InformerSection> {
        let text = format!("[informer.all]\nresource = \"*\"\n{namespaces}");
        let config = Config::parse(&SourceFile::new("config.toml", text)).unwrap();
        Arc::new(config.informers["all"].clone())
    }

    fn served(count: usize) -> Served {
        let mut served = Served::default();
        for number in 0..count {
            let gvr = GroupVersionResource::new("example.com", "v1", format!("things{number:03}"));
            let kind = format!("Thing{number}");
            let namespaced = number % 2 == 0;
            served
                .resources
                .insert(gvr.clone(), Discovered { gvr, kind, namespaced });
        }
        served
    }

    #[test]
    fn above_the_watches_of_a_cluster_what_runs_already_stays_and_the_rest_is_named() {
        let all = served(WATCHES_MAX + 2);
        let last = all.resources.keys().next_back().unwrap().clone();
        let (kept, left_out) = within_watches(all, &section(""), &BTreeSet::from([last.clone()]));
        assert_eq!(kept.resources.len(), WATCHES_MAX);
        assert!(kept.resources.contains_key(&last));
        assert_eq!(left_out, ["example.com/v1/things255", "example.com/v1/things256"]);
    }

    #[test]
    fn each_namespace_is_a_watch_and_what_lives_in_none_is_no_watch() {
        let (kept, left_out) = within_watches(served(400), &section("namespaces = [\"a\", \"b\"]"), &BTreeSet::new());
        let watched = kept.resources.values().filter(|found| found.namespaced).count();
        assert_eq!(watched, WATCHES_MAX / 2);
        assert_eq!(left_out.len(), 200 - WATCHES_MAX / 2);
    }
}
