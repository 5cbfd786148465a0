//! The budget of all caches of a process, budgets of parts of them, and the shares of the sources in these.
//!
//! Counting costs an event two atomic operations. Above the budget, the source with the most bytes is asked to free
//! some, one at a time, until [`SHED_TO_PERCENT`] are left. How it does that is its own business.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How much of the budget is left in use once it was exceeded: 90 %.
pub const SHED_TO_PERCENT: usize = 90;

/// Up to how much of the budget what was shed may return: 70 %.
pub const RETURN_BELOW_PERCENT: usize = 70;

/// A source that could free nothing is asked again when it has grown by this part of the budget since it was smallest:
/// a 64th.
const ASK_AGAIN_PART: usize = 64;

const NO_LIMIT: usize = usize::MAX;

/// The bytes that caches may take: all those of a process, or some. A clone is the same budget. By default there is no
/// limit.
#[derive(Clone, Default)]
pub struct CacheBudget(Arc<Budget>);

struct Budget {
    max_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
    members: Mutex<Vec<Arc<Member>>>,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            max_bytes: AtomicUsize::new(NO_LIMIT),
            used_bytes: AtomicUsize::new(0),
            members: Mutex::default(),
        }
    }
}

/// One source.
struct Member {
    stored_bytes: AtomicUsize,
    staged_bytes: AtomicUsize,
    /// What it is asked to free; 0: nothing.
    to_free_bytes: AtomicUsize,
    /// The fewest bytes that it has had since it could free nothing.
    stuck_at_bytes: AtomicUsize,
    /// It could free nothing when it was last asked.
    could_not: AtomicBool,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// A source's share of its budgets. Dropping it returns its bytes.
pub struct BudgetShare {
    budgets: Vec<CacheBudget>,
    member: Arc<Member>,
}

impl CacheBudget {
    /// A budget of so many bytes; none: without a limit.
    #[must_use]
    pub fn new(max_bytes: Option<usize>) -> CacheBudget {
        let budget = CacheBudget::default();
        budget.set_max_bytes(max_bytes);
        budget
    }

    /// Another limit, from now on.
    pub fn set_max_bytes(&self, max_bytes: Option<usize>) {
        self.0.max_bytes.store(max_bytes.unwrap_or(NO_LIMIT), Ordering::Relaxed);
        if self.is_exceeded() {
            self.ask();
        }
    }

    /// The limit in bytes.
    #[must_use]
    pub fn max_bytes(&self) -> Option<usize> {
        Some(self.max()).filter(|max| *max != NO_LIMIT)
    }

    /// The bytes of all shares.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.0.used_bytes.load(Ordering::Relaxed)
    }

