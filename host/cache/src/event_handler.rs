//! Handlers written in Rust.
//!
//! Defines the trait, turns a [`Delivery`] into a call and the call's result into a [`DeliveryOutcome`]. The informer
//! decides where a handler runs; calls of one handler never overlap.
//!
//! Source: client-go `ResourceEventHandler`; the returned result, and what follows from it, is ours.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use informant_object::{KeyRef, Object, SourceId};

use crate::listener::{Delivery, DeliveryOutcome, Notification};
use crate::{Moment, Reason};

/// The context of a handler call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventContext {
    /// The source the object came from.
    pub source: SourceId,
    /// Why the call is made. [`Reason::Initial`] is client-go's `isInInitialList`.
    pub reason: Reason,
    /// 0 at the first attempt, plus 1 per retry.
    pub attempt: u32,
    /// When the frame of the event (the oldest, if events were folded) was read.
    pub received: Moment,
}

/// Is called for each change, in order per key.
///
/// Events carry the states of the store, not those the handler accepted: treat add and update alike, as "the object is
/// now like this". At the time of the call the store holds that state or a newer one. A panic counts as a trap and is
/// retried like [`HandlerError::Retryable`], so a handler must support being called again after it unwound.
pub trait EventHandler: Send {
    /// The object exists.
    ///
    /// # Errors
    /// [`HandlerError`]; its variant decides whether and when the call is retried.
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError>;

    /// The object changed. `old` is the last state the handler was called with, unless it was dropped.
    ///
    /// # Errors
    /// As for [`on_add`](Self::on_add).
    fn on_update(&mut self, old: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError>;

    /// The object was deleted. `last` is its last known state, or only its metadata above the limit on bytes; with
    /// `final_state_unknown` the delete was not observed, and `last` may be older than the final state.
    ///
    /// # Errors
    /// As for [`on_add`](Self::on_add).
    fn on_delete(
        &mut self,
        key: KeyRef<'_>,
        last: Option<&Object>,
        final_state_unknown: bool,
        context: &EventContext,
    ) -> Result<(), HandlerError>;

    /// Every object of the source was attempted since its initial list or a replay started.
    ///
    /// # Errors
    /// As for [`on_add`](Self::on_add), but without dead letters: after the last attempt the call is dropped.
    fn on_synced(&mut self, _context: &EventContext) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// The failure of a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// Retry with back-off.
    #[error("{0}")]
    Retryable(String),
    /// Retry after this time.
    #[error("{message} (retry after {after:?})")]
    RetryAfter {
        /// What went wrong.
        message: String,
        /// The wait; at most [`RETRY_AFTER_MAX`](crate::listener::RETRY_AFTER_MAX).
        after: Duration,
    },
    /// A retry is useless: the event becomes a dead letter.
    #[error("{0}")]
    Permanent(String),
}

impl dyn EventHandler + '_ {
    /// Calls the handler with `delivery`.
    pub fn deliver(&mut self, delivery: &Delivery) -> DeliveryOutcome {
        let called = catch_unwind(AssertUnwindSafe(|| self.call(delivery)));
        match called {
            Ok(Ok(())) => DeliveryOutcome::Ok,
            Ok(Err(error)) => error.into(),
            Err(panic) => DeliveryOutcome::Trapped(format!("the handler panicked: {}", panic_message(&*panic))),
        }
    }

    fn call(&mut self, delivery: &Delivery) -> Result<(), HandlerError> {
        let context = EventContext {
            source: delivery.source,
            reason: delivery.reason,
            attempt: delivery.attempt,
            received: delivery.received,
        };
        match &delivery.notification {
            Notification::Add(object) => self.on_add(object, &context),
            Notification::Update { old, new } => self.on_update(old.as_ref(), new, &context),
            Notification::Delete {
                last,
                key,
                final_state_unknown,
            } => self.on_delete(key.as_ref(), last.as_ref(), *final_state_unknown, &context),
            Notification::Synced => self.on_synced(&context),
            // Its timers are its own.
            Notification::Tick(_) => Ok(()),
        }
    }
}

