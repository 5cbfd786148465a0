//! Makes one call that no event asks for, as a capture has it: for runs of scenarios.
//!
//! The listener knows nothing of it: the plugin is paused, and what it committed is written as that of any other call.

use informant_cache::listener::DeliveryOutcome;
use informant_object::{Key, Object, SourceId};
use tokio::sync::oneshot;

use crate::actor::deliver::{object_ref, render};
use crate::actor::restart::LossSubject;
use crate::actor::slot::InstanceSlot;
use crate::actor::worker::EventWorker;
use crate::bindings::informant::plugin::types::{Call, ObjectRef};
use crate::capability::parts::HandledEvent;
use crate::component::manifest::EventRule;
use crate::component::roles::Handled;
use crate::instance::{Called, Instance};
use crate::observed::reason_named;

/// A call to make.
#[derive(Clone, Debug)]
pub struct ReplayedCall {
    /// `on-add`, `on-update`, `on-delete`.
    pub function: String,
    /// The source of the object.
    pub source: SourceId,
    pub key: Key,
    /// Its state; of a delete, the last one, if that is known.
    pub object: Option<Object>,
    /// The state before an update.
    pub old: Option<Object>,
    /// As in the contract: `watch`.
    pub reason: String,
    pub attempt: u32,
    /// The delete was not observed.
    pub final_state_unknown: bool,
}

/// A call to make, and who waits for its end.
pub(crate) struct Replay {
    pub(crate) call: ReplayedCall,
    pub(crate) done: oneshot::Sender<Result<(), String>>,
}

impl Replay {
    pub(crate) fn refuse(self, why: &str) {
        // The run may have ended.
        let _ = self.done.send(Err(why.to_owned()));
    }
}

impl ReplayedCall {
    /// Calls the handler as `event` wants it. None if there is no such call.
    async fn make(&self, event: &EventRule, instance: &mut Instance) -> Option<Called<Handled>> {
        let call = Call {
            reason: reason_named(&self.reason)?,
            attempt: self.attempt,
        };
        let (mut object_buffer, mut old_buffer) = (Vec::new(), Vec::new());
        let source = self.source.0;
        let about = match &self.object {
            Some(object) => object_ref(source, object),
            None => ObjectRef {
                source,
                namespace: self.key.namespace(),
                name: self.key.name(),
                uid: "",
                resource_version: "",
            },
        };
        let document = (self.object.as_ref()).map(|object| render(&mut object_buffer, &event.payload, object));
        let old = self.old.as_ref().filter(|_| event.old);
        let old = old.map(|old| render(&mut old_buffer, &event.payload, old));
        match &*self.function {
            "on-add" => instance.on_add(about, call, document?).await,
            "on-update" => instance.on_update(about, call, old, document?).await,
            "on-delete" => {
                let unknown = self.final_state_unknown;
                instance.on_delete(about, call, document, unknown).await
            }
            _ => None,
        }
    }
}

impl EventWorker {
    /// Makes the call. Its end, with that of its writes, is reported to who waits for it.
    pub(crate) async fn replay(&mut self, replay: Replay) {
        let InstanceSlot {
            context,
            version,
            instance,
            ..
        } = &mut self.slot;
        let catalog = &context.runtime.services.catalog;
        let rule = self
            .rules
            .of(replay.call.source, &version.manifest, catalog, &context.counters);
        let Some(event) = rule.event.clone() else {
            return replay.refuse("the plugin's manifest does not ask for the object");
        };
        let Some(instance) = instance else {
            return replay.refuse("the plugin has lost its instance");
        };
        let _running = context.runtime.ticker.clock().run_guests();
        let Some(called) = replay.call.make(&event, instance).await else {
            return replay.refuse("the plugin has no such function, or the call lacks its object");
        };
        let Replay { call, done } = replay;
        let mut done = Some(done);
        let mut loss = None;
        match called {
            Ok(Ok(_)) => {
                let effects = instance.take_effects();
                let event = || {
                    let done = done.take();
                    HandledEvent {
                        source: call.source,
                        key: Some(call.key.clone()),
                        outcome: DeliveryOutcome::Ok,
                        end: Box::new(move |_| end(done)),
                    }
                };
                context.capabilities.commit(effects, event);
            }
            Ok(Err(_)) => {}
            Err(report) => loss = Some(report),
        }
        if let Some(report) = loss {
            self.slot.record_loss(&report, LossSubject::of(Some(call.key.as_ref())));
        }
        end(done);
    }
}

fn end(done: Option<oneshot::Sender<Result<(), String>>>) {
    if let Some(done) = done {
        // The run may have ended.
        let _ = done.send(Ok(()));
    }
}
