//! Makes the calls of one of a plugin's instances that handle events.
//!
//! ```text
//! EventActor ──batch──▶ one call after the other into the instance ──done──▶ listener
//! ```
//!
//! Promises: calls are made one at a time, in the listener's order; an event whose call is not made or does not return
//! goes back to the listener.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::{ChangedSelection, Delivery, DeliveryOutcome, DeliveryToken};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_object::KeyRef;
use informant_spec::OnFailure;

use crate::actor::PluginContext;
use crate::actor::command_flag::CommandFlag;
use crate::actor::config::PluginConfig;
use crate::actor::deliver::{Buffers, DeliveryResult, outcome_of_loss};
use crate::actor::slot::InstanceSlot;
use crate::actor::source_rules::SourceRules;
use crate::hostcalls::key_value::KvHandled;
use crate::hostcalls::kv::CallChanges;
use crate::instance::Instance;
use crate::metrics::EventCounters;
use crate::status::{StuckOn, track_stuck_call};
use crate::writes::{HandledEvent, WrittenSoFar};

/// Events taken from the listener at once, under one lock.
pub(crate) const BATCH_EVENTS_MAX: usize = 64;

/// How long outcomes may wait to be reported in one batch, and how long a worker runs without yielding: 1 ms. Too short
/// to notice, but longer than a quick handler takes for a batch.
const FLUSH_MAX: Duration = Duration::from_millis(1);

/// Calls one instance.
pub(crate) struct EventWorker {
    pub(crate) slot: InstanceSlot,
    rules: SourceRules,
    buffers: Buffers,
    /// What it is to deliver.
    pub(crate) batch: Vec<Delivery>,
    answers: Vec<(DeliveryToken, DeliveryOutcome)>,
    /// An outcome that is not reported yet is a failure.
    has_failed: bool,
    /// It has rebuilt its instance since the actor last looked.
    pub(crate) is_rebuilt: bool,
}

impl EventWorker {
    pub(crate) fn new(slot: InstanceSlot) -> EventWorker {
        EventWorker {
            rules: SourceRules::new(slot.config.spec.selection.clone()),
            buffers: Buffers::default(),
            batch: Vec::with_capacity(BATCH_EVENTS_MAX),
            answers: Vec::with_capacity(BATCH_EVENTS_MAX),
            has_failed: false,
            is_rebuilt: false,
            slot,
        }
    }

    /// Another version was activated.
    pub(crate) fn forget_rules(&mut self) {
        self.rules.forget();
    }

    /// Selects the objects that `config` selects. Returns whether that is a change.
    pub(crate) fn select(&mut self, config: &PluginConfig) -> bool {
        self.rules.select(&config.spec.selection)
    }

    /// As if it had worked with `rules` before.
    pub(crate) fn set_rules(&mut self, rules: SourceRules) {
        self.rules = rules;
    }

    pub(crate) fn rules(&self) -> &SourceRules {
        &self.rules
    }

    /// The plugin's section selects other objects: its handler receives the difference.
    pub(crate) fn reselect(&mut self, now: Moment) {
        let InstanceSlot { context, version, .. } = &self.slot;
        let sources = context.host.catalog.all().into_iter().map(|source| source.id());
        let attached = sources.filter(|source| context.listener.feed().is_attached(*source));
        let changed = attached.map(|source| {
            let rules = &mut self.rules;
            let rule = rules.of(source, &version.manifest, &context.host.catalog, &context.counters);
            let selection: Arc<dyn ChangedSelection> = Arc::new(rule.objects.clone());
            (source, selection)
        });
        context.listener.control().reselect(changed.collect(), None, now);
    }

    /// Refills the empty slot, or makes the calls of the batch.
    pub(crate) async fn run(&mut self, interrupt: &CommandFlag) {
        if self.slot.is_empty() {
            self.is_rebuilt = self.slot.rebuild().await;
        } else {
            self.work(interrupt).await;
        }
    }

    /// Makes the calls of the batch, one after the other, until it is interrupted.
    pub(crate) async fn work(&mut self, interrupt: &CommandFlag) {
        let mut now = self.slot.context.now();
        let _running = self.slot.context.host.ticker.clock().run_guests();
        self.slot.context.overruns.expire(now);
        let mut answered = now;
        let mut batch = std::mem::take(&mut self.batch);
        let mut deliveries = batch.drain(..);
        for delivery in deliveries.by_ref() {
            let has_committed;
            (now, has_committed) = self.handle(&delivery, now).await;
            let mut is_over = interrupt.is_raised();
            if now - answered > FLUSH_MAX {
                self.answer(now);
                // Calls that return at once never yield to other tasks.
                tokio::task::yield_now().await;
                now = self.slot.context.now();
                answered = now;
                // Takes a lock, which is too expensive for each event.
                is_over |= self.slot.context.abort.is_cancelled();
            }
            is_over |= has_committed && self.slot.context.is_full();
            if self.slot.is_empty() || is_over {
                break;
            }
        }
        self.answer(now);
        // Events without a call are delivered again, before all others.
        let left: Vec<DeliveryToken> = deliveries.map(|delivery| delivery.token).collect();
        if !left.is_empty() {
            self.slot.context.listener.consumer().give_back(left);
        }
        self.batch = batch;
        self.slot.update_memory();
    }

    /// Makes one call. Returns when it ended, and whether its event ends later, with what the call committed.
    async fn handle(&mut self, delivery: &Delivery, began: Moment) -> (Moment, bool) {
        let InstanceSlot {
            context,
            version,
            instance,
            activation,
            id,
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
                track_stuck_call(context, *id, about, self.buffers.deliver(delivery, rule, instance)).await
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
