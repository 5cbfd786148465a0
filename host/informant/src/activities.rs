//! What is in progress, by name. If a stop hangs, the log names what it waited for.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Reports work on a thread that cannot hold an [`ActivityGuard`]; none while there is none.
type Probe = Box<dyn Fn() -> Option<(String, Duration)> + Send>;

/// The work in progress. Clones share it.
#[derive(Clone, Default)]
pub struct Activities(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    next: u64,
    running: Vec<(u64, String, Instant)>,
    probes: Vec<Probe>,
}

/// Work that ends when this is dropped.
#[must_use = "the work counts as ended when this is dropped"]
pub(crate) struct ActivityGuard {
    activities: Activities,
    number: u64,
}

impl Activities {
    /// Begins work: `state database: close`, `cluster east: login`.
    pub(crate) fn begin(&self, name: impl Into<String>) -> ActivityGuard {
        let mut inner = self.inner();
        inner.next += 1;
        let number = inner.next;
        inner.running.push((number, name.into(), Instant::now()));
        ActivityGuard {
            activities: self.clone(),
            number,
        }
    }

    /// Asks `probe`, too, for the name of work and its age.
    pub(crate) fn add_probe(&self, probe: impl Fn() -> Option<(String, Duration)> + Send + 'static) {
        self.inner().probes.push(Box::new(probe));
    }

    /// The names of what is in progress, each with its age, oldest first: `informer pods (9 s), state database: close
    /// (1 s)`.
    pub(crate) fn describe(&self) -> String {
        let (inner, now) = (self.inner(), Instant::now());
        let running = inner.running.iter();
        let mut all: Vec<_> = running
            .map(|(_, name, since)| (name.clone(), now.saturating_duration_since(*since)))
            .collect();
        all.extend(inner.probes.iter().filter_map(|probe| probe()));
        all.sort_by_key(|(_, age)| std::cmp::Reverse(*age));
        let all = all
            .into_iter()
            .map(|(name, age)| format!("{name} ({} s)", age.as_secs()));
        all.collect::<Vec<_>>().join(", ")
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        let number = self.number;
        self.activities.inner().running.retain(|(other, ..)| *other != number);
    }
}

impl fmt::Debug for Activities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Activities").field(&self.describe()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn activities_are_listed_until_their_guards_drop() {
        let activities = Activities::default();
        let first = activities.begin("informer pods");
        let second = activities.begin("state database: close");
        activities.add_probe(|| Some(("state database: fsync".to_owned(), Duration::from_secs(11))));
        assert_eq!(
            activities.describe(),
            "state database: fsync (11 s), informer pods (0 s), state database: close (0 s)"
        );
        drop(first);
        assert!(!activities.describe().contains("informer pods"));
        drop(second);
        assert_eq!(activities.describe(), "state database: fsync (11 s)");
    }
}
