//! The actor that delivers events to a plugin.
//!
//! ```text
//! listener ──next_batch──▶ one call after the other into one instance ──done──▶ listener
//! ```
//!
//! Promises: calls are made one at a time, in the listener's order; commands (swap, drain …) are handled between two
//! calls; an event whose call is not made or does not return goes back to the listener, so that a trap, a swap or a
//! quarantine loses nothing.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::{ChangedSelection, Delivery, DeliveryOutcome, DeliveryToken, NextBatch, Pause};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_object::KeyRef;

use crate::actor::PluginContext;
use crate::actor::config::PluginConfig;
use crate::actor::deliver::{Buffers, DeliveryResult, outcome_of_loss};
use crate::actor::mailbox::{ActorCommand, CandidateInstance, Mailbox, Step, Wakeup};
use crate::actor::slot::{InstanceSlot, Refill};
use crate::actor::source_rules::SourceRules;
use crate::actor::state_transfer::{TransferredState, transfer_state};
use crate::hostcalls::key_value::KvHandled;
use crate::hostcalls::kv::CallChanges;
use crate::instance::Instance;
use crate::metrics::EventCounters;
use crate::plugin::SwapKind;
use crate::spec::{OnFailure, ReplayPolicy};
use crate::status::{PluginState, StuckOn, track_stuck_call};
use crate::writes::{HandledEvent, WrittenSoFar};

/// Events taken from the listener at once, under one lock.
const BATCH_EVENTS_MAX: usize = 64;

/// How long outcomes may wait to be reported in one batch, and how long the actor runs without yielding: 1 ms. Too
/// short to notice, but longer than a quick handler takes for a batch.
const FLUSH_MAX: Duration = Duration::from_millis(1);

/// Delivers events to one plugin.
pub(crate) struct EventActor {
    slot: InstanceSlot,
    mailbox: Mailbox,
    rules: SourceRules,
    buffers: Buffers,
    batch: Vec<Delivery>,
    answers: Vec<(DeliveryToken, DeliveryOutcome)>,
    /// An outcome that is not reported yet is a failure.
    has_failed: bool,
    started: bool,
    draining: bool,
    /// The cache must be replayed, once the pulled events are back at the listener.
    replay_due: Option<Replay>,
    /// The plugin's section selects other objects; the handler receives the difference after that.
    reselection_due: bool,
}

/// Why the cache is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replay {
    /// Another version was swapped in.
    Reload,
    /// The instance was lost. The event that caused it is not replayed, or the loss would repeat forever.
    Restart,
}

impl EventActor {
    pub(crate) fn new(slot: InstanceSlot, mailbox: Mailbox) -> EventActor {
        EventActor {
            rules: SourceRules::new(slot.config.spec.selection.clone()),
            slot,
            mailbox,
            buffers: Buffers::default(),
            batch: Vec::with_capacity(BATCH_EVENTS_MAX),
            answers: Vec::with_capacity(BATCH_EVENTS_MAX),
            has_failed: false,
            started: false,
            draining: false,
            replay_due: None,
            reselection_due: false,
        }
    }

    /// Runs until the listener is closed and drained, or the plugin is dropped.
    pub(crate) async fn run(mut self) {
        while self.step().await == Step::Continue {}
        self.slot.end();
        self.slot.context.writes.close();
    }

