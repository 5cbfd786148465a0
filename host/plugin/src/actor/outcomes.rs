//! The end of an event: counted, logged, answered to the listener, and a reason to quarantine the plugin.
//!
//! ```text
//! worker: the call ended ───────────────────────────────┐
//! capability: what the call committed was written ──────┴─▶ Answers::end ──▶ listener, metrics, log
//! ```
//!
//! There is one way to end an event, whether its call ends it or what the call committed.

use std::sync::{Arc, Mutex, OnceLock};

use informant_cache::listener::{Delivery, DeliveryOutcome, DeliveryToken};
use informant_cache::{Catalog, Environment, ListenerHandle, Moment};
use informant_object::{Key, KeyRef, SourceId};
use informant_spec::OnFailure;

use crate::actor::failure_warnings::FailureWarnings;
use crate::actor::mailbox::{ActorCommand, CommandSender};
use crate::actor::streak::Streak;
use crate::capability::parts::HandledEvent;
use crate::metrics::{EventCounters, PluginCounters};
use crate::observed::{CallCause, FailedCall, PluginObserver};
use crate::runtime::Runtime;
use crate::sync::lock;

/// What ends the events of one plugin. It holds nothing that waits for their end.
pub(crate) struct Outcomes {
    counters: PluginCounters,
    /// Its calls since the last success.
    streak: Arc<Streak>,
    listener: ListenerHandle,
    catalog: Catalog,
    env: Arc<dyn Environment>,
    observer: Option<Arc<dyn PluginObserver>>,
    on_failure: Mutex<OnFailure>,
    /// Commands to the event actor, once there is one.
    actor: OnceLock<CommandSender>,
    warnings: FailureWarnings,
}

/// The outcomes of events that ended, until the listener learns them.
#[derive(Default)]
pub(crate) struct Answers {
    outcomes: Vec<(DeliveryToken, DeliveryOutcome)>,
    /// The results of those that are failures worth a warning.
    failed: Vec<&'static str>,
}

/// An event that ends.
pub(crate) struct EndedEvent<'a> {
    pub(crate) token: DeliveryToken,
    pub(crate) source: SourceId,
    /// None: the event is that a source is synced.
    pub(crate) key: Option<KeyRef<'a>>,
    /// `add`, `update`, `delete`, `sync`.
    pub(crate) event: &'static str,
    pub(crate) attempt: u32,
    /// Of a call that had effects or has failed.
    pub(crate) cause: Option<Arc<CallCause>>,
}

impl<'a> EndedEvent<'a> {
    pub(crate) fn of(delivery: &'a Delivery, cause: Option<Arc<CallCause>>) -> EndedEvent<'a> {
        EndedEvent {
            token: delivery.token,
            source: delivery.source,
            key: delivery.key(),
            event: delivery.notification.as_str(),
            attempt: delivery.attempt,
            cause,
        }
    }
}

impl Outcomes {
    pub(crate) fn new(
        counters: PluginCounters,
        listener: ListenerHandle,
        runtime: &Runtime,
        on_failure: OnFailure,
    ) -> Outcomes {
        let catalog = runtime.services.catalog.clone();
        Outcomes {
            warnings: FailureWarnings::new(counters.plugin(), listener.clone(), catalog.clone()),
            counters,
            streak: Arc::default(),
            listener,
            catalog,
            env: Arc::clone(&runtime.env),
            observer: runtime.services.observer.clone(),
            on_failure: Mutex::new(on_failure),
            actor: OnceLock::new(),
        }
    }

    pub(crate) fn streak(&self) -> &Arc<Streak> {
        &self.streak
    }

    pub(crate) fn set_on_failure(&self, on_failure: OnFailure) {
        *lock(&self.on_failure) = on_failure;
    }

    fn observe_failure(&self, event: &EndedEvent<'_>, outcome: &DeliveryOutcome) {
        let Some(observer) = &self.observer else { return };
        let error = match outcome {
            DeliveryOutcome::Permanent(error)
            | DeliveryOutcome::Retryable(error)
            | DeliveryOutcome::RetryAfter(error, _)
            | DeliveryOutcome::Trapped(error)
            | DeliveryOutcome::TimedOut(error) => error,
            DeliveryOutcome::Ok
            | DeliveryOutcome::RequeueAfter(_)
            | DeliveryOutcome::Filtered
            | DeliveryOutcome::NotReady(_) => return,
        };
        let call = FailedCall {
            source: self.catalog.info(event.source),
            key: event.key.map(KeyRef::to_key),
            event: event.event,
            attempt: event.attempt,
            result: outcome.as_str(),
            error: error.clone(),
            cause: event.cause.clone(),
        };
        observer.failed(self.counters.plugin(), &call);
    }

    /// The plugin has an event actor from now on.
    pub(crate) fn set_actor(&self, commands: CommandSender) {
        // It has one for its whole life.
        let _ = self.actor.set(commands);
    }