    /// Whether the shares take more than the limit.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.used_bytes() > self.max()
    }

    /// Adds a source whose bytes count in each of `budgets`. `wake` is called, under no lock, when it is
    /// [to free](BudgetShare::to_free_bytes) bytes; it must be quick.
    #[must_use]
    pub fn join(budgets: Vec<CacheBudget>, wake: impl Fn() + Send + Sync + 'static) -> BudgetShare {
        let member = Arc::new(Member {
            stored_bytes: AtomicUsize::new(0),
            staged_bytes: AtomicUsize::new(0),
            to_free_bytes: AtomicUsize::new(0),
            stuck_at_bytes: AtomicUsize::new(0),
            could_not: AtomicBool::new(false),
            wake: Box::new(wake),
        });
        for budget in &budgets {
            budget.members().push(Arc::clone(&member));
        }
        BudgetShare { budgets, member }
    }

    fn max(&self) -> usize {
        self.0.max_bytes.load(Ordering::Relaxed)
    }

    /// This part of the limit.
    fn percent(&self, percent: usize) -> usize {
        match self.max_bytes() {
            Some(max) => max / 100 * percent,
            None => NO_LIMIT,
        }
    }

    /// By how many bytes it is above [`SHED_TO_PERCENT`].
    fn excess_bytes(&self) -> usize {
        self.used_bytes().saturating_sub(self.percent(SHED_TO_PERCENT))
    }

    /// Asks the largest source that can free bytes, unless one is at it.
    fn ask(&self) {
        let asked = {
            let members = self.members();
            if members.iter().any(|member| member.is_asked()) {
                return;
            }
            let free = members.iter().filter(|member| !member.is_stuck(self.max()));
            let Some(largest) = free.max_by_key(|member| member.stored()) else {
                return;
            };
            largest.to_free_bytes.fetch_max(self.excess_bytes(), Ordering::Relaxed);
            Arc::clone(largest)
        };
        (asked.wake)();
    }

    // Members are only added and removed under the lock.
    fn members(&self) -> MutexGuard<'_, Vec<Arc<Member>>> {
        self.0.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, before: usize, after: usize) {
        if after >= before {
            self.0.used_bytes.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.0.used_bytes.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}

impl Member {
    fn stored(&self) -> usize {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    fn bytes(&self) -> usize {
        self.stored() + self.staged_bytes.load(Ordering::Relaxed)
    }

    /// Whether it has nothing to free, by what it said and has stored since.
    fn is_stuck(&self, max_bytes: usize) -> bool {
        let again_from = self.stuck_at_bytes.load(Ordering::Relaxed) + max_bytes / ASK_AGAIN_PART;
        self.could_not.load(Ordering::Relaxed) && self.stored() <= again_from
    }

    fn is_asked(&self) -> bool {
        self.to_free_bytes.load(Ordering::Relaxed) > 0
    }
}

impl BudgetShare {
    /// What the store of the source takes now, with its indexes and what older snapshots hold.
    pub fn set_stored_bytes(&self, bytes: usize) {
        let before = self.member.stored_bytes.swap(bytes, Ordering::Relaxed);
        if before == bytes {
            return;
        }
        self.changed(before, bytes);
        self.member.stuck_at_bytes.fetch_min(bytes, Ordering::Relaxed);
        if bytes > before {
            self.ask();
        }
    }

    /// A list that is being received has so many bytes more.
    pub fn add_staged(&self, bytes: usize) {
        self.member.staged_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.changed(0, bytes);
        self.ask();
    }

    /// A list that was received has so many bytes less: they are stored, or heads, or the list was dropped.
    pub fn remove_staged(&self, bytes: usize) {
        self.member.staged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.changed(bytes, 0);
    }

    /// Whether a list that is being received has to keep only heads: a budget is exceeded, and none of its other
    /// sources that could free bytes takes more than this one.
    #[must_use]
    pub fn sheds_staged(&self) -> bool {
        let own = self.member.bytes();
        self.budgets.iter().any(|budget| {
            let is_smaller = |member: &Arc<Member>| member.bytes() <= own || member.is_stuck(budget.max());
            budget.is_exceeded() && budget.members().iter().all(is_smaller)
        })
    }

    /// The smallest limit of its budgets in bytes.
    #[must_use]
    pub fn max_bytes(&self) -> Option<usize> {
        self.budgets.iter().filter_map(CacheBudget::max_bytes).min()
    }

    /// Whether one of its budgets is exceeded.
    #[must_use]
    pub fn is_exceeded(&self) -> bool {
        self.budgets.iter().any(CacheBudget::is_exceeded)
    }

    /// By how many bytes one of its budgets is above [`SHED_TO_PERCENT`]: the one that is so by most.
    #[must_use]
    pub fn excess_bytes(&self) -> usize {
        self.budgets.iter().map(CacheBudget::excess_bytes).max().unwrap_or(0)
    }

    /// How many bytes the source is asked to free; 0: none.
    #[must_use]
    pub fn to_free_bytes(&self) -> usize {
        self.member.to_free_bytes.load(Ordering::Relaxed)
    }

    /// The source has freed what it was asked to, and [set](Self::set_stored_bytes) what it takes now; or, if
    /// `is_stuck`, it has nothing more to free.
    pub fn freed(&self, is_stuck: bool) {
        let Member {
            stuck_at_bytes,
            could_not,
            to_free_bytes,
            ..
        } = &*self.member;
        stuck_at_bytes.store(self.member.stored(), Ordering::Relaxed);
        could_not.store(is_stuck, Ordering::Relaxed);
        to_free_bytes.store(0, Ordering::Relaxed);
        self.ask();
    }

    /// The source stores nothing more, and is not asked again.
    pub fn leave(&self) {
        self.set_stored_bytes(0);
        self.freed(true);
    }

    /// How many bytes may return before [`RETURN_BELOW_PERCENT`] of one of its budgets are in use.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        let room = |budget: &CacheBudget| {
            let allowed = budget.percent(RETURN_BELOW_PERCENT);
            allowed.saturating_sub(budget.used_bytes())
        };
        self.budgets.iter().map(room).min().unwrap_or(NO_LIMIT)
    }

    fn changed(&self, before: usize, after: usize) {
        for budget in &self.budgets {
            budget.changed(before, after);
        }
    }

    /// Asks for bytes in each budget that is exceeded.
    fn ask(&self) {
        for budget in self.budgets.iter().filter(|budget| budget.is_exceeded()) {
            budget.ask();
        }
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let is_own = |member: &Arc<Member>| Arc::ptr_eq(member, &self.member);
        for budget in &self.budgets {
            budget.members().retain(|member| !is_own(member));
        }
        self.changed(self.member.bytes(), 0);
    }
}

