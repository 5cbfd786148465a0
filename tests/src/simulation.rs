//! The simulation: a complete informer on the embedded API server, without sockets, under paused time, driven by a
//! seed.
//!
//! ```text
//! seed ─▶ schedule (writes, faults; informers and handlers added, failing and removed) ─▶ informers ─▶ history ─▶
//! checker
//! ```
//!
//! The checker is a pure function of the history. The history is plain data that prints as JSON lines, so that the
//! effects of a seed can be read and compared. A seed always replays exactly.

#![doc = include_str!("simulation/cases.md")]

pub mod checker;
mod controller;
mod fed_index;
mod guest;
mod handler;
pub mod history;
mod lines;
mod process;
mod recorder;
mod replicas;
mod rng;
mod run;
pub mod scenario;
mod scenarios;
mod schedule;
mod seeds;
mod tap;
mod watched;
mod world;

pub use checker::{Clause, Violation, check};
pub use history::History;
pub use run::{Run, has_replicas, has_shards, run};
pub use seeds::{SeedsRun, run_seeds};
