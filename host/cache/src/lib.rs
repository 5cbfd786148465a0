//! The cache: takes what a reflector reads, and serves handlers and readers.
//!
//! ```text
//! Reflector ──▶ DeltaFifo ──▶ informer loop ──▶ StoreWriter ──publish──▶ Snapshot (through the Catalog) ──▶ readers
//!                                  │                 ▲ index values
//!                                  └──changes──▶ listeners ──▶ handlers, native or WebAssembly
//! ```
//!
//! This crate owns the delta queue, the store and its indexes, snapshots, listers, the catalog of sources, the guard
//! against resource versions that go back, listeners, the workqueue, and the traits [`EventHandler`], [`IndexFunc`] and
//! [`Transform`]. It is pure: no I/O, no async, no clock, no randomness; time and random numbers are passed in
//! ([`Environment`]). Waiting and waking are the caller's job; for programs with threads, [`blocking`] does both.
//!
//! The model is client-go's `tools/cache`; each item states where it departs from it.

mod backoff;
pub mod blocking;
mod catalog;
mod delta;
mod delta_fifo;
mod environment;
mod event_handler;
mod index;
pub mod index_feed;
mod journal;
mod known_objects;
pub mod listener;
mod lister;
mod log_throttle;
pub mod seeded_bug;
mod source;
mod store;
#[cfg(test)]
mod testing;
mod token_bucket;
mod transform;
mod version_guard;
pub mod workqueue;

pub use backoff::{Backoff, BackoffOptions, around, with_jitter};
pub use catalog::{Catalog, UnknownSource};
pub use delta::{Delta, DeltaObject, DeltaType, Deltas, Tombstone};
pub use delta_fifo::{Batch, DeltaFifo, DeltaFifoOptions, DeltaFifoStats, Pop, ReplaceSummary};
pub use environment::{BoxFuture, Environment, Moment};
pub use event_handler::{EventContext, EventHandler, EventHandlerFuncs, FilteringEventHandler, HandlerError};
pub use index::{
    INDEX_FAILURE_MESSAGE_BYTES_MAX, INDEX_FAILURES_LISTED_MAX, INDEX_VALUES_BYTES_MAX, INDEX_VALUES_MAX,
    IndexConflict, IndexContents, IndexError, IndexFailures, IndexFunc, IndexValues, NAMESPACE_INDEX, PointerIndex,
};
pub use index_feed::IndexFeedHandle;
pub use journal::Journal;
pub use known_objects::{KnownObjects, LookupFailed, NothingKnown};
pub use listener::ListenerHandle;
pub use listener::delivery::Reason;
pub use lister::{FoundObject, Lister, NamespaceLister, ObjectNotFound};
pub use log_throttle::{LinesDue, LogThrottle};
pub use source::{SOURCE_ERROR_BYTES_MAX, Source, SourceInfo, SourceState, SourceStatus};
pub use store::{Cursor, GARBAGE_ROOTS_MAX, Garbage, IndexFilling, OBJECTS_BETWEEN_YIELDS_MAX, Snapshot, StoreWriter};
pub use token_bucket::TokenBucket;
pub use transform::{Transform, TransformError};
pub use version_guard::{EventVerdict, ListSource, ListVerdict, VersionGuard, VersionGuardStats};
