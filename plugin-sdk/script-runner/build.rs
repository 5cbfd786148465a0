//! Sets the size of the stack.

/// 768 KiB instead of 1 MiB: each instance has one, and it is memory that the first deep call makes resident. It holds
/// twice the levels of a document that scripts may read (`LEVELS_MAX`).
const STACK_BYTES: usize = 768 * 1_024;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_FAMILY").is_ok_and(|family| family == "wasm") {
        println!("cargo:rustc-link-arg-cdylib=-zstack-size={STACK_BYTES}");
    }
}
