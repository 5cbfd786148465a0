//! Lists the values in use in an index, page by page.

use std::vec;

use crate::host;
use crate::host_error::HostError;

/// Values requested in each call: the default of the contract.
const VALUES_PER_CALL: u32 = 1_000;

/// The values in use in an index, sorted. Ends after the first error.
#[derive(Debug)]
#[must_use = "iterators are lazy"]
pub struct IndexValueNames<'a> {
    informer: &'a str,
    index: &'a str,
    /// The last value seen: the next page starts after it. `None` after the last page.
    cursor: Option<String>,
    page: vec::IntoIter<String>,
}

impl<'a> IndexValueNames<'a> {
    pub(super) fn new(informer: &'a str, index: &'a str) -> Self {
        Self {
            informer,
            index,
            cursor: Some(String::new()),
            page: Vec::new().into_iter(),
        }
    }
}

impl Iterator for IndexValueNames<'_> {
    type Item = Result<String, HostError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(value) = self.page.next() {
            return Some(Ok(value));
        }
        let cursor = self.cursor.take()?;
        match host::index_values(self.informer, self.index, &cursor, VALUES_PER_CALL) {
            Ok(values) => {
                // Only an empty page is the last one: Informant may return fewer values than requested.
                self.cursor = values.last().cloned();
                self.page = values.into_iter();
                self.page.next().map(Ok)
            }
            Err(error) => Some(Err(error.into())),
        }
    }
}
