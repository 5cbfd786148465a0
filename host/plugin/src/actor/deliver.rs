//! Delivers one event: from a delivery to a call, and back to an outcome.

use std::time::Duration;

use informant_cache::listener::{Delivery, DeliveryOutcome, Notification};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Awaited, BodyUnavailable, Moment, Reason};
use informant_object::{KeyRef, Object, Payload, SourceId};

use crate::actor::source_rules::{SelectedObjects, SourceRule};
use crate::actor::{ActorKind, PluginContext};
use crate::bindings::exports::informant::plugin::reconciler::Request;
use crate::bindings::informant::plugin::types::{Call, Failure, ObjectRef};
use crate::bodies::has_held_up;
use crate::component::manifest::EventRule;
use crate::component::roles::Handled;
use crate::engine::trap::{TrapKind, TrapReport};
use crate::instance::{Called, Instance};
use crate::text::truncated;

/// Bytes a buffer keeps between events; after a larger object it is freed.
const BUFFER_KEPT_BYTES: usize = 256 * 1_024;

/// The documents passed to the guest; reused, so that an event allocates nothing.
#[derive(Default)]
pub(crate) struct Buffers {
    object: Vec<u8>,
    old: Vec<u8>,
    /// When the last delivery waited for a body, if that has held up its worker.
    held_up: Option<(Moment, Moment)>,
    /// Whether the cache lacks something that a reconciler may look for in the next call.
    pub(crate) cache_is_behind: bool,
}

/// How a delivery ended.
pub(crate) enum DeliveryResult {
    /// The guest answered, or did not need to be called.
    Answered(DeliveryOutcome),
    /// The instance is lost.
    Lost(Box<TrapReport>),
}

impl DeliveryResult {
    pub(crate) fn is_failure(&self) -> bool {
        match self {
            DeliveryResult::Answered(outcome) => outcome.is_failure(),
            DeliveryResult::Lost(_) => true,
        }
    }
}

impl Buffers {
    /// Delivers an event to `instance`, as `rule` says. An object of which the cache has only the head is read first;
    /// an event whose object cannot be read waits for it.
    pub(crate) async fn deliver(
        &mut self,
        delivery: &Delivery,
        rule: &SourceRule,
        instance: &mut Instance,
        context: &PluginContext,
    ) -> DeliveryResult {
        self.held_up = None;
        let read;
        let delivery = match head_to_read(delivery, rule) {
            None => delivery,
            Some(head) => match self.read(delivery.source, head, context).await {
                // A newer state would overtake events, and what the store has.
                Ok(body) if body.version() == head.version() => {
                    read = with_body(delivery, body);
                    &read
                }
                // Also of an object that is gone or has changed: its delete, or the newer state, follows.
                Ok(_) | Err(_) => {
                    let awaited = Awaited::Body(delivery.source);
                    return DeliveryResult::Answered(DeliveryOutcome::NotReady(awaited));
                }
            },
        };
        instance.tape().event(&delivery.notification);
        let called = match &delivery.notification {
            Notification::Synced => {
                let called = instance.on_synced(delivery.source.0, call_of(delivery)).await;
                called.map(|called| called.map(|answer| answer.map(|()| None)))
            }
            Notification::Tick(tick) => {
                let called = instance.on_timer(tick, delivery.attempt).await;
                called.map(|called| called.map(|answer| answer.map(|()| None)))
            }
            Notification::Add(_) | Notification::Update { .. } | Notification::Delete { .. } => match &rule.event {
                Some(event) => self.call_handler(delivery, (event, &rule.objects), instance).await,
                None => None,
            },
        };
        self.give_back();
        match called {
            // The manifest does not ask for it, or the component lacks the role.
            None => DeliveryResult::Answered(DeliveryOutcome::Filtered),
            Some(Ok(answer)) => DeliveryResult::Answered(outcome(answer, instance)),
            Some(Err(report)) => DeliveryResult::Lost(Box::new(report.about(EventLabel { delivery, rule }))),
        }
    }

