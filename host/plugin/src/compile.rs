//! From a component to native code.
//!
//! One function, from bytes to bytes, that needs nothing else of this process: the place at which compiling moves into a child
//! process with limits on time and memory.

use wasmtime::Engine;

/// Compiles a component to what [`wasmtime::component::Component::deserialize_file`] reads.
///
/// Takes from a twentieth of a second (Rust, C) to some seconds and 300 MiB (JavaScript, Python), on all cores.
///
/// # Errors
/// wasmtime's words, if the component is not valid or uses what the engine has switched off.
pub(crate) fn compile(engine: &Engine, component: &[u8]) -> Result<Vec<u8>, String> {
    engine
        .precompile_component(component)
        .map_err(|error| format!("{error:#}"))
}
