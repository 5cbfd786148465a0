//! Time and tasks of a test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use informant_cache::{BoxFuture, Environment, Moment};
use tokio::runtime::Handle;

/// tokio's clock, paused or not.
pub(crate) struct TestEnvironment {
    began: tokio::time::Instant,
    handle: Handle,
    random: AtomicU64,
}

impl TestEnvironment {
    pub(crate) fn new() -> TestEnvironment {
        TestEnvironment {
            began: tokio::time::Instant::now(),
            handle: Handle::current(),
            random: AtomicU64::new(1),
        }
    }
}

impl Environment for TestEnvironment {
    fn now(&self) -> Moment {
        Moment::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap())
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        let _entered = self.handle.enter();
        Box::pin(tokio::time::sleep(duration))
    }

    fn spawn(&self, _name: &'static str, task: BoxFuture) {
        self.handle.spawn(task);
    }

    fn random(&self) -> u64 {
        self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}