impl From<HandlerError> for DeliveryOutcome {
    fn from(error: HandlerError) -> DeliveryOutcome {
        match error {
            HandlerError::Retryable(message) => DeliveryOutcome::Retryable(message),
            HandlerError::RetryAfter { message, after } => DeliveryOutcome::RetryAfter(message, after),
            HandlerError::Permanent(message) => DeliveryOutcome::Permanent(message),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a value that is not a string")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{ChangeKind, ListenerHandle, ListenerOptions, NextDelivery, ObjectChange};
    use crate::{Snapshot, testing};

    /// Records its calls, and behaves as the object's name says.
    #[derive(Default)]
    struct Recorder {
        calls: Vec<String>,
    }

    impl Recorder {
        fn record(&mut self, call: String, name: &str, context: &EventContext) -> Result<(), HandlerError> {
            self.calls.push(format!(
                "{call} {} {} try {}",
                context.source, context.reason, context.attempt
            ));
            let after = Duration::from_secs(7);
            match name {
                "retryable" => Err(HandlerError::Retryable("busy".to_owned())),
                "later" => Err(HandlerError::RetryAfter {
                    message: "later".to_owned(),
                    after,
                }),
                "permanent" => Err(HandlerError::Permanent("no".to_owned())),
                "panics" => panic!("it is called {name}"),
                _ => Ok(()),
            }
        }
    }

    impl EventHandler for Recorder {
        fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError> {
            self.record(format!("add {}", object.name()), object.name(), context)
        }

        fn on_update(
            &mut self,
            old: Option<&Object>,
            new: &Object,
            context: &EventContext,
        ) -> Result<(), HandlerError> {
            let old = old.map(|old| old.version().to_string());
            self.record(format!("update {old:?}->{}", new.version()), new.name(), context)
        }

        fn on_delete(
            &mut self,
            key: KeyRef<'_>,
            last: Option<&Object>,
            final_state_unknown: bool,
            context: &EventContext,
        ) -> Result<(), HandlerError> {
            self.record(
                format!("delete {key} {} {final_state_unknown}", last.is_some()),
                key.name,
                context,
            )
        }
    }

    /// The outcomes and calls of a recorder that receives `kinds`, without those for `Synced`.
    fn deliver(kinds: impl IntoIterator<Item = ChangeKind>) -> (Vec<DeliveryOutcome>, String) {
        let (listener, source, now) = (
            ListenerHandle::new(ListenerOptions::default()),
            SourceId(1),
            Moment::ZERO,
        );
        let change = |kind| ObjectChange {
            kind,
            reason: Reason::Relist,
            received: now,
        };
        let changes: Vec<ObjectChange> = kinds.into_iter().map(change).collect();
        listener.feed().attach(source, &Snapshot::default(), now);
        let (mut recorder, mut outcomes) = (Recorder::default(), Vec::new());
        let handler: &mut dyn EventHandler = &mut recorder;
        while let NextDelivery::Deliver(delivery) = listener.consumer().next(now) {
            let outcome = handler.deliver(&delivery);
            listener.consumer().done(delivery.token, outcome.clone(), now);
            if delivery.key().is_some() {
                outcomes.push(outcome);
            } else {
                listener.feed().push(source, &Snapshot::default(), &changes);
            }
        }
        (outcomes, recorder.calls.join("\n"))
    }

    #[test]
    fn each_notification_becomes_its_call() {
        let (old, new) = (testing::pod("a", 1), testing::pod("a", 2));
        let delete = ChangeKind::Delete {
            last: None,
            key: new.key().to_key(),
            final_state_unknown: true,
        };
        let (outcomes, calls) = deliver([ChangeKind::Add(old.clone()), ChangeKind::Update { old, new }, delete]);
        assert_eq!(
            outcomes,
            [DeliveryOutcome::Ok, DeliveryOutcome::Ok, DeliveryOutcome::Ok]
        );
        insta::assert_snapshot!(calls, @r#"
        add a 1 relist try 0
        update Some("1")->2 1 relist try 0
        delete default/a false true 1 relist try 0
        "#);
    }

    #[test]
    fn each_handler_error_becomes_its_outcome() {
        let names = ["retryable", "later", "permanent", "panics"];
        let (outcomes, _) = deliver(names.map(|name| ChangeKind::Add(testing::pod(name, 1))));
        let expected = [
            DeliveryOutcome::Retryable("busy".to_owned()),
            DeliveryOutcome::RetryAfter("later".to_owned(), Duration::from_secs(7)),
            DeliveryOutcome::Permanent("no".to_owned()),
            DeliveryOutcome::Trapped("the handler panicked: it is called panics".to_owned()),
        ];
        assert_eq!(outcomes, expected);
    }
}
