//! A question to the cache and its answer, page by page.

use std::marker::PhantomData;
use std::vec;

use crate::bindings::imports::informant::plugin::store as contract;
use crate::event::SourceId;
use crate::failure::Result;
use crate::host;
use crate::host_error::HostError;
use crate::payload::Payload;

/// Which objects to read, and how much of them. Nothing is asked before [`objects`](Self::objects) is iterated over.
#[derive(Debug, Clone)]
#[must_use = "a query asks nothing until `objects` is iterated over"]
pub struct Query<'a> {
    informer: &'a str,
    /// Index and value; none: all objects.
    index: Option<(&'a str, &'a str)>,
    query: contract::Query,
    /// How many objects may still come; none: no bound.
    left: Option<u32>,
}

impl<'a> Query<'a> {
    pub(super) fn list(informer: &'a str) -> Self {
        let query = contract::Query {
            namespace: None,
            label_selector: String::new(),
            pointers: Vec::new(),
            limit: 0,
            cursor: String::new(),
        };
        Self {
            informer,
            index: None,
            query,
            left: None,
        }
    }

    pub(super) fn by_index(informer: &'a str, index: &'a str, value: &'a str) -> Self {
        Self {
            index: Some((index, value)),
            ..Self::list(informer)
        }
    }

    /// Only objects of this namespace.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.query.namespace = Some(namespace.into());
        self
    }

    /// Only objects whose labels this selector matches, in Kubernetes' syntax: `app=web,tier in (a, b)`.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.query.label_selector = selector.into();
        self
    }

    /// Only what these JSON pointers name, `*` for every element. apiVersion and kind always come.
    pub fn fields<P: Into<String>>(mut self, pointers: impl IntoIterator<Item = P>) -> Self {
        self.query.pointers = pointers.into_iter().map(Into::into).collect();
        self
    }

    /// At most so many objects.
    pub fn limit(mut self, objects: u32) -> Self {
        self.left = Some(objects);
        self
    }

    /// The objects. Pages of at most 1 MiB are fetched as they are needed, all from one snapshot.
    pub fn objects<T: Payload>(self) -> Items<'a, T> {
        Items {
            query: Some(self),
            page: Vec::new().into_iter(),
            object: PhantomData,
        }
    }

    fn next_page(&mut self) -> Result<contract::Page, HostError> {
        self.query.limit = self.left.unwrap_or(0);
        let page = match self.index {
            Some((index, value)) => host::by_index(self.informer, index, value, &self.query)?,
            None => host::list(self.informer, &self.query)?,
        };
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(u32::try_from(page.items.len()).unwrap_or(u32::MAX));
        }
        self.query.cursor.clone_from(&page.cursor);
        Ok(page)
    }
}

/// An object of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item<T> {
    /// The source the object came from.
    pub source: SourceId,
    /// The object.
    pub object: T,
}

/// The objects of an answer. Ends after the first refusal of Informant; an object that does not fit `T` is an error of
/// its own.
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is iterated over"]
pub struct Items<'a, T> {
    /// None when there is nothing more to ask.
    query: Option<Query<'a>>,
    page: vec::IntoIter<contract::Item>,
    object: PhantomData<fn() -> T>,
}

impl<T: Payload> Iterator for Items<'_, T> {
    type Item = Result<Item<T>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.page.next() {
                let source = SourceId(item.source);
                return Some(T::decode(item.object).map(|object| Item { source, object }));
            }
            let mut query = self.query.take().filter(|query| query.left != Some(0))?;
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
