//! One event, on its way from a delivery to a call and back to an outcome.

use std::time::Duration;

use informant_cache::listener::{Delivery, Outcome, What};
use informant_object::{Object, Payload};

use crate::bindings::informant::plugin::types::{Call, Failure, ObjectRef};
use crate::instance::{Called, Instance};
use crate::manifest::EventRule;
use crate::rules::SourceRule;
use crate::shared::truncated;
use crate::{TrapKind, TrapReport};

/// Bytes a buffer keeps between events; what a larger object needed is given back.
const BUFFER_KEPT_BYTES: usize = 256 * 1_024;

/// What was handed to the guest last; reused, so that an event allocates nothing.
#[derive(Default)]
pub(crate) struct Buffers {
    object: Vec<u8>,
    old: Vec<u8>,
}

/// How an event ended.
pub(crate) enum Ended {
    /// The guest answered, or did not have to be called.
    Answered(Outcome),
    /// The instance is lost.
    Lost(Box<TrapReport>),
}

impl Buffers {
    /// Tells `instance` of `delivery`, as `rule` says.
    pub(crate) async fn deliver(&mut self, delivery: &Delivery, rule: &SourceRule, instance: &mut Instance) -> Ended {
        let called = match &delivery.what {
            What::Synced => instance.on_synced(delivery.source.0).await,
            What::Add(_) | What::Update { .. } | What::Delete { .. } => match &rule.event {
                Some(event) => self.tell(delivery, event, instance).await,
                None => None,
            },
        };
        self.give_back();
        match called {
            // The manifest does not ask for it, or the component has not the role.
            None => Ended::Answered(Outcome::Filtered),
            Some(Ok(answer)) => Ended::Answered(outcome(answer)),
            Some(Err(report)) => Ended::Lost(Box::new(report.about(About { delivery, rule }))),
        }
    }

    /// Calls the handler. None if it does not have to be.
    async fn tell(
        &mut self,
        delivery: &Delivery,
        event: &EventRule,
        instance: &mut Instance,
    ) -> Option<Called<Result<(), Failure>>> {
        let call = Call {
            reason: delivery.reason.into(),
            attempt: delivery.attempt,
        };
        let source = delivery.source.0;
        match &delivery.what {
            What::Add(object) => {
                let document = written(&mut self.object, &event.payload, object);
                instance.on_add(reference(source, object), call, document).await
            }
            What::Update { old, new } => {
                let document = written(&mut self.object, &event.payload, new);
                let wants_old = event.old || (event.changed_only && delivery.fresh);
                let before = old
                    .as_ref()
                    .filter(|_| wants_old)
                    .map(|old| written(&mut self.old, &event.payload, old));
                if event.changed_only && delivery.fresh && before == Some(document) {
                    return None;
                }
                let before = before.filter(|_| event.old);
                instance.on_update(reference(source, new), call, before, document).await
            }
            What::Delete {
                last: Some(last),
                final_state_unknown,
                ..
            } => {
                let document = written(&mut self.object, &event.payload, last);
                instance
                    .on_delete(reference(source, last), call, document, *final_state_unknown)
                    .await
            }
            What::Delete {
                last: None,
                key,
                final_state_unknown,
            } => {
                // An empty document: no state is known.
                let o = ObjectRef {
                    source,
                    namespace: key.namespace(),
                    name: key.name(),
                    uid: "",
                    resource_version: "",
                };
                instance.on_delete(o, call, &[], *final_state_unknown).await
            }
            What::Synced => None,
        }
    }

    fn give_back(&mut self) {
        for buffer in [&mut self.object, &mut self.old] {
            if buffer.capacity() > BUFFER_KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

/// What a guest is handed of `object`: the object's own bytes if it is all of them.
pub(crate) fn written<'a>(buffer: &'a mut Vec<u8>, payload: &Payload, object: &'a Object) -> &'a [u8] {
    if matches!(payload, Payload::Whole) {
        return object.json();
    }
    buffer.clear();
    payload.write(object, buffer);
    buffer
}

pub(crate) fn reference(source: u32, object: &Object) -> ObjectRef<'_> {
    ObjectRef {
        source,
        namespace: object.namespace(),
        name: object.name(),
        uid: object.uid(),
        resource_version: object.version().as_str(),
    }
}

fn outcome(answer: Result<(), Failure>) -> Outcome {
    match answer {
        Ok(()) => Outcome::Ok,
        Err(Failure::Retryable(message)) => Outcome::Retryable(truncated(&message)),
        Err(Failure::RetryAfter(later)) => {
            Outcome::RetryAfter(truncated(&later.message), Duration::from_millis(later.after_ms.into()))
        }
        Err(Failure::Permanent(message)) => Outcome::Permanent(truncated(&message)),
    }
}

/// What a call that cost the instance means for its event. None: it was given up to stop, and is not answered.
pub(crate) fn outcome_of_loss(report: &TrapReport) -> Option<Outcome> {
    match report.kind {
        TrapKind::Trap => Some(Outcome::Trapped(truncated(&report.to_string()))),
        TrapKind::Timeout => Some(Outcome::TimedOut(truncated(&report.to_string()))),
        TrapKind::Aborted => None,
    }
}

/// `v1 Pod default/web-1`, for reports.
struct About<'a> {
    delivery: &'a Delivery,
    rule: &'a SourceRule,
}

impl std::fmt::Display for About<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.rule.api_version, self.rule.kind)?;
        match self.delivery.key() {
            Some(key) => write!(f, " {}", key.to_key()),
            None => write!(f, "s of source {}", self.delivery.source),
        }
    }
}
