//! Lists the values in use in an index, page by page.

use std::vec;

use crate::host;
use crate::host_error::HostError;

use super::sources::Clusters;

/// Values requested in each call: the default of the contract.
const VALUES_PER_CALL: u32 = 1_000;

/// The values in use in an index, sorted. Ends after the first error.
#[derive(Debug)]
#[must_use = "iterators are lazy"]
pub struct IndexValueNames<'a> {
    informer: &'a str,
    index: &'a str,
    clusters: Clusters,
    /// The last value seen: the next page starts after it. `None` after the last page.
    cursor: Option<String>,
    page: vec::IntoIter<String>,
}

impl<'a> IndexValueNames<'a> {
    pub(super) fn new(informer: &'a str, index: &'a str) -> Self {
        Self {
            informer,
            index,
            clusters: Clusters::default(),
            cursor: Some(String::new()),
            page: Vec::new().into_iter(),
        }
    }

    /// Values in all clusters. The default is the cluster of the object that the call is about.
    pub fn all_clusters(mut self) -> Self {
        self.clusters = Clusters::All;
        self
    }

    /// Values in this cluster.
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.clusters = Clusters::Named(cluster.into());
        self
    }

    fn page_after(&self, cursor: &str) -> Result<Vec<String>, HostError> {
        let sources = self.clusters.sources_of(self.informer)?;
        Ok(host::index_values(
            self.informer,
            &sources,
            self.index,
            cursor,
            VALUES_PER_CALL,
        )?)
    }
}

impl Iterator for IndexValueNames<'_> {
    type Item = Result<String, HostError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(value) = self.page.next() {
            return Some(Ok(value));
        }
        let cursor = self.cursor.take()?;
        match self.page_after(&cursor) {
            Ok(values) => {
                // Only an empty page is the last one: Informant may return fewer values than requested. The empty value
                // sorts first, and it cannot be a cursor: a page that ends with it has nothing else.
                self.cursor = values.last().filter(|last| !last.is_empty()).cloned();
                self.page = values.into_iter();
                self.page.next().map(Ok)
            }
            Err(error) => Some(Err(error)),
        }
    }
}
