//! Reads the source of the crates below `host/` and checks how they are built inside.
//!
//! ```text
//! host/CRATE/src ─sources─▶ module tree (without tests) ─imports─▶ edges between files ─order, circles─▶ findings
//!                                     └─lines─▶ `cargo xtask lines`
//! ```
//!
//! It sees what `syn` parses: `use` declarations and paths, also in expressions, types and arguments of macros. It does
//! not see what has no path: methods, and `impl` blocks of one type in several files. It builds nothing, so it needs
//! none of the crates that it reads.

pub mod circles;
pub mod imports;
pub mod lines;
pub mod order;
pub mod sources;

mod test_code;
