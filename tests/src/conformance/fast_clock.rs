//! A clock that runs faster, so that deadlines of minutes pass in seconds.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{BoxFuture, Environment, Moment};

/// The time of `inner`, accelerated: at a factor of 20, a sleep of 90 s takes 4.5 s. Sockets and other processes run at
/// their own speed, so the factor must stay low enough for them.
pub struct FastClock {
    inner: Arc<dyn Environment>,
    times: u32,
}

impl FastClock {
    /// A clock that runs `times` as fast as `inner`.
    pub fn new(inner: Arc<dyn Environment>, times: u32) -> Self {
        Self { inner, times }
    }
}

impl Environment for FastClock {
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
        let environment = FastClock::new(Arc::new(TokioEnvironment::current(1)), 20);
        let (outside, inside) = (tokio::time::Instant::now(), environment.now());
        environment.sleep(Duration::from_secs(60)).await;
        assert_eq!(outside.elapsed(), Duration::from_secs(3));
        assert_eq!(environment.now() - inside, Duration::from_secs(60));
    }
}
