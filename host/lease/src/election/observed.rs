//! What an election knows of the Lease.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_object::ResourceVersion;

use crate::record::LeaseRecord;
use crate::request::Seen;

/// The Lease, and since when it has been observed to be like this.
#[derive(Debug)]
pub(super) struct Observed {
    /// None if it does not exist.
    pub(super) record: Option<LeaseRecord>,
    /// The version of the record, or that at which it did not exist.
    version: Option<ResourceVersion>,
    /// When exactly this was first observed.
    pub(super) at: Moment,
    /// How long it must stay like this until its holder no longer acts.
    pub(super) duration: Duration,
    /// When the last read was sent that found it unchanged.
    pub(super) confirmed: Option<Moment>,
}

impl Observed {
    /// `own` is the duration that this process writes. A shorter one in the Lease is not believed: it was edited by
    /// hand, or is that of a faster holder, for which waiting longer does no harm. Neither does an edit shorten the
    /// duration of a holder that has not changed since `before`.
    pub(super) fn new(now: Moment, seen: Seen, own: Duration, before: Option<&Observed>) -> Observed {
        let (record, version) = match seen {
            Seen::Record(record) => {
                let version = record.version.clone();
                (Some(record), Some(version))
            }
            Seen::Absent(version) => (None, version),
        };
        let of_holder = |observed: &&Observed| match (&observed.record, &record) {
            (Some(before), Some(record)) => before.content.holder == record.content.holder,
            _ => false,
        };
        let duration = match &record {
            Some(record) if seeded_bug(SeededBug::EditedDurationBelieved) => record.content.duration,
            Some(record) => {
                let before = before.filter(of_holder).map(|before| before.duration);
                record.content.duration.max(own).max(before.unwrap_or_default())
            }
            None => own,
        };
        Observed {
            record,
            version,
            at: now,
            duration,
            confirmed: None,
        }
    }

    /// Whether `seen` is what is known already.
    pub(super) fn is_same(&self, seen: &Seen) -> bool {
        match (&self.record, seen) {
            (Some(_), Seen::Record(record)) => self.version.as_ref() == Some(&record.version),
            (None, Seen::Absent(_)) => true,
            _ => false,
        }
    }

    /// Whether a watch that delivers `seen` is behind what is known.
    pub(super) fn is_newer_than(&self, seen: &Seen) -> bool {
        let version = match seen {
            Seen::Record(record) => Some(&record.version),
            Seen::Absent(version) => version.as_ref(),
        };
        match (number(self.version.as_ref()), number(version)) {
            (Some(known), Some(seen)) => seen < known,
            _ => false,
        }
    }
}

fn number(version: Option<&ResourceVersion>) -> Option<u64> {
    version?.number()
}

/// The terms that this process has held, or has tried to begin, without another one in between: a Lease with its name
/// and one of these epochs is held by no other process.
///
/// Forgotten when the Lease is observed to say anything else. So a name that was written by hand proves nothing.
#[derive(Debug, Clone)]
pub(super) struct Mine {
    pub(super) uid: Arc<str>,
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Mine {
    pub(super) fn fits(&self, record: &LeaseRecord, identity: &str) -> bool {
        let content = &record.content;
        *content.holder == *identity
            && record.uid == self.uid
            && (self.first..=self.last).contains(&content.transitions)
    }
}
