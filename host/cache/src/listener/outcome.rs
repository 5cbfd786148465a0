//! What becomes of a delivery that was answered.

use std::time::Duration;

use informant_object::{KeyRef, SourceId};

use crate::Moment;
use crate::listener::dead_letter::Failure;
use crate::listener::event::Event;
use crate::listener::options::RETRY_AFTER_MAX;
use crate::listener::retry::back_off;
use crate::listener::slots::SlotId;
use crate::listener::{Listener, OnFailure, Outcome, Token, What};
use crate::seeded_bug::{SeededBug, seeded_bug};

impl Listener {
    pub(super) fn done(&mut self, token: Token, outcome: Outcome, now: Moment) {
        let Some(id) = self.queue.answered(token) else { return };
        let slot = self.queue.slots.get_mut(id);
        let (source, owed) = (slot.source, std::mem::take(&mut slot.head.owed));
        let result = outcome.as_str();
        match outcome {
            Outcome::Ok => {
                self.queue.counters.ok += 1;
                self.succeed(id);
            }
            Outcome::Filtered => {
                self.queue.counters.filtered += 1;
                self.succeed(id);
            }
            _ if self.is_outdated_synced(id) => self.drop_outdated(id),
            _ if self.options.on_failure == OnFailure::Skip => self.skip(id),
            Outcome::Permanent(error) => self.give_up(id, result, error, now),
            Outcome::RetryAfter(error, wait) => {
                self.fail(id, result, error, Some(wait.min(RETRY_AFTER_MAX)), now);
            }
            Outcome::Retryable(error) | Outcome::Trapped(error) | Outcome::TimedOut(error) => {
                self.fail(id, result, error, None, now);
            }
        }
        if owed {
            self.attempted(source, now);
        }
    }

    /// Takes back a delivery that was not made.
    pub(super) fn give_back(&mut self, token: Token) {
        let Some(id) = self.queue.answered(token) else { return };
        if self.is_outdated_synced(id) {
            self.queue.counters.delivered -= 1;
            self.drop_outdated(id);
        } else {
            self.queue.give_back(id);
        }
    }

    /// Whether the slot holds a `Synced` although the source is being shown again since: another one will follow.
    fn is_outdated_synced(&self, id: SlotId) -> bool {
        let slot = self.queue.slots.get(id);
        let shown_again = || {
            self.sources
                .get(slot.source)
                .is_some_and(|state| state.syncing.is_some())
        };
        matches!(slot.head.what, What::Synced) && shown_again()
    }

    fn drop_outdated(&mut self, id: SlotId) {
        self.queue.counters.coalesced += 1;
        self.queue.end(id, false);
    }

    fn succeed(&mut self, id: SlotId) {
        let slot = self.queue.slots.get(id);
        if let Some(key) = slot.head.what.key() {
            self.letters.succeeded(slot.source, key);
        }
        self.queue.end(id, true);
    }

    fn skip(&mut self, id: SlotId) {
        let slot = self.queue.slots.get(id);
        if let Some(key) = slot.head.what.key() {
            self.letters.skipped(slot.source, key, slot.head.is_delete());
        }
        self.queue.counters.skipped += 1;
        self.queue.end(id, false);
    }

    /// Tries again later, unless that was the last attempt and nothing newer makes another one worth while.
    fn fail(&mut self, id: SlotId, result: &'static str, error: String, wait: Option<Duration>, now: Moment) {
        let slot = self.queue.slots.get(id);
        let is_last = slot.attempts + 1 >= self.options.retry.attempts;
        // What only shows the same again is no reason to try once more: it is told as itself, behind the letter.
        let is_news = slot.rest.iter().any(|next| !next.repeats(&slot.head));
        let folds = |next: &Event| !slot.head.is_delete() || next.is_delete();
        let superseded = is_news && slot.rest.front().is_some_and(folds);
        if seeded_bug(SeededBug::FailureForgotten) {
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

    /// Makes the event a dead letter. What waits behind it goes out as usual.
    fn give_up(&mut self, id: SlotId, result: &'static str, error: String, now: Moment) {
        let slot = self.queue.slots.get(id);
        if slot.head.what.key().is_none() {
            // A letter is about an object, and `Synced` is about none.
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

    /// Keys that vanished before they were attempted keep no source from being synced.
    pub(super) fn settle_unattempted(&mut self, now: Moment) {
        while let Some(source) = self.queue.unattempted.pop() {
            self.attempted(source, now);
        }
    }

    /// A key that the source's cursor had passed was attempted.
    fn attempted(&mut self, source: SourceId, now: Moment) {
        let Some(state) = self.sources.get_mut(source) else {
            return;
        };
        state.owed -= 1;
        if state.owed == 0 {
            self.settle(source, now);
        }
    }

    /// Whether something of the key waits or is in flight.
    pub(super) fn is_busy(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        self.queue.find(source, Some(key)).is_some()
    }
}
