//! Deliveries to the consumer: from the queue and from cursors.

use informant_object::{Object, SourceId};

use crate::delivery::lanes::{Lane, LaneSet};
use crate::delivery::options::CURSOR_STEPS_MAX;
use crate::listener::cursor::CursorKind;
use crate::listener::sources::Walk;
use crate::listener::state::{Known, State, What, Why};
use crate::listener::subject::Subject;
use crate::listener::wake::TakeWake;
use crate::listener::{Delivery, Listener, NextBatch, NextDelivery};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, TokenBucket};

/// The result of moving a cursor.
enum CursorStep {
    Show(Delivery),
    /// An event of the key is already pending or in flight, or the object need not be delivered.
    PassedOver,
    End,
}

impl TakeWake for Listener {
    fn take_wake(&mut self) -> bool {
        let Some(until) = self.waits_until else { return false };
        let lanes = self.waits_for;
        // Nothing is delivered before the rate allows it.
        let is_allowed = || self.call_rate.as_ref().is_none_or(|rate| rate.next() < until);
        let is_sooner = || {
            let is_due = self.has_work(lanes) || self.next_due(lanes).is_some_and(|due| due < until);
            self.pauses.is_empty() && is_due && is_allowed()
        };
        let wake = self.is_over() || is_sooner();
        if wake {
            self.waits_until = None;
        }
        wake
    }
}

impl Listener {
    /// The next delivery.
    pub(super) fn next(&mut self, now: Moment) -> NextDelivery {
        let mut steps_left = CURSOR_STEPS_MAX;
        if self.begin(now)
            && let Some(delivery) = self.take(now, 0, &mut steps_left)
        {
            return NextDelivery::Deliver(delivery);
        }
        match self.nothing_to_deliver(now, LaneSet::FIRST) {
            NextBatch::WaitUntil(until) => NextDelivery::WaitUntil(until),
            NextBatch::Closed => NextDelivery::Closed,
            NextBatch::Idle | NextBatch::Delivered(_) => NextDelivery::Idle,
        }
    }

    /// Appends up to `max` deliveries of one of `lanes`, which take turns. With an interval or a rate it is one: they
    /// count from the delivery, so that the call has to start with it.
    pub(super) fn next_batch(&mut self, now: Moment, lanes: LaneSet, max: usize, out: &mut Vec<Delivery>) -> NextBatch {
        let before = out.len();
        let is_spaced = self.options.min_interval.is_some() || self.call_rate.is_some();
        let max = if is_spaced { max.min(1) } else { max };
        if self.begin(now) {
            let mut steps_left = CURSOR_STEPS_MAX.max(max);
            for lane in lanes.iter_from(self.next_lane) {
                out.extend(std::iter::from_fn(|| self.take(now, lane, &mut steps_left)).take(max));
                if out.len() > before {
                    self.next_lane = lane.wrapping_add(1);
                    return NextBatch::Delivered(out.len() - before);
                }
            }
        }
        self.nothing_to_deliver(now, lanes)
    }

    /// Makes due retries ready. Returns whether anything may be delivered.
    fn begin(&mut self, now: Moment) -> bool {
        self.waits_until = None;
        if !self.pauses.is_empty() {
            return false;
        }
        self.queue.suspects.expire(now);
        self.count_vanished_as_synced(now);
        self.fire_timers(now);
        true
    }

    /// The answer for a consumer that gets no delivery.
    fn nothing_to_deliver(&mut self, now: Moment, lanes: LaneSet) -> NextBatch {
        if self.is_over() {
            return NextBatch::Closed;
        }
        let until = match self.pauses.is_empty() {
            false => None,
            // The cursor stopped to release the lock.
            true if self.has_work(lanes) => Some(now),
            true => self.next_due(lanes),
        };
        let until = until.map(|until| until.max(self.held_until(until, now)));
        self.waits_until = Some(until.unwrap_or(Moment::NEVER));
        self.waits_for = lanes;
        until.map_or(NextBatch::Idle, NextBatch::WaitUntil)
    }

    /// When the rate allows the next delivery, if something is due for it at `due`.
    fn held_until(&mut self, due: Moment, now: Moment) -> Moment {
        let allowed = self.call_rate.as_ref().map_or(Moment::ZERO, TokenBucket::next);
        if due <= now && allowed > now && !std::mem::replace(&mut self.is_held_by_rate, true) {
            self.queue.counters.rate_holds += 1;
        }
        allowed
    }

    /// Whether all deliveries have ended.
    fn is_over(&self) -> bool {
        let counts = self.queue.slots.counts();
        let waiting = if self.retries_ended {
            counts.backing_off + counts.waiting + counts.suspect
        } else {
            0
        };
        let left = self.queue.slots.len() - waiting;
        self.closed && left == 0 && !self.sources.has_cursor()
    }

