//! Who is next: by priority, then by arrival, and now and then simply the oldest.

use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Items that may be handed out. An item is known by its place, a number that grows with each arrival.
#[derive(Debug)]
pub(super) struct Line<T> {
    items: BTreeMap<(Reverse<i32>, u64), T>,
    /// The same in order of arrival.
    priorities: BTreeMap<u64, i32>,
    passed_over_max: u32,
    /// How many were taken in a row past the oldest.
    passed_over: u32,
}

impl<T> Line<T> {
    pub(super) fn new(passed_over_max: u32) -> Line<T> {
        Line {
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

    pub(super) fn push(&mut self, place: u64, priority: i32, item: T) {
        self.items.insert((Reverse(priority), place), item);
        self.priorities.insert(place, priority);
    }

    /// Has the item at `place` wait among those of `to`. It keeps its place among them.
    pub(super) fn move_to(&mut self, place: u64, from: i32, to: i32) {
        if let Some(item) = self.items.remove(&(Reverse(from), place)) {
            self.push(place, to, item);
        }
    }

    /// Takes the next one out.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (&oldest, &its_priority) = self.priorities.first_key_value()?;
        let (&first, _) = self.items.first_key_value()?;
        let is_oldest_due = self.passed_over >= self.passed_over_max;
        let (priority, place) = if is_oldest_due {
            (Reverse(its_priority), oldest)
        } else {
            first
        };
        self.passed_over = if place == oldest {
            0
        } else {
            self.passed_over.saturating_add(1)
        };
        self.priorities.remove(&place);
        self.items.remove(&(priority, place))
    }
}
