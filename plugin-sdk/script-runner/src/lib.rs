//! The script runner: runs a file of JavaScript as a plugin.
//!
//! ```text
//! stdin: script, argv[1]: name ──▶ QuickJS ──▶ exports: onAdd, onUpdate, reconcile, onTimer, onSynced, index, save, …
//! call of the contract ──▶ JSON.parse ──▶ export ──▶ result or failure
//! ```
//!
//! The runner is an ordinary plugin: a component of the public contract, which reads its script from stdin as
//! interpreters do. It exports every role, and its manifest lists the roles that the script plays, so that functions
//! that a script does not export cost nothing. For an invalid script `describe` returns an error with file, line and
//! column. An exception of a script is a failure and never a trap: the instance keeps running with its memory.
//!
//! The modules in `plugin-sdk/javascript/prelude` are what scripts import as `informant`, and the global `console`.

mod location;

#[cfg(target_family = "wasm")]
mod bindings;
#[cfg(target_family = "wasm")]
mod exports;
#[cfg(target_family = "wasm")]
mod native;
#[cfg(target_family = "wasm")]
mod prelude;
#[cfg(target_family = "wasm")]
mod program;
#[cfg(target_family = "wasm")]
mod rejections;
#[cfg(target_family = "wasm")]
mod runner_section;
#[cfg(target_family = "wasm")]
mod sdk_section;
#[cfg(target_family = "wasm")]
mod thrown;
