//! The simulation: a whole informer on the embedded API server, without sockets, under paused time, driven by a seed.
//!
//! ```text
//! seed ─▶ schedule (writes, faults, slow and failing handlers) ─▶ informer on the server ─▶ history ─▶ checker
//! ```
//!
//! The checker is a pure function over the history; the history is plain data that prints as JSON lines, so that what a seed
//! did can be read and compared. One seed replays exactly.

pub mod checker;
mod dice;
mod handler;
pub mod history;
mod run;
mod schedule;
mod world;

pub use run::{Run, run};