    async fn read(
        &mut self,
        source: SourceId,
        head: &Object,
        context: &PluginContext,
    ) -> Result<Object, BodyUnavailable> {
        let (began, term) = (context.now(), context.ends_calls(ActorKind::Events));
        let body = term
            .run_until_cancelled(context.runtime.bodies().read(source, head))
            .await;
        let body = body.unwrap_or(Err(BodyUnavailable::Busy));
        let now = context.now();
        self.held_up = has_held_up(body.as_ref(), now - began).then_some((began, now));
        body
    }

    /// When the last delivery waited for a body, if that has held up its worker.
    pub(crate) fn take_held_up(&mut self) -> Option<(Moment, Moment)> {
        self.held_up.take()
    }

    /// Calls the handler. None if it does not need to be called.
    ///
    /// An object that starts or stops to be among `objects` is an add or a delete.
    async fn call_handler(
        &mut self,
        delivery: &Delivery,
        (event, objects): (&EventRule, &SelectedObjects),
        instance: &mut Instance,
    ) -> Option<Called<Handled>> {
        if instance.is_reconciler() {
            return self.reconcile(delivery, (event, objects), instance).await;
        }
        let call = call_of(delivery);
        let source = delivery.source.0;
        match &delivery.notification {
            Notification::Add(object) if !objects.contain(object) => {
                // What is requeued may be the delete that the handler did not accept when the object stopped to match.
                let may_have_matched = delivery.reason == Reason::Requeue || delivery.seen_unknown;
                if !may_have_matched || !objects.may_have_contained(object.namespace()) {
                    return None;
                }
                // Its section no longer selects it, so what the handler has received is like this state.
                let is_known = delivery.reason == Reason::Reconfigured && objects.manifest_selects(object);
                let last = is_known.then(|| render(&mut self.object, &event.payload, object));
                instance.on_delete(object_ref(source, object), call, last, false).await
            }
            Notification::Add(object) => {
                let document = render(&mut self.object, &event.payload, object);
                instance.on_add(object_ref(source, object), call, document).await
            }
            Notification::Update { old, new } => {
                let about = (old.as_ref(), new);
                self.call_for_update(about, call, delivery, (event, objects), instance)
                    .await
            }
            Notification::Delete {
                last,
                key,
                final_state_unknown,
            } => {
                let about = (last.as_ref(), key.as_ref(), *final_state_unknown);
                self.call_for_delete(about, call, delivery, (event, objects), instance)
                    .await
            }
            Notification::Synced | Notification::Tick(_) => None,
        }
    }

    /// Calls the reconciler. None if it does not need to be called: for what is not among `objects`, and if nothing has
    /// changed that it names.
    async fn reconcile(
        &mut self,
        delivery: &Delivery,
        (event, objects): (&EventRule, &SelectedObjects),
        instance: &mut Instance,
    ) -> Option<Called<Handled>> {
        let source = delivery.source.0;
        let request = Request {
            reason: delivery.reason.into(),
            attempt: delivery.attempt,
            cache_is_behind: self.cache_is_behind,
        };
        match &delivery.notification {
            Notification::Add(object) | Notification::Update { new: object, .. } if !objects.contain(object) => {
                // To the plugin it is gone, if it was there.
                if !has_left(delivery, objects) {
                    return None;
                }
                instance.reconcile(object_ref(source, object), request, None).await
            }
            Notification::Add(object) | Notification::Update { new: object, .. } => {
                if is_unaffected(delivery, event, objects) {
                    return None;
                }
                let document = render(&mut self.object, &event.payload, object);
                let about = object_ref(source, object);
                instance.reconcile(about, request, Some(document)).await
            }
            Notification::Delete { last: Some(last), .. }
                if !(objects.contain(last)
                    || (delivery.seen_unknown && objects.may_have_contained(last.namespace()))) =>
            {
                None
            }
            Notification::Delete { last: None, key, .. } if !objects.may_have_contained(key.namespace()) => None,
            Notification::Delete { last, key, .. } => {
                let about = match last {
                    Some(last) => object_ref(source, last),
                    None => unknown_ref(source, key.as_ref()),
                };
                instance.reconcile(about, request, None).await
            }
            Notification::Synced | Notification::Tick(_) => None,
        }
    }

