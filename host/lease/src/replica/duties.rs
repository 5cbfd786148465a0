//! What a replica does on its own: who should hold which shard, and which layout is in force.

use std::sync::Arc;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Division, Moment};

use super::contests::Contest;
use super::layouts::Agreed;
use super::{LeaseName, ReplicaLeases};
use crate::assignment::{Contender, assign, ranked};
use crate::election::{Election, ElectionInput, Seal, Task};
use crate::layout::Layout;
use crate::members::Candidates;
use crate::membership::MembershipInput;
use crate::standing::{ReleaseReason, Standing};

/// Where each shard is, and where it should be.
struct Shares {
    /// Live members that hold the shards, by number.
    holders: Vec<Option<Arc<str>>>,
    assigned: Vec<Option<Arc<str>>>,
    contenders: Vec<Contender>,
}

impl ReplicaLeases {
    /// Takes part in the election of a shard from now on.
    pub(super) fn contest(&mut self, now: Moment, shard: u8) {
        if self.contests.get(shard).is_some() {
            return;
        }
        let contest = Contest::new(now, Arc::clone(&self.identity), self.times, Task::Watch);
        self.contests.add(shard, contest);
        let is_ready = self.is_ready && !self.is_stopping;
        self.tell(now, shard, ElectionInput::Ready(is_ready));
        if self.is_stopping {
            self.tell(now, shard, ElectionInput::Release(ReleaseReason::Stop));
        }
    }

    pub(super) fn tell(&mut self, now: Moment, shard: u8, input: ElectionInput) {
        if let Some(contest) = self.contests.get_mut(shard) {
            let request = contest.election.step(now, input);
            self.requests
                .extend(request.map(|request| (LeaseName::Shard(shard), request)));
        }
    }

    pub(super) fn tell_all(&mut self, now: Moment, input: &ElectionInput) {
        for (shard, contest) in self.contests.iter_mut() {
            let request = contest.election.step(now, input.clone());
            self.requests
                .extend(request.map(|request| (LeaseName::Shard(shard), request)));
        }
    }

    pub(super) fn tell_membership(&mut self, now: Moment, input: MembershipInput) {
        let request = self.membership.step(now, input);
        let own = LeaseName::Member(Arc::clone(&self.pod));
        self.requests.extend(request.map(|request| (own, request)));
    }

    pub(super) fn agreed(&self) -> Agreed {
        let content = |election: &Election| Some(election.lease()?.content.clone());
        let first = content(self.first());
        let others = self
            .elections()
            .filter(|(shard, _)| *shard > 0)
            .filter_map(|(shard, election)| Some((shard, election.lease()?.content.layout)));
        Agreed::of(first.as_ref(), others, self.division)
    }

    pub(super) fn do_duties(&mut self, now: Moment) {
        let agreed = self.agreed();
        let shards = agreed.layout.division.shards;
        for shard in 0..shards.max(agreed.next.map_or(0, |next| next.division.shards)) {
            self.contest(now, shard);
        }
        let is_coordinator = self.acts_by(0).is_some();
        self.choose_candidates(now, shards);
        self.set_tasks(now, &agreed, is_coordinator);
        if is_coordinator {
            self.change_layout(now, &agreed);
        }
        self.leave_layout(now, &agreed);
    }

    /// The layout by which this process acts for a shard, if it does.
    fn acts_by(&self, shard: u8) -> Option<Layout> {
        let election = self.election(shard)?;
        let is_acting = matches!(election.standing(), Standing::Acting { .. });
        election.term_layout().filter(|_| is_acting)
    }

    /// Lets each election know who should acquire its Lease, and hands over what others should hold.
    fn choose_candidates(&mut self, now: Moment, shards: u8) {
        if shards == 1 {
            let candidates = self.members.candidates(now, "0");
            // Ignored if it has handed over a short time ago.
            let is_old = candidates.newer.is_some() && self.acts_by(0).is_some();
            self.set_candidates(now, 0, candidates);
            if is_old {
                self.tell(now, 0, ElectionInput::Release(ReleaseReason::Preferred));
            }
            return;
        }
        let shares = self.shares(now, shards);
        let mut known = self.members.candidates(now, "0");
        known.order.retain(|identity| self.takes_parts(now, identity));
        for shard in 0..shards {
            let candidates = candidates_of(shard, &known, &shares);
            self.set_candidates(now, shard, candidates);
        }
        let all_held = shares.holders.iter().all(Option::is_some);
        let pairs = shares.holders.iter().zip(&shares.assigned);
        let moving = (0..).zip(pairs).find(|(_, (holder, to))| to.is_some() && holder != to);
        if let Some((shard, (Some(holder), _))) = moving
            && all_held
            && *holder == self.identity
            && self.acts_by(shard).is_some()
        {
            self.tell(now, shard, ElectionInput::Release(ReleaseReason::Preferred));
        }
    }

    fn set_candidates(&mut self, now: Moment, shard: u8, candidates: Candidates) {
        let contest = self.contests.get_mut(shard);
        if let Some(contest) = contest.filter(|contest| contest.candidates != candidates) {
            contest.candidates = candidates.clone();
            self.tell(now, shard, ElectionInput::Candidates(candidates));
        }
    }

    fn shares(&self, now: Moment, shards: u8) -> Shares {
        let live: Vec<_> = self.members.live(now).collect();
        let holder = |shard| {
            let holder = Arc::clone(&self.election(shard)?.lease()?.content.holder);
            let is_live = live.iter().any(|member| member.identity == holder);
            is_live.then_some(holder)
        };
        let holders: Vec<_> = (0..shards).map(holder).collect();
        let able = live.iter().filter(|member| self.takes_parts(now, &member.identity));
        let contenders = able.filter_map(|member| {
            let may_grow = member.is_settled(now) && member.is_fresh(now);
            let holds = holders.iter().flatten().any(|holder| *holder == member.identity);
            (may_grow || holds).then(|| Contender {
                identity: Arc::clone(&member.identity),
                pod: Arc::clone(&member.pod),
                may_grow,
            })
        });
        let contenders: Vec<_> = contenders.collect();
        Shares {
            assigned: assign(&holders, &contenders),
            holders,
            contenders,
        }
    }

