//! Why an index gives no answer, or cannot be added.

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
