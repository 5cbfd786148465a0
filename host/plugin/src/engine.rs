//! The wasmtime engine all guests run in, and the ticker that interrupts them.
//!
//! One engine for the process. Calls are cheap with it (concurrency support off: 0.3 us instead of 1.2), guests can be
//! interrupted everywhere (epochs), and it refuses what no supported language needs. Does not know what a plugin is.

use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, WasmBacktraceDetails};

use crate::pool;

/// Stack a guest may use: 512 KiB. Deeper recursion is a trap. wasmtime's own default, written down because it is a
/// limit.
pub const WASM_STACK_BYTES_MAX: usize = 512 * 1_024;

/// The whole stack of a call: the guest's and 512 KiB more for host functions, which wasmtime runs on the same stack.
const ASYNC_STACK_BYTES: usize = WASM_STACK_BYTES_MAX + 512 * 1_024;

/// Makes the engine: with the instance pool where its address space can be had, else with memory mapped on demand.
/// Limits on virtual memory, strict overcommit and small address spaces (39 bits on some ARM kernels) make the
/// difference.
///
/// # Errors
/// What wasmtime says if it cannot run on this machine at all.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    match Engine::new(config().allocation_strategy(InstanceAllocationStrategy::Pooling(pool::config()))) {
        Ok(engine) => Ok(engine),
        Err(error) => {
            tracing::warn!(
                error = format!("{error:#}"),
                "no address space for the instance pool: plugins get their memory on demand, and restart more slowly"
            );
            on_demand()
        }
    }
}

/// The engine without a pool: for want of address space, and to compile. The code is the same with and without.
///
/// # Errors
/// What wasmtime says if it cannot run on this machine at all.
pub(crate) fn on_demand() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// What holds with either allocator. Part of the key of compiled artifacts, through wasmtime's own hash of it.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // Costs each call a microsecond and buys WASI 0.3, which no plugin language emits yet.
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES_MAX)
        .async_stack_size(ASYNC_STACK_BYTES)
        .cranelift_opt_level(OptLevel::Speed)
        // Mapped lazily from the artifact: an instance touches only the pages its guest writes.
        .memory_init_cow(true)
        // Names of functions in trap reports, where the component has them; lines only if the operator asks by
        // environment.
        .wasm_backtrace_details(WasmBacktraceDetails::Environment)
        // Every proposal that is on is code that has to be right. These no guest toolchain we support emits.
        .wasm_memory64(false)
        .wasm_multi_memory(true)
        .wasm_tail_call(true)
        .wasm_relaxed_simd(true)
        .relaxed_simd_deterministic(true);
    config
}
