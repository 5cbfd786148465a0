//! Makes the calls of one of a plugin's instances that handle events.
//!
//! ```text
//! EventActor ──batch──▶ one call after the other into the instance ──done──▶ listener
//! ```
//!
//! Promises: calls are made one at a time, in the listener's order; an event whose call is not made or does not return
//! goes back to the listener.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::Moment;
use informant_cache::listener::{ChangedSelection, Delivery, DeliveryOutcome, DeliveryToken, Notification};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};

use crate::actor::PluginContext;
use crate::actor::command_flag::CommandFlag;
use crate::actor::deliver::{Buffers, DeliveryResult, outcome_of_loss};
use crate::actor::live_status::track_stuck_call;
use crate::actor::outcomes::{Answers, EndedEvent};
use crate::actor::restart::LossSubject;
use crate::actor::slot::InstanceSlot;
use crate::actor::source_rules::SourceRules;
use crate::component::manifest::Manifest;
use crate::instance::Instance;
use crate::instance::config::PluginConfig;
use crate::observed::ObservedDelivery;
use crate::status::StuckOn;

/// Events taken from the listener at once, under one lock.
pub(crate) const BATCH_EVENTS_MAX: usize = 64;

/// How long outcomes may wait to be reported in one batch, and how long a worker runs without yielding: 1 ms. Too short
/// to notice, but longer than a quick handler takes for a batch.
const FLUSH_MAX: Duration = Duration::from_millis(1);

/// What became of one call.
struct Handled {
    /// When it ended.
    at: Moment,
    /// Its event ends later, with what the call committed.
    has_committed: bool,
    /// A slow body has held up the worker.
    was_held_up: bool,
    /// Another replica acts: what the call did was dropped.
    was_refused: bool,
}

/// Calls one instance.
pub(crate) struct EventWorker {
    pub(crate) slot: InstanceSlot,
    pub(super) rules: SourceRules,
    buffers: Buffers,
    /// What it is to deliver.
    pub(crate) batch: Vec<Delivery>,
    answers: Answers,
    /// It has rebuilt its instance since the actor last looked.
    pub(crate) is_rebuilt: bool,
}

impl EventWorker {
    pub(crate) fn new(slot: InstanceSlot) -> EventWorker {
        EventWorker {
            rules: SourceRules::new(slot.config.spec.selection.clone()),
            buffers: Buffers::default(),
            batch: Vec::new(),
            answers: Answers::default(),
            is_rebuilt: false,
            slot,
        }
    }

    /// Another replica acts.
    pub(crate) fn stand_by(&mut self, activation: u64) {
        self.slot.stand_by(activation);
        self.buffers = Buffers::default();
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
        let sources = context
            .runtime
            .services
            .catalog
            .all()
            .into_iter()
            .map(|source| source.id());
        let attached = sources.filter(|source| context.listener.feed().is_attached(*source));
        let changed = attached.map(|source| {
            let rules = &mut self.rules;
            let rule = rules.of(
                source,
                &version.manifest,
                &context.runtime.services.catalog,
                &context.counters,
            );
            let selection: Arc<dyn ChangedSelection> = Arc::new(rule.objects.clone());
            (source, selection)
        });
        context.listener.control().reselect(changed.collect(), None, now);
    }

    /// Refills the empty slot, or makes the calls of the batch.
    pub(crate) async fn run(&mut self, interrupt: &CommandFlag) {
        if self.slot.is_empty() {
            self.is_rebuilt = Box::pin(self.slot.rebuild()).await;
            let (context, lost) = (&self.slot.context, self.slot.decided());
            context.listener.consumer().charge_suspects(lost, context.now());
        } else {
            self.work(interrupt).await;
        }
    }

    /// Makes the calls of the batch, one after the other, until it is interrupted.
    pub(crate) async fn work(&mut self, interrupt: &CommandFlag) {
        let mut now = self.slot.context.now();
        let _running = self.slot.context.runtime.ticker.clock().run_guests();
        self.slot.context.overruns.expire(now);
        let mut answered = now;
        let mut batch = std::mem::take(&mut self.batch);
        let mut deliveries = batch.drain(..);
        for delivery in deliveries.by_ref() {
            let handled = self.handle(&delivery, now).await;
            now = handled.at;
            // Others of its namespace wait from now on.
            let mut is_over = interrupt.is_raised() || handled.was_held_up || handled.was_refused;
            if now - answered > FLUSH_MAX {
                self.answers.report(&self.slot.context.outcomes, now);
                // Calls that return at once never yield to other tasks.
                tokio::task::yield_now().await;
                now = self.slot.context.now();
                answered = now;
                // Takes a lock, which is too expensive for each event.
                is_over |= self.slot.context.abort.is_cancelled();
            }
            is_over |= handled.has_committed && self.slot.context.is_full();
            if self.slot.is_empty() || is_over {
                break;
            }
        }
        self.answers.report(&self.slot.context.outcomes, now);
        // Events without a call are delivered again, before all others.
        let left: Vec<DeliveryToken> = deliveries.map(|delivery| delivery.token).collect();
        if !left.is_empty() {
            self.slot.context.listener.consumer().give_back(left);
        }
        self.batch = batch;
        self.slot.update_memory();
    }

