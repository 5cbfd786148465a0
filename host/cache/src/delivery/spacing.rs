//! The least time between two calls of one key ([`min_interval`](crate::listener::ListenerOptions::min_interval)).
//!
//! Remembers when each key was called, until its next call may start. A key is called at once if it was not called
//! within the interval. Otherwise its events wait in its slot and fold there.
//!
//! A key is remembered by its hash, so that an entry takes a few bytes. Two keys with equal hashes share an entry, and
//! one of them is called late.

use std::collections::VecDeque;
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::Moment;
use crate::delivery::options::SPACED_KEYS_MAX;

/// When keys were called, for as long as that delays their next call.
#[derive(Debug, Default)]
pub(crate) struct CallSpacing {
    /// None: no key waits.
    interval: Option<Duration>,
    /// The start of the last call, by the hash of the key.
    last: HashMap<u64, Moment, FixedState>,
    /// The starts in their order. Those that are not in `last` do not count.
    starts: VecDeque<(Moment, u64)>,
}

/// The end of a wait.
pub(crate) struct Ended {
    /// The hash of the key.
    pub(crate) hash: u64,
    /// It ended early, because too many keys were remembered.
    pub(crate) is_early: bool,
}

impl CallSpacing {
    pub(crate) fn new(interval: Option<Duration>) -> CallSpacing {
        CallSpacing {
            interval: interval.filter(|interval| !interval.is_zero()),
            ..CallSpacing::default()
        }
    }

    /// Applies another interval, also to the calls that are remembered.
    pub(crate) fn set_interval(&mut self, interval: Option<Duration>) {
        self.interval = interval.filter(|interval| !interval.is_zero());
    }

    /// A call of the key starts.
    pub(crate) fn record(&mut self, hash: u64, now: Moment) {
        if self.interval.is_some() {
            self.last.insert(hash, now);
            self.starts.push_back((now, hash));
        }
    }

    /// The last call of the key was not made.
    pub(crate) fn revoke(&mut self, hash: u64) {
        self.last.remove(&hash);
    }

    /// When the key may be called; none if it may be called now. The moment may be over.
    pub(crate) fn until(&self, hash: u64) -> Option<Moment> {
        Some(*self.last.get(&hash)? + self.interval?)
    }

    /// When the next wait ends.
    pub(crate) fn next(&self) -> Option<Moment> {
        let (start, _) = self.starts.front()?;
        Some(self.interval.map_or(Moment::ZERO, |interval| *start + interval))
    }

    /// Ends the wait that is over first, if one is over or too many keys are remembered.
    pub(crate) fn pop_ended(&mut self, now: Moment) -> Option<Ended> {
        let is_over = self.next()? <= now;
        if !is_over && self.starts.len() <= SPACED_KEYS_MAX {
            return None;
        }
        let (start, hash) = self.starts.pop_front()?;
        let is_last = self.last.get(&hash) == Some(&start);
        if is_last {
            self.last.remove(&hash);
        }
        Some(Ended {
            hash,
            is_early: is_last && !is_over,
        })
    }

    /// Whether no call is remembered.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Ends all waits.
    pub(crate) fn clear(&mut self) {
        *self = CallSpacing::new(self.interval);
    }

    /// What is known under one hash is known under another from now on.
    pub(crate) fn rename(&mut self, renamed: impl Iterator<Item = (u64, u64)>) {
        let renamed = renamed.filter(|(before, _)| self.last.contains_key(before));
        let renamed: HashMap<u64, u64, FixedState> = renamed.collect();
        for (before, after) in &renamed {
            if let Some(start) = self.last.remove(before) {
                self.last.insert(*after, start);
            }
        }
        for (_, hash) in &mut self.starts {
            *hash = renamed.get(hash).copied().unwrap_or(*hash);
        }
    }
}
