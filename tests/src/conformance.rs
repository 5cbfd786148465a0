//! What the conformance suite stands on: informers of the library, seen from outside, behind a proxy that misbehaves.
//!
//! ```text
//!                  ┌─ direct client (writes, and says what is true)
//! API server ◀─────┤
//!                  └─ chaos proxy ◀── SharedInformer ──▶ Witness (a native handler that writes everything down)
//! ```
//!
//! A scenario makes trouble on a [`Ground`], waits until what an [`Observed`] informer keeps and told equals what a
//! direct client sees, and then has the record judged by the delivery contract ([`witness`]).

mod ground;
mod hastened;
mod observed;
pub mod witness;

pub use ground::Ground;
pub use hastened::Hastened;
pub use observed::{ARRIVES_WITHIN, Observed, Setting};
