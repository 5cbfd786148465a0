//! Processes the outcome of a delivery.

use std::time::Duration;

use informant_object::{KeyRef, SourceId};

use crate::Moment;
use crate::listener::dead_letter::Failure;
use crate::listener::event::PendingEvent;
use crate::listener::options::RETRY_AFTER_MAX;
use crate::listener::retry::back_off;
use crate::listener::slots::SlotId;
use crate::listener::{DeliveryOutcome, DeliveryToken, FailurePolicy, Listener, Notification};
use crate::seeded_bug::{SeededBug, seeded_bug};

impl Listener {
    pub(super) fn done(&mut self, token: DeliveryToken, outcome: DeliveryOutcome, now: Moment) {
        let Some(id) = self.queue.answered(token) else { return };
        let slot = self.queue.slots.get_mut(id);
        let (source, counts_for_sync) = (slot.source, std::mem::take(&mut slot.head.counts_for_sync));
        let result = outcome.as_str();
        match outcome {
            DeliveryOutcome::Ok => {
                self.queue.counters.ok += 1;
                self.succeed(id);
            }
            DeliveryOutcome::Filtered => {
                self.queue.counters.filtered += 1;
                self.succeed(id);
            }
            _ if self.is_outdated_synced(id) => self.drop_outdated(id),
            _ if self.options.on_failure == FailurePolicy::Skip => self.skip(id),
            DeliveryOutcome::Permanent(error) => self.give_up(id, result, error, now),
            DeliveryOutcome::RetryAfter(error, wait) => {
                self.fail(id, result, error, Some(wait.min(RETRY_AFTER_MAX)), now);
            }
            DeliveryOutcome::Retryable(error) | DeliveryOutcome::Trapped(error) | DeliveryOutcome::TimedOut(error) => {
                self.fail(id, result, error, None, now);
            }
        }
        if counts_for_sync {
            self.attempted(source, now);
        }
    }

    /// Takes back a delivery whose call was not made.
    pub(super) fn give_back(&mut self, token: DeliveryToken) {
        let Some(id) = self.queue.answered(token) else { return };
        if self.is_outdated_synced(id) {
            self.queue.counters.delivered -= 1;
            self.drop_outdated(id);
        } else {
            self.queue.give_back(id);
        }
    }

    /// Whether the slot holds a `Synced` of a source that is being replayed since: another `Synced` will follow.
    fn is_outdated_synced(&self, id: SlotId) -> bool {
        let slot = self.queue.slots.get(id);
        let replaying = || {
            self.sources
                .get(slot.source)
                .is_some_and(|state| state.syncing.is_some())
        };
        matches!(slot.head.notification, Notification::Synced) && replaying()
    }

    fn drop_outdated(&mut self, id: SlotId) {
        self.queue.counters.coalesced += 1;
        self.queue.end(id, false);
    }

    fn succeed(&mut self, id: SlotId) {
        let slot = self.queue.slots.get(id);
        if let Some(key) = slot.head.notification.key() {
            self.letters.record_success(slot.source, key);
        }
        self.queue.end(id, true);
    }

    fn skip(&mut self, id: SlotId) {
        let slot = self.queue.slots.get(id);
        if let Some(key) = slot.head.notification.key() {
            self.letters.record_unaccepted(slot.source, key, slot.head.is_delete());
        }
        self.queue.counters.skipped += 1;
        self.queue.end(id, false);
    }

    /// Retries later, unless this was the last attempt and no newer state justifies another one.
    fn fail(&mut self, id: SlotId, result: &'static str, error: String, wait: Option<Duration>, now: Moment) {
        let slot = self.queue.slots.get(id);
        let is_last = slot.attempts + 1 >= self.options.retry.attempts;
        // A repeat of the same state does not justify another attempt: it is delivered separately, after the dead
        // letter.
        let is_news = slot.following.iter().any(|next| !next.repeats(&slot.head));
        let folds = |next: &PendingEvent| !slot.head.is_delete() || slot.head.is_same_delete(next);
        let superseded = is_news && slot.following.front().is_some_and(folds);
        if seeded_bug(SeededBug::FailureNotRetried) {
            return self.skip(id);
        }
        if is_last && !superseded {
            return self.give_up(id, result, error, now);
        }
        self.queue.back_off(id);
        let failures = self.queue.slots.get(id).failures;
        let wait = wait.unwrap_or_else(|| back_off(&self.options.retry, failures, self.queue.slots.random(id)));
        self.timers.set(now + wait, id);
    }

    /// Makes the event a dead letter. Events behind it are delivered as usual.
    fn give_up(&mut self, id: SlotId, result: &'static str, error: String, now: Moment) {
        let slot = self.queue.slots.get(id);
        if slot.head.notification.key().is_none() {
            // A dead letter is about an object, and `Synced` has none.
            return self.skip(id);
        }
        let (source, event, attempts) = (slot.source, &slot.head, slot.attempts + 1);
        let evicted = self.letters.add(Failure {
            source,
            event,
            result,
            error,
            attempts,
            now,
        });
        self.queue.counters.dead_lettered += 1;
        self.queue.counters.dead_letters_evicted += evicted;
        if seeded_bug(SeededBug::DeadLetterBlocksKey) {
            return self.queue.back_off(id);
        }
        self.queue.end(id, false);
    }

    /// Counts keys as attempted that vanished before their delivery, so that they do not keep their source from
    /// syncing.
    pub(super) fn count_vanished_as_synced(&mut self, now: Moment) {
        while let Some(source) = self.queue.vanished_unattempted.pop() {
            self.attempted(source, now);
        }
    }

    /// A key that the source's cursor has passed was attempted.
    fn attempted(&mut self, source: SourceId, now: Moment) {
        let Some(state) = self.sources.get_mut(source) else {
            return;
        };
        state.unattempted -= 1;
        if state.unattempted == 0 {
            self.settle(source, now);
        }
    }

    /// Whether an event of the key is pending or in flight.
    pub(super) fn is_busy(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        self.queue.find(source, Some(key)).is_some()
    }
}
