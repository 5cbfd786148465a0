//! Indexes: from a value to the keys of the objects that have it.
//!
//! Three kinds answer the same questions. `namespace` is built in and costs nothing, since the store is sorted by
//! namespace. *Native* indexes are [`IndexFunc`]s, run by the store's writer once per object version. *External* ones
//! get their values from outside (index plugins); they are attached whole or not there at all
//! ([`IndexError::NotReady`]).
//!
//! Posting lists are flat sorted sets of (value, key): an index of unique values takes no more than one of few values,
//! a set that becomes empty is gone by itself, and keys come out sorted.

mod contents;
mod error;
mod failures;
mod index_func;
mod kept_values;
mod pointer_index;
mod postings;
mod shared_texts;

pub use self::contents::IndexContents;
pub use self::error::{IndexConflict, IndexError};
pub use self::failures::{INDEX_FAILURE_MESSAGE_BYTES_MAX, INDEX_FAILURES_LISTED_MAX, IndexFailures};
pub use self::index_func::{INDEX_VALUES_BYTES_MAX, INDEX_VALUES_MAX, IndexFunc, IndexValues};
pub(crate) use self::kept_values::{KeptValues, Sink};
pub use self::pointer_index::PointerIndex;
pub(crate) use self::postings::Postings;

/// The name of the index by namespace, which every store has. Source: client-go `cache.NamespaceIndex`.
pub const NAMESPACE_INDEX: &str = "namespace";
