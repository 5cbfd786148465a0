//! Processes the outcome of a delivery.

use std::time::Duration;

use informant_object::{KeyRef, SourceId};

use crate::Moment;
use crate::delivery::Awaited;
use crate::delivery::lanes::Lane;
use crate::delivery::options::{RETRY_AFTER_MAX, RETRY_ERROR_BYTES_MAX};
use crate::delivery::tick::TIMER_SOURCE;
use crate::listener::queue::Queue;
use crate::listener::retry::{Crashes, RetryState, back_off};
use crate::listener::slots::{Slot, SlotId};
use crate::listener::state::What;
use crate::listener::{DeadLetter, DeliveryOutcome, DeliveryToken, FailurePolicy, LastDelete, Listener};
use crate::seeded_bug::{SeededBug, seeded_bug};

/// A failed delivery that may be retried.
struct FailedCall {
    result: &'static str,
    error: String,
    cause: FailureCause,
    now: Moment,
}

/// Why a delivery failed.
#[derive(Clone, Copy)]
enum FailureCause {
    /// The handler reported a failure.
    Retryable,
    /// The handler asked for a retry after this time.
    WaitRequested(Duration),
    /// The call cost the handler its instance.
    Trap,
    Timeout,
}

impl FailureCause {
    /// The crashes of a state that had `before`, with this failure.
    fn crashes(self, before: Crashes) -> Crashes {
        Crashes {
            traps: before.traps + u32::from(matches!(self, FailureCause::Trap)),
            timeouts: before.timeouts + u32::from(matches!(self, FailureCause::Timeout)),
        }
    }
}

impl Listener {
    pub(super) fn done(&mut self, token: DeliveryToken, outcome: DeliveryOutcome, now: Moment) {
        self.queue.suspects.ended(token, true, now);
        let Some(id) = self.queue.answered(token) else { return };
        self.queue.space_from_end(id, now);
        let elsewhere = self.of_elsewhere(id);
        let slot = self.queue.slots.get_mut(id);
        let (source, lane) = (slot.source, slot.lane);
        // Without the body there was no call.
        let lacked_body = matches!(outcome, DeliveryOutcome::NotReady(Awaited::Body(_)));
        let owed_to_sync = !lacked_body && std::mem::take(&mut slot.first.owed_to_sync);
        let result = outcome.as_str();
        if let DeliveryOutcome::Trapped(_) | DeliveryOutcome::TimedOut(_) = outcome {
            self.suspect(id, now);
        }
        self.count_sync_crash(id, &outcome);
        let failed = |error, cause| FailedCall {
            result,
            error,
            cause,
            now,
        };
        match outcome {
            DeliveryOutcome::Ok => {
                self.queue.counters.ok += 1;
                self.cancel_requeue(id);
                self.succeed(id);
            }
            DeliveryOutcome::RequeueAfter(wait) => {
                self.queue.counters.ok += 1;
                self.queue.counters.requeued += 1;
                self.set_requeue(id, wait, now);
                self.succeed(id);
            }
            DeliveryOutcome::Filtered => {
                self.queue.counters.filtered += 1;
                self.was_not_called(id);
                self.keep_requeue(id);
                self.succeed(id);
            }
            _ if self.is_outdated_synced(id) => self.drop_outdated(id),
            DeliveryOutcome::NotReady(awaited) => {
                if lacked_body {
                    self.was_not_called(id);
                }
                self.wait_for(id, token, awaited, now);
            }
            _ if self.options.on_failure == FailurePolicy::Skip => self.skip(id),
            DeliveryOutcome::Permanent(error) => self.give_up(id, result, error, now),
            DeliveryOutcome::RetryAfter(error, wait) => {
                self.fail(
                    id,
                    failed(error, FailureCause::WaitRequested(wait.min(RETRY_AFTER_MAX))),
                );
            }
            DeliveryOutcome::Retryable(error) => self.fail(id, failed(error, FailureCause::Retryable)),
            DeliveryOutcome::Trapped(error) => self.fail(id, failed(error, FailureCause::Trap)),
            DeliveryOutcome::TimedOut(error) => self.fail(id, failed(error, FailureCause::Timeout)),
        }
        if owed_to_sync {
            self.attempted(source, lane, now);
        }
        self.drop_elsewhere(elsewhere);
    }

