//! Keeps the cache from going back in time.
//!
//! An API server is several replicas, and one may lag: a list or an event from it can be older than what was seen
//! already. The guard compares with the source's *high-water*, the highest version it has shown, first, and with the
//! version of the object in question second. Pure state of the informer loop; it decides, and the loop acts.
//!
//! A stretch of a source's history in which versions only grow is an *epoch*. A consistent list (one that the server
//! had to read from its database) is believed even if it is older: the database was restored, and a new epoch begins.
//!
//! Source: KEP-5504 for what versions compare; client-go takes every event and list as it comes.

#[cfg(test)]
mod tests;

use informant_object::{ResourceVersion, VersionRef};

use crate::seeded_bug::{SeededBug, seeded_bug};

/// How the server was asked for a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// Version unset: from the database, as of now.
    Consistent,
    /// Version `0` or a version: from any replica's cache, which may lag.
    Cache,
}

/// What to do with a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum EventVerdict {
    /// It is news.
    Accept,
    /// The stored object is this version or a newer one, or the object was deleted since. Drop the event; it was
    /// counted.
    Outdated,
}

/// What to do with a complete list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ListVerdict {
    /// It is at least as new as all that was seen.
    Accept,
    /// A lagging replica: keep what is there, and list again, [`ListSource::Consistent`].
    Outdated {
        /// The list's version.
        list: u64,
        /// The highest version seen.
        high_water: u64,
    },
    /// The cluster went back in time. Take the list, with [`Reason::Restored`](crate::Reason::Restored); an epoch
    /// begins.
    Restored {
        /// The epoch's number.
        epoch: u64,
    },
}

/// What the guard has done since it was made. Each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionGuardStats {
    /// Events dropped because they were outdated.
    pub events_outdated: u64,
    /// Lists refused because a lagging replica gave them.
    pub lists_outdated: u64,
    /// List items older than the stored object, in lists that were accepted; the stored object is to be kept.
    pub items_outdated: u64,
    /// Epochs begun because the cluster went back in time.
    pub restored: u64,
}

/// Judges what a source shows by its versions.
#[derive(Clone, Debug, Default)]
pub struct VersionGuard {
    /// The highest version seen in this epoch.
    high_water: Option<u64>,
    epoch: u64,
    /// The version that does not compare, which turned the guard off.
    off: Option<ResourceVersion>,
    stats: VersionGuardStats,
}

impl VersionGuard {
    /// A guard that has seen nothing.
    #[must_use]
    pub fn new() -> VersionGuard {
        VersionGuard::default()
    }

    /// Judges a watch event by its object's version, given the version stored of that object. `stored` is only asked
    /// for an event at or below the high-water.
    pub fn check_event<'a>(
        &mut self,
        event: VersionRef<'_>,
        stored: impl FnOnce() -> Option<VersionRef<'a>>,
    ) -> EventVerdict {
        let Some(number) = self.number(event) else {
            return EventVerdict::Accept;
        };
        let high_water = self.high_water.unwrap_or(0);
        if number > high_water {
            self.high_water = Some(number);
            return EventVerdict::Accept;
        }
        if seeded_bug(SeededBug::VersionGuardOff) {
            return EventVerdict::Accept;
        }
        let is_news = match stored() {
            Some(stored) => stored.number().is_none_or(|stored| number > stored),
            // Absent: deleted meanwhile, unless the server gave several objects one version.
            None => number == high_water,
        };
        if is_news {
            return EventVerdict::Accept;
        }
        self.stats.events_outdated += 1;
        EventVerdict::Outdated
    }

    /// Judges a list at its end, when its version is known for sure and nothing of it has been used.
    pub fn check_list(&mut self, list: VersionRef<'_>, source: ListSource) -> ListVerdict {
        let Some(number) = self.number(list) else {
            return ListVerdict::Accept;
        };
        match self.high_water {
            Some(high_water)
                if number < high_water && source == ListSource::Cache && !seeded_bug(SeededBug::VersionGuardOff) =>
            {
                self.stats.lists_outdated += 1;
                ListVerdict::Outdated {
                    list: number,
                    high_water,
                }
            }
            Some(high_water) if number < high_water => {
                self.high_water = Some(number);
                self.epoch += 1;
                self.stats.restored += 1;
                ListVerdict::Restored { epoch: self.epoch }
            }
            _ => {
                self.high_water = Some(number);
                ListVerdict::Accept
            }
        }
    }

    /// Judges one item of a list that was accepted, given what is stored of that object; false says to keep the stored
    /// one. Only a server that contradicts itself gives such items. Not to be asked for a list that was
    /// [`ListVerdict::Restored`].
    pub fn check_item(&mut self, item: VersionRef<'_>, stored: VersionRef<'_>) -> bool {
        let goes_back = !seeded_bug(SeededBug::VersionGuardOff)
            && self.is_on()
            && matches!((item.number(), stored.number()), (Some(item), Some(stored)) if item < stored);
        self.stats.items_outdated += u64::from(goes_back);
        !goes_back
    }

    /// Whether versions are compared at all.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.off.is_none()
    }

    /// The version that turned the guard off, for the source's state: it is no decimal number, so this source may go
    /// back in time unnoticed.
    #[must_use]
    pub fn turned_off_by(&self) -> Option<&ResourceVersion> {
        self.off.as_ref()
    }

    /// The highest version seen in this epoch.
    #[must_use]
    pub fn high_water(&self) -> Option<u64> {
        self.high_water
    }

    /// Takes up where an earlier process left off, before anything was judged: its high-water.
    pub fn resume_from(&mut self, high_water: u64) {
        self.high_water = self.high_water.max(Some(high_water));
    }

    /// The number of this epoch; the first is 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What the guard has done so far.
    #[must_use]
    pub fn stats(&self) -> &VersionGuardStats {
        &self.stats
    }

    /// The number to compare; none once the guard is off. What does not compare turns it off, for good: with one such
    /// version in its history a high-water means nothing.
    fn number(&mut self, version: VersionRef<'_>) -> Option<u64> {
        if !self.is_on() {
            return None;
        }
        let number = version.number();
        if number.is_none() {
            self.off = Some(version.to_version());
        }
        number
    }
}
