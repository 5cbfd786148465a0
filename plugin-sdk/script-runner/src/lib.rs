//! The script runner: runs a file of JavaScript as a plugin.
//!
//! ```text
//! stdin: the script, argv[1]: its name ──▶ QuickJS ──▶ its exports: onAdd, onUpdate, onDelete, onSynced, index, manifest
//!                              contract's calls ──▶ JSON.parse ──▶ the export ──▶ result or failure
//! ```
//!
//! An ordinary plugin: a component of the public contract, with the program it is to run where interpreters find
//! theirs. It exports every role and says in the manifest which of them the script plays, so that what a script does
//! not export costs nothing. A script that cannot be used is said to be so by `describe` (`refused`), with file, line
//! and column. What a script throws is a failure and never a trap: the instance and what it remembers live on.
//!
//! `prelude.js` is what scripts see besides the language: `console` and `informant`.

mod location;
mod refusal;

#[cfg(target_family = "wasm")]
mod bindings;
#[cfg(target_family = "wasm")]
mod exports;
#[cfg(target_family = "wasm")]
mod native;
#[cfg(target_family = "wasm")]
mod program;
#[cfg(target_family = "wasm")]
mod thrown;
