//! The values in use in an index, portion by portion.

use std::vec;

use crate::host;
use crate::host_error::HostError;

/// How many values are asked for at once. As many as the contract gives unasked.
const VALUES_PER_CALL: u32 = 1_000;

/// The values in use in an index, sorted. Ends after the first refusal of Informant.
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is iterated over"]
pub struct IndexValueNames<'a> {
    informer: &'a str,
    index: &'a str,
    /// The last value seen: those after it are asked for next. None when there is nothing more to ask.
    cursor: Option<String>,
    portion: vec::IntoIter<String>,
}

impl<'a> IndexValueNames<'a> {
    pub(super) fn new(informer: &'a str, index: &'a str) -> Self {
        Self {
            informer,
            index,
            cursor: Some(String::new()),
            portion: Vec::new().into_iter(),
        }
    }
}

impl Iterator for IndexValueNames<'_> {
    type Item = Result<String, HostError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(value) = self.portion.next() {
            return Some(Ok(value));
        }
        let cursor = self.cursor.take()?;
        match host::index_values(self.informer, self.index, &cursor, VALUES_PER_CALL) {
            Ok(values) => {
                // Only an empty answer says that there is nothing more: Informant may give fewer than asked for.
                self.cursor = values.last().cloned();
                self.portion = values.into_iter();
                self.portion.next().map(Ok)
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}
