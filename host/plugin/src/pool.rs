//! How wasmtime's pooling allocator is set, one reason per knob.
//!
//! Pooling makes an instance in microseconds and gives its memory back at once. Its price is address space: 4 GiB a
//! memory, so that no access needs a check, reserved when the engine is made and not one page of it touched. Above a
//! limit here an instance is refused, in wasmtime's words, and nothing else happens.

use wasmtime::PoolingAllocationConfig;

/// Component instances that live at once: two roles of 1,000 plugins, and room for their successors during swaps.
pub(crate) const COMPONENT_INSTANCES_MAX: u32 = 2_500;

/// Core instances: a component made from Rust or C has four (the code, and shims around it), Python's more.
const CORE_INSTANCES_MAX: u32 = COMPONENT_INSTANCES_MAX * 6;

/// Linear memories: one an instance, and some that have two.
const MEMORIES_MAX: u32 = COMPONENT_INSTANCES_MAX + 500;

/// Tables: two an instance (indirect calls, and the shims').
const TABLES_MAX: u32 = COMPONENT_INSTANCES_MAX * 3;

/// Calls under way at once; each needs a stack. Every instance may have one.
const STACKS_MAX: u32 = COMPONENT_INSTANCES_MAX;

/// Elements of one table. CPython's has some 10,000; debug builds of other run-times up to 20,000.
pub(crate) const TABLE_ELEMENTS_MAX: usize = 100_000;

/// Bytes of what wasmtime keeps about one instance. Python's needs more than the usual 1 MiB.
const INSTANCE_BYTES_MAX: usize = 8 * 1_024 * 1_024;

pub(crate) fn config() -> PoolingAllocationConfig {
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
        // Instances live for hours: nothing is kept warm for the next one, except the few that a restart storm reuses.
        .max_unused_warm_slots(16)
        .linear_memory_keep_resident(0)
        .table_keep_resident(0);
    pool
}