impl fmt::Debug for CacheBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBudget")
            .field("max_bytes", &self.max_bytes())
            .field("used_bytes", &self.used_bytes())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BudgetShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BudgetShare")
            .field("bytes", &self.member.bytes())
            .field("to_free_bytes", &self.to_free_bytes())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(budget: &CacheBudget) -> (BudgetShare, Arc<AtomicUsize>) {
        let woken = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&woken);
        let share = CacheBudget::join(vec![budget.clone()], move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        (share, woken)
    }

    #[test]
    fn the_largest_source_is_asked_until_enough_is_free() {
        let budget = CacheBudget::new(Some(1_000));
        let ((small, small_woken), (large, large_woken)) = (share(&budget), share(&budget));
        small.set_stored_bytes(300);
        large.set_stored_bytes(700);
        assert_eq!((small.to_free_bytes(), large.to_free_bytes()), (0, 0));
        small.set_stored_bytes(310);
        assert_eq!((small.to_free_bytes(), large.to_free_bytes()), (0, 110));
        small.set_stored_bytes(320);
        assert_eq!(large_woken.load(Ordering::Relaxed), 1, "asked once");
        large.set_stored_bytes(590);
        large.freed(false);
        assert_eq!((budget.used_bytes(), large.to_free_bytes()), (910, 0));
        assert_eq!(small_woken.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_source_with_nothing_to_free_leaves_it_to_others() {
        let budget = CacheBudget::new(Some(1_000));
        let ((small, _), (large, _)) = (share(&budget), share(&budget));
        small.set_stored_bytes(300);
        large.set_stored_bytes(800);
        assert!(large.to_free_bytes() > 0);
        large.freed(true);
        assert_eq!(small.to_free_bytes(), 200);
        small.freed(true);
        large.set_stored_bytes(801);
        assert_eq!(large.to_free_bytes(), 0, "no source can free anything");
        large.set_stored_bytes(820);
        assert!(large.to_free_bytes() > 0, "it has grown");
        large.freed(true);
        large.set_stored_bytes(720);
        large.set_stored_bytes(740);
        assert!(large.to_free_bytes() > 0, "it has shrunk, and grown since");
        large.freed(true);
        small.set_stored_bytes(0);
        large.set_stored_bytes(900);
        small.set_stored_bytes(200);
        assert!(large.to_free_bytes() > 0, "it has grown while there was room");
    }

    #[test]
    fn each_budget_of_a_source_is_kept() {
        let (all, some) = (CacheBudget::new(Some(1_000)), CacheBudget::new(Some(100)));
        let (large, _) = share(&all);
        let small = CacheBudget::join(vec![all.clone(), some.clone()], || {});
        large.set_stored_bytes(600);
        small.set_stored_bytes(110);
        assert_eq!((large.to_free_bytes(), small.to_free_bytes()), (0, 20));
        assert_eq!((small.max_bytes(), large.max_bytes()), (Some(100), Some(1_000)));
        small.set_stored_bytes(90);
        small.freed(false);
        assert_eq!((small.room_bytes(), large.room_bytes()), (0, 10));
        small.add_staged(20);
        assert!(small.sheds_staged() && !large.sheds_staged());
        small.freed(true);
        small.add_staged(300);
        assert_eq!((large.to_free_bytes(), small.to_free_bytes()), (110, 0));
        drop(small);
        assert_eq!((all.used_bytes(), some.used_bytes()), (600, 0));
    }

    #[test]
    fn what_is_dropped_or_unlimited_counts_no_longer() {
        let budget = CacheBudget::new(Some(1_000));
        let ((one, _), (other, _)) = (share(&budget), share(&budget));
        one.set_stored_bytes(600);
        other.add_staged(500);
        assert!(
            budget.is_exceeded() && !other.sheds_staged(),
            "the other source is larger"
        );
        one.set_stored_bytes(400);
        one.freed(false);
        assert_eq!(one.room_bytes(), 0);
        drop(other);
        assert_eq!((budget.used_bytes(), one.room_bytes()), (400, 300));
        budget.set_max_bytes(None);
        one.add_staged(1 << 40);
        assert!(!budget.is_exceeded() && one.room_bytes() > 1 << 50);
        one.remove_staged(1 << 40);
        budget.set_max_bytes(Some(300));
        assert_eq!(one.to_free_bytes(), 130);
    }
}
