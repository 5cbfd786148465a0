//! The wall clock: the system's, or that of a scenario.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, Moment};
use jiff::{SignedDuration, Timestamp};
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// Not 0: Go's runtime takes that for a broken clock and aborts ("nanotime returning zero").
pub(crate) const MONOTONIC_FIRST_NANOS: u64 = 1_000_000_000;

/// What the wall clock shows.
#[derive(Clone, Default)]
pub(crate) enum WallClock {
    #[default]
    System,
    Scenario(ScenarioClock),
}

/// Shows an environment's time to the guests of a scenario.
#[derive(Clone)]
pub(crate) struct ScenarioClock {
    env: Arc<dyn Environment>,
    began: Moment,
    unix_time: Duration,
}

impl WallClock {
    pub(crate) fn now(&self) -> Timestamp {
        let WallClock::Scenario(scenario) = self else {
            return Timestamp::now();
        };
        let unix_time = SignedDuration::try_from(HostWallClock::now(scenario)).unwrap_or_default();
        Timestamp::from_duration(unix_time).unwrap_or(Timestamp::UNIX_EPOCH)
    }

    pub(crate) fn scenario(&self) -> Option<&ScenarioClock> {
        match self {
            WallClock::System => None,
            WallClock::Scenario(scenario) => Some(scenario),
        }
    }
}

impl ScenarioClock {
    /// It is `unix_time` now, since 1970.
    pub(crate) fn new(env: &Arc<dyn Environment>, unix_time: Duration) -> ScenarioClock {
        ScenarioClock {
            env: Arc::clone(env),
            began: env.now(),
            unix_time,
        }
    }

    fn elapsed(&self) -> Duration {
        self.env.now() - self.began
    }
}

impl HostWallClock for ScenarioClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        self.unix_time + self.elapsed()
    }
}

impl HostMonotonicClock for ScenarioClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        let nanos = u64::try_from(self.elapsed().as_nanos()).unwrap_or(u64::MAX);
        MONOTONIC_FIRST_NANOS.saturating_add(nanos)
    }
}