    /// Whether something of `lanes` can be delivered now.
    fn has_work(&self, lanes: LaneSet) -> bool {
        self.queue.slots.has_ready(lanes)
            || self.sources.has_cursor_in(lanes)
            || !self.queue.vanished_unattempted.is_empty()
    }

    /// When the next timer fires.
    fn next_due(&self, lanes: LaneSet) -> Option<Moment> {
        let resync = self.resync_next.filter(|_| !self.closed);
        let interval = self.queue.next_interval_end();
        let timers = [
            self.next_retry(),
            resync,
            self.next_requeue(lanes),
            interval,
            self.waits.next(),
            self.queue.next_suspect(lanes),
        ];
        timers.into_iter().flatten().min()
    }

    fn fire_timers(&mut self, now: Moment) {
        self.queue.end_intervals(now);
        self.end_waits(now);
        self.start_retries(now);
        if let (Some(due), Some(period)) = (self.resync_next, self.options.resync)
            && due <= now
            && !self.closed
        {
            self.resync_next = Some(now + period);
            self.resync(now);
        }
    }

    /// Starts a resync of every source without a running cursor.
    ///
    /// Source: client-go `sharedProcessor.resyncCheckPeriod`; skipping a round while the last one still runs is ours.
    fn resync(&mut self, now: Moment) {
        let sources = self.sources.ids();
        let idle = |source: &SourceId| self.sources.get(*source).is_some_and(|state| !state.has_cursor());
        let idle: Vec<SourceId> = sources.iter().copied().filter(idle).collect();
        if self.sources.resyncs() || (idle.is_empty() && !sources.is_empty()) {
            self.queue.counters.resync_ticks_skipped += 1;
            return;
        }
        self.queue.counters.resyncs += 1;
        for source in idle {
            self.sources.begin(source, CursorKind::Resync, now);
        }
    }

    /// The next delivery of `lane`, if the rate allows one.
    fn take(&mut self, now: Moment, lane: Lane, steps_left: &mut usize) -> Option<Delivery> {
        if self.call_rate.as_ref().is_some_and(|rate| rate.next() > now) && !seeded_bug(SeededBug::RateNotKept) {
            return None;
        }
        let delivery = self.take_any(now, lane, steps_left)?;
        self.is_held_by_rate = false;
        if let Some(rate) = &mut self.call_rate {
            rate.take(now).ok();
        }
        Some(delivery)
    }

    /// The next delivery: due requeues and everything else take turns, so that neither delays the other.
    fn take_any(&mut self, now: Moment, lane: Lane, steps_left: &mut usize) -> Option<Delivery> {
        let turns = &mut self.turns[usize::from(lane)];
        let requeue_first = std::mem::replace(&mut turns.requeue, true);
        if requeue_first && let Some(delivery) = self.take_requeue(now, lane, steps_left) {
            self.turns[usize::from(lane)].requeue = false;
            return Some(delivery);
        }
        let event = self.take_event(now, lane, steps_left);
        if event.is_some() || requeue_first {
            return event;
        }
        self.take_requeue(now, lane, steps_left)
    }

    /// The next delivery that is no requeue: the queue and the cursors take turns. Deletes that were pending when a
    /// replay started go before any cursor.
    fn take_event(&mut self, now: Moment, lane: Lane, steps_left: &mut usize) -> Option<Delivery> {
        let turns = &mut self.turns[usize::from(lane)];
        let cursor_first = turns.cursor && self.queue.draining == 0;
        turns.cursor = !cursor_first;
        if cursor_first && let Some(delivery) = self.take_from_cursor(now, lane, steps_left) {
            return Some(delivery);
        }
        if let Some(delivery) = self.queue.take(now, lane) {
            return Some(delivery);
        }
        if cursor_first {
            None
        } else {
            self.take_from_cursor(now, lane, steps_left)
        }
    }

    fn take_from_cursor(&mut self, now: Moment, lane: Lane, steps_left: &mut usize) -> Option<Delivery> {
        while let Some(source) = self.sources.current_cursor(lane) {
            *steps_left = steps_left.checked_sub(1)?;
            match self.step(source, lane, now) {
                CursorStep::Show(delivery) => return Some(delivery),
                CursorStep::PassedOver => {}
                CursorStep::End => {
                    self.sources.passed(source, lane, now);
                    self.settle(source, now);
                    // A source without objects is synced at once: its `Synced` is ready now, and older than what other
                    // cursors deliver.
                    if let Some(delivery) = self.queue.take(now, lane) {
                        return Some(delivery);
                    }
                }
            }
        }
        None
    }

