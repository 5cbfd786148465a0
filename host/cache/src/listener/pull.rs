//! What the consumer takes out.

use informant_object::{Object, SourceId};

use crate::Moment;
use crate::listener::cursor::CursorKind;
use crate::listener::event::Event;
use crate::listener::options::CURSOR_STEPS_MAX;
use crate::listener::{Delivery, Listener, Next, Pull, What};

/// What a cursor came to.
enum Step {
    Show(Delivery),
    /// Something of the key waits or is in flight already.
    PassedOver,
    End,
}

impl Listener {
    /// The next delivery.
    pub(super) fn next(&mut self, now: Moment) -> Next {
        let mut steps_left = CURSOR_STEPS_MAX;
        if self.begin(now)
            && let Some(delivery) = self.take(now, &mut steps_left)
        {
            return Next::Deliver(delivery);
        }
        match self.nothing(now) {
            Pull::WaitUntil(until) => Next::WaitUntil(until),
            Pull::Closed => Next::Closed,
            Pull::Idle | Pull::Delivered(_) => Next::Idle,
        }
    }

    /// Appends up to `max` deliveries.
    pub(super) fn next_batch(&mut self, now: Moment, max: usize, out: &mut Vec<Delivery>) -> Pull {
        let before = out.len();
        if self.begin(now) {
            let mut steps_left = CURSOR_STEPS_MAX.max(max);
            out.extend(std::iter::from_fn(|| self.take(now, &mut steps_left)).take(max));
        }
        match out.len() - before {
            0 => self.nothing(now),
            delivered => Pull::Delivered(delivered),
        }
    }

    /// Makes ready what is due. Returns whether anything may be handed out.
    fn begin(&mut self, now: Moment) -> bool {
        self.told_to_wait = None;
        if self.is_paused() {
            return false;
        }
        self.settle_unattempted(now);
        self.fire_timers(now);
        true
    }

    /// What to tell a consumer that got nothing.
    fn nothing(&mut self, now: Moment) -> Pull {
        if self.is_over() {
            return Pull::Closed;
        }
        let until = match self.is_paused() {
            true => None,
            // The cursor stopped to let others have the lock.
            false if self.has_work() => Some(now),
            false => self.next_due(),
        };
        self.told_to_wait = Some(until.unwrap_or(Moment::NEVER));
        until.map_or(Pull::Idle, Pull::WaitUntil)
    }

    /// Whether nothing comes any more.
    fn is_over(&self) -> bool {
        self.closed && self.queue.slots.is_empty() && !self.sources.has_cursor()
    }

    /// Whether the consumer has to be woken; says so once.
    pub(super) fn take_wake(&mut self) -> bool {
        let Some(told) = self.told_to_wait else { return false };
        let is_sooner = || !self.is_paused() && (self.has_work() || self.next_due().is_some_and(|due| due < told));
        let wake = self.is_over() || is_sooner();
        if wake {
            self.told_to_wait = None;
        }
        wake
    }

    /// Whether something could be handed out at once.
    fn has_work(&self) -> bool {
        self.queue.slots.has_ready() || self.sources.has_cursor() || !self.queue.unattempted.is_empty()
    }

    /// When time alone will make something ready.
    fn next_due(&self) -> Option<Moment> {
        let resync = self.resync_next.filter(|_| !self.closed);
        [self.timers.next(), resync].into_iter().flatten().min()
    }

    /// Ends every back-off: what failed is handed out again at once. Attempts go on counting.
    pub(super) fn retry_now(&mut self) {
        while let Some(id) = self.timers.pop_due(Moment::NEVER) {
            self.queue.retry(id);
        }
    }

    fn fire_timers(&mut self, now: Moment) {
        while let Some(id) = self.timers.pop_due(now) {
            self.queue.retry(id);
        }
        if let (Some(due), Some(period)) = (self.resync_next, self.options.resync)
            && due <= now
            && !self.closed
        {
            self.resync_next = Some(now + period);
            self.resync(now);
        }
    }