    /// Whether the process can act for a part of the work. If none can, any may hold the Leases: then the layout
    /// changes to the one that all are configured for.
    fn takes_parts(&self, now: Moment, identity: &Arc<str>) -> bool {
        let mut able = self
            .members
            .live(now)
            .filter(|member| !member.record.layout.is_empty())
            .peekable();
        able.peek().is_none() || able.any(|member| member.identity == *identity)
    }

    /// Lets each election know what to do with its Lease while that has no holder.
    fn set_tasks(&mut self, now: Moment, agreed: &Agreed, is_coordinator: bool) {
        let shards: Vec<u8> = self.contests.iter().map(|(shard, _)| shard).collect();
        for shard in shards {
            let task = match shard {
                0 => self.task_of_first(agreed),
                _ => self.task_of(shard, agreed, is_coordinator),
            };
            let contest = self.contests.get_mut(shard);
            if let Some(contest) = contest.filter(|contest| contest.task != task) {
                contest.task = task;
                self.tell(now, shard, ElectionInput::Task(task));
            }
        }
    }

    fn task_of_first(&self, agreed: &Agreed) -> Task {
        let exists = self.first().lease().is_some();
        match agreed.is_written || !exists {
            true => Task::Acquire(agreed.layout),
            false => Task::Seal(Seal {
                layout: agreed.layout,
                next: agreed.next,
                is_new: false,
            }),
        }
    }

    fn task_of(&self, shard: u8, agreed: &Agreed, is_coordinator: bool) -> Task {
        let lease = self.election(shard).and_then(Election::lease);
        if !agreed.is_written {
            return Task::Watch;
        }
        let wanted = agreed.next.unwrap_or(agreed.layout);
        let seal = Task::Seal(Seal {
            layout: wanted,
            next: None,
            is_new: agreed.next.is_some() && !agreed.layout.has(shard),
        });
        let was_in_use = agreed.layout.has(shard) || wanted.has(shard);
        match agreed.next {
            Some(_) if is_coordinator && was_in_use => seal,
            Some(_) => Task::Watch,
            None if !agreed.layout.has(shard) => Task::Watch,
            // It was edited by hand.
            None if is_coordinator && lease.is_some_and(|lease| lease.content.layout != wanted) => seal,
            None => Task::AcquireIn(wanted),
        }
    }

    /// The holder of the first shard announces the next layout, and puts it into force.
    fn change_layout(&mut self, now: Moment, agreed: &Agreed) {
        let Some(next) = agreed.next else {
            if self.division != agreed.layout.division && self.all_want_own(now) {
                let next = self.newest_layout(agreed).next(self.division);
                self.tell(now, 0, ElectionInput::NextLayout(next));
            }
            return;
        };
        let mut others = 1..agreed.layout.division.shards.max(next.division.shards);
        let is_sealed = |shard| {
            let lease = self.election(shard).and_then(Election::lease);
            lease.is_some_and(|lease| lease.content.layout == next && lease.content.is_released())
        };
        if others.all(is_sealed) || seeded_bug(SeededBug::LayoutChangedTooEarly) {
            self.tell(now, 0, ElectionInput::Release(ReleaseReason::Layout));
        }
    }

    /// Whether all live members are configured for the same as this one. What its own Lease says about it does not
    /// count: that may have been edited by hand.
    fn all_want_own(&self, now: Moment) -> bool {
        let mut wanted = self
            .members
            .live(now)
            .map(|member| match member.record.layout.is_empty() {
                true => Some(Division::WHOLE),
                false => Division::parse(&member.record.layout),
            });
        wanted.all(|wanted| wanted == Some(self.division))
    }

    /// A layout of the highest generation that is known.
    fn newest_layout(&self, agreed: &Agreed) -> Layout {
        let leases = self.elections().filter_map(|(_, election)| election.lease());
        let layouts = leases.map(|lease| lease.content.layout);
        layouts.fold(agreed.layout, |newest, layout| {
            match layout.generation > newest.generation {
                true => layout,
                false => newest,
            }
        })
    }

    /// Hands over shards of a layout that is no longer in force, or soon will not be.
    fn leave_layout(&mut self, now: Moment, agreed: &Agreed) {
        let newest = agreed.next.unwrap_or(agreed.layout).generation;
        let shards: Vec<u8> = self.contests.iter().map(|(shard, _)| shard).skip(1).collect();
        for shard in shards {
            if self.acts_by(shard).is_some_and(|layout| layout.generation < newest) {
                self.tell(now, shard, ElectionInput::Release(ReleaseReason::Layout));
            }
        }
    }
}

/// The member that should hold the shard, then all others that are ready.
fn candidates_of(shard: u8, known: &Candidates, shares: &Shares) -> Candidates {
    let number = usize::from(shard);
    let to = shares.assigned.get(number).cloned().flatten();
    let settled = ranked(number, &shares.contenders);
    let settled = settled.into_iter().map(|contender| Arc::clone(&contender.identity));
    let mut order: Vec<Arc<str>> = Vec::new();
    for identity in to.into_iter().chain(settled).chain(known.order.iter().cloned()) {
        if known.order.contains(&identity) && !order.contains(&identity) {
            order.push(identity);
        }
    }
    Candidates {
        order,
        newer: None,
        ..known.clone()
    }
}
