//! The version guard: keeps the cache from going back in time.
//!
//! An API server has several replicas, and one may lag: its lists and events can be older than those already seen. The
//! guard compares first with the source's *high-water*, its highest version so far, and then with the stored version of
//! the object. Pure state of the informer loop: it decides, and the loop acts.
//!
//! An *epoch* is a part of a source's history in which versions only grow. A consistent list (one that the server read
//! from its database) is accepted even if it is older: the database was restored, and a new epoch starts.
//!
//! Source: KEP-5504 for comparing versions; client-go accepts every event and list.

#[cfg(test)]
mod tests;

use informant_object::VersionRef;

use crate::seeded_bug::{SeededBug, seeded_bug};

/// How a list was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// Version unset: read from the database, as of now.
    Consistent,
    /// Version `0` or a version: from any replica's cache, which may lag.
    Cache,
}

/// The verdict on a watch event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum EventVerdict {
    /// The event is new.
    Accept,
    /// The stored object has this version or a newer one, or the object was deleted since. Drop the event.
    Outdated,
}

/// The verdict on a complete list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum ListVerdict {
    /// The list is at least as new as everything seen.
    Accept,
    /// From a lagging replica: keep the cache, and list again with [`ListSource::Consistent`].
    Outdated {
        /// The list's version.
        list: u64,
        /// The highest version seen.
        high_water: u64,
    },
    /// The cluster went back in time. Accept the list with [`Reason::Restored`](crate::Reason::Restored); a new epoch
    /// starts.
    Restored {
        /// The epoch's number.
        epoch: u64,
    },
}

/// Checks a source's events and lists by their versions.
#[derive(Clone, Debug, Default)]
pub struct VersionGuard {
    /// The highest version of an event or a list in this epoch.
    high_water: Option<u64>,
    /// The version of the last bookmark since the last list. It says nothing about events, which may follow with older
    /// versions where the API server's progress is ahead of its events. But no later state of the database is older.
    bookmark: Option<u64>,
    epoch: u64,
    /// Whether a version that cannot be compared turned the guard off.
    off: bool,
}

impl VersionGuard {
    /// A guard that has seen nothing.
    #[must_use]
    pub fn new() -> VersionGuard {
        VersionGuard::default()
    }

    /// Checks a watch event by its object's version. `stored` returns the stored version of that object; it is called
    /// only for an event at or below the high-water.
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
        let is_new = match stored() {
            Some(stored) => stored.number().is_none_or(|stored| number > stored),
            // Absent: deleted meanwhile, unless several objects have the same version.
            None => number == high_water,
        };
        match is_new {
            true => EventVerdict::Accept,
            false => EventVerdict::Outdated,
        }
    }

    /// A bookmark arrived: a list that is older comes from a lagging replica or a restored database.
    pub fn bookmark(&mut self, version: VersionRef<'_>) {
        self.bookmark = self.bookmark.max(version.number());
    }

    /// Checks a list after its last page, when its version is known and none of it was used.
    pub fn check_list(&mut self, list: VersionRef<'_>, source: ListSource) -> ListVerdict {
        let Some(number) = self.number(list) else {
            return ListVerdict::Accept;
        };
        match self.high_water() {
            Some(high_water)
                if number < high_water && source == ListSource::Cache && !seeded_bug(SeededBug::VersionGuardOff) =>
            {
                ListVerdict::Outdated {
                    list: number,
                    high_water,
                }
            }
            Some(high_water) if number < high_water => {
                self.begin_at(number);
                self.epoch += 1;
                ListVerdict::Restored { epoch: self.epoch }
            }
            _ => {
                self.begin_at(number);
                ListVerdict::Accept
            }
        }
    }

    /// A list was accepted: what follows is compared with it.
    fn begin_at(&mut self, list: u64) {
        self.high_water = Some(list);
        self.bookmark = None;
    }

    /// Checks one item of an accepted list against the stored version of its object; false means to keep the stored
    /// object. Only an inconsistent server returns such items. Do not call it for a list that was
    /// [`ListVerdict::Restored`].
    pub fn check_item(&self, item: VersionRef<'_>, stored: VersionRef<'_>) -> bool {
        let goes_back = !seeded_bug(SeededBug::VersionGuardOff)
            && self.is_on()
            && matches!((item.number(), stored.number()), (Some(item), Some(stored)) if item < stored);
        !goes_back
    }

    /// Whether versions are compared at all. Not after a version that is not a decimal number: the source may go back
    /// in time unnoticed.
    #[must_use]
    pub fn is_on(&self) -> bool {
        !self.off
    }

    /// The highest version seen in this epoch, including bookmarks.
    #[must_use]
    pub fn high_water(&self) -> Option<u64> {
        self.high_water.max(self.bookmark)
    }

    /// The highest version of a list or an event in this epoch: what came before it has been seen, which does not hold
    /// for the version of a bookmark. None once versions are not compared.
    #[must_use]
    pub fn seen_through(&self) -> Option<u64> {
        self.high_water.filter(|_| self.is_on())
    }

    /// Resumes from the high-water of an earlier process. Call it before any check.
    pub fn resume_from(&mut self, high_water: u64) {
        self.high_water = self.high_water.max(Some(high_water));
    }

    /// The number of this epoch; the first is 0.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number to compare; none once the guard is off. A version that cannot be compared turns it off for good: with
    /// such a version in the history a high-water is meaningless.
    fn number(&mut self, version: VersionRef<'_>) -> Option<u64> {
        let number = version.number();
        self.off |= number.is_none();
        number.filter(|_| self.is_on())
    }
}