    async fn step(&mut self) -> Step {
        while let Some(command) = self.mailbox.try_next() {
            self.handle_command(command).await;
        }
        if self.mailbox.is_over() || (self.draining && self.is_suspended()) {
            return Step::Stop;
        }
        if !self.started {
            return self.wait(None).await;
        }
        if self.slot.is_empty() {
            // A paused guest is not called, not even to initialize an instance.
            if self.slot.context.is_paused() && !self.slot.is_quarantined() {
                return self.wait(None).await;
            }
            return self.refill().await;
        }
        if self.is_full() {
            return self.wait(None).await;
        }
        let now = self.slot.context.now();
        match std::mem::take(&mut self.replay_due) {
            Some(Replay::Reload) => self.slot.context.listener.replay(now),
            Some(Replay::Restart) => self.slot.context.listener.recover(0, now),
            None => {}
        }
        if std::mem::take(&mut self.reselection_due) {
            self.reselect(now);
        }
        match self
            .slot
            .context
            .listener
            .next_batch(now, BATCH_EVENTS_MAX, &mut self.batch)
        {
            NextBatch::Delivered(_) => {
                self.work(now).await;
                tokio::task::yield_now().await;
                Step::Continue
            }
            NextBatch::WaitUntil(until) => self.wait(Some(until)).await,
            NextBatch::Idle => self.wait(None).await,
            NextBatch::Closed => Step::Stop,
        }
    }

    /// Whether nothing is delivered until somebody resumes the plugin.
    fn is_suspended(&self) -> bool {
        self.slot.is_quarantined() || self.slot.context.is_paused()
    }

    async fn wait(&mut self, until: Option<Moment>) -> Step {
        match self.mailbox.wait(until).await {
            Wakeup::Command(command) => self.handle_command(command).await,
            Wakeup::Work | Wakeup::Time => {}
            Wakeup::End => return Step::Stop,
        }
        Step::Continue
    }

    /// Makes the calls of one batch, one after the other.
    async fn work(&mut self, mut now: Moment) {
        let _running = self.slot.context.host.ticker.clock().run_guests();
        self.slot.context.overruns.expire(now);
        let mut answered = now;
        let mut batch = std::mem::take(&mut self.batch);
        let mut deliveries = batch.drain(..);
        for delivery in deliveries.by_ref() {
            let has_committed;
            (now, has_committed) = self.handle(&delivery, now).await;
            let (mut is_over, mut is_paused) = (false, false);
            if now - answered > FLUSH_MAX {
                self.answer(now);
                // Calls that return at once never yield to other tasks.
                tokio::task::yield_now().await;
                now = self.slot.context.now();
                answered = now;
                // Takes a lock, which is too expensive for each event.
                is_over = self.mailbox.is_over();
            }
            while let Some(command) = self.mailbox.try_next() {
                self.handle_command(command).await;
                is_paused = self.slot.context.is_paused();
            }
            is_paused |= has_committed && self.is_full();
            if self.slot.is_empty() || self.is_redelivery_due() || is_over || is_paused {
                break;
            }
        }
        self.answer(now);
        // Events without a call are delivered again, before all others.
        let left: Vec<DeliveryToken> = deliveries.map(|delivery| delivery.token).collect();
        if !left.is_empty() {
            self.slot.context.listener.give_back(left);
        }
        self.batch = batch;
        self.slot.update_memory();
    }

    /// Whether pulled events must go back to the listener before the next call.
    fn is_redelivery_due(&self) -> bool {
        self.replay_due.is_some() || self.reselection_due
    }

    /// The plugin's section selects other objects: its handler receives the difference.
    fn reselect(&mut self, now: Moment) {
        let InstanceSlot { context, version, .. } = &self.slot;
        let sources = context.host.catalog.all().into_iter().map(|source| source.id());
        let attached = sources.filter(|source| context.listener.is_attached(*source));
        let changed = attached.map(|source| {
            let rules = &mut self.rules;
            let rule = rules.of(source, &version.manifest, &context.host.catalog, &context.counters);
            let selection: Arc<dyn ChangedSelection> = Arc::new(rule.objects.clone());
            (source, selection)
        });
        context.listener.reselect(changed.collect(), None, now);
    }

    /// Applies the selection of `config`.
    fn select(&mut self, config: &PluginConfig) {
        self.reselection_due |= self.rules.select(&config.spec.selection);
    }

    /// Whether too much of what calls committed waits to be written.
    fn is_full(&self) -> bool {
        self.slot.context.writes.is_full() || self.slot.context.kv.is_full()
    }