    /// Begins a resync of every source that is not being shown anyway.
    ///
    /// Source: client-go `sharedProcessor.resyncCheckPeriod`; that a round is left out while the last one runs is ours.
    fn resync(&mut self, now: Moment) {
        let sources = self.sources.ids();
        let idle = |source: &SourceId| self.sources.get(*source).is_some_and(|state| state.cursor.is_none());
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

    /// The next delivery: what waits and what cursors show take turns, so that neither holds up the other. Deletes that
    /// waited when a replay began go before any cursor.
    fn take(&mut self, now: Moment, steps_left: &mut usize) -> Option<Delivery> {
        let cursor_first = self.cursor_turn && self.queue.draining == 0;
        self.cursor_turn = !cursor_first;
        if cursor_first && let Some(delivery) = self.take_from_cursor(now, steps_left) {
            return Some(delivery);
        }
        if let Some(delivery) = self.queue.take(now) {
            return Some(delivery);
        }
        if cursor_first {
            None
        } else {
            self.take_from_cursor(now, steps_left)
        }
    }

    fn take_from_cursor(&mut self, now: Moment, steps_left: &mut usize) -> Option<Delivery> {
        while let Some(source) = self.sources.turn() {
            *steps_left = steps_left.checked_sub(1)?;
            match self.step(source, now) {
                Step::Show(delivery) => return Some(delivery),
                Step::PassedOver => {}
                Step::End => {
                    self.sources.end(source);
                    self.settle(source, now);
                    // A source without objects is synced at once: that is ready now, and older than what other cursors
                    // show.
                    if let Some(delivery) = self.queue.take(now) {
                        return Some(delivery);
                    }
                }
            }
        }
        None
    }

    /// Moves the source's cursor by one object.
    fn step(&mut self, source: SourceId, now: Moment) -> Step {
        let Some(state) = self.sources.get_mut(source) else {
            return Step::End;
        };
        let Some(cursor) = &mut state.cursor else {
            return Step::End;
        };
        let (kind, begun) = (cursor.kind, cursor.begun);
        let Some((object, stretch_ends)) = cursor.next(&state.snapshot) else {
            return Step::End;
        };
        let was_accepted = cursor.was_accepted(&object);
        if stretch_ends {
            self.sources.end_turn();
        }
        let hash = self.queue.slots.hash(source, Some(object.key()));
        let occupied = self.queue.slots.find(hash, source, Some(object.key())).is_some();
        if occupied && kind == CursorKind::Resync {
            self.queue.counters.resync_keys_skipped += 1;
            return Step::PassedOver;
        }
        if !occupied && (was_accepted || kind == CursorKind::Recovery && self.letters.is_about(source, &object)) {
            return Step::PassedOver;
        }
        self.queue.counters.shown += 1;
        let mut event = self.event_of(source, object, kind, begun);
        if occupied {
            // Whoever has yet to be told of a delete knows nothing of what came after it.
            event.known &= event
                .what
                .key()
                .is_none_or(|key| !self.queue.ends_with_delete(source, key));
            self.queue.offer(source, event);
            return Step::PassedOver;
        }
        Step::Show(self.queue.show(hash, source, event, now))
    }

    /// What a cursor makes of an object.
    fn event_of(&mut self, source: SourceId, object: Object, kind: CursorKind, begun: Moment) -> Event {
        if kind == CursorKind::Resync {
            let what = What::Update {
                old: Some(object.clone()),
                new: object,
            };
            return Event::of_known(what, kind.reason(), begun);
        }
        if let Some(state) = self.sources.get_mut(source) {
            state.owed += 1;
        }
        let known = kind.is_again();
        Event {
            known,
            owed: true,
            ..Event::new(What::Add(object), kind.reason(), begun)
        }
    }

    /// Makes `Synced` ready once the cursor has passed everything and every key it passed was attempted.
    pub(super) fn settle(&mut self, source: SourceId, now: Moment) {
        let Some(state) = self.sources.get_mut(source) else {
            return;
        };
        let cursor_runs = state
            .cursor
            .as_ref()
            .is_some_and(|cursor| cursor.kind != CursorKind::Resync);
        let Some(kind) = state.syncing.filter(|_| !cursor_runs && state.owed == 0) else {
            return;
        };
        state.syncing = None;
        if !std::mem::replace(&mut state.synced, true) {
            self.newly_synced.push(source);
        }
        self.queue.counters.shown += 1;
        self.queue
            .offer(source, Event::of_known(What::Synced, kind.reason(), now));
    }
}
