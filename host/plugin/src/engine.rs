//! The wasmtime engine all guests run in, and the ticker that interrupts them.
//!
//! One engine for the process. Calls are cheap with it (concurrency support off: 0.3 us instead of 1.2), guests can be
//! interrupted everywhere (epochs), and it rejects WebAssembly features that no supported language needs. It does not
//! know what a plugin is.

pub(crate) mod budget;
pub(crate) mod compile;
pub(crate) mod cpu_meter;
pub(crate) mod erase;
pub(crate) mod limiter;
pub(crate) mod scheduler;
pub(crate) mod ticker;
pub(crate) mod trap;
pub(crate) mod wait;
pub(crate) mod watchdog;

mod guest_count;

mod sync {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
}

use wasmtime::{Config, Engine, InstanceAllocationStrategy, OptLevel, PoolingAllocationConfig, WasmBacktraceDetails};

/// Bytes a guest may pass in one call of a host function or return as one result: 16 MiB. More is a trap.
pub(crate) const TRANSFER_BYTES_MAX: usize = 16 << 20;

/// Stack of a guest: 512 KiB. Deeper recursion is a trap. It is wasmtime's default, written down because it is a limit.
pub(crate) const WASM_STACK_BYTES_MAX: usize = 512 * 1_024;

/// The whole stack of a call: the guest's, and 512 KiB for host functions, which wasmtime calls on the same stack.
const ASYNC_STACK_BYTES: usize = WASM_STACK_BYTES_MAX + 512 * 1_024;

/// Live component instances: two roles of 1,000 plugins, and spare ones for swaps.
const COMPONENT_INSTANCES_MAX: u32 = 2_500;

/// Core instances: a component made from Rust or C has four (the code, and shims around it), Python's more.
const CORE_INSTANCES_MAX: u32 = COMPONENT_INSTANCES_MAX * 6;

/// Linear memories: one per instance, and some instances with two.
const MEMORIES_MAX: u32 = COMPONENT_INSTANCES_MAX + 500;

/// Tables: two per instance (indirect calls, and the shims').
const TABLES_MAX: u32 = COMPONENT_INSTANCES_MAX * 3;

/// Concurrent calls; each needs a stack. Every instance may have one.
const STACKS_MAX: u32 = COMPONENT_INSTANCES_MAX;

/// Elements of one table. CPython's has some 10,000; debug builds of other run-times up to 20,000.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Bytes of wasmtime's own data of one instance. Python's needs more than the default of 1 MiB.
const INSTANCE_BYTES_MAX: usize = 8 * 1_024 * 1_024;

/// Creates the engine: with the instance pool if its address space can be reserved, otherwise with memory mapped on
/// demand. Limits on virtual memory, strict overcommit and small address spaces (39 bits on some ARM kernels) prevent
/// the reservation.
pub(crate) fn engine() -> wasmtime::Result<Engine> {
    match Engine::new(config().allocation_strategy(InstanceAllocationStrategy::Pooling(pooling()))) {
        Ok(engine) => Ok(engine),
        Err(error) => {
            tracing::warn!(
                error = %format_args!("{error:#}"),
                "instance pool unavailable; plugin memory is allocated on demand and restarts are slower"
            );
            on_demand()
        }
    }
}

/// The engine without a pool: for lack of address space, and to compile. The compiled code is the same with and
/// without.
pub(crate) fn on_demand() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// An engine that compiles for every processor of a target, not for this machine's.
///
/// # Errors
/// If this build has no compiler for the target: see the feature `all-architectures`.
pub(crate) fn for_target(target: &str) -> wasmtime::Result<Engine> {
    Engine::new(config().target(target)?)
}

/// The settings with either allocator. Part of the key of compiled artifacts, through wasmtime's own hash of them.
fn config() -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        // Costs a microsecond per call, and enables the functions of WASI 0.3, which the contract does not use: its
        // functions are not `async`.
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(WASM_STACK_BYTES_MAX)
        .async_stack_size(ASYNC_STACK_BYTES)
        .cranelift_opt_level(OptLevel::Speed)
        // Mapped lazily from the artifact: an instance touches only the pages its guest writes.
        .memory_init_cow(true)
        // Function names in trap reports, where the component has them; lines only if the operator sets wasmtime's
        // environment variable.
        .wasm_backtrace_details(WasmBacktraceDetails::Environment)
        // Every enabled proposal is code that must be correct. No supported guest toolchain emits this one.
        .wasm_memory64(false)
        .wasm_multi_memory(true)
        .wasm_tail_call(true)
        .wasm_relaxed_simd(true)
        .relaxed_simd_deterministic(true);
    config
}

/// The pooling allocator, one reason per setting.
///
/// Pooling creates an instance in microseconds and returns its memory at once. Its price is address space: 4 GiB per
/// memory, so that no access needs a bounds check, reserved when the engine is created without touching a page. Above a
/// limit here, wasmtime rejects the instance and nothing else happens.
fn pooling() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(COMPONENT_INSTANCES_MAX)
        .total_core_instances(CORE_INSTANCES_MAX)
        .total_memories(MEMORIES_MAX)
        .total_tables(TABLES_MAX)
        .total_stacks(STACKS_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_tables_per_module(4)
        .max_memories_per_module(2)
        .max_component_instance_size(INSTANCE_BYTES_MAX)
        .max_core_instance_size(INSTANCE_BYTES_MAX)
        // Instances live for hours: only the few slots that a restart storm reuses are kept warm.
        .max_unused_warm_slots(16)
        .linear_memory_keep_resident(0)
        .table_keep_resident(0);
    pool
}
