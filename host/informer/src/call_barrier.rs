//! [`CallBarrier`]: first calls wait until what they may read is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use tokio::time::Instant;

/// Holds the informers of a handler, by cluster, until everything that its calls may read of that cluster is there. A
/// cluster that is down holds its own informers only, and the wait is bounded.
///
/// The handler is attached to an informer when that is released, so nothing is queued for it before.
#[derive(Debug)]
pub struct CallBarrier<T> {
    held: BTreeMap<String, HeldCluster<T>>,
    /// Clusters whose calls began before everything was ready.
    overdue: BTreeSet<String>,
}

/// The informers in one cluster whose events wait.
#[derive(Debug)]
struct HeldCluster<T> {
    since: Instant,
    informers: Vec<T>,
}

/// What a barrier holds no longer.
#[derive(Debug)]
pub struct Released<T> {
    /// The informers whose events are delivered from now on.
    pub informers: Vec<T>,
    /// The clusters among theirs that are not ready, and how long they have waited.
    pub overdue: Vec<(String, Duration)>,
    /// The first of what is not ready, also of clusters that were released before.
    pub missing: Option<String>,
}

impl<T> Default for CallBarrier<T> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            overdue: BTreeSet::new(),
        }
    }
}

impl<T> CallBarrier<T> {
    /// Whether nothing is held, and all that was released is ready.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.held.is_empty() && self.overdue.is_empty()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds the events of an informer until its cluster is ready.
    pub fn hold(&mut self, cluster: &str, informer: T, now: Instant) {
        let held = self.held.entry(cluster.to_owned()).or_insert_with(|| HeldCluster {
            since: now,
            informers: Vec::new(),
        });
        held.informers.push(informer);
    }

    /// No longer holds the events of the informers in `cluster` that `are_gone`. Returns whether it held one.
    pub fn forget(&mut self, cluster: &str, are_gone: impl Fn(&T) -> bool) -> bool {
        let Some(held) = self.held.get_mut(cluster) else {
            return false;
        };
        let before = held.informers.len();
        held.informers.retain(|informer| !are_gone(informer));
        let was_held = held.informers.len() < before;
        if held.informers.is_empty() {
            self.held.remove(cluster);
        }
        was_held
    }

    /// Holds nothing any more: the handler receives no events.
    pub fn clear(&mut self) {
        self.held.clear();
        self.overdue.clear();
    }

    /// Releases the informers whose cluster is ready, or has waited for `wait_max`; none: at once. `missing` names the
    /// first of what is not ready of a cluster that has waited for so long.
    pub fn release(
        &mut self,
        now: Instant,
        wait_max: Option<Duration>,
        missing: impl Fn(&str, Duration) -> Option<String>,
    ) -> Released<T> {
        let mut released = Released {
            informers: Vec::new(),
            overdue: Vec::new(),
            missing: None,
        };
        self.overdue.retain(|cluster| {
            let missing = missing(cluster, Duration::MAX);
            let is_missing = missing.is_some();
            released.missing = released.missing.take().or(missing);
            is_missing
        });
        for cluster in self.held.keys().cloned().collect::<Vec<_>>() {
            let waited = now.saturating_duration_since(self.held[&cluster].since);
            let missing = missing(&cluster, waited).filter(|_| !seeded_bug(SeededBug::BarrierIgnored));
            if let Some((missing, wait_max)) = missing.zip(wait_max) {
                released.missing.get_or_insert(missing);
                if waited < wait_max {
                    continue;
                }
                self.overdue.insert(cluster.clone());
                released.overdue.push((cluster.clone(), waited));
            }
            let held = self.held.remove(&cluster).into_iter();
            released.informers.extend(held.flat_map(|held| held.informers));
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Option<Duration> = Some(Duration::from_secs(120));

    /// Two informers in one cluster and one in another, held since a moment, from which the function counts seconds.
    fn barrier() -> (CallBarrier<u8>, impl Fn(u64) -> Instant) {
        let began = Instant::now();
        let at = move |seconds| began + Duration::from_secs(seconds);
        let mut barrier = CallBarrier::default();
        barrier.hold("", 1, at(0));
        barrier.hold("", 2, at(5));
        barrier.hold("east", 3, at(0));
        (barrier, at)
    }

    fn east_is_down(cluster: &str, _: Duration) -> Option<String> {
        (cluster == "east").then(|| "east is down".to_owned())
    }

    #[test]
    fn a_cluster_that_is_down_holds_only_its_own_informers() {
        let (mut barrier, at) = barrier();
        let released = barrier.release(at(10), MAX, east_is_down);
        assert_eq!((released.informers, released.overdue), (vec![1, 2], vec![]));
        assert_eq!(released.missing.as_deref(), Some("east is down"));
        assert!(!barrier.is_over());
        assert_eq!(barrier.release(at(20), MAX, |_, _| None).informers, [3]);
        assert!(barrier.is_over());
    }

    #[test]
    fn a_cluster_is_called_about_after_the_longest_wait() {
        let (mut barrier, at) = barrier();
        assert_eq!(barrier.release(at(119), MAX, east_is_down).informers, [1, 2]);
        let released = barrier.release(at(120), MAX, east_is_down);
        assert_eq!(released.informers, [3]);
        assert_eq!(released.overdue, [("east".to_owned(), Duration::from_secs(120))]);
        let later = barrier.release(at(130), MAX, east_is_down);
        assert!(later.informers.is_empty() && later.missing.is_some() && !barrier.is_over());
        assert!(barrier.release(at(140), MAX, |_, _| None).missing.is_none() && barrier.is_over());
    }

    #[test]
    fn without_a_wait_all_is_released_at_once() {
        let (mut barrier, at) = barrier();
        let released = barrier.release(at(5), None, east_is_down);
        assert_eq!((released.informers, released.overdue), (vec![1, 2, 3], vec![]));
        assert_eq!(released.missing, None);
    }

    #[test]
    fn what_is_forgotten_is_not_released() {
        let (mut barrier, at) = barrier();
        assert!(barrier.forget("", |informer| *informer == 1));
        assert!(!barrier.forget("", |informer| *informer == 1) && !barrier.forget("west", |_| true));
        assert_eq!(barrier.release(at(10), MAX, |_, _| None).informers, [2, 3]);
    }
}