    /// The slot's call cost the handler its instance.
    fn suspect(&mut self, id: SlotId, now: Moment) {
        let Queue {
            slots,
            suspects,
            counters,
            ..
        } = &mut self.queue;
        let slot = slots.get(id);
        if let Some(key) = slot.key().filter(|_| self.options.limits_suspects) {
            counters.suspects_forgotten += u64::from(suspects.add(slot.source, key, now));
        }
    }

    /// Counts in a row how often `Synced` cost the handler its instance.
    fn count_sync_crash(&mut self, id: SlotId, outcome: &DeliveryOutcome) {
        let slot = self.queue.slots.get(id);
        // Each event gets here.
        if slot.key().is_some() {
            return;
        }
        let Some(state) = self.sources.get_mut(slot.source) else {
            return;
        };
        let crashes = &mut state.walk_mut(slot.lane).sync_crashes;
        match outcome {
            DeliveryOutcome::Trapped(_) => *crashes = FailureCause::Trap.crashes(*crashes),
            DeliveryOutcome::TimedOut(_) => *crashes = FailureCause::Timeout.crashes(*crashes),
            DeliveryOutcome::Ok => *crashes = Crashes::default(),
            _ => {}
        }
    }

    /// The crashes of the slot's state, with this failure.
    fn crashes(&self, slot: &Slot, cause: FailureCause) -> Crashes {
        let of_sync = self.sources.get(slot.source).filter(|_| slot.key().is_none());
        match (of_sync, &slot.retry) {
            // Counted already.
            (Some(state), _) => state.walk(slot.lane).sync_crashes,
            (None, Some(retry)) => cause.crashes(retry.crashes),
            (None, None) => cause.crashes(Crashes::default()),
        }
    }

    /// An object has held up the handler.
    pub(super) fn held_up(&mut self, source: SourceId, key: KeyRef<'_>, began: Moment, now: Moment) {
        if self.options.limits_suspects {
            let Queue { suspects, counters, .. } = &mut self.queue;
            counters.suspects_forgotten += u64::from(suspects.add(source, key, now));
            suspects.charge(began, now);
        }
    }

    /// Takes back a delivery whose call was not made.
    pub(super) fn give_back(&mut self, token: DeliveryToken) {
        self.queue.suspects.ended(token, false, Moment::ZERO);
        let Some(id) = self.queue.answered(token) else { return };
        let elsewhere = self.of_elsewhere(id);
        if self.is_outdated_synced(id) {
            self.queue.counters.delivered -= 1;
            self.drop_outdated(id);
        } else {
            self.was_not_called(id);
            self.queue.give_back(id);
        }
        self.drop_elsewhere(elsewhere);
    }

    /// The call of a delivery was begun, and has no outcome: its effects were dropped. Whatever the policy is, it is
    /// made again at once, and was no attempt.
    pub(super) fn interrupted(&mut self, token: DeliveryToken, now: Moment) {
        self.queue.suspects.ended(token, true, now);
        let Some(id) = self.queue.answered(token) else { return };
        self.queue.space_from_end(id, now);
        let elsewhere = self.of_elsewhere(id);
        let slot = self.queue.slots.get_mut(id);
        let (source, lane) = (slot.source, slot.lane);
        let owed_to_sync = std::mem::take(&mut slot.first.owed_to_sync);
        if self.is_outdated_synced(id) {
            self.drop_outdated(id);
        } else {
            let call = FailedCall {
                result: "interrupted",
                error: "another replica acts".to_owned(),
                cause: FailureCause::WaitRequested(Duration::ZERO),
                now,
            };
            self.retry_later(id, call);
        }
        if owed_to_sync {
            self.attempted(source, lane, now);
        }
        self.drop_elsewhere(elsewhere);
    }

