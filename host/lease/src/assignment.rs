//! Which member should hold which shard: [`assign`].

use std::collections::BTreeMap;
use std::sync::Arc;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::stable_hash;

/// A member that shards are assigned to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) identity: Arc<str>,
    pub(crate) pod: Arc<str>,
    /// Whether it may get more than it holds: it is ready, and has been for long enough.
    pub(crate) may_grow: bool,
}

/// Whom each shard should belong to, in the order of their numbers: `holders` are the members that hold them now.
///
/// Every member gets as many as every other one, or one more. A holder keeps what it holds within its share, so that
/// few move; the others go in order to their highest-ranked member with a smaller share than it may have. Members that
/// see the same Leases assign alike.
pub(crate) fn assign(holders: &[Option<Arc<str>>], contenders: &[Contender]) -> Vec<Option<Arc<str>>> {
    let growing = contenders.iter().filter(|contender| contender.may_grow).count();
    let mut shares = Shares::new(holders.len(), contenders.len());
    let mut assigned = vec![None; holders.len()];
    for (to, holder) in assigned.iter_mut().zip(holders) {
        let holder = holder.as_ref().filter(|holder| has(contenders, holder));
        // If no other member may get more, all keep what they have.
        *to = holder.filter(|holder| growing == 0 || shares.take(holder)).cloned();
    }
    for (shard, to) in assigned.iter_mut().enumerate().filter(|(_, to)| to.is_none()) {
        let growing = || {
            ranked(shard, contenders)
                .into_iter()
                .filter(|contender| contender.may_grow)
        };
        let mut contender = growing().find(|contender| shares.take(&contender.identity));
        if contender.is_none() {
            // The shares of those that may not get more are not full, and stay so.
            contender = growing().min_by_key(|contender| shares.taken(&contender.identity));
            if let Some(contender) = contender {
                shares.take_more(&contender.identity);
            }
        }
        *to = contender.map(|contender| Arc::clone(&contender.identity));
    }
    assigned
}

/// The members in the order in which they should hold `shard`: rendezvous hashing of its number and the pod, which is
/// the same after a restart.
pub(crate) fn ranked(shard: usize, contenders: &[Contender]) -> Vec<&Contender> {
    let mut ranked: Vec<&Contender> = contenders.iter().collect();
    let score = |contender: &&Contender| stable_hash(&[&shard.to_string(), &contender.pod]);
    ranked.sort_by_cached_key(|contender| (std::cmp::Reverse(score(contender)), Arc::clone(&contender.pod)));
    ranked
}

fn has(contenders: &[Contender], identity: &Arc<str>) -> bool {
    contenders.iter().any(|contender| contender.identity == *identity)
}

/// How many shards each member has got, and how many it may have.
struct Shares {
    by_member: BTreeMap<Arc<str>, usize>,
    /// Each gets this many.
    all: usize,
    /// So many members get one more.
    more: usize,
}

impl Shares {
    fn new(shards: usize, members: usize) -> Shares {
        let members = members.max(1);
        Shares {
            by_member: BTreeMap::new(),
            all: shards / members,
            more: shards % members,
        }
    }

    /// Takes a shard for a member, unless its share is full.
    fn take(&mut self, identity: &Arc<str>) -> bool {
        let taken = self.by_member.entry(Arc::clone(identity)).or_default();
        let is_one_more = *taken == self.all && self.more > 0;
        if *taken >= self.all && !is_one_more && !seeded_bug(SeededBug::UnboundedShare) {
            return false;
        }
        self.more -= usize::from(is_one_more);
        *taken += 1;
        true
    }

    /// Takes a shard for a member, although its share is full.
    fn take_more(&mut self, identity: &Arc<str>) {
        *self.by_member.entry(Arc::clone(identity)).or_default() += 1;
    }

    fn taken(&self, identity: &Arc<str>) -> usize {
        self.by_member.get(identity).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contenders(count: usize) -> Vec<Contender> {
        let one = |number| Contender {
            identity: format!("informant-{number}_x").into(),
            pod: format!("informant-{number}").into(),
            may_grow: true,
        };
        (0..count).map(one).collect()
    }

    fn sizes(assigned: &[Option<Arc<str>>], contenders: &[Contender]) -> Vec<usize> {
        let size = |contender: &Contender| {
            let own = assigned.iter().filter(|to| to.as_ref() == Some(&contender.identity));
            own.count()
        };
        contenders.iter().map(size).collect()
    }

    fn moved(before: &[Option<Arc<str>>], after: &[Option<Arc<str>>]) -> usize {
        before
            .iter()
            .zip(after)
            .filter(|(before, after)| before != after)
            .count()
    }

    #[test]
    fn new_member_gets_only_its_share_and_returns_it() {
        let four = contenders(4);
        let three = assign(&vec![None; 8], &four[..3]);
        assert_eq!(sizes(&three, &four[..3]).iter().max(), Some(&3));
        let all = assign(&three, &four);
        assert_eq!((sizes(&all, &four), moved(&three, &all)), (vec![2; 4], 2));
        let again = assign(&all, &four[..3]);
        assert_eq!(moved(&all, &again), 2);
    }

    #[test]
    fn member_that_may_not_grow_keeps_what_it_has() {
        let mut two = contenders(2);
        let alone = assign(&[None, None, None, None], &two[..1]);
        two[0].may_grow = false;
        two[1].may_grow = false;
        assert_eq!(assign(&alone, &two), alone);
        two[1].may_grow = true;
        let both = assign(&alone, &two);
        assert_eq!((sizes(&both, &two), moved(&alone, &both)), (vec![2, 2], 2));
        let lost = [alone[0].clone(), None, None, None];
        assert_eq!(sizes(&assign(&lost, &two), &two), [1, 3]);
    }

    proptest! {
        /// Shares differ by one at most, every shard has a member, and nothing moves if nothing changes.
        #[test]
        fn shares_are_equal_and_stable(
            shards in 1..=64_usize,
            members in 1..12_usize,
            seed in proptest::collection::vec(0..14_usize, 64),
        ) {
            let contenders = contenders(members);
            let holder = |number: &usize| Some(Arc::clone(&contenders.get(*number)?.identity));
            let holders: Vec<_> = seed[..shards].iter().map(holder).collect();
            let assigned = assign(&holders, &contenders);
            prop_assert!(assigned.iter().all(Option::is_some));
            let sizes = sizes(&assigned, &contenders);
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            prop_assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{sizes:?}");
            prop_assert_eq!(assign(&assigned, &contenders), assigned);
        }
    }
}
