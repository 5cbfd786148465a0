//! [`ReplicaLeases`]: one process of a group: its own member Lease, what it knows of the others, and its elections.

mod contests;
mod duties;
mod layouts;

use std::sync::Arc;

use informant_cache::{Division, Moment, SHARDS_MAX};

use self::contests::{Contest, Contests};
use crate::election::{Election, ElectionInput, Task};
use crate::layout::Layout;
use crate::members::{MemberRecord, Members};
use crate::membership::{Membership, MembershipInput};
use crate::record::Notes;
use crate::request::{LeaseAnswer, LeaseRequest, RequestId, Seen};
use crate::standing::ReleaseReason;
use crate::times::LeaseTimes;

/// A Lease of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum LeaseName {
    /// That of a shard. The first one, 0, has the name of the group, and says into how many shards its work is divided.
    Shard(u8),
    /// That of the member in this pod.
    Member(Arc<str>),
}

impl LeaseName {
    /// The Lease of `group` with this name; `None` if it is none of this group's.
    #[must_use]
    pub fn parse(group: &str, name: &str) -> Option<LeaseName> {
        let rest = name.strip_prefix(group)?;
        if rest.is_empty() {
            return Some(LeaseName::Shard(0));
        }
        if let Some(pod) = rest.strip_prefix("-member-") {
            return Some(LeaseName::Member(pod.into()));
        }
        let shard = rest.strip_prefix("-shard-")?;
        // Each has one name: no leading zeros, no sign.
        let number = shard.parse().ok().filter(|number: &u8| number.to_string() == shard)?;
        (1..SHARDS_MAX).contains(&number).then_some(LeaseName::Shard(number))
    }

    /// Its name in `group`.
    #[must_use]
    pub fn of(&self, group: &str) -> String {
        match self {
            LeaseName::Shard(0) => group.to_owned(),
            LeaseName::Shard(shard) => format!("{group}-shard-{shard}"),
            LeaseName::Member(pod) => format!("{group}-member-{pod}"),
        }
    }
}

/// What happens to a [`ReplicaLeases`].
#[derive(Debug, Clone)]
pub enum ReplicaInput {
    /// Nothing but that time has passed.
    Clock,
    /// A Lease, by the watch.
    Seen(LeaseName, Seen),
    /// All Leases that exist have been seen.
    Synced,
    /// The answer to a request that [`ReplicaLeases::step`] has returned.
    Answer(LeaseName, RequestId, LeaseAnswer),
    /// Whether this process could act. A holder that is no longer ready keeps acting.
    Ready(bool),
    /// The digest of its configuration.
    Digest(Arc<str>),
    /// What the Lease of a shard carries for a successor, while this process holds it.
    Notes(u8, Notes),
    /// All effects of a shard have ended, and none begins: its Lease may be released.
    HandedOver(u8),
    /// The process stops.
    Stop,
}

/// One process of a group.
///
/// The work is divided into the shards of a [`Layout`]; each has a Lease, which one [`Election`] of every member is
/// about. Without several shards there is one.
///
/// Rules:
/// 1. Who holds the Lease of a shard acts for it, whatever others should. Shards go to members in equal shares, see
///    `assignment`; a member counts after it has been ready for [`READY_FOR`](crate::READY_FOR), or while it holds one.
/// 2. One hand-over at a time: the first shard that is not where it should be moves, once all of them have a holder.
/// 3. The Lease of the first shard names the layout in force. Each other one belongs to one layout, and is acquired
///    only by a member for which this is the layout in force.
/// 4. The holder of the first shard announces the next layout when all live members are configured for it. The holders
///    of others then release them. Once they do, or expire, it lets each belong to the next layout, and creates those
///    that are new; when all do, it releases the first one under the next layout.
///
/// So no member can acquire a shard of the next layout while another one acts by the one before: what all Leases of the
/// former belong to has changed, and their versions with it.
#[derive(Debug)]
pub struct ReplicaLeases {
    identity: Arc<str>,
    pod: Arc<str>,
    times: LeaseTimes,
    division: Division,
    record: MemberRecord,
    membership: Membership,
    members: Members,
    contests: Contests,
    is_ready: bool,
    is_stopping: bool,
    /// Its member Lease is being released.
    leaves: bool,
    requests: Vec<(LeaseName, LeaseRequest)>,
}

impl ReplicaLeases {
    /// `identity` must be another one for each process: the name of the pod and a random number. `record` is what the
    /// process says about itself at first; `division` is what it is configured for. None: it can act for all the work
    /// only, and is no candidate for a part, unless no live member is another one.
    #[must_use]
    pub fn new(
        now: Moment,
        (identity, pod): (Arc<str>, Arc<str>),
        times: LeaseTimes,
        division: Option<Division>,
        mut record: MemberRecord,
    ) -> ReplicaLeases {
        record.layout = division.map(|division| division.to_string()).unwrap_or_default().into();
        let division = division.unwrap_or(Division::WHOLE);
        let task = Task::Acquire(Layout::first(division));
        let first = Contest::new(now, Arc::clone(&identity), times, task);
        ReplicaLeases {
            membership: Membership::new(Arc::clone(&identity), times, &record),
            members: Members::new(Arc::clone(&identity), times),
            contests: Contests::new(first),
            is_ready: record.is_ready,
            is_stopping: false,
            leaves: false,
            requests: Vec::new(),
            identity,
            pod,
            times,
            division,
            record,
        }
    }

