//! [`Members`]: the replicas of a group, each by its own Lease, as one of them observes them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Moment, stable_hash};
use informant_object::ResourceVersion;
use semver::Version;

use crate::record::{LeaseContent, LeaseRecord, Notes};
use crate::times::LeaseTimes;

/// How long a member must have been ready before work is handed over to it: 10 s. One that starts, becomes ready and
/// fails does not interrupt a holder that works.
///
/// Only a hand-over from a healthy holder waits for it. A Lease without a holder goes to a member that has just become
/// ready, if there is no other: waiting would only prolong the interruption.
pub const READY_FOR: Duration = Duration::from_secs(10);

/// How many members are tracked: 256, far more replicas than share one group. Leases beyond it are ignored, and counted
/// in [`Members::ignored`]; these replicas never act as seen from here.
pub const MEMBERS_MAX: usize = 256;

/// The longest text of a member that is kept: 256 characters. A Lease that was edited by hand may have more.
const TEXT_CHARS_MAX: usize = 256;

const VERSION: &str = "version";
const DIGEST: &str = "digest";
const LAYOUT: &str = "layout";
const READY: &str = "ready";
const ADDRESS: &str = "address";

/// What a replica says about itself in its own Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRecord {
    /// The version of Informant, as `1.2.3`.
    pub version: Arc<str>,
    /// The digest of its configuration.
    pub digest: Arc<str>,
    /// How it is configured to divide the work; empty if it can act for all of it only.
    pub layout: Arc<str>,
    /// Whether it could act: its caches are synced.
    pub is_ready: bool,
    /// Where its admin API is; empty if it has none.
    pub address: Arc<str>,
}

impl MemberRecord {
    fn read(notes: &Notes) -> MemberRecord {
        let text = |name| {
            let text: String = notes
                .get(name)
                .unwrap_or_default()
                .chars()
                .take(TEXT_CHARS_MAX)
                .collect();
            text.into()
        };
        MemberRecord {
            version: text(VERSION),
            digest: text(DIGEST),
            layout: text(LAYOUT),
            is_ready: notes.get(READY) == Some("true"),
            address: text(ADDRESS),
        }
    }

    pub(crate) fn notes(&self) -> Notes {
        let is_ready = if self.is_ready { "true" } else { "false" };
        let notes = Notes::new([
            (VERSION, &*self.version),
            (DIGEST, &self.digest),
            (LAYOUT, &self.layout),
            (READY, is_ready),
            (ADDRESS, &self.address),
        ]);
        // Only texts of unreasonable length exceed the limit.
        notes.unwrap_or_default()
    }
}

/// A replica, as its Lease shows it.
#[derive(Debug, Clone)]
pub struct Member {
    /// The name of its pod.
    pub pod: Arc<str>,
    /// Its process; a restart in the same pod has another one.
    pub identity: Arc<str>,
    pub record: MemberRecord,
    /// The version of its Lease.
    pub resource_version: ResourceVersion,
    /// When this version was first observed.
    pub observed: Moment,
    /// Since when it has been ready without an interruption, as observed here.
    pub ready_since: Option<Moment>,
    duration: Duration,
    parsed_version: Option<Version>,
}

impl Member {
    /// Whether its Lease was renewed recently, by what was observed here.
    #[must_use]
    pub fn is_live(&self, now: Moment) -> bool {
        now < self.live_until()
    }

    fn live_until(&self) -> Moment {
        self.observed + self.duration
    }

    /// Whether it was renewed so recently that it may get more shards. One that has ended without a word is no longer
    /// that when the Leases of its shards have expired: they are not handed back to it.
    pub(crate) fn is_fresh(&self, now: Moment) -> bool {
        now < self.observed + self.duration * 2 / 3
    }

    fn is_candidate(&self, now: Moment) -> bool {
        self.is_live(now) && self.ready_since.is_some()
    }

    /// Whether it has been ready for [`READY_FOR`].
    pub(crate) fn is_settled(&self, now: Moment) -> bool {
        self.ready_since.is_some_and(|since| now >= since + READY_FOR)
    }
}

/// Who may acquire a Lease, as one member sees it at one moment. Views of two members may differ for seconds: that
/// decides only who tries first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Candidates {
    /// The identities of live and ready members, the preferred one first: the newest version first, of these the ones
    /// that have been ready for [`READY_FOR`], of these the lowest ordinal of a StatefulSet, then by rendezvous hash of
    /// pod and work.
    ///
    /// A rolling update replaces the lowest ordinal last, so what moves to it moves once more at most: also if the new
    /// version is not the newest one, or is the same.
    pub order: Vec<Arc<str>>,
    /// A member with a newer version than the own one that has been ready for [`READY_FOR`].
    pub newer: Option<Arc<str>>,
    /// The members have been read, and the own one is among them.
    pub is_complete: bool,
    /// In addition, this process has never found another one in a member Lease.
    pub is_alone: bool,
}