    /// Makes one call.
    async fn handle(&mut self, delivery: &Delivery, began: Moment) -> Handled {
        let InstanceSlot {
            context,
            version,
            instance,
            activation,
            id,
            config,
            ..
        } = &mut self.slot;
        let rule = self.rules.of(
            delivery.source,
            &version.manifest,
            &context.runtime.services.catalog,
            &context.counters,
        );
        let mut capture = context.captures.of_call(delivery);
        let is_outdated = is_outdated(delivery, &version.manifest);
        self.buffers.cache_is_behind = version.manifest.reconciler.is_some() && context.is_behind(delivery);
        let may_act = config.spec.may_act();
        let ended = match instance.as_mut().filter(|_| !is_outdated) {
            Some(instance) => {
                capture.begin(instance.tape(), began, version.component.digest);
                if may_act {
                    let version = (version.component.digest, &version.manifest);
                    let catalog = &context.runtime.services.catalog;
                    instance.cause().begin(delivery, version, catalog);
                }
                let about = || StuckOn::of(delivery, context.now());
                let call = pin!(self.buffers.deliver(delivery, rule, instance, context));
                track_stuck_call(context, *id, about, call).await
            }
            None => DeliveryResult::Answered(DeliveryOutcome::Filtered),
        };
        capture.ended(instance.as_ref().map(Instance::tape), &context.captures);
        let acting = instance.as_ref().filter(|_| may_act);
        let cause = acting.and_then(|instance| instance.cause().end(ended.is_failure()));
        let now = context.now();
        let held_up = self.buffers.take_held_up();
        charge(context, delivery, (began, now), held_up);
        let (outcome, loss) = match ended {
            DeliveryResult::Answered(outcome) => (Some(outcome), None),
            DeliveryResult::Lost(report) => (outcome_of_loss(&report), Some(report)),
        };
        let (mut has_committed, mut was_refused) = (false, false);
        if let Some(outcome) = outcome {
            if outcome != DeliveryOutcome::Filtered {
                context.counters.seconds.observe((now - began).as_secs_f64());
                context.counters.lag.observe((now - delivery.received).as_secs_f64());
                observe(context, delivery, now - began, &outcome);
            }
            let effects = instance.as_mut().map(Instance::take_effects).unwrap_or_default();
            let about = delivery.key().map(|key| (delivery.source, key));
            was_refused = outcome != DeliveryOutcome::Filtered && !context.effects.admit_call(about);
            if was_refused {
                context.listener.consumer().interrupted(delivery.token, now);
            } else if outcome.is_ok() || seeded_bug(SeededBug::FailedCallWrites) {
                let (counters, outcome) = (&rule.counters, &outcome);
                let event = || {
                    context
                        .outcomes
                        .handled_event(
                            (delivery, cause.clone()),
                            *activation,
                            counters.clone(),
                            outcome.clone(),
                        )
                        .then(capture.take_end())
                };
                has_committed = context.capabilities.commit(effects, event);
            }
            if !has_committed && !was_refused {
                let (event, on_failure) = (EndedEvent::of(delivery, cause), config.spec.on_failure);
                let quarantine_because =
                    self.answers
                        .end(&context.outcomes, &event, &rule.counters, outcome, on_failure);
                if let Some(because) = quarantine_because {
                    self.slot.quarantine(&because);
                }
            }
        }
        capture.finish();
        if let Some(report) = loss {
            self.slot.record_loss(&report, LossSubject::of(delivery.key()));
        }
        Handled {
            at: now,
            has_committed,
            was_held_up: held_up.is_some(),
            was_refused,
        }
    }
}

/// Whether it is a run of a timer that a version before this one had.
fn is_outdated(delivery: &Delivery, manifest: &Manifest) -> bool {
    match &delivery.notification {
        Notification::Tick(tick) => !manifest.timers.iter().any(|timer| timer.name == *tick.timer),
        _ => false,
    }
}

/// Charges the time of a call to its object, if that is suspect or has held up the worker.
fn charge(
    context: &PluginContext,
    delivery: &Delivery,
    (began, ended): (Moment, Moment),
    held_up: Option<(Moment, Moment)>,
) {
    let consumer = context.listener.consumer();
    if delivery.is_suspect {
        consumer.took(delivery.token, began, ended);
    } else if let Some(((since, until), key)) = held_up.zip(delivery.key()) {
        consumer.held_up(delivery.source, key, since, until);
    }
}

/// Tells an observer of a delivery that has ended, if there is one.
fn observe(context: &PluginContext, delivery: &Delivery, took: Duration, outcome: &DeliveryOutcome) {
    let observer = context.runtime.services.observer.as_ref();
    if let Some(observer) = observer.filter(|observer| observer.wants_calls()) {
        observer.delivered(&ObservedDelivery {
            plugin: context.counters.plugin(),
            source: context.runtime.services.catalog.info(delivery.source),
            key: delivery.key(),
            event: delivery.notification.as_str(),
            attempt: delivery.attempt,
            took,
            outcome,
        });
    }
}
