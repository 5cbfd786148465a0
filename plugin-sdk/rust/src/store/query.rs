//! Queries the cache, page by page.

use std::marker::PhantomData;
use std::vec;

use crate::bindings::imports::informant::plugin::store as contract;
use crate::event::SourceId;
use crate::failure::Result;
use crate::host;
use crate::host_error::HostError;
use crate::payload::Payload;

use super::sources::Clusters;

/// Which objects to read, and how much of them. Calls Informant only when you iterate over [`objects`](Self::objects).
#[derive(Debug, Clone)]
#[must_use = "a query does nothing until you iterate over `objects`"]
pub struct Query<'a> {
    informer: &'a str,
    /// Index and value. `None` for all objects.
    index: Option<(&'a str, &'a str)>,
    clusters: Clusters,
    /// Its sources follow from `clusters` with the first page.
    query: contract::Query,
    /// How many more objects to return. `None` for no limit.
    remaining: Option<u32>,
}

impl<'a> Query<'a> {
    pub(super) fn list(informer: &'a str) -> Self {
        let query = contract::Query {
            sources: Vec::new(),
            namespace: None,
            label_selector: String::new(),
            pointers: Vec::new(),
            limit: 0,
            cursor: String::new(),
            options: Vec::new(),
        };
        Self {
            informer,
            index: None,
            clusters: Clusters::default(),
            query,
            remaining: None,
        }
    }

    pub(super) fn by_index(informer: &'a str, index: &'a str, value: &'a str) -> Self {
        Self {
            index: Some((index, value)),
            ..Self::list(informer)
        }
    }

    /// Objects of all clusters. The default is the cluster of the object that the call is about. In a call about no
    /// object or source, a query that would read several clusters is [`ErrorCode::Invalid`](crate::ErrorCode::Invalid)
    /// by default.
    pub fn all_clusters(mut self) -> Self {
        self.clusters = Clusters::All;
        self
    }

    /// Objects of this cluster.
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.clusters = Clusters::Named(cluster.into());
        self
    }

    /// Only objects in this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.query.namespace = Some(namespace.into());
        self
    }

    /// Only objects that match this label selector: `app=web,tier in (a, b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.query.label_selector = selector.into();
        self
    }

    /// Only the fields at these JSON pointers; `*` matches every element. apiVersion and kind are always included.
    pub fn fields<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.query.pointers = pointers.into_iter().map(Into::into).collect();
        self
    }

    /// At most this many objects.
    pub fn limit(mut self, objects: u32) -> Self {
        self.remaining = Some(objects);
        self
    }

    /// Iterates over the objects. Fetches pages of at most 1 MiB as needed, all from the same snapshot.
    pub fn objects<T: Payload>(self) -> Items<'a, T> {
        Items {
            query: Some(self),
            page: Vec::new().into_iter(),
            object: PhantomData,
        }
    }

    fn next_page(&mut self) -> Result<contract::Page, HostError> {
        if self.query.cursor.is_empty() {
            self.query.sources = self.clusters.sources_of(self.informer)?;
        }
        self.query.limit = self.remaining.unwrap_or(0);
        let page = match self.index {
            Some((index, value)) => host::by_index(self.informer, index, value, &self.query)?,
            None => host::list(self.informer, &self.query)?,
        };
        if let Some(remaining) = &mut self.remaining {
            *remaining = remaining.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
        }
        self.query.cursor.clone_from(&page.cursor);
        Ok(page)
    }
}

/// An object that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<T> {
    /// The source that the object comes from.
    pub source: SourceId,
    /// The object.
    pub object: T,
}

impl<T: Payload> Item<T> {
    pub(super) fn decode(item: contract::Item) -> Result<Self> {
        Ok(Self {
            source: SourceId(item.source),
            object: T::decode(item.object)?,
        })
    }
}

/// The objects in the result of a query. Ends after the first error of Informant. An object that does not match `T` is
/// one error, after which the iteration continues.
#[derive(Debug)]
#[must_use = "iterators are lazy"]
pub struct Items<'a, T> {
    /// `None` after the last page.
    query: Option<Query<'a>>,
    page: vec::IntoIter<contract::Item>,
    object: PhantomData<fn() -> T>,
}

impl<T: Payload> Iterator for Items<'_, T> {
    type Item = Result<Item<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.page.next() {
                return Some(Item::decode(item));
            }
            let mut query = self.query.take().filter(|query| query.remaining != Some(0))?;
            match query.next_page() {
                Ok(page) => {
                    self.query = (!page.cursor.is_empty()).then_some(query);
                    self.page = page.items.into_iter();
                }
                Err(error) => return Some(Err(error.into())),
            }
        }
    }
}
