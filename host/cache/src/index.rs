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
mod failures;
mod index_func;
mod postings;
mod stored_values;

pub use self::contents::IndexContents;
pub use self::failures::{INDEX_FAILURE_MESSAGE_BYTES_MAX, INDEX_FAILURES_LISTED_MAX, IndexFailures};
pub use self::index_func::{INDEX_VALUES_BYTES_MAX, INDEX_VALUES_MAX, IndexFunc, IndexValues, PointerIndex};
pub(crate) use self::postings::Postings;
pub(crate) use self::stored_values::{ComputedValues, StoredValues};

/// The name of the index by namespace, which every store has. Source: client-go `cache.NamespaceIndex`.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Why a question to an index has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// No index of this name was ever declared.
    #[error("index with name {name} does not exist; there are: {}", join(.available))]
    UnknownIndex {
        /// What was asked for.
        name: String,
        /// What there is, sorted.
        available: Vec<String>,
    },
    /// The index is declared, but its values are not complete: its plugin is still loading, back-filling or detached.
    #[error("index {name} is not ready: its values are not complete yet; ask again later")]
    NotReady {
        /// What was asked for.
        name: String,
    },
}

/// Index names that are taken. Nothing was added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("indexer conflict: {}; give the new index another name", join(.names))]
pub struct IndexConflict {
    /// The names in question, sorted.
    pub names: Vec<String>,
}

fn join(names: &[String]) -> String {
    names.join(", ")
}