    /// Makes one call. Returns when it ended, and whether its event ends later, with what the call committed.
    async fn handle(&mut self, delivery: &Delivery, began: Moment) -> (Moment, bool) {
        let InstanceSlot {
            context,
            version,
            instance,
            activation,
            ..
        } = &mut self.slot;
        let rule = self.rules.of(
            delivery.source,
            &version.manifest,
            &context.host.catalog,
            &context.counters,
        );
        let ended = match instance {
            Some(instance) => {
                let about = || StuckOn::of(delivery, context.now());
                track_stuck_call(context, about, self.buffers.deliver(delivery, rule, instance)).await
            }
            None => DeliveryResult::Answered(DeliveryOutcome::Filtered),
        };
        let now = context.now();
        let (outcome, loss) = match ended {
            DeliveryResult::Answered(outcome) => (Some(outcome), None),
            DeliveryResult::Lost(report) => (outcome_of_loss(&report), Some(report)),
        };
        let mut has_committed = false;
        if let Some(outcome) = outcome {
            // Also after a failure: what it leaves behind must not be committed with the next delivery.
            let writes = instance.as_mut().map(Instance::take_writes).unwrap_or_default();
            let has_written = (outcome.is_ok() || seeded_bug(SeededBug::FailedCallWrites)) && !writes.is_empty();
            if outcome != DeliveryOutcome::Filtered {
                context.counters.seconds.observe((now - began).as_secs_f64());
                context.counters.lag.observe((now - delivery.received).as_secs_f64());
            }
            if let Some(metrics) = instance.as_mut().and_then(Instance::take_metrics)
                && outcome.is_ok()
            {
                context.series.commit(metrics);
            }
            let changes = instance.as_mut().and_then(Instance::take_changes);
            let changes = changes.filter(|_| outcome.is_ok());
            has_committed = has_written || changes.is_some();
            if has_written {
                // Its end comes with its writes, which may fail.
                if let Some(changes) = changes {
                    changes.commit(None, || {});
                }
                let event = HandledEvent {
                    token: delivery.token,
                    source: delivery.source,
                    key: delivery.key().map(KeyRef::to_key),
                    event: delivery.notification.as_str(),
                    attempt: delivery.attempt,
                    activation: *activation,
                    counters: rule.counters.clone(),
                    outcome,
                    written: WrittenSoFar::default(),
                };
                context.writes.commit(event, writes);
            } else if let Some(changes) = changes {
                commit_changes(context, changes, delivery, rule.counters.clone(), outcome);
            } else {
                rule.counters.count(delivery.notification.as_str(), outcome.as_str());
                if !outcome.is_ok() {
                    // To ask for a retry after some time is not worth a warning.
                    self.has_failed |= !matches!(outcome, DeliveryOutcome::RetryAfter(..));
                    self.record_failure(&outcome, delivery);
                }
                self.answers.push((delivery.token, outcome));
            }
        }
        if let Some(report) = loss {
            self.slot.record_loss(&report);
        }
        (now, has_committed)
    }

    fn record_failure(&mut self, outcome: &DeliveryOutcome, delivery: &Delivery) {
        if tracing::enabled!(tracing::Level::DEBUG) {
            let key = delivery.key().map(KeyRef::to_key);
            let (event, attempt) = (delivery.notification.as_str(), delivery.attempt);
            let context = &self.slot.context;
            context.log_failure(delivery.source, key.as_ref(), event, attempt, outcome);
        }
        if let DeliveryOutcome::Permanent(message) = outcome
            && self.slot.config.spec.on_failure == OnFailure::Quarantine
        {
            self.slot.quarantine(&format!("on-failure = \"quarantine\": {message}"));
        }
    }

    fn answer(&mut self, now: Moment) {
        if !self.answers.is_empty() {
            let has_failed = std::mem::take(&mut self.has_failed);
            self.slot.context.answer(self.answers.drain(..), has_failed, now);
        }
    }

