//! Items whose time has not come.

use std::collections::BTreeMap;
use std::hash::Hash;

use foldhash::quality::SeedableRandomState;
use hashbrown::HashMap;

use crate::Moment;

/// Each item once, with the earliest moment anybody asked for and the highest priority. Ties go in the order of asking.
///
/// Source: client-go `delaying_queue.go` (`waitForPriorityQueue`, `insert`); the priority is controller-runtime's.
#[derive(Debug)]
pub(super) struct Delayed<T> {
    due: BTreeMap<(Moment, u64), T>,
    items: HashMap<T, Wait, SeedableRandomState>,
    asked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    until: Moment,
    number: u64,
    priority: i32,
}

impl<T: Clone + Eq + Hash> Delayed<T> {
    pub(super) fn new(hasher: SeedableRandomState) -> Delayed<T> {
        Delayed {
            due: BTreeMap::new(),
            items: HashMap::with_hasher(hasher),
            asked: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    pub(super) fn contains(&self, item: &T) -> bool {
        self.items.contains_key(item)
    }

    /// Has `item` wait; returns whether it did not before.
    pub(super) fn set(&mut self, item: T, until: Moment, priority: i32) -> bool {
        self.asked += 1;
        let number = self.asked;
        if let Some(wait) = self.items.get_mut(&item) {
            wait.priority = wait.priority.max(priority);
            if until < wait.until {
                self.due.remove(&(wait.until, wait.number));
                (wait.until, wait.number) = (until, number);
                self.due.insert((until, number), item);
            }
            return false;
        }
        let wait = Wait {
            until,
            number,
            priority,
        };
        self.items.insert(item.clone(), wait);
        self.due.insert((until, number), item);
        true
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first_key_value().map(|(&(until, _), _)| until)
    }

    /// Takes out one that is due, with its priority.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<(T, i32)> {
        if self.next()? > now {
            return None;
        }
        let (_, item) = self.due.pop_first()?;
        let wait = self.items.remove(&item)?;
        Some((item, wait.priority))
    }

    /// Drops all; returns how many.
    pub(super) fn clear(&mut self) -> usize {
        let count = self.len();
        self.due = BTreeMap::new();
        self.items.clear();
        self.items.shrink_to_fit();
        count
    }
}
