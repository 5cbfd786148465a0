//! Selectors: which objects a list, a watch or a query covers, by label or by field.

mod field;
mod label;
mod label_syntax;

pub use field::FieldSelector;
pub use label::LabelSelector;

/// Why a text is not a selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} selector {text:?}, byte {at}: {problem}")]
pub struct SelectorError {
    /// "label" or "field".
    kind: &'static str,
    text: String,
    /// Offset into `text`, in bytes.
    at: usize,
    problem: String,
}

impl SelectorError {
    /// Offset of the fault in the selector, in bytes.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// What is wrong there.
    #[must_use]
    pub fn problem(&self) -> &str {
        &self.problem
    }
}
