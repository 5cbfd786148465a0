//! Promises that were rejected and that nothing awaits: a script would not notice these errors.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::{Persistent, Runtime, Value};

/// Rejections of one call that are logged: 10. The others are only counted.
const LOGGED_MAX: usize = 10;

/// A promise, and the reason for its rejection.
type Rejection = (Persistent<Value<'static>>, Persistent<Value<'static>>);

/// The rejected promises of the present call that have no handler.
#[derive(Clone, Default)]
pub(crate) struct Rejections(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    first: Vec<Rejection>,
    others: usize,
}

impl Rejections {
    /// Keeps track of the promises of `runtime`.
    pub(crate) fn of(runtime: &Runtime) -> Rejections {
        let rejections = Rejections::default();
        let tracked = rejections.clone();
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, is_handled| {
            if is_handled {
                return tracked.forget(&promise);
            }
            let mut state = tracked.0.borrow_mut();
            if state.first.len() < LOGGED_MAX {
                let saved = (Persistent::save(&ctx, promise), Persistent::save(&ctx, reason));
                state.first.push(saved);
            } else {
                state.others += 1;
            }
        })));
        rejections
    }

    /// Forgets `promise`: its rejection is handled.
    pub(crate) fn forget(&self, promise: &Value<'_>) {
        let mut state = self.0.borrow_mut();
        let is_it = |(saved, _): &Rejection| {
            saved
                .clone()
                .restore(promise.ctx())
                .is_ok_and(|saved| saved == *promise)
        };
        match state.first.iter().position(is_it) {
            Some(number) => drop(state.first.swap_remove(number)),
            None => state.others = state.others.saturating_sub(1),
        }
    }

    /// Takes the reasons, oldest first, and the number of those that were not kept.
    pub(crate) fn take(&self) -> (Vec<Persistent<Value<'static>>>, usize) {
        let State { first, others } = self.0.take();
        (first.into_iter().map(|(_, reason)| reason).collect(), others)
    }
}
