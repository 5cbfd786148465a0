//! Bodies of objects of which the cache has only the head, because its budget was reached.

use std::time::Duration;

use informant_cache::{AnswerBody, BodyUnavailable, Catalog, Environment, Source};
use informant_object::{Object, SourceId};
use tokio::sync::oneshot;

use crate::engine::wait::{TooLate, at_most};

/// How long an event or an index value waits for a body: 5 s. Then the event waits for a later one, as after an answer
/// `not-ready`, and the index value is tried again.
pub(crate) const BODY_WAIT_MAX: Duration = Duration::from_secs(5);

/// A read that took longer than this has held up its worker, which could have called for objects of other namespaces:
/// 1 s.
const BODY_SLOW: Duration = Duration::from_secs(1);

/// The same for a read that failed, of which there may be one for each object of a namespace: 100 ms.
const FAILED_BODY_SLOW: Duration = Duration::from_millis(100);

/// Whether a body that took so long has held up its worker.
pub(crate) fn has_held_up(body: Result<&Object, &BodyUnavailable>, took: Duration) -> bool {
    let limit = match body {
        Ok(_) | Err(BodyUnavailable::Gone) => BODY_SLOW,
        Err(BodyUnavailable::Busy | BodyUnavailable::Failed(_) | BodyUnavailable::NoReader) => FAILED_BODY_SLOW,
    };
    took > limit
}

/// Reads bodies for calls.
#[derive(Clone, Copy)]
pub(crate) struct Bodies<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) env: &'a dyn Environment,
}

impl Bodies<'_> {
    /// The object of `source` that `head` is of, whole, in at most [`BODY_WAIT_MAX`]. It may be newer.
    pub(crate) async fn read(self, source: SourceId, head: &Object) -> Result<Object, BodyUnavailable> {
        let source = self.catalog.source(source).ok_or(BodyUnavailable::Gone)?;
        match at_most(self.env, BODY_WAIT_MAX, read_body(&source, head)).await {
            Ok(body) => body,
            Err(TooLate) => Err(BodyUnavailable::Busy),
        }
    }
}

/// The object that `head` is of, whole, without a limit of time.
pub(crate) async fn read_body(source: &Source, head: &Object) -> Result<Object, BodyUnavailable> {
    let (sender, answer) = oneshot::channel();
    source.read_body(head, Box::new(WaitingCall(sender)));
    // The source ended with the request.
    answer.await.unwrap_or(Err(BodyUnavailable::NoReader))
}

/// A call that waits for a body, until it gives up.
struct WaitingCall(oneshot::Sender<Result<Object, BodyUnavailable>>);

impl AnswerBody for WaitingCall {
    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    fn send(self: Box<Self>, body: Result<Object, BodyUnavailable>) -> bool {
        self.0.send(body).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_and_failed_reads_hold_up_a_worker() {
        let gone = BodyUnavailable::Gone;
        fn holds_up(error: &BodyUnavailable, millis: u64) -> bool {
            has_held_up(Err(error), Duration::from_millis(millis))
        }
        assert_eq!([holds_up(&gone, 1_000), holds_up(&gone, 1_001)], [false, true]);
        for failed in [BodyUnavailable::Busy, BodyUnavailable::Failed("500".to_owned())] {
            assert_eq!(
                [holds_up(&failed, 100), holds_up(&failed, 101)],
                [false, true],
                "{failed}"
            );
        }
    }
}
