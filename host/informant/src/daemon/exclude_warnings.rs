//! When the log says that an entry of `exclude` leaves nothing out: once, and when every cluster of the informer has
//! said so.
//!
//! An entry that leaves something out in one cluster may well be of no use in another. What is not known of a cluster,
//! because it or the entry's group does not answer, keeps the entry waiting for a verdict.

use std::collections::{BTreeMap, BTreeSet};

use informant_informer::{Exclude, Exclusion, Idle, ResourcePattern};

/// What the clusters of one informer said of its `exclude`.
#[derive(Debug, Default)]
pub(super) struct ExcludeWarnings {
    /// What was judged; another one is judged from the beginning.
    judged: Option<(ResourcePattern, Exclude)>,
    /// Entries that left something out at some time, and those the log has been told of.
    settled: BTreeSet<String>,
    /// Of the other entries, the clusters in which they leave nothing out.
    idle: BTreeMap<String, BTreeMap<String, Idle>>,
}

impl ExcludeWarnings {
    /// What `cluster` says of each entry now; `clusters` are all that the informer is in. Returns the entries that the
    /// log is to be told of.
    pub(super) fn take(
        &mut self,
        cluster: &str,
        clusters: &[String],
        (pattern, exclude): (&ResourcePattern, &Exclude),
        said: &BTreeMap<String, Exclusion>,
    ) -> Vec<(String, Idle)> {
        let is_same = |(own_pattern, own): &(ResourcePattern, Exclude)| own_pattern == pattern && own == exclude;
        if !self.judged.as_ref().is_some_and(is_same) {
            *self = Self {
                judged: Some((pattern.clone(), exclude.clone())),
                ..Self::default()
            };
        }
        let mut due = Vec::new();
        for (entry, exclusion) in said {
            if self.settled.contains(entry) {
                continue;
            }
            let Exclusion::Idle(idle) = exclusion else {
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
    use informant_informer::GroupVersionResource;

    const EVERYTHING: ResourcePattern = ResourcePattern::Everything;

    fn exclude(plural: &str) -> Exclude {
        Exclude {
            resources: vec![GroupVersionResource::new("", "v1", plural)],
            versions: Vec::new(),
        }
    }

    fn said(plural: &str, exclusion: &Exclusion) -> BTreeMap<String, Exclusion> {
        BTreeMap::from([(format!("v1/{plural}"), exclusion.clone())])
    }

    fn idle() -> Exclusion {
        let candidates = Vec::new();
        Exclusion::Idle(Idle { candidates })
    }

    #[test]
    fn an_idle_entry_is_said_once_until_the_section_says_something_else() {
        let mut warnings = ExcludeWarnings::default();
        let only = [String::new()];
        let mut take = |plural: &str, exclusion: &Exclusion| {
            let due = warnings.take("", &only, (&EVERYTHING, &exclude(plural)), &said(plural, exclusion));
            due.len()
        };
        assert_eq!(take("secret", &idle()), 1);
        assert_eq!(take("secret", &idle()), 0);
        assert_eq!(take("sekrets", &idle()), 1, "another entry");
        assert_eq!(take("secret", &idle()), 1, "and the first one back");
        assert_eq!(take("secrets", &Exclusion::LeavesOut), 0);
        assert_eq!(take("secrets", &idle()), 0, "its kind went, which is no mistake");
    }

    #[test]
    fn an_entry_is_said_when_it_is_idle_in_every_cluster() {
        let clusters = ["east".to_owned(), "west".to_owned()];
        let exclude = exclude("secret");
        let mut warnings = ExcludeWarnings::default();
        let mut take = |cluster: &str, said: &BTreeMap<String, Exclusion>| {
            let due = warnings.take(cluster, &clusters, (&EVERYTHING, &exclude), said);
            due.len()
        };
        assert_eq!(take("east", &said("secret", &idle())), 0);
        assert_eq!(take("east", &said("secret", &idle())), 0);
        assert_eq!(take("west", &BTreeMap::new()), 0, "its group does not answer there");
        assert_eq!(take("west", &said("secret", &idle())), 1);
        assert_eq!(take("east", &said("secret", &idle())), 0);

        let mut warnings = ExcludeWarnings::default();
        let mut take = |cluster: &str, exclusion: &Exclusion| {
            let due = warnings.take(cluster, &clusters, (&EVERYTHING, &exclude), &said("secret", exclusion));
            due.len()
        };
        assert_eq!(take("east", &idle()), 0);
        assert_eq!(take("west", &Exclusion::LeavesOut), 0);
        assert_eq!(take("east", &idle()), 0);
    }
}
