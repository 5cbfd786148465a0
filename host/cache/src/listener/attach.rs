//! Attaching and detaching sources, closing, pausing, and statistics.

use informant_object::{KeyRef, SourceId};

use crate::delivery::lanes::Lane;
use crate::listener::slots::{CallState, Slot};
use crate::listener::sources::{AttachedSource, Walk};
use crate::listener::state::{Known, State, What, Why};
use crate::listener::{InFlight, Listener, ListenerOptions, ListenerStats, Pause, RESYNC_MIN};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason, Snapshot, TokenBucket};

impl Listener {
    /// Starts the initial list of a source. Does nothing for a source that is attached already.
    pub(super) fn attach(&mut self, source: SourceId, snapshot: &Snapshot, now: Moment) {
        if self.closed || self.sources.get(source).is_some() || self.attach_related(source, snapshot, now) {
            return;
        }
        self.queue.slots.lane_map.attached(source);
        self.sources.add(source, snapshot.clone(), now);
        self.await_shards(source, None, now);
        if seeded_bug(SeededBug::SyncedDeliveredFirst) {
            let synced = State::new(What::Synced, Why::Shown, Reason::Initial, now);
            self.queue.enqueue((source, 0), Known::Nothing, synced);
        }
        if let Some(period) = self.options.resync {
            self.resync_next.get_or_insert(now + period);
        }
    }

    /// Applies `options` from now on; pending events stay as they are. A changed resync period starts now.
    pub(super) fn set_options(&mut self, options: ListenerOptions, now: Moment) {
        let resync = options.resync.map(|period| period.max(RESYNC_MIN));
        if resync != self.options.resync {
            let has_sources = self.sources.len() > 0;
            self.resync_next = resync.filter(|_| has_sources).map(|period| now + period);
        }
        self.queue.set_limits(&options);
        self.call_rate = match (self.call_rate.take(), options.calls_per_second_max) {
            (Some(mut rate), Some(max)) => {
                rate.set(max, max, now);
                Some(rate)
            }
            (_, max) => max.map(|max| TokenBucket::new(max, max)),
        };
        if self.closed {
            self.end_intervals();
        }
        let retry = self.options.retry;
        self.options = ListenerOptions {
            resync,
            seed: self.options.seed,
            dead_letters_max: self.options.dead_letters_max,
            ..options
        };
        if retry != self.options.retry {
            self.shorten_back_offs(now);
        }
    }

    /// Drops a source with all its pending events. No deletes are delivered.
    pub(super) fn detach(&mut self, source: SourceId) {
        self.queue.discard(|slot| slot.source == source);
        self.queue.vanished_unattempted.retain(|(other, _)| *other != source);
        self.forget_ended_back_offs();
        self.letters.detach(source);
        self.queue.counters.requeues_dropped += self.requeues.detach(source);
        self.newly_synced.retain(|other| *other != source);
        self.ungate(source);
        self.forget_shards_of(source);
        if let Some(state) = self.sources.remove(source) {
            let lane_of = |key: KeyRef<'_>| self.queue.slots.lane_map.of(source, key);
            self.queue.counters.discarded += undelivered(&state, lane_of) as u64;
        }
        self.queue.slots.lane_map.detached(source);
    }

    /// Drops a source, whose pending events another process delivers.
    pub(super) fn hand_over(&mut self, source: SourceId) {
        let before = self.queue.counters;
        self.detach(source);
        let counters = &mut self.queue.counters;
        counters.handed_over += counters.discarded - before.discarded;
        (counters.discarded, counters.deletes_discarded) = (before.discarded, before.deletes_discarded);
    }

    /// No longer accepts changes. Accepted events, including running initial lists and replays, can still be drained.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.end_intervals();
        self.ungate_all();
        for source in self.sources.ids() {
            self.sources.call_nothing_again(source);
            let walks = self.sources.get(source).map(|state| state.walks.iter());
            let repeats = |walk: &Walk| walk.cursor.as_ref().is_some_and(|cursor| !cursor.kind.is_list());
            let repeat: Vec<bool> = walks.into_iter().flatten().map(repeats).collect();
            for (lane, _) in (0..).zip(repeat).filter(|(_, repeats)| *repeats) {
                self.sources.end(source, lane);
            }
        }
    }

    /// From now on no key waits for its interval: what waits for one is delivered now.
    pub(super) fn end_intervals(&mut self) {
        self.queue.clear_intervals();
        self.queue.spacing.set_interval(None);
    }

    /// Drops all remaining events, in flight or not. Returns how many.
    pub(super) fn abandon(&mut self) -> u64 {
        self.close();
        let before = self.queue.counters.discarded;
        for source in self.sources.ids() {
            self.detach(source);
        }
        self.queue.counters.discarded - before
    }

    pub(super) fn pause(&mut self, pause: Pause) {
        self.pauses.set(pause, true);
        if pause != Pause::Swap {
            self.queue.always_keyed = true;
            self.queue.fold_all();
        }
    }

    pub(super) fn resume(&mut self, pause: Pause) {
        self.pauses.set(pause, false);
        self.queue.always_keyed = self.pauses.folds();
    }

    /// Visits every slot: for status and metrics, not for the event path.
    pub(super) fn stats(&self) -> ListenerStats {
        let queue = &self.queue;
        let waiting = |slot: &Slot| {
            slot.states()
                .nth(usize::from(slot.is_in_flight()))
                .map(|state| state.received)
        };
        ListenerStats {
            counters: queue.counters,
            pending: queue.pending(),
            in_flight: queue.in_flight(),
            failing: queue.failing,
            spaced: queue.slots.counts().spaced,
            waiting: queue.slots.counts().waiting,
            suspect: queue.slots.counts().suspect,
            held_by_rate: self.is_held_by_rate,
            keyed: queue.is_overfull(),
            bytes: queue.bytes + self.requeues.bytes(),
            requeues: self.requeues.len(),
            slowed: self.requeues.slowed(),
            dead_letters: self.letters.len(),
            dead_letters_bytes: self.letters.bytes(),
            sources: self.sources.len(),
            syncing: self.sources.iter().filter(|source| source.syncing().is_some()).count(),
            paused: !self.pauses.is_empty(),
            closed: self.closed,
            oldest_pending: queue.slots.iter().filter_map(waiting).min(),
            oldest_event: queue.slots.iter().map(|slot| slot.first.received).min(),
            oldest_in_flight: queue
                .slots
                .iter()
                .filter_map(in_flight)
                .min_by_key(|delivery| delivery.1)
                .map(describe),
        }
    }
}

/// How many objects an initial list or replay had not delivered yet.
fn undelivered(source: &AttachedSource, lane_of: impl Fn(KeyRef<'_>) -> Lane) -> usize {
    let of_walk = |(lane, walk): (Lane, &Walk)| {
        let cursor = walk.cursor.as_ref().filter(|cursor| cursor.kind.is_list());
        cursor.map_or(0, |cursor| cursor.ahead(&source.snapshot, |key| lane_of(key) == lane))
    };
    (0..).zip(&source.walks).map(of_walk).sum()
}

/// The slot with the time and number of its delivery, if it is in flight.
fn in_flight(slot: &Slot) -> Option<(&Slot, (Moment, u64))> {
    match slot.call() {
        CallState::InFlight { number, since } => Some((slot, (since, number))),
        _ => None,
    }
}

fn describe((slot, (since, _)): (&Slot, (Moment, u64))) -> InFlight {
    InFlight {
        source: slot.source,
        key: slot.key().map(KeyRef::to_key),
        event: slot.first.event(&slot.known),
        since,
        attempt: slot.calls,
    }
}