    async fn call_for_update(
        &mut self,
        (old, new): (Option<&Object>, &Object),
        call: Call,
        delivery: &Delivery,
        (event, objects): (&EventRule, &SelectedObjects),
        instance: &mut Instance,
    ) -> Option<Called<Handled>> {
        let about = object_ref(delivery.source.0, new);
        if !objects.contain(new) {
            // A trigger is for objects that the handler handles.
            if delivery.reason == Reason::Trigger || old.is_some_and(|old| !objects.contain(old)) {
                return None;
            }
            // The handler may have seen it while it matched, if the state before is unknown.
            if old.is_none() && !objects.may_have_contained(new.namespace()) {
                return None;
            }
            let last = old.map(|old| render(&mut self.object, &event.payload, old));
            return instance.on_delete(about, call, last, false).await;
        }
        let document = render(&mut self.object, &event.payload, new);
        if old.is_some_and(|old| !objects.contain(old)) {
            return instance.on_add(about, call, document).await;
        }
        let is_compared = event.changed_only && delivery.exact_old;
        let wants_old = event.old || is_compared;
        // A head that lacks fields is no document for the guest, but tells whether the object has changed.
        let before = old.filter(|old| wants_old && old.holds(&event.payload));
        let before = before.map(|old| render(&mut self.old, &event.payload, old));
        let is_same = || match before {
            Some(before) => before == document,
            None => old.is_some_and(|old| old.has_same_content(new)),
        };
        if is_compared && is_same() {
            return None;
        }
        let before = before.filter(|_| event.old);
        instance.on_update(about, call, before, document).await
    }

    async fn call_for_delete(
        &mut self,
        (last, key, final_state_unknown): (Option<&Object>, KeyRef<'_>, bool),
        call: Call,
        delivery: &Delivery,
        (event, objects): (&EventRule, &SelectedObjects),
        instance: &mut Instance,
    ) -> Option<Called<Handled>> {
        let source = delivery.source.0;
        let Some(last) = last else {
            if !objects.may_have_contained(key.namespace) {
                return None;
            }
            let about = unknown_ref(source, key);
            return instance.on_delete(about, call, None, final_state_unknown).await;
        };
        let about = object_ref(source, last);
        let document = match objects.contain(last) {
            true => Some(render(&mut self.object, &event.payload, last)),
            // It may have stopped to match in an event that was folded into its delete.
            false if delivery.seen_unknown && objects.may_have_contained(last.namespace()) => None,
            false => return None,
        };
        instance.on_delete(about, call, document, final_state_unknown).await
    }

    fn give_back(&mut self) {
        for buffer in [&mut self.object, &mut self.old] {
            if buffer.capacity() > BUFFER_KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }
}

fn call_of(delivery: &Delivery) -> Call {
    Call {
        reason: delivery.reason.into(),
        attempt: delivery.attempt,
    }
}

/// The head in `delivery` whose body the handler is to receive. A whole object costs one look.
fn head_to_read<'d>(delivery: &'d Delivery, rule: &SourceRule) -> Option<&'d Object> {
    let (old, new) = match &delivery.notification {
        Notification::Add(new) => (None, new),
        Notification::Update { old, new } => (old.as_ref(), new),
        Notification::Delete { .. } | Notification::Synced | Notification::Tick(_) => return None,
    };
    if !new.is_head() {
        return None;
    }
    let event = rule.event.as_ref()?;
    let is_compared = event.changed_only && delivery.exact_old;
    let is_unchanged = (is_compared && old.is_some_and(|old| old.has_same_content(new)))
        || is_unaffected(delivery, event, &rule.objects);
    let is_needed = rule.objects.contain(new) && !new.holds(&event.payload) && !is_unchanged;
    is_needed.then_some(new)
}

/// The same delivery of `body` instead of its head.
fn with_body(delivery: &Delivery, body: Object) -> Delivery {
    let mut read = delivery.clone();
    match &mut read.notification {
        Notification::Add(object) | Notification::Update { new: object, .. } => *object = body,
        Notification::Delete { .. } | Notification::Synced | Notification::Tick(_) => {}
    }
    read
}