    /// No delivery in flight will have an outcome. Drops the runs of timers: who acts next has its own.
    pub(super) fn stand_by(&mut self, now: Moment) {
        self.queue.discard(|slot| slot.source == TIMER_SOURCE);
        for token in self.queue.in_flight_tokens() {
            self.interrupted(token, now);
        }
    }

    /// The slot was delivered, but its handler was not called: that starts no interval, and leaves the call to others.
    fn was_not_called(&mut self, id: SlotId) {
        self.queue.was_not_called(id);
        if let Some(rate) = &mut self.call_rate {
            rate.give_back();
        }
    }

    /// Whether the slot holds a `Synced` of a source that is being replayed since: another `Synced` will follow.
    fn is_outdated_synced(&self, id: SlotId) -> bool {
        let slot = self.queue.slots.get(id);
        let replaying = || {
            self.sources
                .get(slot.source)
                .is_some_and(|state| state.walk(slot.lane).syncing.is_some())
        };
        matches!(slot.first.what, What::Synced) && replaying()
    }

    fn drop_outdated(&mut self, id: SlotId) {
        self.queue.counters.coalesced += 1;
        self.queue.end(id, false);
    }

    fn succeed(&mut self, id: SlotId) {
        self.note_tick(id, true);
        let slot = self.queue.slots.get(id);
        if let Some(key) = slot.key() {
            self.letters.record_success(slot.source, key);
        }
        self.queue.end(id, true);
    }

    fn skip(&mut self, id: SlotId) {
        self.cancel_requeue(id);
        let slot = self.queue.slots.get(id);
        if let Some(key) = slot.key() {
            self.letters
                .record_unaccepted(slot.source, key, slot.first.end().is_some());
        }
        self.queue.counters.skipped += 1;
        self.note_tick(id, false);
        self.queue.end(id, false);
    }

    /// Retries later, unless this was the last attempt and no newer state justifies another one.
    fn fail(&mut self, id: SlotId, call: FailedCall) {
        let slot = self.queue.slots.get(id);
        let is_last = self.is_last_attempt(slot, call.cause);
        // A repeat of the same state does not justify another attempt: it is delivered separately, after the dead
        // letter.
        let is_news = slot.rest.iter().any(|next| !next.repeats(&slot.first));
        let superseded = is_news
            && slot
                .rest
                .front()
                .is_some_and(|next| slot.first.takes(&slot.known, next));
        if seeded_bug(SeededBug::FailureNotRetried) {
            return self.skip(id);
        }
        if is_last && !superseded {
            return self.give_up(id, call.result, call.error, call.now);
        }
        self.retry_later(id, call);
    }

    /// Whether the event becomes a dead letter if no newer state follows it.
    fn is_last_attempt(&self, slot: &Slot, cause: FailureCause) -> bool {
        let retry = slot.retry.as_ref();
        let attempts = retry.map_or(0, |retry| retry.attempts);
        let is_exhausted = match (cause, self.options.retry.attempts) {
            (FailureCause::WaitRequested(_), _) => false,
            _ if self.crashes(slot, cause).is_exhausted() => true,
            (_, 0) => false,
            (_, attempts_max) => attempts + 1 >= attempts_max,
        };
        is_exhausted || (slot.first.end().is_some() && self.has_too_many_retried_deletes(slot))
    }

    /// Whether more keys besides `slot` are under retry than there are objects and failed deletes are allowed for.
    fn has_too_many_retried_deletes(&self, slot: &Slot) -> bool {
        let objects: usize = self.sources.iter().map(|source| source.snapshot.len()).sum();
        let others = self.queue.failing - usize::from(slot.retry.is_some());
        others >= objects + self.options.retried_deletes_max
    }

