//! Deliveries to the consumer: from the queue and from cursors.

use informant_object::{Object, SourceId};

use crate::listener_oracle::cursor::CursorKind;
use crate::listener_oracle::event::PendingEvent;
use crate::listener_oracle::lanes::{Lane, LaneSet};
use crate::listener_oracle::options::CURSOR_STEPS_MAX;
use crate::listener_oracle::sources::Walk;
use crate::listener_oracle::wake::TakeWake;
use crate::listener_oracle::{Delivery, Listener, NextBatch, NextDelivery, Notification};
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
            !self.is_paused() && is_due && is_allowed()
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
        if self.is_paused() {
            return false;
        }
        self.count_vanished_as_synced(now);
        self.fire_timers(now);
        true
    }

    /// The answer for a consumer that gets no delivery.
    fn nothing_to_deliver(&mut self, now: Moment, lanes: LaneSet) -> NextBatch {
        if self.is_over() {
            return NextBatch::Closed;
        }
        let until = match self.is_paused() {
            true => None,
            // The cursor stopped to release the lock.
            false if self.has_work(lanes) => Some(now),
            false => self.next_due(lanes),
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
        let left = self.queue.slots.len() - if self.retries_ended { self.queue.backing_off } else { 0 };
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
        let timers = [self.next_retry(), resync, self.next_requeue(lanes), interval];
        timers.into_iter().flatten().min()
    }

    fn fire_timers(&mut self, now: Moment) {
        self.queue.end_intervals(now);
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
                    self.sources.end(source, lane);
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
        if self.queue.slots.lane_map.of(source, object.key()) != lane {
            return CursorStep::PassedOver;
        }
        let hash = self.queue.slots.hash(source, Some(object.key()));
        let occupied = self.queue.slots.find(hash, source, Some(object.key())).is_some();
        if occupied && kind == CursorKind::Resync {
            self.queue.counters.resync_keys_skipped += 1;
            return CursorStep::PassedOver;
        }
        if !occupied && (is_left_out || kind == CursorKind::Recovery && self.letters.is_about(source, &object)) {
            return CursorStep::PassedOver;
        }
        self.queue.counters.shown += 1;
        let mut event = self.event_of((source, lane), object, kind, begun);
        if occupied || self.queue.spacing.until(hash).is_some() {
            // A handler with a pending delete has seen nothing after it.
            let ends = event
                .notification
                .key()
                .is_some_and(|key| self.queue.ends_with_delete(source, key));
            event.maybe_seen &= !ends;
            event.seen_before &= !ends;
            // WANTED DIFFERENCE 2: behind what the handler may have seen, an initial list's add cannot vanish.
            event.maybe_seen |= occupied && !ends;
            event.seen_before &= !occupied || kind == CursorKind::Reselection;
            self.queue.enqueue(source, event);
            return CursorStep::PassedOver;
        }
        CursorStep::Show(self.queue.deliver_now(hash, source, event, now))
    }

    /// The event that a cursor makes of an object.
    fn event_of(
        &mut self,
        (source, lane): (SourceId, Lane),
        object: Object,
        kind: CursorKind,
        begun: Moment,
    ) -> PendingEvent {
        if kind == CursorKind::Resync {
            let notification = Notification::Update {
                old: Some(object.clone()),
                new: object,
            };
            return PendingEvent::of_maybe_seen(notification, kind.reason(), begun);
        }
        let mut event = PendingEvent {
            maybe_seen: kind.maybe_seen(),
            seen_before: kind.maybe_seen(),
            ..PendingEvent::new(Notification::Add(object), kind.reason(), begun)
        };
        if kind == CursorKind::Reselection {
            event.hide_state();
        }
        let walk = self.sources.get_mut(source).map(|state| state.walk_mut(lane));
        if let Some(walk) = walk.filter(|walk| walk.syncing.is_some()) {
            walk.unattempted += 1;
            event.counts_for_sync = true;
        }
        event
    }

    /// Enqueues `Synced` for each lane that receives a list or a replay, once the cursors of all have passed all
    /// objects and every key they passed was attempted.
    pub(super) fn settle(&mut self, source: SourceId, now: Moment) {
        let Some(state) = self.sources.get_mut(source) else {
            return;
        };
        if !state.walks.iter().all(Walk::is_complete) || state.syncing().is_none() {
            return;
        }
        if !std::mem::replace(&mut state.synced, true) {
            self.newly_synced.push(source);
        }
        for (lane, walk) in (0..).zip(&mut state.walks) {
            if let Some(kind) = walk.syncing.take() {
                self.queue.counters.shown += 1;
                self.queue
                    .enqueue(source, PendingEvent::synced(lane, kind.reason(), now));
            }
        }
    }
}
