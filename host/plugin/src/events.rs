//! The actor that tells a plugin of events.
//!
//! ```text
//! listener ──next_batch──▶ one call after the other into one instance ──done──▶ listener
//! ```
//!
//! Promises: calls are made one at a time, in the order in which the listener hands them out; orders (a swap, a drain)
//! are obeyed between two calls; an event whose call is not made or does not return goes back to the listener, so that
//! a trap, a swap or a quarantine loses nothing.

use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::{Delivery, Outcome, Pause, Pull, Token};

use crate::dead_letter_warnings::DeadLetterWarnings;
use crate::deliver::{Buffers, Ended, outcome_of_loss};
use crate::hand_over::hand_over;
use crate::noting::noting;
use crate::orders::{Inbox, Order, Successor, Woken};
use crate::place::{Filled, Place};
use crate::plugin::Takeover;
use crate::rules::Rules;
use crate::spec::{Continuation, OnFailure};
use crate::status::{PluginState, StuckOn};

/// Events taken from the listener at once, under one lock.
const BATCH_EVENTS_MAX: usize = 64;

/// How long an answer may wait for others to be handed in with it, and the actor go on without letting others run: 1
/// ms. Below what anybody notices, above what a quick handler takes for a batch.
const TURN_MAX: Duration = Duration::from_millis(1);

/// Tells one plugin of events.
pub(crate) struct Events {
    place: Place,
    inbox: Inbox,
    rules: Rules,
    buffers: Buffers,
    batch: Vec<Delivery>,
    answers: Vec<(Token, Outcome)>,
    dead_letter_warnings: DeadLetterWarnings,
    started: bool,
    draining: bool,
    /// The whole cache is to be shown again, once what was pulled is back at the listener.
    replay_due: Option<Replay>,
}

/// Why the cache is shown again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    /// Another version took over.
    Reload,
    /// The instance was lost. What it was lost over is not shown again, or it would be forever.
    Restart,
}

/// Whether the actor goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Go {
    On,
    End,
}

impl Events {
    pub(crate) fn new(place: Place, inbox: Inbox) -> Events {
        Events {
            place,
            inbox,
            rules: Rules::default(),
            buffers: Buffers::default(),
            batch: Vec::with_capacity(BATCH_EVENTS_MAX),
            answers: Vec::with_capacity(BATCH_EVENTS_MAX),
            dead_letter_warnings: DeadLetterWarnings::default(),
            started: false,
            draining: false,
            replay_due: None,
        }
    }

    /// Works until the listener is closed and drained, or the plugin is gone.
    pub(crate) async fn run(mut self) {
        while self.turn().await == Go::On {}
        self.place.end();
    }

    async fn turn(&mut self) -> Go {
        while let Some(order) = self.inbox.order() {
            self.obey(order).await;
        }
        if self.inbox.is_over() || (self.draining && self.place.is_quarantined()) {
            return Go::End;
        }
        if !self.started {
            return self.wait(None).await;
        }
        if self.place.is_empty() {
            return self.refill().await;
        }
        let now = self.place.shared.now();
        match std::mem::take(&mut self.replay_due) {
            Some(Replay::Reload) => self.place.shared.listener.replay(now),
            Some(Replay::Restart) => self.place.shared.listener.recover(now),
            None => {}
        }
        match self
            .place
            .shared
            .listener
            .next_batch(now, BATCH_EVENTS_MAX, &mut self.batch)
        {
            Pull::Delivered(_) => {
                self.work(now).await;
                tokio::task::yield_now().await;
                Go::On
            }
            Pull::WaitUntil(until) => self.wait(Some(until)).await,
            Pull::Idle => self.wait(None).await,
            Pull::Closed => Go::End,
        }
    }

    async fn wait(&mut self, until: Option<Moment>) -> Go {
        match self.inbox.wait(until).await {
            Woken::Order(order) => self.obey(order).await,
            Woken::Work | Woken::Time => {}
            Woken::End => return Go::End,
        }
        Go::On
    }

    /// Makes the batch's calls, one after the other.
    async fn work(&mut self, mut now: Moment) {
        let _running = self.place.shared.host.ticker.clock().run_guests();
        self.place.shared.conduct.review(now);
        let mut answered = now;
        let mut batch = std::mem::take(&mut self.batch);
        let mut deliveries = batch.drain(..);
        for delivery in deliveries.by_ref() {
            now = self.handle(&delivery, now).await;
            let mut is_over = false;
            if now - answered > TURN_MAX {
                self.answer(now);
                // Calls that end at once never let other tasks run.
                tokio::task::yield_now().await;
                now = self.place.shared.now();
                answered = now;
                // A lock, which is too much for each event.
                is_over = self.inbox.is_over();
            }
            while let Some(order) = self.inbox.order() {
                self.obey(order).await;
            }
            if self.place.is_empty() || self.replay_due.is_some() || is_over {
                break;
            }
        }
        self.answer(now);
        // Those that were not called for go out again, before everything else.
        let left: Vec<Token> = deliveries.map(|delivery| delivery.token).collect();
        if !left.is_empty() {
            self.place.shared.listener.give_back(left);
        }
        self.batch = batch;
        self.place.note_memory();
    }

