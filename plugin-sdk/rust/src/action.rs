//! What Informant does after a handler succeeded.

use std::time::Duration;

/// What Informant does after a handler succeeded. Like `Action` of kube-rs: [`done`](Self::done) corresponds to
/// `await_change`, [`requeue_after`](Self::requeue_after) to `requeue`.
///
/// ```
/// # use informant_plugin_sdk::prelude::*;
/// # use std::time::Duration;
/// fn check(pod: &Value) -> Result<Action> {
///     if pod["status"]["phase"] == "Pending" {
///         return Ok(Action::requeue_after(Duration::from_secs(60)));
///     }
///     Ok(Action::done())
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Action {
    requeue_after: Option<Duration>,
}

impl Action {
    /// The event is handled. The next change of the object is the next call.
    #[must_use = "return it from the handler"]
    pub const fn done() -> Self {
        Self { requeue_after: None }
    }

    /// The event is handled. Call the handler again for this object after `delay`, with reason
    /// [`RequeueAfter`](crate::Reason::RequeueAfter): as an update without the old state; for a deleted object as a
    /// delete. This is neither a failure nor a retry. The next call for the object cancels it.
    ///
    /// `delay` is rounded up to whole milliseconds and is at most 49 days. Informant waits at least 100 ms.
    #[must_use = "return it from the handler"]
    pub const fn requeue_after(delay: Duration) -> Self {
        Self {
            requeue_after: Some(delay),
        }
    }

    /// The delay of [`requeue_after`](Self::requeue_after), if there is one.
    pub const fn delay(&self) -> Option<Duration> {
        self.requeue_after
    }

    /// As the contract wants it.
    pub(crate) fn into_ms(self) -> Option<u32> {
        self.requeue_after.map(whole_ms)
    }
}

/// [`Action::done`].
impl From<()> for Action {
    fn from((): ()) -> Self {
        Self::done()
    }
}

/// The delay in milliseconds, rounded up, and at most what the contract can say (49 days).
pub(crate) fn whole_ms(delay: Duration) -> u32 {
    u32::try_from(delay.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_round_up_and_saturate() {
        let sent = |delay| Action::requeue_after(delay).into_ms();
        assert_eq!(Action::done().into_ms(), None);
        assert_eq!(sent(Duration::ZERO), Some(0));
        assert_eq!(sent(Duration::from_nanos(1)), Some(1));
        assert_eq!(sent(Duration::from_micros(1_001)), Some(2));
        assert_eq!(sent(Duration::from_millis(u64::from(u32::MAX) + 1)), Some(u32::MAX));
        assert_eq!(sent(Duration::MAX), Some(u32::MAX));
    }
}
