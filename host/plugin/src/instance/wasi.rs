//! WASI, with nothing granted.
//!
//! Language run-times import most of WASI 0.2 whether a plugin uses it or not, so it is all linked. There is nothing
//! behind it: no argument, variable, folder or socket; stdin is at its end; stdout and stderr are the plugin's log. The
//! script runner alone finds a script on stdin and its name as an argument, as interpreters do. An instance that has to
//! give the same answer each time has a clock that stands still and the same random numbers.

use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtx, WasiCtxBuilder};

use crate::component::script::{self, Script};
use crate::instance::output::{Output, Stream};

/// Random bytes that a guest gets at once: 1 MiB.
const RANDOM_BYTES_MAX: u64 = 1 << 20;

/// What "always the same random numbers" are made from.
const SEED: u64 = 0x1f08_a917;

/// How the world looks to an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WasiMode {
    /// Clocks run, and random is random: the operating system's, since guests may make secrets of it.
    Real,
    /// Nothing changes from call to call.
    Deterministic,
}

pub(crate) fn context(wasi_mode: WasiMode, output: &Output, script: Option<&Script>) -> WasiCtx {
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
    if wasi_mode == WasiMode::Deterministic {
        wasi.secure_random(StdRng::seed_from_u64(SEED))
            .insecure_random(StdRng::seed_from_u64(SEED))
            .insecure_random_seed(u128::from(SEED))
            .wall_clock(FrozenClock)
            .monotonic_clock(FrozenClock);
    }
    wasi.build()
}

/// A clock that shows its beginning.
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
        0
    }
}