    /// Makes one call. Returns when it ended.
    async fn handle(&mut self, delivery: &Delivery, began: Moment) -> Moment {
        let Place {
            shared,
            version,
            instance,
            ..
        } = &mut self.place;
        let rule = self.rules.of(
            delivery.source,
            &version.manifest,
            &shared.host.catalog,
            &shared.counters,
        );
        let ended = match instance {
            Some(instance) => {
                let about = || StuckOn::of(delivery, shared.now());
                noting(shared, about, self.buffers.deliver(delivery, rule, instance)).await
            }
            None => Ended::Answered(Outcome::Filtered),
        };
        let now = shared.now();
        let (outcome, loss) = match ended {
            Ended::Answered(outcome) => (Some(outcome), None),
            Ended::Lost(report) => (outcome_of_loss(&report), Some(report)),
        };
        if let Some(outcome) = outcome {
            rule.counters.count(delivery.what.as_str(), outcome.as_str());
            if outcome != Outcome::Filtered {
                shared.counters.seconds.observe((now - began).as_secs_f64());
                shared.counters.lag.observe((now - delivery.received).as_secs_f64());
            }
            if !outcome.is_ok() {
                self.note_failure(&outcome, delivery);
            }
            self.answers.push((delivery.token, outcome));
        }
        if let Some(report) = loss {
            self.place.lose(&report);
        }
        now
    }

    fn note_failure(&mut self, outcome: &Outcome, delivery: &Delivery) {
        let (Outcome::Permanent(message) | Outcome::Retryable(message) | Outcome::RetryAfter(message, _)) = outcome
        else {
            // A trap is reported with the loss of its instance.
            return;
        };
        let plugin: &str = self.place.shared.counters.plugin();
        let (event, result, attempt) = (delivery.what.as_str(), outcome.as_str(), delivery.attempt);
        let key = delivery.key().map(|key| key.to_key().to_string());
        tracing::debug!(
            plugin,
            event,
            key,
            attempt,
            result,
            message,
            "a plugin failed on an event"
        );
        if self.place.terms.spec.on_failure == OnFailure::Quarantine && matches!(outcome, Outcome::Permanent(_)) {
            self.place
                .quarantine(&format!("on-failure = \"quarantine\": {message}"));
        }
    }

    fn answer(&mut self, now: Moment) {
        if !self.answers.is_empty() {
            let dead = self.place.shared.listener.done_batch(self.answers.drain(..), now);
            if dead > 0 {
                self.dead_letter_warnings.count(&self.place.shared, dead, now);
            }
        }
    }

    /// Gets an instance for the empty place.
    async fn refill(&mut self) -> Go {
        if self.place.is_quarantined() {
            self.place.shared.listener.pause(Pause::Quarantine);
        }
        match self.place.fill(&mut self.inbox).await {
            Filled::Rebuilt if self.place.terms.spec.on_restart == Continuation::Replay => {
                self.replay_due.get_or_insert(Replay::Restart);
            }
            Filled::Rebuilt => {}
            Filled::Order(order) => self.obey(order).await,
            Filled::End => return Go::End,
        }
        Go::On
    }

    async fn obey(&mut self, order: Order) {
        match order {
            Order::Start => {
                self.started = true;
                self.place.set_usual(PluginState::Running);
            }
            Order::Swap(successor) => self.swap(*successor).await,
            Order::Amend(terms) => self.place.terms = terms,
            Order::Resume => {
                if self.place.is_quarantined() {
                    self.place.forgive();
                    self.place.shared.listener.resume(Pause::Quarantine);
                }
            }
            Order::Drain => {
                self.started = true;
                self.draining = true;
                self.place.set_usual(PluginState::Draining);
            }
        }
    }

    /// Another version takes over, with what the old one remembers. What was not called for yet is for it; a quarantine
    /// ends. If the state cannot be handed over, nothing changes.
    async fn swap(&mut self, successor: Successor) {
        let Successor {
            terms,
            version,
            mut instance,
            feed: _,
            how,
            done,
        } = successor;
        let listener = self.place.shared.listener.clone();
        listener.pause(Pause::Swap);
        // A memory that is lost already was to be made good by a replay: so is the new version's.
        let is_lost = self.place.is_empty() && terms.spec.on_restart == Continuation::Replay;
        let handed_over = match how {
            Takeover::Swap => hand_over(&mut self.place, instance.as_mut()).await,
            // What a version that failed has come to believe is nothing to go on with.
            Takeover::RollBack => Ok(None),
        };
        if handed_over.is_ok() {
            let trial = &self.place.shared.trial;
            match how {
                Takeover::Swap => trial.begin(self.place.shared.now()),
                Takeover::RollBack => trial.spare(),
            }
            self.place.take_over(terms, version, instance);
            self.rules.forget();
            listener.retry_now();
            listener.resume(Pause::Quarantine);
            if is_lost || how == Takeover::RollBack || self.place.terms.spec.on_reload == Continuation::Replay {
                self.replay_due = Some(Replay::Reload);
            }
        }
        listener.resume(Pause::Swap);
        // Whoever asked for the swap may have gone.
        let _ = done.send(handed_over);
    }
}
