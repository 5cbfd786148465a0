//! Waiting items: the priority queue of due items, and the delayed ones.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::hash::Hash;

use foldhash::quality::SeedableRandomState;
use hashbrown::HashMap;

use informant_cache::Moment;

/// Items that are due, by priority, then by arrival, and at times simply the oldest. An item is identified by its
/// arrival number.
#[derive(Debug)]
pub(super) struct PriorityQueue<T> {
    items: BTreeMap<(Reverse<i32>, u64), T>,
    /// The priorities by arrival.
    priorities: BTreeMap<u64, i32>,
    passed_over_max: u32,
    /// How many items in a row were popped before the oldest.
    passed_over: u32,
}

impl<T> PriorityQueue<T> {
    pub(super) fn new(passed_over_max: u32) -> PriorityQueue<T> {
        PriorityQueue {
            items: BTreeMap::new(),
            priorities: BTreeMap::new(),
            passed_over_max,
            passed_over: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn push(&mut self, arrival: u64, priority: i32, item: T) {
        self.items.insert((Reverse(priority), arrival), item);
        self.priorities.insert(arrival, priority);
    }

    /// Changes the priority of the item `arrival`. It keeps its arrival order.
    pub(super) fn move_to(&mut self, arrival: u64, from: i32, to: i32) {
        if let Some(item) = self.items.remove(&(Reverse(from), arrival)) {
            self.push(arrival, to, item);
        }
    }

    /// Pops the next item.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (&oldest, &its_priority) = self.priorities.first_key_value()?;
        let (&first, _) = self.items.first_key_value()?;
        let is_oldest_due = self.passed_over >= self.passed_over_max;
        let (priority, arrival) = if is_oldest_due {
            (Reverse(its_priority), oldest)
        } else {
            first
        };
        self.passed_over = if arrival == oldest {
            0
        } else {
            self.passed_over.saturating_add(1)
        };
        self.priorities.remove(&arrival);
        self.items.remove(&(priority, arrival))
    }
}

/// Delayed items, each once, with the earliest requested time and the highest priority. Ties go in the order of the
/// requests.
///
/// Source: client-go `delaying_queue.go` (`waitForPriorityQueue`, `insert`); the priority is controller-runtime's.
#[derive(Debug)]
pub(super) struct Delayed<T> {
    due: BTreeMap<(Moment, u64), T>,
    items: HashMap<T, Wait, SeedableRandomState>,
    requests: u64,
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
            requests: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    pub(super) fn contains(&self, item: &T) -> bool {
        self.items.contains_key(item)
    }

    /// Delays `item`; returns whether it was not delayed before.
    pub(super) fn set(&mut self, item: T, until: Moment, priority: i32) -> bool {
        self.requests += 1;
        let number = self.requests;
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

    /// Pops an item that is due, with its priority.
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
