//! How long a call may take, and how it is given up.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use informant_cache::{BoxFuture, Environment};
use tokio_util::sync::CancellationToken;

use crate::host_kube::CallTime;
use crate::lanes::Turn;

/// Watches calls of one instance. A call that ends at once, as nearly all do, costs no timer and no allocation.
#[derive(Clone)]
pub(crate) struct Watch {
    env: Arc<dyn Environment>,
    limit: Duration,
    abort: CancellationToken,
    call_time: CallTime,
    turn: Turn,
}

/// A call was given up. The instance is lost with it: wasmtime cannot enter it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GivenUp {
    #[error("it took longer than {0:?}, the limit for one call (limits.call)")]
    TooLong(Duration),
    #[error("Informant is stopping, and its time to drain is over")]
    Aborted,
}

impl Watch {
    pub(crate) fn new(env: Arc<dyn Environment>, limit: Duration, abort: CancellationToken) -> Watch {
        Watch {
            call_time: CallTime::new(Arc::clone(&env), limit),
            env,
            limit,
            abort,
            turn: Turn::default(),
        }
    }

    /// How much time the call under way has left.
    pub(crate) fn call_time(&self) -> &CallTime {
        &self.call_time
    }

    /// The same, of a guest whose leave to run is in `turn`: it gives it back while it waits in the host.
    pub(crate) fn of(self, turn: &Turn) -> Watch {
        Watch {
            turn: turn.clone(),
            ..self
        }
    }

    /// Waits for `call`, but no longer than its limit.
    pub(crate) async fn over<T>(&self, call: impl Future<Output = T>) -> Result<T, GivenUp> {
        self.call_time.begin();
        let mut call = pin!(call);
        let mut late = None;
        poll_fn(|context| {
            if let Poll::Ready(answer) = call.as_mut().poll(context) {
                return Poll::Ready(Ok(answer));
            }
            // It does not run: at a tick it has given its turn back itself, in a wait it is taken from it.
            self.turn.give_back();
            // Only now, after the call has yielded once, is it worth a timer.
            late.get_or_insert_with(|| self.late()).poll(context).map(Err)
        })
        .await
    }

    fn late(&self) -> Late {
        self.call_time.start_timer();
        Late {
            limit: self.limit,
            timer: self.env.sleep(self.limit),
            abort: Box::pin(self.abort.clone().cancelled_owned()),
        }
    }
}

/// What ends a call from outside.
struct Late {
    limit: Duration,
    timer: BoxFuture,
    abort: BoxFuture,
}

impl Late {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<GivenUp> {
        if Pin::new(&mut self.timer).poll(context).is_ready() {
            return Poll::Ready(GivenUp::TooLong(self.limit));
        }
        Pin::new(&mut self.abort).poll(context).map(|()| GivenUp::Aborted)
    }
}
