//! For any order of operations the queue behaves like three plain lists.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Add {
        item: u8,
        priority: i32,
        after: u64,
    },
    Get,
    /// Ends the processing of one item.
    Done(usize),
    Pass(u64),
    ShutDown,
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..8_u8, -1..=1_i32, prop_oneof![Just(0), 0..20_u64])
            .prop_map(|(item, priority, after)| Op::Add { item, priority, after }),
        5 => Just(Op::Get),
        4 => (0..4_usize).prop_map(Op::Done),
        2 => (0..15_u64).prop_map(Op::Pass),
        1 => prop::bool::weighted(0.1).prop_map(|ends| if ends { Op::ShutDown } else { Op::Get }),
    ]
}

/// A naive queue. Every operation scans all items.
#[derive(Default)]
struct Model {
    /// In order of arrival, with their priorities.
    ready: Vec<(u8, i32)>,
    /// Added while they are processed.
    again: Vec<(u8, i32)>,
    processing: Vec<u8>,
    /// In the order in which their time was set.
    delayed: Vec<(u8, u64, i32)>,
    passed_over: u32,
    shut: bool,
    now: u64,
}

const PASSED_OVER: u32 = 2;

impl Model {
    fn add(&mut self, item: u8, priority: i32, after: u64) -> Admission {
        if self.shut {
            return Admission::ShutDown;
        }
        if after == 0 {
            return self.add_now(item, priority);
        }
        let until = self.now + after;
        let Some(place) = self.delayed.iter().position(|delayed| delayed.0 == item) else {
            self.delayed.push((item, until, priority));
            return Admission::Delayed;
        };
        let (_, was, highest) = self.delayed[place];
        let highest = highest.max(priority);
        self.delayed[place].2 = highest;
        if until < was {
            self.delayed.remove(place);
            self.delayed.push((item, until, highest));
        }
        Admission::Merged
    }

    fn add_now(&mut self, item: u8, priority: i32) -> Admission {
        let waiting = self.ready.iter_mut().chain(&mut self.again);
        if let Some(waits) = waiting.into_iter().find(|waits| waits.0 == item) {
            waits.1 = waits.1.max(priority);
            return Admission::Merged;
        }
        if self.processing.contains(&item) {
            self.again.push((item, priority));
        } else {
            self.ready.push((item, priority));
        }
        Admission::Waits
    }

    fn get(&mut self) -> Get<u8> {
        while let Some(next) = self.next_due().filter(|&next| next <= self.now) {
            let place = self.delayed.iter().position(|delayed| delayed.1 == next).unwrap();
            let (item, _, priority) = self.delayed.remove(place);
            self.add_now(item, priority);
        }
        let Some(highest) = self.ready.iter().map(|waits| waits.1).max() else {
            return match self.next_due() {
                _ if self.shut => Get::ShutDown,
                Some(next) => Get::WaitUntil(at(next)),
                None => Get::Idle,
            };
        };
        let first = self.ready.iter().position(|waits| waits.1 == highest).unwrap();
        let place = if self.passed_over >= PASSED_OVER { 0 } else { first };
        self.passed_over = if place == 0 { 0 } else { self.passed_over + 1 };
        let (item, _) = self.ready.remove(place);
        self.processing.push(item);
        Get::Item(item)
    }

    fn done(&mut self, item: u8) -> bool {
        self.processing.retain(|&other| other != item);
        let Some(place) = self.again.iter().position(|waits| waits.0 == item) else {
            return false;
        };
        let waits = self.again.remove(place);
        self.ready.push(waits);
        true
    }

    fn next_due(&self) -> Option<u64> {
        self.delayed.iter().map(|delayed| delayed.1).min()
    }
}

proptest! {
    #[test]
    fn queue_agrees_with_a_naive_model(ops in vec(any_op(), 0..200)) {
        let options = WorkQueueOptions { passed_over_max: PASSED_OVER, ..WorkQueueOptions::default() };
        let (mut queue, mut model) = (QueueState::new(options), Model::default());
        for op in ops {
            let now = at(model.now);
            match op {
                Op::Add { item, priority, after } => {
                    let when = DueTime::After(Duration::from_millis(after));
                    let admission = queue.add_with(item, AddOptions { when, priority }, now);
                    prop_assert_eq!(admission, model.add(item, priority, after));
                }
                Op::Get => prop_assert_eq!(queue.get(now), model.get()),
                Op::Done(which) => {
                    if let Some(&item) = model.processing.get(which) {
                        prop_assert_eq!(queue.done(&item, now), model.done(item));
                    }
                }
                Op::Pass(millis) => model.now += millis,
                Op::ShutDown => {
                    let remaining = queue.shut_down();
                    model.shut = true;
                    model.delayed.clear();
                    prop_assert_eq!(remaining.queued, model.ready.len());
                }
            }
            let stats = queue.stats(at(model.now));
            prop_assert_eq!(stats.depth, model.ready.len() + model.again.len());
            prop_assert_eq!((stats.processing, stats.delayed), (model.processing.len(), model.delayed.len()));
            prop_assert_eq!(queue.next_due(), model.next_due().map(at));
        }
    }
}
