//! The queue of one plugin's writes: which write may be sent next.
//!
//! ```text
//! commit ──▶ waits for its target ──▶ ready ──next──▶ in flight ──ended──▶ the call's next write, or its end
//! ```
//!
//! Guarantees: one write of a call at a time, in order; one write to a target at a time, in the order in which they
//! could first be sent; at most so many in flight, and so many a second. `T` is what a call is about.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::capability::kube::writes::{
    DeferredWrite, Target, WRITES_BURST, WRITES_WAITING_BYTES_MAX, WRITES_WAITING_MAX,
};
use crate::effects::share::LimitShare;
use informant_cache::{Moment, TokenBucket};
use informant_spec::Limits;

/// A call whose writes were committed, by number.
pub(crate) type CallNumber = u64;

#[derive(Debug)]
pub(crate) struct WriteQueue<T> {
    calls: BTreeMap<CallNumber, CommittedCall<T>>,
    next_number: CallNumber,
    /// Calls whose next write may be sent; each holds its target.
    ready: VecDeque<CallNumber>,
    /// Targets that a call holds, and the calls that wait for them.
    targets: HashMap<Target, VecDeque<CallNumber>>,
    waiting: usize,
    waiting_bytes: usize,
    in_flight: usize,
    in_flight_max: usize,
    rate: TokenBucket,
    /// The API server asked for a pause.
    paused_until: Option<Moment>,
    /// Nothing starts from then on.
    ends_at: Option<Moment>,
    is_full: bool,
}

#[derive(Debug)]
struct CommittedCall<T> {
    about: T,
    /// Writes that have not ended; the first may be in flight.
    writes: VecDeque<Arc<DeferredWrite>>,
}

/// What the writer does next.
#[derive(Debug)]
pub(crate) enum NextWrite {
    /// Send this write, then report its end.
    Send(CallNumber, Arc<DeferredWrite>),
    /// Nothing before then.
    WaitUntil(Moment),
    /// Nothing until something changes.
    Idle,
}

/// How a write ended, for the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteEnd {
    Done,
    /// The rest of the call's writes are dropped.
    Failed,
    /// It is sent again; nothing is sent for this long.
    Pause(Duration),
}

/// The deferred writes of a plugin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WritesStatus {
    /// Those that wait or are in flight.
    pub waiting: usize,
    /// Their bytes.
    pub waiting_bytes: usize,
    /// The events to which these belong.
    pub events: usize,
    /// Those that are in flight.
    pub in_flight: usize,
    /// Until when nothing is sent, because the API server asked for that.
    pub paused_until: Option<Moment>,
    /// Whether so many wait that the plugin is not called.
    pub is_full: bool,
}

impl<T> WriteQueue<T> {
    pub(crate) fn new(limits: &Limits) -> WriteQueue<T> {
        WriteQueue {
            calls: BTreeMap::new(),
            next_number: 0,
            ready: VecDeque::new(),
            targets: HashMap::new(),
            waiting: 0,
            waiting_bytes: 0,
            in_flight: 0,
            in_flight_max: limits.writes_in_flight,
            rate: TokenBucket::new(limits.writes_per_second, WRITES_BURST),
            paused_until: None,
            ends_at: None,
            is_full: false,
        }
    }

    /// Of the writes in a second, this process has `share`.
    pub(crate) fn set_limits(&mut self, limits: &Limits, share: LimitShare, now: Moment) {
        self.in_flight_max = limits.writes_in_flight;
        self.rate
            .set(share.of(limits.writes_per_second), share.of(WRITES_BURST), now);
    }

    /// Adds the writes of a successful call, at least one.
    pub(crate) fn commit(&mut self, about: T, writes: Vec<DeferredWrite>) {
        let number = self.next_number;
        self.next_number += 1;
        self.waiting += writes.len();
        self.waiting_bytes += writes.iter().map(DeferredWrite::size_bytes).sum::<usize>();
        let writes = writes.into_iter().map(Arc::new).collect();
        self.calls.insert(number, CommittedCall { about, writes });
        self.queue_next(number);
        self.update_full();
    }