    /// Moves the source's cursor of `lane` by one object.
    fn step(&mut self, source: SourceId, lane: Lane, now: Moment) -> CursorStep {
        let Some(state) = self.sources.get_mut(source) else {
            return CursorStep::End;
        };
        let Some(cursor) = &mut state.walks[usize::from(lane)].cursor else {
            return CursorStep::End;
        };
        let (kind, begun) = (cursor.kind, cursor.begun);
        let Some((object, chunk_ends)) = cursor.next(&state.snapshot) else {
            return CursorStep::End;
        };
        let is_left_out = cursor.leaves_out(&object);
        if chunk_ends {
            self.sources.rotate_cursors(lane);
        }
        let is_other = self.queue.slots.lane_map.of(source, object.key()) != lane;
        if is_other || self.is_not_called(source, object.key()) {
            return CursorStep::PassedOver;
        }
        let is_left_out = is_left_out || kind == CursorKind::Takeover && self.was_accepted_before_gain(source, &object);
        let subject = Subject::Object(source, object.key());
        let hash = self.queue.slots.hash(subject);
        let slot = self.queue.slots.find(hash, subject);
        let occupied = slot.is_some();
        // It follows the end of another object of its name.
        let newest = slot.and_then(|id| self.queue.slots.get(id).newest().object());
        let is_pending = newest.is_some_and(|newest| newest.ptr_eq(&object));
        if occupied && kind == CursorKind::Resync {
            self.queue.counters.resync_keys_skipped += 1;
            return CursorStep::PassedOver;
        }
        if is_left_out && is_pending {
            return CursorStep::PassedOver;
        }
        if !occupied && (is_left_out || kind == CursorKind::Recovery && self.letters.is_about(source, &object)) {
            return CursorStep::PassedOver;
        }
        self.queue.counters.shown += 1;
        let known = match kind {
            // A handler with a pending end has seen nothing after it.
            _ if occupied && self.queue.ends_with_delete(source, object.key()) => Known::Nothing,
            CursorKind::Initial => Known::Nothing,
            CursorKind::Resync => Known::Exactly(object.clone()),
            _ => Known::Maybe(None),
        };
        let has_to_wait = self.queue.waits_as_suspect(source, Some(object.key()), now);
        let mut state = Listener::state_of(object, kind, begun);
        // The end of a list does not wait for suspects.
        if !has_to_wait {
            self.owe_to_sync((source, lane), &mut state);
        }
        if occupied || has_to_wait || self.queue.spacing.until(hash).is_some() {
            self.queue.enqueue((source, lane), known, state);
            return CursorStep::PassedOver;
        }
        CursorStep::Show(self.queue.deliver_now(hash, (source, lane), known, state, now))
    }

    /// The state that a cursor makes of an object.
    fn state_of(object: Object, kind: CursorKind, begun: Moment) -> State {
        let why = match kind {
            CursorKind::Resync => Why::Resync,
            CursorKind::Related => Why::Asked,
            _ => Why::Shown,
        };
        let mut state = State::new(What::Is(object), why, kind.reason(), begun);
        state.was_selected = kind == CursorKind::Reselection;
        state
    }

    /// The end of the list or replay waits for the first attempt of `state`.
    fn owe_to_sync(&mut self, (source, lane): (SourceId, Lane), state: &mut State) {
        let walk = self.sources.get_mut(source).map(|state| state.walk_mut(lane));
        if let Some(walk) = walk.filter(|walk| walk.syncing.is_some() && state.why != Why::Resync) {
            walk.unattempted += 1;
            state.owed_to_sync = true;
        }
    }

    /// Enqueues `Synced` for each lane that receives a list or a replay, once the cursors of all have passed all
    /// objects and every key they passed was attempted.
    pub(super) fn settle(&mut self, source: SourceId, now: Moment) {
        let awaits_shards = self.awaits_shards(source);
        let Some(state) = self.sources.get_mut(source) else {
            return;
        };
        if !state.walks.iter().all(Walk::is_complete) || state.syncing().is_none() {
            return;
        }
        state.awaits_shards_since = awaits_shards.then_some(now);
        if !std::mem::replace(&mut state.synced, true) {
            self.newly_synced.push(source);
        }
        for (lane, walk) in (0..).zip(&mut state.walks) {
            if let Some(kind) = walk.syncing.take() {
                if awaits_shards {
                    continue;
                }
                if kind == CursorKind::Recovery && walk.sync_crashes.is_exhausted() {
                    self.queue.counters.skipped += 1;
                    continue;
                }
                self.queue.counters.shown += 1;
                let synced = State::new(What::Synced, Why::Shown, kind.reason(), now);
                self.queue.enqueue((source, lane), Known::Nothing, synced);
            }
        }
    }
}
