//! WASI without any grants.
//!
//! Language runtimes import most of WASI 0.2 whether a plugin uses it or not, so all of it is linked, but nothing is
//! granted: there are no arguments, variables, directories or sockets; stdin is empty; stdout and stderr go to the
//! plugin's log. Only the script runner gets a script on stdin and its name as an argument. An instance that must be
//! deterministic has frozen clocks and fixed random numbers.

use std::time::{Duration, SystemTime};

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder};

use crate::capture::Tape;
use crate::clock::{MONOTONIC_FIRST_NANOS, ScenarioClock};
use crate::component::script::{self, Script};
use crate::output::{Output, Stream};

/// Random bytes that a guest may request at once: 1 MiB.
const RANDOM_BYTES_MAX: u64 = 1 << 20;

/// The seed of the deterministic random numbers.
const SEED: u64 = 0x1f08_a917;

/// What an instance sees of time and randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WasiMode {
    /// Real clocks and the operating system's random numbers, since guests may derive secrets from them.
    Real,
    /// Frozen clocks and seeded random numbers.
    Deterministic,
}

/// WASI for one instance. `scenario_clock`: of the scenario that it runs in. `tape`: that of the instance.
pub(crate) fn context(
    wasi_mode: WasiMode,
    output: &Output,
    script: Option<&Script>,
    scenario_clock: Option<&ScenarioClock>,
    tape: &Tape,
) -> WasiCtx {
    let mut wasi = WasiCtxBuilder::new();
    wasi.stdout(output.stream(Stream::Stdout))
        .stderr(output.stream(Stream::Stderr))
        .max_random_size(RANDOM_BYTES_MAX)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false);
    if let Some(script) = script {
        wasi.args(&[script::PROGRAM, &script.name])
            .stdin(MemoryInputPipe::new(script.text.clone()));
    }
    if wasi_mode == WasiMode::Deterministic || scenario_clock.is_some() {
        wasi.secure_random(StdRng::seed_from_u64(SEED))
            .insecure_random(StdRng::seed_from_u64(SEED))
            .insecure_random_seed(u128::from(SEED));
    }
    match (wasi_mode, scenario_clock) {
        (WasiMode::Deterministic, _) => {
            wasi.wall_clock(FrozenClock).monotonic_clock(FrozenClock);
        }
        (WasiMode::Real, Some(clock)) => {
            wasi.wall_clock(clock.clone()).monotonic_clock(clock.clone());
        }
        (WasiMode::Real, None) => {
            wasi.wall_clock(TapedClock(tape.clone()));
        }
    }
    wasi.build()
}

/// The system's clock. What a captured call reads from it first is recorded.
struct TapedClock(Tape);

impl HostWallClock for TapedClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        self.0.read_clock(now);
        now
    }
}

/// A clock that stands still: at 1970 for the wall clock, a second after the start for the monotonic one.
struct FrozenClock;

impl HostWallClock for FrozenClock {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for FrozenClock {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        MONOTONIC_FIRST_NANOS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frozen_monotonic_clock_is_not_zero() {
        assert_ne!(HostMonotonicClock::now(&FrozenClock), 0);
    }
}