    /// Starts the back-off of a failed delivery.
    fn retry_later(&mut self, id: SlotId, call: FailedCall) {
        let FailedCall {
            result,
            mut error,
            cause,
            now,
        } = call;
        error.truncate(error.floor_char_boundary(RETRY_ERROR_BYTES_MAX));
        self.retry_requeue(id);
        let slot = self.queue.slots.get_mut(id);
        // A wait that the handler asked for is not an attempt, and does not lengthen the next back-off.
        let counted = u32::from(!matches!(cause, FailureCause::WaitRequested(_)));
        slot.calls = slot.calls.saturating_add(1);
        slot.failures = slot.failures.saturating_add(counted);
        let before = slot.retry.as_ref();
        let (since, calls) = before.map_or((now, 0), |retry| (retry.since, retry.failures));
        let (attempts, crashes) = before.map_or_else(Default::default, |retry| (retry.attempts, retry.crashes));
        let failures = slot.failures;
        let wait = match cause {
            FailureCause::WaitRequested(wait) => wait,
            FailureCause::Retryable | FailureCause::Trap | FailureCause::Timeout => {
                back_off(&self.options.retry, failures, self.queue.slots.random(id))
            }
        };
        let slot = self.queue.slots.get(id);
        let interval_end = slot.key().and(self.queue.spacing.until(slot.hash));
        let retry = RetryState {
            since,
            until: interval_end.unwrap_or(Moment::ZERO).max(now + wait),
            failures: calls.saturating_add(1),
            attempts: attempts.saturating_add(counted),
            crashes: cause.crashes(crashes),
            is_requested: counted == 0,
            result,
            error: error.into_boxed_str(),
        };
        self.timers.set(retry.until, id);
        self.queue.back_off(id, Box::new(retry));
    }

    /// Makes the event a dead letter. Events behind it are delivered as usual.
    fn give_up(&mut self, id: SlotId, result: &'static str, error: String, now: Moment) {
        self.cancel_requeue(id);
        let slot = self.queue.slots.get(id);
        // A dead letter is about an object: `Synced` and `Tick` have none.
        let Some(key) = slot.key().map(KeyRef::to_key) else {
            return self.skip(id);
        };
        let attempts = slot.retry.as_ref().map_or(0, |retry| retry.attempts) + 1;
        let state = &slot.first;
        let evicted = self.letters.add(DeadLetter {
            source: slot.source,
            key,
            event: state.event(&slot.known),
            resource_version: state.object().map(|object| object.version().as_str().to_owned()),
            reason: state.reason,
            error,
            result,
            attempts,
            received: state.received,
            given_up: now,
            age_before: Duration::ZERO,
            delete: state.end().map(|end| LastDelete {
                last: end.last.clone(),
                final_state_unknown: end.final_state_unknown,
            }),
        });
        self.queue.counters.dead_lettered += 1;
        self.queue.counters.dead_letters_evicted += evicted;
        if seeded_bug(SeededBug::DeadLetterBlocksKey) {
            // Nothing ever ends this back-off.
            let retry = RetryState {
                since: now,
                until: Moment::NEVER,
                failures: attempts,
                attempts,
                crashes: Crashes::default(),
                is_requested: false,
                result,
                error: Box::default(),
            };
            return self.queue.back_off(id, Box::new(retry));
        }
        self.queue.end(id, false);
    }

    /// Counts keys as attempted that vanished before their delivery, so that they do not keep their source from
    /// syncing.
    pub(super) fn count_vanished_as_synced(&mut self, now: Moment) {
        while let Some((source, lane)) = self.queue.vanished_unattempted.pop() {
            self.attempted(source, lane, now);
        }
    }

    /// A key that the source's cursor in `lane` has passed was attempted.
    fn attempted(&mut self, source: SourceId, lane: Lane, now: Moment) {
        let Some(state) = self.sources.get_mut(source) else {
            return;
        };
        let walk = state.walk_mut(lane);
        // None: a list that this one has replaced counted it.
        let Some(left) = walk.unattempted.checked_sub(1) else {
            return;
        };
        walk.unattempted = left;
        if left == 0 {
            self.settle(source, now);
        }
    }

    /// Whether an event of the key is pending or in flight.
    pub(super) fn is_busy(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        self.queue.find(source, key).is_some()
    }
}
