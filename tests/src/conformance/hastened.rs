//! A clock that runs fast, so that deadlines of minutes are met in seconds.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{BoxFuture, Environment, Moment};

/// Time as `inner` has it, so many times as fast: what sleeps 90 s there sleeps 4.5 s at 20. Sockets and other
/// processes go at their own pace, so it must stay slow enough for them.
pub struct Hastened {
    inner: Arc<dyn Environment>,
    times: u32,
}

impl Hastened {
    /// A clock `times` as fast as `inner`.
    pub fn new(inner: Arc<dyn Environment>, times: u32) -> Self {
        Self { inner, times }
    }
}

impl Environment for Hastened {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.inner.now().as_nanos().saturating_mul(u64::from(self.times)))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        self.inner.sleep(duration / self.times)
    }

    fn spawn(&self, name: &'static str, task: BoxFuture) {
        self.inner.spawn(name, task);
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

#[cfg(test)]
mod tests {
    use informant_informer::TokioEnvironment;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_minute_passes_in_three_seconds() {
        let environment = Hastened::new(Arc::new(TokioEnvironment::current(1)), 20);
        let (outside, inside) = (tokio::time::Instant::now(), environment.now());
        environment.sleep(Duration::from_secs(60)).await;
        assert_eq!(outside.elapsed(), Duration::from_secs(3));
        assert_eq!(environment.now() - inside, Duration::from_secs(60));
    }
}
