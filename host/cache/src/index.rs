//! Indexes: from a value to the keys of the objects that have it.
//!
//! There are three kinds. `namespace` is built in and costs nothing, since the store is sorted by namespace. *Native*
//! indexes are [`IndexFunc`]s, run by the store's writer once per object version. *External* indexes get their values
//! from index plugins; they are attached complete, or not ready ([`IndexError::NotReady`]).
//!
//! Posting lists are flat sorted sets of (value, key): an index of unique values needs as little memory as one of few
//! values, empty lists need no clean-up, and keys come out sorted.

mod contents;
mod failures;
mod index_func;
mod postings;
mod stored_values;

pub use self::contents::IndexContents;
pub use self::failures::{INDEX_FAILURE_MESSAGE_BYTES_MAX, INDEX_FAILURES_LISTED_MAX, IndexFailures};
pub use self::index_func::{INDEX_VALUES_BYTES_MAX, INDEX_VALUES_MAX, IndexFunc, IndexValues, PointerIndex};
pub(crate) use self::postings::Postings;
pub(crate) use self::stored_values::{ComputedValues, StoredValues};

/// The memory that an entry of the store's or an index's tree takes: 40 bytes in a leaf of 16 entries, which is half to
/// completely full, with its part of the inner nodes. An average over trees that were filled in order and at random.
pub(crate) const TREE_ENTRY_BYTES: usize = 96;

/// The name of the index by namespace, which every store has. Source: client-go `cache.NamespaceIndex`.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Why an index query failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// No index of this name was ever declared.
    #[error("index with name {name} does not exist; available: {}", .available.join(", "))]
    UnknownIndex {
        /// The requested index.
        name: String,
        /// The existing indexes, sorted.
        available: Vec<String>,
    },
    /// The index is declared, but its values are not complete: its plugin is loading, back-filling or detached.
    #[error("index {name} is not ready: its values are not complete yet; retry later")]
    NotReady {
        /// The requested index.
        name: String,
    },
}

/// Index names that already exist. Nothing was added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("indexer conflict: {}; rename the new index", .names.join(", "))]
pub struct IndexConflict {
    /// The conflicting names, sorted.
    pub names: Vec<String>,
}