    /// Gets an instance for the empty slot.
    async fn refill(&mut self) -> Step {
        if self.slot.is_quarantined() {
            self.slot.context.listener.pause(Pause::Quarantine);
        }
        match self.slot.refill(&mut self.mailbox).await {
            Refill::Rebuilt if self.slot.config.spec.on_restart == ReplayPolicy::Replay => {
                self.replay_due.get_or_insert(Replay::Restart);
            }
            Refill::Rebuilt => {}
            Refill::Command(command) => self.handle_command(command).await,
            Refill::End => return Step::Stop,
        }
        Step::Continue
    }

    async fn handle_command(&mut self, command: ActorCommand) {
        match command {
            ActorCommand::Start => {
                self.started = true;
                self.slot.set_steady_state(PluginState::Running);
            }
            ActorCommand::Swap(candidate) => self.swap(*candidate).await,
            ActorCommand::Reconfigure(config) => {
                self.select(&config);
                self.slot.config = config;
            }
            // The listener is paused already; events of the batch are given back.
            ActorCommand::Pause => {}
            ActorCommand::Resume => {
                if self.slot.is_quarantined() {
                    self.slot.reset();
                    self.slot.context.listener.resume(Pause::Quarantine);
                }
            }
            ActorCommand::Quarantine { activation, message } => {
                if activation == self.slot.activation && !self.slot.is_quarantined() {
                    self.slot.quarantine(&format!("on-failure = \"quarantine\": {message}"));
                }
            }
            ActorCommand::Drain => {
                self.started = true;
                self.draining = true;
                self.slot.set_steady_state(PluginState::Draining);
            }
        }
    }

    /// Swaps in another version with the old one's state. Pending events are delivered to the new version; a quarantine
    /// ends. If the new version cannot restore the state, nothing changes. If the old one loses it in `save`, the new
    /// version starts without it and receives a replay: nothing could be kept by refusing it.
    async fn swap(&mut self, candidate: CandidateInstance) {
        let CandidateInstance {
            config,
            version,
            mut instance,
            feed: _,
            kind,
            done,
        } = candidate;
        let listener = self.slot.context.listener.clone();
        listener.pause(Pause::Swap);
        // The old instance was lost and would have received a replay; the new version receives it instead.
        let is_lost = self.slot.is_empty() && config.spec.on_restart == ReplayPolicy::Replay;
        let transferred = match kind {
            SwapKind::Reload => transfer_state(&mut self.slot, instance.as_mut()).await,
            // The state of a version that failed is not trusted.
            SwapKind::RollBack => Ok(TransferredState::None),
        };
        if let Ok(transferred) = &transferred {
            let is_lost = is_lost || matches!(transferred, TransferredState::LostInSave);
            let probation = &self.slot.context.probation;
            match kind {
                SwapKind::Reload => probation.begin(self.slot.context.now()),
                SwapKind::RollBack => probation.skip(),
            }
            self.select(&config);
            self.slot.activate(config, version, instance);
            self.rules.forget();
            listener.retry_now();
            self.slot.context.end_slow_downs();
            listener.resume(Pause::Quarantine);
            if is_lost || kind == SwapKind::RollBack || self.slot.config.spec.on_reload == ReplayPolicy::Replay {
                self.replay_due = Some(Replay::Reload);
            }
        }
        listener.resume(Pause::Swap);
        // The caller of the swap may be gone.
        let _ = done.send(transferred.map(|transferred| transferred.bytes()));
    }
}

/// Commits what a successful call changed in `kv`. The event ends when the changes are about to be persisted.
fn commit_changes(
    context: &Arc<PluginContext>,
    changes: CallChanges,
    delivery: &Delivery,
    counters: EventCounters,
    outcome: DeliveryOutcome,
) {
    let (shared, token, event) = (Arc::clone(context), delivery.token, delivery.notification.as_str());
    let report = move || {
        counters.count(event, outcome.as_str());
        shared.answer([(token, outcome)], false, shared.now());
    };
    let handled = KvHandled {
        source: delivery.source,
        key: delivery.key().map(KeyRef::to_key),
        report: Box::new(report),
    };
    let waker = Arc::clone(context);
    changes.commit(Some(handled), move || waker.writes.wake_actor());
}
