//! Decides when to log that an `exclude` entry matches nothing: once, when it matches nothing in every cluster of the
//! informer.
//! An entry may match in one cluster and not in another. While a cluster, or the entry's group in it, does not answer,
//! nothing is logged for the entry.

use std::collections::{BTreeMap, BTreeSet};

use informant_informer::{Exclusion, UnusedExclusion};
use informant_spec::{Exclude, ResourcePattern};

/// What the `exclude` entries of one informer match in its clusters.
#[derive(Debug, Default)]
pub(super) struct ExcludeWarnings {
    /// The section that was checked; another section starts from scratch.
    checked: Option<(ResourcePattern, Exclude)>,
    /// Entries that matched at some time, and those that were logged.
    settled: BTreeSet<String>,
    /// For each other entry, the clusters in which it matches nothing.
    idle: BTreeMap<String, BTreeMap<String, UnusedExclusion>>,
}

impl ExcludeWarnings {
    /// Sets what each entry matches in `cluster`; `clusters` are all clusters of the informer. Returns the entries to
    /// log.
    pub(super) fn update(
        &mut self,
        cluster: &str,
        clusters: &[String],
        (pattern, exclude): (&ResourcePattern, &Exclude),
        exclusions: &BTreeMap<String, Exclusion>,
    ) -> Vec<(String, UnusedExclusion)> {
        let is_same = |(own_pattern, own): &(ResourcePattern, Exclude)| own_pattern == pattern && own == exclude;
        if !self.checked.as_ref().is_some_and(is_same) {
            *self = Self {
                checked: Some((pattern.clone(), exclude.clone())),
                ..Self::default()
            };
        }
        let mut due = Vec::new();
        for (entry, exclusion) in exclusions {
            if self.settled.contains(entry) {
                continue;
            }
            let Exclusion::Unused(idle) = exclusion else {
                self.idle.remove(entry);
                self.settled.insert(entry.clone());
                continue;
            };
            let own = self.idle.entry(entry.clone()).or_default();
            own.insert(cluster.to_owned(), idle.clone());
            if clusters.iter().all(|cluster| own.contains_key(cluster)) {
                self.idle.remove(entry);
                self.settled.insert(entry.clone());
                due.push((entry.clone(), idle.clone()));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use informant_spec::GroupVersionResource;

    const EVERYTHING: ResourcePattern = ResourcePattern::Everything;

    fn exclude(plural: &str) -> Exclude {
        Exclude {
            resources: vec![GroupVersionResource::new("", "v1", plural)],
            versions: Vec::new(),
        }
    }

    fn exclusions(plural: &str, exclusion: &Exclusion) -> BTreeMap<String, Exclusion> {
        BTreeMap::from([(format!("v1/{plural}"), exclusion.clone())])
    }

    fn idle() -> Exclusion {
        let candidates = Vec::new();
        Exclusion::Unused(UnusedExclusion { candidates })
    }

    #[test]
    fn idle_entry_is_logged_once_per_section() {
        let mut warnings = ExcludeWarnings::default();
        let only = [String::new()];
        let mut update = |plural: &str, exclusion: &Exclusion| {
            let due = warnings.update(
                "",
                &only,
                (&EVERYTHING, &exclude(plural)),
                &exclusions(plural, exclusion),
            );
            due.len()
        };
        assert_eq!(update("secret", &idle()), 1);
        assert_eq!(update("secret", &idle()), 0);
        assert_eq!(update("sekrets", &idle()), 1, "another entry");
        assert_eq!(update("secret", &idle()), 1, "and the first one back");
        assert_eq!(update("secrets", &Exclusion::Effective), 0);
        assert_eq!(
            update("secrets", &idle()),
            0,
            "its kind was removed, which is not a mistake"
        );
    }

    #[test]
    fn entry_is_logged_once_idle_in_every_cluster() {
        let clusters = ["east".to_owned(), "west".to_owned()];
        let exclude = exclude("secret");
        let mut warnings = ExcludeWarnings::default();
        let mut update = |cluster: &str, exclusions: &BTreeMap<String, Exclusion>| {
            let due = warnings.update(cluster, &clusters, (&EVERYTHING, &exclude), exclusions);
            due.len()
        };
        assert_eq!(update("east", &exclusions("secret", &idle())), 0);
        assert_eq!(update("east", &exclusions("secret", &idle())), 0);
        assert_eq!(update("west", &BTreeMap::new()), 0, "its group does not answer there");
        assert_eq!(update("west", &exclusions("secret", &idle())), 1);
        assert_eq!(update("east", &exclusions("secret", &idle())), 0);

        let mut warnings = ExcludeWarnings::default();
        let mut update = |cluster: &str, exclusion: &Exclusion| {
            let due = warnings.update(
                cluster,
                &clusters,
                (&EVERYTHING, &exclude),
                &exclusions("secret", exclusion),
            );
            due.len()
        };
        assert_eq!(update("east", &idle()), 0);
        assert_eq!(update("west", &Exclusion::Effective), 0);
        assert_eq!(update("east", &idle()), 0);
    }
}