    /// The event of `delivery`, to be ended later. `activation`: that of the instance that handled it.
    pub(crate) fn handled_event(
        self: &Arc<Outcomes>,
        (delivery, cause): (&Delivery, Option<Arc<CallCause>>),
        activation: u64,
        counters: EventCounters,
        outcome: DeliveryOutcome,
    ) -> HandledEvent {
        let (outcomes, key) = (Arc::clone(self), delivery.key().map(KeyRef::to_key));
        let (token, source, attempt) = (delivery.token, delivery.source, delivery.attempt);
        let (event, of_event) = (delivery.notification.as_str(), key.clone());
        let end = move |outcome| {
            let event = EndedEvent {
                token,
                source,
                key: of_event.as_ref().map(Key::as_ref),
                event,
                attempt,
                cause,
            };
            let mut answers = Answers::default();
            let on_failure = *lock(&outcomes.on_failure);
            let quarantine_because = answers.end(&outcomes, &event, &counters, outcome, on_failure);
            answers.report(&outcomes, outcomes.env.now());
            if let (Some(because), Some(actor)) = (quarantine_because, outcomes.actor.get()) {
                actor.post(&*outcomes.env, ActorCommand::Quarantine { activation, because });
            }
        };
        HandledEvent {
            source,
            key,
            outcome,
            end: Box::new(end),
        }
    }
}

impl Answers {
    /// Ends an event with `outcome`. Returns why the plugin is to be quarantined, if it is.
    pub(crate) fn end(
        &mut self,
        outcomes: &Outcomes,
        event: &EndedEvent<'_>,
        counters: &EventCounters,
        outcome: DeliveryOutcome,
        on_failure: OnFailure,
    ) -> Option<String> {
        counters.count(event.event, outcome.as_str());
        if let Some(is_failing) = outcomes.streak.ended(&outcome) {
            outcomes.counters.failing(is_failing);
        }
        let mut quarantine_because = None;
        if outcome.is_failure() {
            let result = outcome.as_str();
            // To ask for a retry after some time is not worth a warning.
            if !matches!(outcome, DeliveryOutcome::RetryAfter(..)) && !self.failed.contains(&result) {
                self.failed.push(result);
            }
            log_failure(outcomes, event, &outcome, on_failure);
            outcomes.observe_failure(event, &outcome);
            if let DeliveryOutcome::Permanent(message) = &outcome
                && on_failure == OnFailure::Quarantine
            {
                quarantine_because = Some(format!("on-failure = \"quarantine\": {message}"));
            }
        }
        self.outcomes.push((event.token, outcome));
        quarantine_because
    }

    /// Reports the outcomes to the listener.
    pub(crate) fn report(&mut self, outcomes: &Outcomes, now: Moment) {
        if self.outcomes.is_empty() {
            return;
        }
        let dead = outcomes.listener.consumer().done_batch(self.outcomes.drain(..), now);
        if dead > 0 {
            outcomes.warnings.dead_lettered(dead, now);
        }
        for result in self.failed.drain(..) {
            outcomes.warnings.failed(result, now);
        }
    }
}

/// Logs that an event failed: at level debug, or as a warning if nothing else tells of it, as far as a line is due. A
/// trap is logged with the loss of the instance.
fn log_failure(outcomes: &Outcomes, event: &EndedEvent<'_>, outcome: &DeliveryOutcome, on_failure: OnFailure) {
    let (DeliveryOutcome::Permanent(error) | DeliveryOutcome::Retryable(error) | DeliveryOutcome::RetryAfter(error, _)) =
        outcome
    else {
        return;
    };
    let is_skipped = on_failure == OnFailure::Skip && !matches!(outcome, DeliveryOutcome::RetryAfter(..));
    let line = is_skipped.then(|| outcomes.warnings.skipped(outcome.as_str(), outcomes.env.now()));
    let suppressed = line.flatten();
    if suppressed.is_none() && !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let plugin: &str = outcomes.counters.plugin();
    // A removed source no longer has a name.
    let info = outcomes.catalog.info(event.source);
    let informer = info.as_ref().map(|info| info.informer.as_str());
    let cluster = info.as_ref().map(|info| info.cluster.as_str());
    let cluster = cluster.filter(|cluster| !cluster.is_empty());
    let resource = info.as_ref().map(|info| info.resource.as_str());
    let key = event.key.map(|key| key.to_key().to_string());
    let (event, attempt, result) = (event.event, event.attempt, outcome.as_str());
    match suppressed {
        Some(suppressed) => tracing::warn!(
            plugin,
            informer,
            cluster,
            resource,
            event,
            key,
            result,
            error,
            suppressed = (suppressed > 0).then_some(suppressed),
            "event skipped after a failure"
        ),
        None => tracing::debug!(
            plugin,
            informer,
            cluster,
            resource,
            event,
            key,
            attempt,
            result,
            error,
            "handler failed"
        ),
    }
}