    /// Handles `input`. Returns what to send now. Read `now` after the input has arrived: what is observed counts from
    /// there.
    pub fn step(&mut self, now: Moment, input: ReplicaInput) -> Vec<(LeaseName, LeaseRequest)> {
        match input {
            ReplicaInput::Clock => {}
            ReplicaInput::Synced => self.members.set_synced(),
            ReplicaInput::Seen(name, seen) => self.saw(now, name, seen),
            ReplicaInput::Answer(name, id, answer) => self.answered(now, name, id, answer),
            ReplicaInput::Ready(is_ready) => self.set_ready(now, is_ready),
            ReplicaInput::Digest(digest) => self.change_record(now, |record| record.digest = digest),
            ReplicaInput::Notes(shard, notes) => self.tell(now, shard, ElectionInput::Notes(notes)),
            ReplicaInput::HandedOver(shard) => self.tell(now, shard, ElectionInput::HandedOver),
            ReplicaInput::Stop => self.stop(now),
        }
        self.tell_membership(now, MembershipInput::Clock);
        self.tell_all(now, &ElectionInput::Clock);
        self.do_duties(now);
        // Not earlier: its member Lease says that it is there while it acts.
        let has_ended = self.elections().all(|(_, election)| election.has_ended());
        if has_ended && self.is_stopping && !std::mem::replace(&mut self.leaves, true) {
            self.tell_membership(now, MembershipInput::Stop);
        }
        std::mem::take(&mut self.requests)
    }

    /// When to step again at the latest.
    #[must_use]
    pub fn next_wake(&self, now: Moment) -> Moment {
        let elections = self.elections().map(|(_, election)| election.next_wake());
        let machines = elections.fold(self.membership.next_wake(), Moment::min);
        machines.min(self.members.next_change(now))
    }

    /// The election of the first shard: all work, if it is not divided.
    #[must_use]
    pub fn first(&self) -> &Election {
        &self.contests.first.election
    }

    /// The election of a shard; none while nothing is known of that shard.
    #[must_use]
    pub fn election(&self, shard: u8) -> Option<&Election> {
        Some(&self.contests.get(shard)?.election)
    }

    /// The elections of all shards that are known, with their numbers.
    pub fn elections(&self) -> impl Iterator<Item = (u8, &Election)> {
        self.contests.iter().map(|(shard, contest)| (shard, &contest.election))
    }

    /// The layout in force, as the Leases say, and the next one while the group changes to it.
    #[must_use]
    pub fn layout(&self) -> (Layout, Option<Layout>) {
        let agreed = self.agreed();
        (agreed.layout, agreed.next)
    }

    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    #[must_use]
    pub fn identity(&self) -> &Arc<str> {
        &self.identity
    }

    /// The process stops, holds nothing and has released its member Lease.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let have_ended = self.elections().all(|(_, election)| election.has_ended());
        self.is_stopping && have_ended && self.membership.has_ended()
    }

    fn saw(&mut self, now: Moment, name: LeaseName, seen: Seen) {
        match name {
            LeaseName::Shard(shard) => {
                self.contest(now, shard);
                self.tell(now, shard, ElectionInput::Seen(seen));
            }
            LeaseName::Member(pod) => {
                let lease = match &seen {
                    Seen::Record(record) => Some(record),
                    Seen::Absent(_) => None,
                };
                self.members.observe(now, &pod, lease);
                if pod == self.pod {
                    self.tell_membership(now, MembershipInput::Seen(seen));
                }
            }
        }
    }

    fn answered(&mut self, now: Moment, name: LeaseName, id: RequestId, answer: LeaseAnswer) {
        match name {
            LeaseName::Shard(shard) => self.tell(now, shard, ElectionInput::Answer(id, answer)),
            LeaseName::Member(_) => {
                // What this process has written into its member Lease is known at once.
                if let LeaseAnswer::Record(record) = &answer {
                    self.members.observe(now, &self.pod, Some(record));
                }
                self.tell_membership(now, MembershipInput::Answer(id, answer));
            }
        }
    }

    fn set_ready(&mut self, now: Moment, is_ready: bool) {
        self.is_ready = is_ready;
        // Nothing is handed over to a process that stops.
        let is_ready = is_ready && !self.is_stopping;
        self.change_record(now, |record| record.is_ready = is_ready);
        self.tell_all(now, &ElectionInput::Ready(is_ready));
    }

    fn stop(&mut self, now: Moment) {
        self.is_stopping = true;
        self.set_ready(now, self.is_ready);
        self.tell_all(now, &ElectionInput::Release(ReleaseReason::Stop));
    }

    fn change_record(&mut self, now: Moment, change: impl FnOnce(&mut MemberRecord)) {
        let before = self.record.clone();
        change(&mut self.record);
        if before != self.record {
            self.tell_membership(now, MembershipInput::Record(self.record.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_leases_return_from_their_texts() {
        for (name, text) in [
            (LeaseName::Shard(0), "informant"),
            (LeaseName::Shard(63), "informant-shard-63"),
            (LeaseName::Member("informant-0".into()), "informant-member-informant-0"),
        ] {
            assert_eq!(name.of("informant"), text);
            assert_eq!(LeaseName::parse("informant", text), Some(name));
        }
        for text in [
            "other",
            "informant-2",
            "informant-shard-0",
            "informant-shard-64",
            "informant-shard-07",
            "informant-shard-+7",
            "informant-shard-",
        ] {
            assert_eq!(LeaseName::parse("informant", text), None, "{text}");
        }
    }
}
