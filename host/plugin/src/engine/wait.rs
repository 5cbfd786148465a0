//! Time limits of waiting in the host: never beyond the guest's own call.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use informant_cache::{Environment, Moment};

/// The part of a call's time limit that remains for the guest to handle a `timeout`: a tenth.
const KEPT_PART: u32 = 10;

/// The time of the current call. Cheap to clone; clones belong to the same instance.
#[derive(Clone)]
pub(crate) struct CallTime {
    env: Arc<dyn Environment>,
    limit: Duration,
    /// When the call's own timer was started, in nanoseconds; 0: not yet, because the call has not waited.
    timed_since: Arc<AtomicU64>,
}

/// The time limit was exceeded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLate;

impl CallTime {
    /// Calls take at most `limit`.
    pub(crate) fn new(env: Arc<dyn Environment>, limit: Duration) -> CallTime {
        CallTime {
            env,
            limit,
            timed_since: Arc::default(),
        }
    }

    /// A call starts. Reads no clock, because most calls never wait.
    pub(crate) fn begin(&self) {
        self.timed_since.store(0, Ordering::Relaxed);
    }

    /// The call's timer starts now.
    pub(crate) fn start_timer(&self) {
        self.timed_since
            .store(self.env.now().as_nanos().max(1), Ordering::Relaxed);
    }

    /// The remaining time that the guest may wait.
    pub(crate) fn left(&self) -> Duration {
        let kept = self.limit / KEPT_PART;
        let used = match self.timed_since.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            nanos => self.env.now() - Moment::from_nanos(nanos),
        };
        self.limit.saturating_sub(kept).saturating_sub(used)
    }

    /// Waits for `work`, but no longer than the guest may wait. Work that is done at once costs no timer.
    pub(crate) async fn bound<T>(&self, work: impl Future<Output = T>) -> Result<T, TooLate> {
        at_most(&*self.env, self.left(), work).await
    }
}

pub(crate) async fn at_most<T>(
    env: &dyn Environment,
    limit: Duration,
    work: impl Future<Output = T>,
) -> Result<T, TooLate> {
    let mut work = pin!(work);
    let mut late = None;
    poll_fn(|context| {
        if let Poll::Ready(answer) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(answer));
        }
        let late = late.get_or_insert_with(|| env.sleep(limit));
        late.as_mut().poll(context).map(|()| Err(TooLate))
    })
    .await
}