    pub(crate) fn next(&mut self, now: Moment) -> NextWrite {
        if self.ends_at.is_some_and(|end| end <= now) || self.in_flight >= self.in_flight_max {
            return NextWrite::Idle;
        }
        let Some(number) = self.ready.front().copied() else {
            return NextWrite::Idle;
        };
        if let Some(until) = self.paused_until {
            if now < until {
                return NextWrite::WaitUntil(until);
            }
            self.paused_until = None;
        }
        if let Err(until) = self.rate.take(now) {
            return NextWrite::WaitUntil(until);
        }
        self.ready.pop_front();
        match self.calls.get(&number).and_then(|call| call.writes.front()) {
            Some(write) => {
                self.in_flight += 1;
                NextWrite::Send(number, Arc::clone(write))
            }
            // A ready call has a write.
            None => NextWrite::WaitUntil(now),
        }
    }

    /// The write that was sent last needed no request.
    pub(crate) fn was_not_sent(&mut self) {
        self.rate.give_back();
    }

    /// What a call is about.
    pub(crate) fn about(&mut self, number: CallNumber) -> Option<&mut T> {
        self.calls.get_mut(&number).map(|call| &mut call.about)
    }

    /// A write of a call ended. Returns what the call is about if that was its last one.
    pub(crate) fn ended(&mut self, number: CallNumber, end: WriteEnd, now: Moment) -> Option<T> {
        let call = self.calls.get_mut(&number)?;
        self.in_flight -= 1;
        let ended = match end {
            WriteEnd::Pause(pause) => {
                let until = now + pause;
                self.paused_until = Some(self.paused_until.map_or(until, |other| other.max(until)));
                self.ready.push_front(number);
                return None;
            }
            WriteEnd::Done => 1,
            WriteEnd::Failed => call.writes.len(),
        };
        let target = call.writes.front().map(|write| write.target.clone());
        self.waiting -= ended;
        self.waiting_bytes -= call
            .writes
            .drain(..ended)
            .map(|write| write.size_bytes())
            .sum::<usize>();
        let is_over = call.writes.is_empty();
        if let Some(target) = target {
            self.release(&target);
        }
        self.update_full();
        if is_over {
            return self.calls.remove(&number).map(|call| call.about);
        }
        self.queue_next(number);
        None
    }

    /// Drops all calls. Those of their writes that are in flight will not end. Returns the writes.
    pub(crate) fn drop_all(&mut self) -> Vec<Arc<DeferredWrite>> {
        let calls = std::mem::take(&mut self.calls);
        self.ready.clear();
        self.targets.clear();
        (self.waiting, self.waiting_bytes, self.in_flight) = (0, 0, 0);
        self.paused_until = None;
        self.update_full();
        calls.into_values().flat_map(|call| call.writes).collect()
    }

    /// Starts nothing from `at` on, or from an earlier moment that was set before.
    pub(crate) fn end_at(&mut self, at: Moment) {
        self.ends_at = Some(self.ends_at.map_or(at, |other| other.min(at)));
    }

    /// Whether no call has writes that have not ended.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the handler must not be called: a bound was reached, and more than half of it is still taken.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn stats(&self) -> WritesStatus {
        WritesStatus {
            waiting: self.waiting,
            waiting_bytes: self.waiting_bytes,
            events: self.calls.len(),
            in_flight: self.in_flight,
            paused_until: self.paused_until,
            is_full: self.is_full,
        }
    }

    /// Queues the call's next write: it is ready, or waits for its target.
    fn queue_next(&mut self, number: CallNumber) {
        let Some(write) = self.calls.get(&number).and_then(|call| call.writes.front()) else {
            return;
        };
        match self.targets.get_mut(&write.target) {
            Some(waiting) => waiting.push_back(number),
            None => {
                self.targets.insert(write.target.clone(), VecDeque::new());
                self.ready.push_back(number);
            }
        }
    }

    /// The write to `target` ended: the call that waits longest for it is ready.
    fn release(&mut self, target: &Target) {
        match self.targets.get_mut(target).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back(next),
            None => {
                self.targets.remove(target);
            }
        }
    }

    fn update_full(&mut self) {
        let part = if self.is_full { 2 } else { 1 };
        let (waiting_max, bytes_max) = (WRITES_WAITING_MAX / part, WRITES_WAITING_BYTES_MAX / part);
        self.is_full = self.waiting >= waiting_max || self.waiting_bytes >= bytes_max;
    }
}

#[cfg(test)]
mod tests;
