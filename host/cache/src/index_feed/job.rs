//! One object to compute index values of, and the values.

use informant_object::{Key, Object, SourceId};

/// Values by the name of their index. A name that does not occur has no values; one that occurs twice has all of both.
pub type NamedValues = Vec<(String, Vec<String>)>;

/// One object to compute. Answered with an [`IndexResult`] of the same `number`, `source` and `key`.
#[derive(Clone, Debug)]
pub struct IndexJob {
    /// Names this job in the answer. Never used twice by one feed.
    pub number: u64,
    /// The source of the object.
    pub source: SourceId,
    /// Which object.
    pub key: Key,
    /// As it is now.
    pub object: Object,
}

/// What became of one job.
#[derive(Clone, Debug)]
pub struct IndexResult {
    /// The job's number.
    pub number: u64,
    /// The job's source.
    pub source: SourceId,
    /// The job's key.
    pub key: Key,
    /// The object's values, or why there are none: what the plugin said, or what became of it.
    pub values: Result<NamedValues, String>,
}

impl IndexJob {
    /// The job's answer.
    #[must_use]
    pub fn answer(self, values: Result<NamedValues, String>) -> IndexResult {
        IndexResult {
            number: self.number,
            source: self.source,
            key: self.key,
            values,
        }
    }
}
