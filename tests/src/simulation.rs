//! The simulation: a whole informer on the embedded API server, without sockets, under paused time, driven by a seed.
//!
//! ```text
//! seed ─▶ schedule (writes, faults, handlers and informers that come, fail and go) ─▶ informers on the server ─▶ history ─▶ checker
//! ```
//!
//! The checker is a pure function over the history; the history is plain data that prints as JSON lines, so that what a
//! seed did can be read and compared. One seed replays exactly.

#![doc = include_str!("simulation/cases.md")]

pub mod checker;
mod dice;
mod handler;
pub mod history;
mod run;
pub mod scenario;
mod scenarios;
mod schedule;
mod watched;
mod witness;
mod world;

pub use checker::{Clause, Violation, check};
pub use history::History;
pub use run::{Run, run};
