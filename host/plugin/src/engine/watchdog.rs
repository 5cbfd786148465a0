//! The time limit of a call (`limits.call`), and how a call is abandoned.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use informant_cache::{BoxFuture, Environment};
use tokio_util::sync::CancellationToken;

use crate::engine::budget::{Budget, Slice};
use crate::engine::cpu_meter::CpuMeter;
use crate::engine::scheduler::PermitSlot;
use crate::engine::wait::CallTime;

/// Watches calls of one instance. A call that ends at once, as nearly all do, costs no timer and no allocation.
#[derive(Clone)]
pub(crate) struct CallWatchdog {
    env: Arc<dyn Environment>,
    limit: Duration,
    abort: CancellationToken,
    call_time: CallTime,
    permit: PermitSlot,
    slice: Option<Slice>,
    /// Measures the calls; none: they are not those of a plugin that runs.
    meter: Option<CpuMeter>,
}

/// A call was abandoned. The instance is lost with it: wasmtime cannot enter it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Abandoned {
    #[error("it took longer than {0:?}, the limit for one call (limits.call)")]
    TooLong(Duration),
    #[error("the plugin stands by, or is being stopped and its time to drain is over")]
    Aborted,
}

impl CallWatchdog {
    pub(crate) fn new(env: Arc<dyn Environment>, limit: Duration, abort: CancellationToken) -> CallWatchdog {
        CallWatchdog {
            call_time: CallTime::new(Arc::clone(&env), limit),
            env,
            limit,
            abort,
            permit: PermitSlot::default(),
            slice: None,
            meter: None,
        }
    }

    /// The same, which measures the CPU time of the calls.
    pub(crate) fn metered(self, meter: &CpuMeter) -> CallWatchdog {
        CallWatchdog {
            meter: Some(meter.clone()),
            ..self
        }
    }

    /// The remaining time of the current call.
    pub(crate) fn call_time(&self) -> &CallTime {
        &self.call_time
    }

    /// The same, for a guest with this budget: while it waits in the host, its run permit is released, and its time is
    /// not charged.
    pub(crate) fn with_budget(self, budget: &Budget) -> CallWatchdog {
        CallWatchdog {
            permit: budget.permit().clone(),
            slice: Some(budget.slice().clone()),
            ..self
        }
    }

    /// Waits for `call`, but no longer than its limit. It is pinned: a future has two copies of what it takes by value.
    pub(crate) async fn run<T>(&self, mut call: Pin<&mut impl Future<Output = T>>) -> Result<T, Abandoned> {
        self.call_time.begin();
        let mut deadline = None;
        let mut waits_since = None;
        let mut measured = self.meter.as_ref().and_then(CpuMeter::begin);
        poll_fn(|context| {
            if let (Some(slice), Some(since)) = (&self.slice, waits_since) {
                slice.waited_since(since);
            }
            let polled = match &mut measured {
                Some(measured) => measured.run(|| call.as_mut().poll(context)),
                None => call.as_mut().poll(context),
            };
            if let Poll::Ready(answer) = polled {
                return Poll::Ready(Ok(answer));
            }
            // The guest does not run: at a tick it has released its permit itself, in a wait it is released here.
            self.permit.release();
            waits_since = self.slice.as_ref().map(Slice::now);
            // Only a call that has yielded once needs a timer.
            deadline.get_or_insert_with(|| self.deadline()).poll(context).map(Err)
        })
        .await
    }

    fn deadline(&self) -> Deadline {
        self.call_time.start_timer();
        Deadline {
            limit: self.limit,
            timer: self.env.sleep(self.limit),
            abort: Box::pin(self.abort.clone().cancelled_owned()),
        }
    }
}

/// Ends a call from outside: the time limit, or an abort.
struct Deadline {
    limit: Duration,
    timer: BoxFuture,
    abort: BoxFuture,
}

impl Deadline {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Abandoned> {
        if Pin::new(&mut self.timer).poll(context).is_ready() {
            return Poll::Ready(Abandoned::TooLong(self.limit));
        }
        Pin::new(&mut self.abort).poll(context).map(|()| Abandoned::Aborted)
    }
}
