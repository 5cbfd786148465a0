//! The cache: takes what a reflector reads, and serves handlers and readers.
//!
//! ```text
//! Reflector ──▶ DeltaFifo ──▶ informer loop ──▶ StoreWriter ──publish──▶ Snapshot (through the Catalog) ──▶ readers
//!                                  │                 ▲ index values
//!                                  └──changes──▶ listeners ──▶ handlers, native or WebAssembly
//! ```
//!
//! This crate owns the delta queue, the store and its indexes, snapshots, the catalog of sources, the guard against
//! resource versions that go back, listeners, and the traits [`EventHandler`] and [`IndexFunc`]. It is pure: no I/O, no
//! async, no clock, no randomness; time and random numbers are passed in ([`Environment`]). Waiting and waking are the
//! caller's job; for programs with threads, the crate `informant-client-go` does both.
//!
//! Start at [`DeltaFifo`], [`StoreWriter`] and [`ListenerHandle`]. The module [`listener`] states the rules of
//! delivery: the life of a slot, and retries. [`listener::ListenerCounters`] lists what it leaves out. Below it,
//! `delivery` has the types that pass through a listener, its options and limits, and the tables that it keeps;
//! `listener` re-exports what is public.
//!
//! The model is client-go's `tools/cache`; each item states where it departs from it.
//!
//! Its modules, lowest layer first; none imports from a layer above its own:
//!
//! ```layers
//! budget environment identity index readiness seeded_bug
//! backoff kept_deletes log_throttle shards token_bucket version_guard
//! catalog source store
//! delivery
//! listener
//! delta event_handler index_feed journal
//! delta_fifo
//! ```

mod backoff;
mod budget;
mod catalog;
mod delivery;
mod delta;
mod delta_fifo;
mod environment;
mod event_handler;
mod identity;
mod index;
pub mod index_feed;
mod journal;
mod kept_deletes;
pub mod listener;
mod log_throttle;
mod readiness;
pub mod seeded_bug;
mod shards;
mod source;
mod store;
#[cfg(test)]
mod testing;
mod token_bucket;
mod version_guard;

pub use backoff::{Backoff, BackoffOptions, around, with_jitter};
pub use budget::{BudgetShare, CacheBudget, RETURN_BELOW_PERCENT, SHED_TO_PERCENT};
pub use catalog::{Catalog, ExpectedIndexes, UnknownSource};
pub use delivery::Reason;
pub use delta::{Delta, DeltaObject, DeltaType, Deltas, Tombstone};
pub use delta_fifo::{Batch, DeltaFifo, DeltaFifoOptions, ReplaceSummary};
pub use environment::{BoxFuture, Environment, Moment};
pub use event_handler::{EventContext, EventHandler, HandlerError};
pub use identity::{ObjectIdentity, ResourceIdentity, stable_hash};
pub use index::{
    INDEX_FAILURE_MESSAGE_BYTES_MAX, INDEX_FAILURES_LISTED_MAX, INDEX_VALUES_BYTES_MAX, INDEX_VALUES_MAX,
    IndexConflict, IndexContents, IndexError, IndexFailures, IndexFunc, IndexValues, NAMESPACE_INDEX, PointerIndex,
};
pub use index_feed::IndexFeedHandle;
pub use journal::Journal;
pub use kept_deletes::{KEPT_DELETES_BYTES_MAX, KEPT_DELETES_MAX, KeptDelete, KeptDeletes, KeptDeletesStats};
pub use listener::ListenerHandle;
pub use log_throttle::{LinesDue, LogThrottle};
pub use readiness::{Awaited, ReadyWatch};
pub use shards::{Division, SHARDS_MAX, ShardBy, ShardFilter, ShardHash, ShardSet};
pub use source::{
    AnswerBody, BodyAnswer, BodyUnavailable, ReadBodies, SOURCE_ERROR_BYTES_MAX, Source, SourceInfo, SourceState,
    SourceStatus,
};
pub use store::{
    Cursor, GARBAGE_ROOTS_MAX, Garbage, IndexFilling, OBJECTS_BETWEEN_YIELDS_MAX, Snapshot, StoreWriter, stored_bytes,
};
pub use token_bucket::TokenBucket;
pub use version_guard::{EventVerdict, ListSource, ListVerdict, VersionGuard};
