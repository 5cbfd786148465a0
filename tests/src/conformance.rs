//! Support for the conformance suite: informers of the library, observed from outside, behind a proxy that misbehaves.
//!
//! ```text
//!                  ┌─ direct client (writes, and reads the actual state)
//! API server ◀─────┤
//!                  └─ chaos proxy ◀── SharedInformer ──▶ RecordingHandler (a native handler that records its calls)
//! ```
//!
//! A scenario causes trouble on a [`Testbed`] and waits until the cache and the handler of an [`ObservedInformer`]
//! equal what a direct client reads. Then the recorded calls are checked against the delivery contract
//! ([`recording_handler`]).

mod fast_clock;
mod observed;
pub mod recording_handler;
mod testbed;

pub use fast_clock::FastClock;
pub use observed::{ARRIVES_WITHIN, ObservedInformer, Setting};
pub use testbed::Testbed;