/// All members of a group.
#[derive(Debug, Clone)]
pub struct Members {
    identity: Arc<str>,
    times: LeaseTimes,
    by_pod: BTreeMap<Arc<str>, Member>,
    is_synced: bool,
    /// Another process was observed in a member Lease.
    has_seen_others: bool,
    ignored: u64,
}

impl Members {
    /// The members as the process `identity` observes them.
    #[must_use]
    pub fn new(identity: Arc<str>, times: LeaseTimes) -> Members {
        Members {
            identity,
            times,
            by_pod: BTreeMap::new(),
            is_synced: false,
            has_seen_others: false,
            ignored: 0,
        }
    }

    /// The Lease of the member in `pod` was observed, or is gone.
    pub fn observe(&mut self, now: Moment, pod: &str, lease: Option<&LeaseRecord>) {
        let Some(lease) = lease.filter(|lease| !lease.content.holder.is_empty()) else {
            self.by_pod.remove(pod);
            return;
        };
        self.has_seen_others |= lease.content.holder != self.identity;
        let before = self.by_pod.get(pod);
        if before.is_some_and(|before| before.resource_version == lease.version) {
            return;
        }
        if before.is_none() && self.by_pod.len() >= MEMBERS_MAX {
            // What a replica that no longer runs has left makes way.
            self.by_pod.retain(|_, member| member.is_live(now));
        }
        let before = self.by_pod.get(pod);
        if before.is_none() && self.by_pod.len() >= MEMBERS_MAX {
            self.ignored += 1;
            return;
        }
        let member = member(now, pod, lease, before, &self.times);
        self.by_pod.insert(Arc::clone(&member.pod), member);
    }

    /// All members that exist have been observed: the list before the watch is complete.
    pub fn set_synced(&mut self) {
        self.is_synced = true;
    }

    /// All members whose Leases exist, live or not.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.by_pod.values()
    }

    pub fn live(&self, now: Moment) -> impl Iterator<Item = &Member> {
        self.iter().filter(move |member| member.is_live(now))
    }

    /// How many observations of members were ignored because there were [`MEMBERS_MAX`] others.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Live members whose configuration has another digest than `own`.
    pub fn with_other_digest<'m>(&'m self, now: Moment, own: &'m str) -> impl Iterator<Item = &'m Member> {
        self.live(now).filter(move |member| &*member.record.digest != own)
    }

    /// Who may acquire the Lease named `work`.
    #[must_use]
    pub fn candidates(&self, now: Moment, work: &str) -> Candidates {
        let own = self.iter().find(|member| member.identity == self.identity);
        let own_version = own.and_then(|own| own.parsed_version.as_ref());
        let mut candidates: Vec<&Member> = self.live(now).filter(|member| member.is_candidate(now)).collect();
        candidates.sort_by_cached_key(|member| {
            let score = stable_hash(&[work, &member.pod]);
            Reverse((
                member.parsed_version.clone(),
                member.is_settled(now),
                Reverse(ordinal(&member.pod)),
                score,
                Arc::clone(&member.pod),
            ))
        });
        let is_newer = |member: &&&Member| member.is_settled(now) && member.parsed_version.as_ref() > own_version;
        let newer = candidates.iter().find(is_newer).filter(|_| own.is_some());
        Candidates {
            newer: newer.map(|member| Arc::clone(&member.identity)),
            is_complete: self.is_synced && own.is_some(),
            is_alone: self.is_synced && own.is_some() && !self.has_seen_others,
            order: candidates.iter().map(|member| Arc::clone(&member.identity)).collect(),
        }
    }

    /// When [`candidates`](Self::candidates) or [`live`](Self::live) next return something else without an observation.
    #[must_use]
    pub fn next_change(&self, now: Moment) -> Moment {
        let live = self.live(now).map(Member::live_until);
        let ready = self.iter().filter_map(|member| Some(member.ready_since? + READY_FOR));
        let ready = ready.filter(|ready| *ready > now);
        live.chain(ready).min().unwrap_or(Moment::NEVER)
    }
}

/// The number of a pod of a StatefulSet: 2 of `informant-2`. Without one, the largest.
fn ordinal(pod: &str) -> u32 {
    let number = pod.rsplit_once('-').and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(u32::MAX)
}

fn member(now: Moment, pod: &str, lease: &LeaseRecord, before: Option<&Member>, times: &LeaseTimes) -> Member {
    let LeaseContent {
        holder,
        duration,
        notes,
        ..
    } = &lease.content;
    let record = MemberRecord::read(notes);
    let ready_before = before
        .filter(|before| before.identity == *holder && before.is_live(now))
        .and_then(|before| before.ready_since);
    Member {
        pod: pod.into(),
        identity: Arc::clone(holder),
        resource_version: lease.version.clone(),
        observed: now,
        ready_since: record.is_ready.then(|| ready_before.unwrap_or(now)),
        duration: (*duration).max(times.duration),
        parsed_version: Version::parse(&record.version).ok(),
        record,
    }
}

#[cfg(test)]
mod tests;
