//! Handlers written in Rust.
//!
//! Owns the trait and the way from a [`Delivery`] to a call and from the call to an [`Outcome`]. Who drives a handler, and where,
//! is the informer's business; calls of one handler never overlap.
//!
//! Source: client-go `ResourceEventHandler`; what the call returns, and what becomes of it, is ours.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use informant_object::{KeyRef, Object, SourceId};

use crate::listener::{Delivery, Outcome, What};
use crate::{Moment, Reason};

/// What a call is about, besides the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventContext {
    /// The source the object came from.
    pub source: SourceId,
    /// Why the call is made. [`Reason::Initial`] is client-go's `isInInitialList`.
    pub reason: Reason,
    /// 0 at the first try, then one more for each retry.
    pub attempt: u32,
    /// When the frame of the (oldest folded) event was read.
    pub received: Moment,
}

/// Is told of each change, in order per key.
///
/// Events say what the store saw, not what the handler accepted: treat add and update alike, as "it is now like this". By the
/// time of the call the store holds that state or a newer one. A panic counts as a trap: it is retried like
/// [`HandlerError::Retryable`], so a handler must be fit to be called again after it unwound.
pub trait EventHandler: Send {
    /// The object is there.
    ///
    /// # Errors
    /// [`HandlerError`]; its variant says whether and when the call is made again.
    fn on_add(&mut self, object: &Object, context: &EventContext) -> Result<(), HandlerError>;

    /// The object changed. `old` is the last state the handler was called with, if it could be kept.
    ///
    /// # Errors
    /// As for [`on_add`](Self::on_add).
    fn on_update(&mut self, old: Option<&Object>, new: &Object, context: &EventContext) -> Result<(), HandlerError>;

    /// The object is gone. `last` is its last known state, or its metadata alone where there was no room for more; with
    /// `final_state_unknown` it vanished unseen, and `last` may be older than the state it was deleted in.
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

    /// Every object of the source was attempted since its initial list or a replay began.
    ///
    /// # Errors
    /// As for [`on_add`](Self::on_add), except that there are no dead letters: the call is given up in the end.
    fn on_synced(&mut self, _context: &EventContext) -> Result<(), HandlerError> {
        Ok(())
    }
}

/// How a handler fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// Try again, with back-off.
    #[error("{0}")]
    Retryable(String),
    /// Try again after that long.
    #[error("{message} (to be tried again after {after:?})")]
    RetryAfter {
        /// What went wrong.
        message: String,
        /// The wait; at most [`RETRY_AFTER_MAX`](crate::listener::RETRY_AFTER_MAX).
        after: Duration,
    },
    /// Trying again is useless: the event becomes a dead letter.
    #[error("{0}")]
    Permanent(String),
}

impl dyn EventHandler + '_ {
    /// Makes the call that `delivery` asks for.
    pub fn deliver(&mut self, delivery: &Delivery) -> Outcome {
        let called = catch_unwind(AssertUnwindSafe(|| self.call(delivery)));
        match called {
            Ok(Ok(())) => Outcome::Ok,
            Ok(Err(error)) => error.into(),
            Err(panic) => Outcome::Trapped(format!("the handler panicked: {}", panic_message(&*panic))),
        }
    }

    fn call(&mut self, delivery: &Delivery) -> Result<(), HandlerError> {
        let Delivery {
            source,
            reason,
            attempt,
            received,
            ..
        } = *delivery;
        let context = EventContext {
            source,
            reason,
            attempt,
            received,
        };
        match &delivery.what {
            What::Add(object) => self.on_add(object, &context),
            What::Update { old, new } => self.on_update(old.as_ref(), new, &context),
            What::Delete {
                last,
                key,
                final_state_unknown,
            } => self.on_delete(key.as_ref(), last.as_ref(), *final_state_unknown, &context),
            What::Synced => self.on_synced(&context),
        }
    }
}

impl From<HandlerError> for Outcome {
    fn from(error: HandlerError) -> Outcome {
        match error {
            HandlerError::Retryable(message) => Outcome::Retryable(message),
            HandlerError::RetryAfter { message, after } => Outcome::RetryAfter(message, after),
            HandlerError::Permanent(message) => Outcome::Permanent(message),
        }
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("with a value that is no text")
}