/// The document for the guest: the object's own bytes if the payload is the whole object.
pub(crate) fn render<'a>(buffer: &'a mut Vec<u8>, payload: &Payload, object: &'a Object) -> &'a [u8] {
    if matches!(payload, Payload::Whole) {
        return object.json();
    }
    buffer.clear();
    payload.write(object, buffer);
    buffer
}

pub(crate) fn object_ref(source: u32, object: &Object) -> ObjectRef<'_> {
    ObjectRef {
        source,
        namespace: object.namespace(),
        name: object.name(),
        uid: object.uid(),
        resource_version: object.version().as_str(),
    }
}

/// The object at `key`, of which nothing else is known.
fn unknown_ref(source: u32, key: KeyRef<'_>) -> ObjectRef<'_> {
    ObjectRef {
        source,
        namespace: key.namespace,
        name: key.name,
        uid: "",
        resource_version: "",
    }
}

/// Whether nothing has changed that the rule of a reconciler names, since a call that it accepted.
fn is_unaffected(delivery: &Delivery, event: &EventRule, objects: &SelectedObjects) -> bool {
    let Notification::Update { old: Some(old), new } = &delivery.notification else {
        return false;
    };
    let is_same = || event.when.as_ref().is_some_and(|when| !when.differs(old, new));
    delivery.exact_old && is_same() && objects.contain(old)
}

/// Whether a reconciler may have received an object that is not among `objects`: it is called for its end.
fn has_left(delivery: &Delivery, objects: &SelectedObjects) -> bool {
    let may_have = |object: &Object| objects.may_have_contained(object.namespace());
    match &delivery.notification {
        Notification::Update { old: Some(old), .. } => objects.contain(old),
        // Nothing has changed in it.
        Notification::Update { .. } if !delivery.reason.is_change() => false,
        Notification::Update { old: None, new } => may_have(new),
        Notification::Add(object) => (delivery.reason == Reason::Requeue || delivery.seen_unknown) && may_have(object),
        Notification::Delete { .. } | Notification::Synced | Notification::Tick(_) => false,
    }
}

/// The outcome of the last call of an instance. If a read was answered `not-ready`, the host knows that better than the
/// error of the handler, which may have wrapped it.
fn outcome(answer: Handled, instance: &Instance) -> DeliveryOutcome {
    match answer {
        Ok(asked_ms) => {
            let asked = asked_ms.map(|ms| Duration::from_millis(ms.into()));
            let again = asked.into_iter().chain(instance.again_after()).min();
            again.map_or(DeliveryOutcome::Ok, DeliveryOutcome::RequeueAfter)
        }
        Err(Failure::Retryable(message)) => match instance.awaited() {
            Some(awaited) => DeliveryOutcome::NotReady(awaited),
            None => DeliveryOutcome::Retryable(truncated(&message)),
        },
        Err(Failure::RetryAfter(later)) => {
            DeliveryOutcome::RetryAfter(truncated(&later.message), Duration::from_millis(later.after_ms.into()))
        }
        Err(Failure::Permanent(message)) => DeliveryOutcome::Permanent(truncated(&message)),
    }
}

/// The outcome of an event whose call cost the instance. None: the call was aborted to stop, and has no outcome.
pub(crate) fn outcome_of_loss(report: &TrapReport) -> Option<DeliveryOutcome> {
    match report.kind {
        TrapKind::Trap if seeded_bug(SeededBug::TrapTakenForSuccess) => Some(DeliveryOutcome::Ok),
        TrapKind::Trap | TrapKind::Memory => Some(DeliveryOutcome::Trapped(truncated(report.to_string()))),
        TrapKind::Timeout => Some(DeliveryOutcome::TimedOut(truncated(report.to_string()))),
        TrapKind::Aborted => None,
    }
}

/// `v1 Pod default/web-1` or `timer report`, for reports.
struct EventLabel<'a> {
    delivery: &'a Delivery,
    rule: &'a SourceRule,
}

impl std::fmt::Display for EventLabel<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Notification::Tick(tick) = &self.delivery.notification {
            return write!(f, "timer {}", tick.timer);
        }
        write!(f, "{} {}", self.rule.api_version, self.rule.kind)?;
        match self.delivery.key() {
            Some(key) => write!(f, " {}", key.to_key()),
            None => write!(f, "s of source {}", self.delivery.source),
        }
    }
}
